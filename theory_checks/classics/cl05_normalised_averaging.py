"""CL-05: FedNova removes inconsistency only as steps go to zero.

CL-05c: where FedNova ends at a fixed step.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import sympy

from fedstat.claims import Claim, Evidence, Parabolas, Sides, compared, fedavg_round

CL05 = Claim(
    id="CL-05",
    place="Wang, Liu, Liang, Joshi and Poor, Tackling the objective inconsistency problem in heterogeneous federated "
    "optimization (NeurIPS 2020), section 5, FedNova's rule with the sentence on its weights and Theorem 3, whose step "
    "goes to zero as rounds are added, and the abstract's last sentence; arXiv:2007.07481",
    said_by="paper",
    words="Where clients make different numbers of local steps, dividing each client's update by its number of steps "
    "before averaging (FedNova) removes the inconsistency: the model ends at the optimum of the true objective.",
    statement="w_infinity = w^*, quad w_(r+1) = w_r - eta tau sum_k p_k d_k, quad d_k = 1 / (eta tau_k) (w_r - "
    "w_(r,k)), quad tau = sum_k p_k tau_k",
    severity="unstated condition",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2, full gradients, all clients in every round, τ_k local steps",
    sensitivity="any distance of the limit from the optimum, exact",
    flaw="Dividing by the number of steps turns an update into one gradient step only to first order in the step size. "
    "At a fixed step size later steps are shorter than the first, so that clients with more steps count too little.",
    corrected="CL-05c",
)

_HALVES, _SKEW = (Fraction(1, 2),) * 2, (Fraction(1, 4), Fraction(3, 4))
_ETA = sympy.Symbol("eta", positive=True)


class Case(NamedTuple):
    """Clients with their numbers of local steps."""

    clients: Parabolas
    steps: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.clients}, τ = ({', '.join(map(str, self.steps))})"


def _round(case: Case, w: Any, eta: Any, *, normalised: bool = True) -> Any:
    """Return FedNova's model after a round, or FedAvg's."""
    p, steps = case.clients.p, case.steps
    if not normalised:
        return fedavg_round(w, case.clients.gradients, lr=eta, steps=steps, weights=p)
    mean = sum(pk * tau for pk, tau in zip(p, steps, strict=True))
    weights = [pk * mean / tau for pk, tau in zip(p, steps, strict=True)]
    return (1 - sum(weights)) * w + fedavg_round(w, case.clients.gradients, lr=eta, steps=steps, weights=weights)


def _limit(case: Case, eta: Any, *, normalised: bool = True) -> Any:
    """Return the fixed point of a round, which maps w to ``alpha w + beta``."""
    start, end = (_round(case, Fraction(w), eta, normalised=normalised) for w in (0, 1))
    return start / (1 - (end - start))


def _cases() -> Iterator[Case]:
    """Yield pairs of clients and one trio, simple ones first."""
    pairs = product(((1, 2), (2, 3), (3, 1), (4, 2)), ((1, 1), (1, 2), (3, 1)), ((0, 1), (-1, 2)), (_HALVES, _SKEW))
    for steps, h, c, p in pairs:
        yield Case(Parabolas(h, c, p), steps)
    yield Case(Parabolas((1, 2, 4), (0, 1, 3), (Fraction(1, 3),) * 3), (1, 2, 5))


def _fixed_step(cases: Iterator[Case]) -> Evidence:
    """Compare the limit at steps of 1 / (2 L) and smaller with the optimum."""

    def sides() -> Iterator[Sides]:
        for case, share in product(cases, (2, 10, 100)):
            eta = 1 / (share * case.clients.smoothness)
            yield Sides(f"{case}, η = {eta}", _limit(case, eta), case.clients.optimum, ("limit", "optimum"))

    return compared(sides(), of="limits of FedNova", relation="==")


def _vanishing_step(*, normalised: bool = True) -> Evidence:
    """Compare what the limit tends to as the step size goes to zero, a ratio of polynomials, with the optimum."""

    def sides() -> Iterator[Sides]:
        for case in _cases():
            found = sympy.cancel(sympy.together(_limit(case, _ETA, normalised=normalised))).subs(_ETA, 0)
            limit, clients = Fraction(int(found.p), int(found.q)), case.clients
            curvature = sum(p * h for p, h in zip(clients.p, clients.h, strict=True))
            parts = {
                f"share of client {k}": p * h * c / curvature
                for k, (p, h, c) in enumerate(zip(clients.p, clients.h, clients.c, strict=True), start=1)
            }
            yield Sides(f"{case}, η → 0", limit, parts, names=("limit", "optimum"))

    return compared(sides(), of="limits as the step size goes to zero", relation="==")


@CL05.reading("as the step size goes to zero")
def vanishing_step() -> Evidence:
    return _vanishing_step()


@CL05.reading("at any fixed step size below 1 / L")
def fixed_step() -> Evidence:
    return _fixed_step(_cases())


@CL05.reading("at a fixed step size, clients of the same curvature", natural=False)
def same_curvature() -> Evidence:
    return _fixed_step(case for case in _cases() if len(set(case.clients.h)) == 1)


@CL05.mutant("averaged without dividing (FedAvg), as the step size goes to zero")
def not_divided() -> Evidence:
    return _vanishing_step(normalised=False)


CL05C = Claim(
    id="CL-05c",
    place="corrected statement of CL-05",
    said_by="fedstat",
    words="If FedNova converges at a fixed step size, it ends at the average of the clients' minimisers with weights "
    "p_k a_k / τ_k in place of p_k h_k, where a_k is the share of the way to its minimiser that client k goes in a "
    "round.",
    statement="w_infinity = (sum_k p_k a_k c_k / tau_k) / (sum_k p_k a_k / tau_k), quad a_k = 1 - (1 - eta "
    "h_k)^(tau_k)",
    severity="false",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2, full gradients, all clients in every round, τ_k local steps, "
    "0 < η ≤ 1 / L; the model converges if τ times the weighted mean of a_k / τ_k is below two, which very different "
    "τ_k may violate",
    sensitivity="any difference, exact",
)


def _closed_form(*, divided: bool = True) -> Evidence:
    """Compare with the fixed point of rounds carried out.

    In tau_k steps client k moves by ``-a_k (w - c_k)``. FedNova's round is at rest where
    ``sum_k p_k a_k (w - c_k) / tau_k = 0``. As the step size goes to zero, ``a_k / tau_k`` is ``eta h_k`` to first
    order, and the weights become those of the optimum.
    """

    def sides() -> Iterator[Sides]:
        for case, share in product(_cases(), (1, 2, 10)):
            clients, eta = case.clients, 1 / (share * case.clients.smoothness)
            weights = [
                p * (1 - (1 - eta * h) ** tau) / (tau if divided else 1)
                for p, h, tau in zip(clients.p, clients.h, case.steps, strict=True)
            ]
            parts = {
                f"share of client {k}": a * c / sum(weights)
                for k, (a, c) in enumerate(zip(weights, clients.c, strict=True), start=1)
            }
            yield Sides(f"{case}, η = {eta}", _limit(case, eta), parts, names=("limit", "closed form"))

    return compared(sides(), of="limits of FedNova", relation="==")


@CL05C.reading("rounds of two and three clients")
def closed_form() -> Evidence:
    return _closed_form()


@CL05C.mutant("weights p_k a_k, which are FedAvg's")
def weights_of_fedavg() -> Evidence:
    return _closed_form(divided=False)
