"""FD-38: the single steps of the analysis hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedstat.claims import Claim, Evidence, Sides, both, compared
from theory_checks.filter_decomposition.one_step import Step, beside, small, steps

FD38 = Claim(
    id="FD-38",
    place="section A.4.1, equations (13), (14), (15), (16) and (18)",
    said_by="paper",
    words="The single steps from which the analysis is put together hold: two identities and three inequalities.",
    statement="-2 chevron.l w^t - w_k^t, nabla F_k (w_k^t) chevron.r <= 1/eta_t norm(w^t - w_k^t)^2 + eta_t "
    "norm(nabla F_k (w_k^t))^2, quad norm(g_t)^2 <= 2 L sum_k p_k (F_k (w_k^t) - F_k^*), quad 4 L eta_t^2 sum_k p_k "
    "(F_k (w_k^t) - F_k^*) - 2 eta_t sum_k p_k (F_k (w_k^t) - F_k (w^*)) = -gamma_t sum_k p_k (F_k (w_k^t) - F^*) + 4 "
    "L eta_t^2 Gamma",
    severity="false",
    assumptions="weights that add up to one; γ_t = 2 η_t (1 − 2 L η_t); checked for objectives on the line that need "
    "not be quadratic, with the clients at any points",
    sensitivity="any difference of the identities; a tenth of the right side of every inequality, as each is an "
    "equality in some case",
)


def identities() -> Evidence:
    """(13) and the lines of (18); F* is the mean of the F_k(w*), and Gamma that of F* - F_k*, as weights add to one."""

    def thirteenth(s: Step) -> tuple[Any, Any]:
        w, best, eta = s.average, s.optimum, s.eta
        parts = {
            "clients' distance from the average": -2 * eta * s.mean(lambda k, x: (w - x) * k.slope(x)),
            "clients' distance from the optimum": -2 * eta * s.mean(lambda k, x: (x - best) * k.slope(x)),
        }
        return -2 * eta * (w - best) * s.gradient, parts

    def eighteenth() -> Iterator[Sides]:
        for s in steps(small):
            eta, big_l, gamma = s.eta, s.smoothness, 2 * s.eta * (1 - 2 * s.smoothness * s.eta)
            own, joint, lowest = s.above_own, s.above_optimum, s.lowest
            above = s.mean(lambda k, x, f=lowest: k.value(x) - f)  # type: ignore[misc]
            apart = s.mean(lambda k, x, f=lowest: f - k.least)  # type: ignore[misc]
            at_best = s.mean(lambda k, x, w=s.optimum: k.value(w) - k.least)  # type: ignore[misc]
            lines = [
                (4 * big_l * eta**2 - 2 * eta) * own - 2 * eta * joint + 2 * eta * own,
                -gamma * above - gamma * apart + 2 * eta * at_best,
                -gamma * above - gamma * apart + 2 * eta * apart,
                -gamma * above + (2 * eta - gamma) * apart,
                {"values above the optimum": -gamma * above, "heterogeneity": 4 * big_l * eta**2 * s.heterogeneity},
            ]
            for number, line in enumerate(lines, 2):
                names = ("first line", "this line")
                yield Sides(f"{s}, line {number}", 4 * big_l * eta**2 * own - 2 * eta * joint, line, names)

    return both(
        compared(beside(steps(small), thirteenth, ("left side", "right side")), of="steps, for (13)", relation="=="),
        compared(eighteenth(), of="lines of (18)", relation="=="),
    )


def inequalities() -> Evidence:
    """(14) to (16), client by client where they are about a client.

    (14) is ``|x + eta y|^2 >= 0``; (15) is Assumption 5.2 with the values brought to the left; the first part of (16)
    is Jensen's inequality, the second the decrease ``|grad|^2 / (2 L)`` of a step of size 1/L.
    """
    names = ("left side", "right side")

    def each() -> Iterator[tuple[Step, Any, Any]]:
        for s in steps(small):
            for client, point in zip(s.clients, s.points, strict=True):
                yield s, client, point

    def fourteenth() -> Iterator[Sides]:
        for s, k, w in each():
            apart, slope = s.average - w, k.slope(w)
            right = {"squared distance": apart**2 / s.eta, "squared gradient": s.eta * slope**2}
            yield Sides(f"{s}; the client at {w}", -2 * apart * slope, right, names)

    def fifteenth() -> Iterator[Sides]:
        for s, k, w in each():
            best, mu = s.optimum, s.convexity
            left = k.value(w) - k.value(best) + mu / 2 * (w - best) ** 2
            yield Sides(f"{s}; the client at {w}", left, (w - best) * k.slope(w), names)

    jensen = beside(steps(small), lambda s: (s.gradient**2, s.squared_gradients), names)
    smooth = beside(steps(small), lambda s: (s.squared_gradients, 2 * s.smoothness * s.above_own), names)
    return both(
        compared(fourteenth(), of="clients, for (14)"),
        compared(fifteenth(), of="clients, for (15)"),
        compared(jensen, of="steps, for the first part of (16)"),
        compared(smooth, of="steps, for the second part of (16)"),
    )


@FD38.reading("as printed")
def printed() -> Evidence:
    return both(identities(), inequalities())
