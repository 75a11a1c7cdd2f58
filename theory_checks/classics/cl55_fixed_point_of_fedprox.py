"""CL-55: the one fixed point of FedProx."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Parabolas, Sides, compared
from theory_checks.classics.cl16_fixed_points_of_fedavg_and_fedprox import PULLS, prox_round

CL55 = Claim(
    id="CL-55",
    place="remark on Pathak and Wainwright (2020), arXiv:2005.05238, abstract, second sentence: where FedProx ends for "
    "the clients of CL-16",
    said_by="fedstat",
    words="FedProx has one fixed point, the average of the clients' minimisers with weights p_k h_k / (h_k + λ) in "
    "place of the optimum's p_k h_k.",
    statement="w_infinity = (sum_k p_k a_k c_k) / (sum_k p_k a_k), quad a_k = h_k / (h_k + lambda)",
    severity="false",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2, who minimise F_k(v) + λ (v − w)² / 2 exactly, all clients in "
    "every round, λ > 0",
    sensitivity="any difference, exact",
)


def _fixed_points(*, damped: bool = True) -> Evidence:
    """Compare with the fixed point of rounds carried out, which are maps ``w -> alpha w + beta``.

    Client k goes from w to ``(h c + lambda w) / (h + lambda) = w - a (w - c)``; a round is at rest where the mean of
    these moves is zero. As ``0 < a_k < 1``, alpha lies between 0 and 1, so that there is one such place.
    """

    def sides() -> Iterator[Sides]:
        shares = ((Fraction(1, 2),) * 2, (Fraction(1, 4), Fraction(3, 4)))
        for h, c, p, pull in product(((1, 1), (1, 2), (3, 2)), ((0, 1), (-1, 2)), shares, PULLS):
            clients = Parabolas(h, c, p)
            start, end = (prox_round(clients, Fraction(w), pull) for w in (0, 1))
            weights = [pk * hk / ((hk + pull) if damped else 1) for pk, hk in zip(p, h, strict=True)]
            parts = {
                f"share of client {k}": a * ck / sum(weights)
                for k, (a, ck) in enumerate(zip(weights, c, strict=True), start=1)
            }
            yield Sides(f"{clients}, λ = {pull}", start / (1 - (end - start)), parts, ("fixed point", "closed form"))

    return compared(sides(), of="fixed points of FedProx", relation="==")


@CL55.reading("pairs of clients")
def pairs() -> Evidence:
    return _fixed_points()


@CL55.mutant("the optimum's weights p_k h_k")
def of_the_optimum() -> Evidence:
    return _fixed_points(damped=False)
