"""FD-10: the aggregate depends on how filters are factored.

FD-10c: a common change of atoms alters nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, compared, enumeration
from theory_checks.filter_decomposition.exact_laws import Exact, Pair, sided, text, total


@dataclass(frozen=True)
class Factored:
    """Clients (alpha, D), and what they become when factored otherwise."""

    one: tuple[Pair, ...]
    other: tuple[Pair, ...]

    def __str__(self) -> str:
        one, other = (", ".join(f"({text(*c)})" for c in clients) for clients in (self.one, self.other))
        return f"clients (α, D) = {one} against {other}, equal weights"


def _factored() -> Iterator[Factored]:
    """Yield pairs of clients whose (alpha, D) become (c alpha, D / c), each with its own c."""
    for filters, scales in product(product(((1, 1), (1, 2), (2, 1), (-1, 1)), repeat=2), product((1, 2, -1), repeat=2)):
        moved = [(c * a, Fraction(d, c)) for c, (a, d) in zip(scales, filters, strict=True)]
        yield Factored(filters, tuple(moved))


Aggregate = Callable[[Sequence[Exact], Sequence[Exact]], Fraction]


def _unchanged(aggregate: Aggregate) -> Evidence:
    def sides(case: Factored) -> Pair:
        one, other = (aggregate(*zip(*clients, strict=True)) for clients in (case.one, case.other))
        return one, other

    names = ("aggregate", "aggregate of the same filters factored otherwise")
    return compared(sided(_factored(), sides, names), of="pairs of clients, factored in two ways", relation="==")


def _product_of_averages(a: Sequence[Exact], d: Sequence[Exact]) -> Fraction:
    return total(a) / len(a) * total(d) / len(d)


def _average_of_products(a: Sequence[Exact], d: Sequence[Exact]) -> Fraction:
    return total(x * y for x, y in zip(a, d, strict=True)) / len(a)


FD10 = Claim(
    id="FD-10",
    place="section 4, second paragraph, last sentence, which takes the filter for its factors",
    said_by="fedstat",
    words="The aggregate depends only on the clients' filters, not on how they are factored.",
    statement="alpha_k D_k = alpha'_k D'_k thick forall k => Q = Q'",
    severity="false",
    assumptions="one atom; Q is the product of averages",
    sensitivity="any difference in the enumerated cases",
    flaw="A filter fixes its coefficients and atoms only up to an invertible change of atoms, and averaging the two "
    "apart depends on which of the factorisations each client holds.",
    corrected="FD-10c",
)


@FD10.reading("filters of one atom, every client's factored in its own way")
def own_factors() -> Evidence:
    return _unchanged(_product_of_averages)


@FD10.control("FedAvg's average of products, every client's filter factored in its own way")
def fedavg() -> Evidence:
    return _unchanged(_average_of_products)


FD10C = Claim(
    id="FD-10c",
    place="corrected statement of FD-10",
    said_by="fedstat",
    words="The aggregate is unchanged under one invertible change of atoms that is common to all clients.",
    statement="(sum_k p_k D_k T^(-1))(sum_k p_k T alpha_k) = (sum_k p_k D_k)(sum_k p_k alpha_k)",
    severity="false",
    assumptions="any number of atoms, as columns of D, with coefficients α; T invertible",
    sensitivity="any difference of the two products",
)


def _change_of_atoms(*, own: bool) -> Evidence:
    """Multiply out with symbols that do not commute, so that they stand for matrices of any size.

    Averages transform alike, ``sum p_k D_k T^-1 = (sum p_k D_k) T^-1`` and
    ``sum p_k T alpha_k = T sum p_k alpha_k``, and T cancels in their product. Every term involves at most two clients.
    """
    import sympy

    def holds(m: int) -> bool:
        p = sympy.symbols(f"p1:{m + 1}")
        d, a, t = (sympy.symbols(f"{name}1:{m + 1}", commutative=False) for name in "DaT")
        change = t if own else (t[0],) * m
        atoms = sum(w * x * c**-1 for w, x, c in zip(p, d, change, strict=True))
        coefficients = sum(w * c * x for w, x, c in zip(p, a, change, strict=True))
        unmoved = sum(w * x for w, x in zip(p, d, strict=True)) * sum(w * x for w, x in zip(p, a, strict=True))
        return bool(sympy.expand(atoms * coefficients - unmoved) == 0)

    of = "numbers of clients from 1 to 4 (no term involves more than two), for matrices of any size"
    return enumeration(range(1, 5), holds, of=of, show=lambda m: f"m = {m}")


@FD10C.reading("common to all clients")
def common_change() -> Evidence:
    return _change_of_atoms(own=False)


@FD10C.mutant("a change of atoms of each client's own")
def own_change() -> Evidence:
    return _change_of_atoms(own=True)
