"""CL-03: fixed steps stop short of the optimum, but not always.

CL-03c: where steps of fixed size end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Parabolas, Sides, both, compared, exact, fedavg_round, sampled

CL03 = Claim(
    id="CL-03",
    place="Li, Huang, Yang, Wang and Zhang, On the convergence of FedAvg on non-IID data (ICLR 2020), section 4, first "
    "paragraph after Theorem 4, last sentence; arXiv:1907.02189",
    said_by="paper",
    words="With more than one local step of fixed size FedAvg does not converge to the optimum.",
    statement="E > 1, quad eta_t = eta ==> lim_(r -> infinity) w_(r E) != w^*",
    severity="unstated condition",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2 with different minimisers c_k, full gradients, all clients in "
    "every round, η ≤ 1 / L; Theorem 4 itself constructs one problem, of which the sentence speaks in general",
    sensitivity="any distance from the optimum, exact",
    flaw="If all clients have the same curvature, each round moves the model straight towards the average of their "
    "minimisers, which is the optimum, however far these lie apart. What keeps FedAvg away is a difference in "
    "curvature, whose effects may cancel among three clients.",
    corrected="CL-03c",
)


class Run(NamedTuple):
    """Quadratic clients who make E steps of size eta in a round."""

    clients: Parabolas
    local_steps: int
    eta: Fraction

    @property
    def limit(self) -> Fraction:
        """Fixed point of a round, ``sum p_k a_k c_k / sum p_k a_k``."""
        return self.clients.limit(self.local_steps, self.eta)

    @property
    def weighted_pulls(self) -> list[Fraction]:
        """``p_k a_k``: client k goes the share ``a_k = 1 - (1 - eta h_k)^E`` of its way to c_k in a round."""
        moves = self.clients.moves(self.local_steps, self.eta)
        return [p * a for p, a in zip(self.clients.p, moves, strict=True)]

    def round(self, w: Fraction) -> Fraction:
        """Run the E steps of every client, and average."""
        clients = self.clients
        return fedavg_round(w, clients.gradients, lr=self.eta, steps=self.local_steps, weights=clients.p)

    def __str__(self) -> str:
        return f"{self.clients}, E = {self.local_steps}, η = {self.eta}"


_HALF, _SKEW = (Fraction(1, 2),) * 2, (Fraction(1, 4), Fraction(3, 4))
_EQUAL, _DIFFERENT = ((1, 1), (2, 2)), ((1, 2), (1, 4), (3, 2))


def _pairs(curvatures: Iterable[tuple[int, int]], local_steps: Iterable[int] = (2, 3, 5)) -> Iterator[Run]:
    for e, h, c, p, share in product(
        local_steps, curvatures, ((0, 1), (-1, 2)), (_HALF, _SKEW), (Fraction(1, 4), Fraction(1))
    ):
        yield Run(Parabolas(h, c, p), e, share / max(h))


def _stays_away(cases: Iterable[Run]) -> Evidence:
    """Whether the optimum is no fixed point of a round.

    A round is ``w -> w - sum_k p_k a_k (w - c_k)``, with ``0 < sum p_k a_k <= 1``: it contracts to its one fixed
    point (in one round if the sum is 1), so FedAvg converges to the optimum exactly if that is fixed.
    """

    def show(case: Run) -> str:
        return f"{case}: a round leaves the optimum {exact(case.clients.optimum)} where it is"

    return sampled(
        cases, lambda case: case.round(case.clients.optimum) != case.clients.optimum, of="pairs of clients", show=show
    )


@CL03.reading("clients that differ in their minimisers")
def any_curvature() -> Evidence:
    return _stays_away(_pairs((*_EQUAL, *_DIFFERENT)))


@CL03.condition("two clients that differ in their minimisers and in their curvature")
def different_curvature() -> Evidence:
    return _stays_away(_pairs(_DIFFERENT))


@CL03.condition("three clients that differ in their minimisers and in their curvature")
def three_clients() -> Evidence:
    """Search whole numbers for a third minimiser with which the pulls balance at the optimum."""
    h, p, eta = (1, 2, 3), (Fraction(1, 3),) * 3, Fraction(1, 3)
    balanced = [
        Run(Parabolas(h, (0, c2, c3), p), 2, eta)
        for c2, c3 in product(range(1, 30), range(-30, 30))
        if c3 not in (0, c2)
    ]
    return _stays_away(balanced)


@CL03.mutant("one local step, clients of different curvature")
def one_step() -> Evidence:
    return _stays_away(_pairs(_DIFFERENT, local_steps=(1,)))


CL03C = Claim(
    id="CL-03c",
    place="corrected statement of CL-03; for least squares also Pathak and Wainwright, FedSplit (NeurIPS 2020), "
    "arXiv:2005.05238",
    said_by="fedstat",
    words="With E ≥ 1 steps of fixed size FedAvg converges to the average of the clients' minimisers with weights "
    "p_k a_k in place of p_k h_k, a_k = 1 − (1 − η h_k)^E. Of two clients with η ≤ 1 / L it misses the optimum exactly "
    "if E > 1 and they differ in both minimiser and curvature.",
    statement="w_infinity - w^* = (sum_k p_k a_k (c_k - w^*)) / (sum_k p_k a_k), quad a_k = 1 - (1 - eta h_k)^E, quad "
    "w_(r E) - w_infinity = (1 - sum_k p_k a_k)^r (w_0 - w_infinity)",
    severity="unstated condition",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2, full gradients, all clients in every round, 0 < η ≤ 1 / L",
    sensitivity="any difference, exact",
)


def _distances() -> Iterator[Sides]:
    """Compare the closed form with the steps themselves, carried out in fractions.

    In E steps client k comes from w to ``c_k + (1 - eta h_k)^E (w - c_k) = w - a_k (w - c_k)``; the average's fixed
    point solves ``sum p_k a_k (w - c_k) = 0``, and what separates w from it shrinks by ``1 - sum p_k a_k`` a round.
    The two rounds that are carried out determine the fixed point of a map ``w -> alpha w + beta``.
    """
    for case in (*_pairs((*_EQUAL, *_DIFFERENT), (1, 2, 3, 5)), *_triples()):
        first, second = case.round(Fraction(0)), case.round(case.round(Fraction(0)))
        slope = (second - first) / first if first else case.round(Fraction(1)) - first
        iterated = first / (1 - slope) - case.clients.optimum
        pulls = case.weighted_pulls
        parts = {
            f"share of client {k}": a * (c - case.clients.optimum) / sum(pulls)
            for k, (a, c) in enumerate(zip(pulls, case.clients.c, strict=True), start=1)
        }
        yield Sides(str(case), iterated, parts, names=("distance of the limit", "closed form"))


def _triples() -> Iterator[Run]:
    for e, c in product((2, 4), ((0, 1, 2), (0, 0, 3))):
        yield Run(Parabolas((1, 2, 4), c, (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))), e, Fraction(1, 8))


def _rates() -> Iterator[Sides]:
    for case in _pairs((*_EQUAL, *_DIFFERENT), (1, 2, 3, 5)):
        w = Fraction(7)
        for _ in range(4):
            w = case.round(w)
        factor = 1 - sum(case.weighted_pulls)
        yield Sides(str(case), w - case.limit, factor**4 * (7 - case.limit), names=("after 4 rounds", "closed form"))


def _differ_in_both() -> Evidence:
    """With equal minimisers all is at c; else ``a_k / h_k = eta sum_(j < E) (1 - eta h_k)^j`` decides.

    For E = 1 it is eta, so that the limit is the optimum. For E > 1 and eta h_k <= 1 it falls strictly in h_k, so that
    ``p_1 a_1 (c_1 - w*) = -p_2 a_2 (c_2 - w*)``, which is true of h in place of a, is true of a only if the curvatures
    agree.
    """
    apart = list(_pairs((*_EQUAL, *_DIFFERENT), (1, 2, 3, 5)))
    together = [case._replace(clients=replace(case.clients, c=(1, 1))) for case in apart]

    def holds(case: Run) -> bool:
        (h1, h2), (c1, c2) = case.clients.h, case.clients.c
        differ = h1 != h2 and c1 != c2
        return (case.limit != case.clients.optimum) == (differ and case.local_steps > 1)

    return sampled([*apart, *together], holds, of="pairs of clients")


@CL03C.reading("distance and rate against rounds carried out, and which two clients miss the optimum")
def closed_forms() -> Evidence:
    return both(
        compared(_distances(), of="limits", relation="=="),
        compared(_rates(), of="gaps after 4 rounds", relation="=="),
        _differ_in_both(),
    )
