"""CL-72: an ensemble of clients is no worse than they are on average."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, compared, identity

CL72 = Claim(
    id="CL-72",
    place="Krogh and Vedelsby, Neural network ensembles, cross validation, and active learning (NIPS 7, 1995), as "
    "later authors quote it: average individual error minus disagreement; applied to clients here, as the paper could "
    "not be read",
    link="https://papers.neurips.cc/paper_files/paper/1994/hash/b8c37e33defde51cf91e1e03e51657da-Abstract.html",
    said_by="folklore",
    words="The squared error of the clients' averaged predictions is the clients' mean squared error less the variance "
    "of their predictions, so that the ensemble is never worse than the clients on average.",
    statement="(sum_k p_k f_k - y)^2 = sum_k p_k (f_k - y)^2 - sum_k p_k (f_k - sum_j p_j f_j)^2",
    severity="false",
    assumptions="predictions are averaged, not weights; the shares p_k are positive and add up to one",
    sensitivity="any difference, as polynomials",
)


@CL72.reading("any predictions, label and shares, 2 to 5 clients")
def decomposed() -> Evidence:
    import sympy

    def cases() -> Iterator[Sides]:
        y = sympy.symbols("y")
        for n in range(2, 6):
            f, free = sympy.symbols(f"f1:{n + 1}"), sympy.symbols(f"p1:{n}")
            p = (*free, 1 - sum(free))
            ensemble = sum(q * x for q, x in zip(p, f, strict=True))
            parts = {
                "clients' mean error": sum(q * (x - y) ** 2 for q, x in zip(p, f, strict=True)),
                "disagreement": -sum(q * (x - ensemble) ** 2 for q, x in zip(p, f, strict=True)),
            }
            yield Sides(f"{n} clients", (ensemble - y) ** 2, parts, names=("ensemble's error", "claimed"))

    return identity(cases(), of="numbers of clients")


@CL72.reading("no worse than the best client", natural=False)
def best_client() -> Evidence:
    """Whether the ensemble is as good as the best client, which the decomposition does not say."""

    def cases() -> Iterator[Sides]:
        for f in product(range(4), repeat=2):
            error, best = Fraction(sum(f), 2) ** 2, min(x**2 for x in f)
            yield Sides(f"predictions {f} of the label 0", error, best, names=("ensemble's error", "best client's"))

    return compared(cases(), of="pairs of predictions")
