"""CL-08: fixed steps keep FedAvg from the optimum, for some clients.

CL-08c: the distance to first order in the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import sympy

from fedstat.claims import Claim, Evidence, Parabolas, Sides, both, compared, exact, fedavg_round, identity, sampled

CL08 = Claim(
    id="CL-08",
    place="Li, Huang, Yang, Wang and Zhang, On the convergence of FedAvg on non-IID data (ICLR 2020), section 4, "
    "Theorem 4, of which section 1 (Contributions) and the abstract's last sentence speak in general; arXiv:1907.02189",
    said_by="paper",
    words="If the step size does not decay, FedAvg ends at a distance from the optimum that is at least of the order "
    "of (E − 1) times the step size, even with full gradients.",
    statement="norm(w_infinity (eta) - w^*) = Omega((E - 1) eta), quad eta -> 0",
    severity="unstated condition",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2 that differ in curvature and minimiser, E > 1 local steps, full "
    "gradients, all clients in every round; Theorem 4's factor ‖w*‖ is, like its other constants, one of the problem",
    sensitivity="whether the distance divided by the step size tends to zero, and any departure from the factor E − 1, "
    "exact",
    flaw="To first order in the step size every client pulls the model away from the optimum by its own amount, and "
    "among three clients these may cancel. Then the distance is of the order of the step size squared or less.",
    corrected="CL-08c",
)

_ETA = sympy.Symbol("eta", positive=True)
_THIRDS = (Fraction(1, 3),) * 3


def _order(clients: Parabolas, steps: int) -> Any:
    """Return the limit of the distance, with its sign, divided by the step size as that goes to zero."""
    distance = clients.limit(steps, _ETA) - clients.optimum
    return sympy.cancel(sympy.together(distance) / _ETA).subs(_ETA, 0)


def _of_the_order(cases: Iterable[tuple[Parabolas, int]]) -> Evidence:
    """Whether the distance divided by the step size has a limit other than zero.

    The limit of FedAvg is a ratio of polynomials in the step size that is w* at zero, so that the distance is a
    multiple of the step size to first order, or else at most of the order of its square.
    """

    def show(case: tuple[Parabolas, int]) -> str:
        clients, steps = case
        tenth, hundredth = (
            exact(abs(clients.limit(steps, eta) - clients.optimum)) for eta in (Fraction(1, 10), Fraction(1, 100))
        )
        return (
            f"{clients}, E = {steps}: the distance divided by η tends to zero (the distance is {tenth} at η = 1/10 and "
            f"{hundredth} at η = 1/100)"
        )

    return sampled(cases, lambda case: _order(*case) != 0, of="sets of clients", show=show)


def _pairs(steps: Iterable[int]) -> Iterator[tuple[Parabolas, int]]:
    shares = ((Fraction(1, 2),) * 2, (Fraction(1, 4), Fraction(3, 4)))
    for e, h, c, p in product(steps, ((1, 2), (1, 4), (3, 2)), ((0, 1), (-1, 2)), shares):
        yield Parabolas(h, c, p), e


def _triples(steps: Iterable[int]) -> Iterator[tuple[Parabolas, int]]:
    for e, second, third in product(steps, range(1, 5), range(-4, 5)):
        if third not in (0, second):
            yield Parabolas((1, 2, 3), (0, second, third), _THIRDS), e


@CL08.reading("for all clients that differ in curvature and minimiser")
def all_clients() -> Evidence:
    return _of_the_order([*_pairs((2, 3)), *_triples((3,))])


def _grows_with(factor: Callable[[int], int]) -> Evidence:
    """Compare what the distance divided by the step size tends to with a factor times what it is for two steps."""

    def sides() -> Iterator[Sides]:
        for clients, steps in _pairs((2, 3, 4, 5)):
            found, two = (Fraction(str(_order(clients, e))) for e in (steps, 2))
            yield Sides(f"{clients}, E = {steps}", found, factor(steps) * two / factor(2), ("found", "claimed"))

    return compared(sides(), of="distances divided by η", relation="==")


@CL08.reading("for some clients, as Theorem 4 constructs them: here any two that differ in both")
def two_clients() -> Evidence:
    return both(_of_the_order(_pairs((2, 3, 4, 5))), _grows_with(lambda steps: steps - 1))


@CL08.mutant("one local step")
def one_step() -> Evidence:
    return _of_the_order(_pairs((1,)))


@CL08.mutant("E in place of E − 1")
def number_of_steps() -> Evidence:
    return _grows_with(lambda steps: steps)


CL08C = Claim(
    id="CL-08c",
    place="corrected statement of CL-08",
    said_by="fedstat",
    words="To first order in the step size FedAvg's distance from the optimum is (E − 1) η / 2 times the mean of "
    "h_k² (w* − c_k) divided by the mean curvature: with E > 1 it is of the order of the step size exactly if the "
    "former mean is not zero.",
    statement="w_infinity (eta) - w^* = (E - 1) / 2 eta (sum_k p_k h_k^2 (w^* - c_k)) / (sum_k p_k h_k) + O(eta^2)",
    severity="false",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2, full gradients, all clients in every round",
    sensitivity="any difference as expressions in the curvatures, minimisers and shares, for up to five local steps",
)


def _slope(h: Any, c: Any, w: Any) -> Any:
    return h * (w - c)


def _first_order(steps: int, clients: int) -> Sides:
    """Compare the closed form with the derivative of the fixed point of a round, in symbols.

    A round is ``w -> w - sum_k p_k a_k (w - c_k)`` with ``a_k = 1 - (1 - eta h_k)^E``, so that the fixed point is away
    from w* by ``round(w*) - w*`` divided by ``sum_k p_k a_k``. Without loss of generality w* is zero, which the last
    client's minimiser provides for, as the last share provides for a sum of one.
    """
    h = sympy.symbols(f"h1:{clients + 1}", positive=True)
    c, p = list(sympy.symbols(f"c1:{clients}")), list(sympy.symbols(f"p1:{clients}", positive=True))
    p.append(1 - sum(p))
    c.append(-sum(pk * hk * ck for pk, hk, ck in zip(p, h, c, strict=False)) / (p[-1] * h[-1]))
    w = sympy.Symbol("w")
    after = fedavg_round(
        w, [partial(_slope, hk, ck) for hk, ck in zip(h, c, strict=True)], lr=_ETA, steps=steps, weights=p
    )
    drift, slope = sympy.expand(after.subs(w, 0)), sympy.expand(sympy.diff(after, w))
    moved = sympy.cancel((1 - slope) / _ETA).subs(_ETA, 0)
    drifted = sympy.diff(drift, _ETA, 2).subs(_ETA, 0) / 2
    mean = sum(pk * hk for pk, hk in zip(p, h, strict=True))
    parts = {
        f"client {k}": -sympy.Rational(steps - 1, 2) * pk * hk**2 * ck / mean
        for k, (pk, hk, ck) in enumerate(zip(p, h, c, strict=True), start=1)
    }
    return Sides(f"{clients} clients, E = {steps}", drifted / moved, parts, names=("derivative", "closed form"))


@CL08C.reading("two and three clients, one to five steps, in symbols")
def in_symbols() -> Evidence:
    cases = (_first_order(steps, clients) for clients in (2, 3) for steps in range(1, 6))
    return identity(cases, of="distances to first order")
