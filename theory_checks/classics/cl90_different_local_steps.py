"""CL-90: weights τ_i are right only as the step goes to zero.

CL-90c: where FedAvg ends at a fixed step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import sympy

from fedstat.claims import Claim, Evidence, Parabolas, Sides, compared, fedavg_round, identity

CL90 = Claim(
    id="CL-90",
    place="Wang, Liu, Liang, Joshi and Poor, Tackling the objective inconsistency problem in heterogeneous federated "
    "optimization (NeurIPS 2020), section 3, Lemma 1; arXiv:2007.07481",
    said_by="paper",
    words="If client i makes τ_i local steps in a round on ‖x − e_i‖² / 2, FedAvg with a sufficiently small step ends "
    "at the mean of the e_i with weights τ_i.",
    statement="lim_(T -> infinity) x_T = (sum_i tau_i e_i) / (sum_i tau_i)",
    severity="unstated condition",
    assumptions="full gradients, all clients in every round, equal shares; coordinates do not meet, so that one stands "
    "for all",
    sensitivity="any difference of the limit, exact",
    flaw="In a round client i goes the share 1 − (1 − η)^τ_i of its way to e_i, which is τ_i η to first order alone: "
    "at a fixed step later steps are shorter than the first, and clients with more steps count for less than τ_i.",
    corrected="CL-90c",
)

_ETA = sympy.Symbol("eta", positive=True)
_PROBLEMS = (
    *product(((0, 1), (-1, 2), (3, 1)), ((1, 2), (2, 3), (5, 1))),
    *product(((0, 1, 3), (2, -1, 0)), ((1, 2, 5), (4, 2, 1))),
)


def _limit(e: tuple[Any, ...], steps: tuple[int, ...], eta: Any) -> Any:
    """Return the fixed point of a round, which maps x to ``alpha x + beta``."""
    gradients = Parabolas((1,) * len(e), e, ()).gradients
    start, end = (fedavg_round(Fraction(x), gradients, lr=eta, steps=steps) for x in (0, 1))
    return start / (1 - (end - start))


def _ends_at(eta: Any, weight: Callable[[int], int]) -> Iterator[Sides]:
    """Compare the limit, or what it tends to as the symbol eta goes to zero, with a weighted mean."""
    for e, steps in _PROBLEMS:
        found = _limit(e, steps, eta)
        if eta is _ETA:
            tends = sympy.cancel(sympy.together(found)).subs(_ETA, 0)
            found = Fraction(int(tends.p), int(tends.q))
        weights = [weight(tau) for tau in steps]
        parts = {
            f"share of client {i}": Fraction(w * at, sum(weights))
            for i, (w, at) in enumerate(zip(weights, e, strict=True), start=1)
        }
        step = "η → 0" if eta is _ETA else f"η = {eta}"
        yield Sides(f"e = {e}, τ = {steps}, {step}", found, parts, names=("limit", "weighted mean"))


@CL90.reading("at a fixed step, however small")
def fixed_step() -> Evidence:
    cases = (case for eta in (Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)) for case in _ends_at(eta, int))
    return compared(cases, of="limits of FedAvg", relation="==")


@CL90.reading("as the step size goes to zero")
def vanishing_step() -> Evidence:
    return compared(_ends_at(_ETA, int), of="limits as the step size goes to zero", relation="==")


@CL90.mutant("the plain mean, which minimises the true objective, as the step size goes to zero")
def plain_mean() -> Evidence:
    return compared(_ends_at(_ETA, lambda _: 1), of="limits as the step size goes to zero", relation="==")


CL90C = Claim(
    id="CL-90c",
    place="corrected statement of CL-90",
    said_by="fedstat",
    words="With a fixed step η below two FedAvg ends at the mean of the e_i with weights 1 − (1 − η)^τ_i, which tend "
    "to the ratios of the τ_i as η goes to zero.",
    statement="lim_(T -> infinity) x_T = (sum_i a_i e_i) / (sum_i a_i), quad a_i = 1 - (1 - eta)^(tau_i)",
    severity="false",
    assumptions="as in CL-90, for up to three clients and five local steps",
    sensitivity="any difference as rational expressions in η and the e_i",
)


@CL90C.reading("two and three clients, one to five steps, in symbols")
def in_symbols() -> Evidence:
    """Compare with the fixed point of a round; a client's step takes its model ``x`` to ``(1 - eta) x + eta e_i``.

    In tau_i steps ``x - e_i`` shrinks by ``(1 - eta)^tau_i``, so that the average is at rest where
    ``sum_i a_i (x - e_i)`` is zero. For eta below two every factor lies between -1 and 1, and so does their mean.
    """

    def cases() -> Iterator[Sides]:
        for n, largest in ((2, 5), (3, 3)):
            e = sympy.symbols(f"e1:{n + 1}")
            for steps in product(range(1, largest + 1), repeat=n):
                moves = [1 - (1 - _ETA) ** tau for tau in steps]
                parts = {
                    f"share of client {i}": a * at / sum(moves)
                    for i, (a, at) in enumerate(zip(moves, e, strict=True), start=1)
                }
                yield Sides(f"τ = {steps}", _limit(e, steps, _ETA), parts, names=("limit", "weighted mean"))

    return identity(cases(), of="limits of FedAvg")


@CL90C.mutant("weights τ_i, at a step of 1/10")
def weights_of_the_lemma() -> Evidence:
    return compared(_ends_at(Fraction(1, 10), int), of="limits of FedAvg", relation="==")
