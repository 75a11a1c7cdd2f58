"""FD-39: one line of the chain needs an inequality.

FD-39c: a sharper inequality for the whole chain.
"""

from __future__ import annotations

from typing import Any

from fedstat.claims import Claim, Evidence, both, compared
from theory_checks.filter_decomposition.one_step import Step, beside, small, steps

FD39 = Claim(
    id="FD-39",
    place="section A.4.1, equation (17)",
    said_by="paper",
    words="The combination of the single steps holds line by line: the second line equals the third, and the squared "
    "distance after a step is at most the last.",
    statement="norm(w^t - w^*)^2 - mu eta_t sum_k p_k norm(w_k^t - w^*)^2 = (1 - mu eta_t) norm(w^t - w^*)^2, quad "
    "norm(w^t - w^* - eta_t g_t)^2 <= (1 - mu eta_t) norm(w^t - w^*)^2 + sum_k p_k norm(w^t - w_k^t)^2 + 4 L eta_t^2 "
    "sum_k p_k (F_k (w_k^t) - F_k^*) - 2 eta_t sum_k p_k (F_k (w_k^t) - F_k (w^*))",
    severity="misprint",
    assumptions="η_t at most 1/(4L); objectives on the line that need not be quadratic, with the clients at any "
    "points; w_k^* in the last line is read as w_k^t; the terms in the objectives, which both lines add, are left out "
    "of the equality",
    sensitivity="any difference of the two lines; a tenth of the right side of the inequalities",
    flaw="The second line subtracts the clients' mean squared distance from the optimum, the third only their "
    "average's, which is smaller unless all clients are at one point. The sign between them must be an inequality, "
    "with which the chain holds.",
    corrected="FD-39c",
)

NAMES = ("left side", "right side")


def _second(s: Step) -> dict[str, Any]:
    """Return the second line without what it subtracts of objectives."""
    return {
        "distance": s.distance,
        "spread": s.spread,
        "gradients": s.eta**2 * s.squared_gradients + 2 * s.smoothness * s.eta**2 * s.above_own,
    }


def _strong(s: Step) -> Any:
    """Return what strong convexity subtracts in the second line."""
    return s.convexity * s.eta * s.mean(lambda k, w: (w - s.optimum) ** 2)


def _third(s: Step) -> dict[str, Any]:
    return _second(s) | {"distance": (1 - s.convexity * s.eta) * s.distance}


def _last(s: Step) -> dict[str, Any]:
    return _third(s) | {"gradients": 4 * s.smoothness * s.eta**2 * s.above_own}


def _left(s: Step) -> Any:
    """Return the squared distance after the step, with the objectives that all lines subtract brought to the left."""
    return s.after + 2 * s.eta * s.above_optimum


@FD39.reading("as printed, with an equals sign before the third line")
def printed() -> Evidence:
    def lines(s: Step) -> tuple[Any, Any]:
        return sum(_second(s).values()) - _strong(s), sum(_third(s).values())

    return compared(beside(steps(small), lines, ("second line", "third line")), of="steps", relation="==")


@FD39.reading("with an inequality before the third line, as everywhere else in the chain")
def with_inequality() -> Evidence:
    return both(
        compared(beside(steps(small), lambda s: (_left(s) + _strong(s), _second(s)), NAMES), of="first inequalities"),
        compared(
            beside(steps(small), lambda s: (sum(_second(s).values()) - _strong(s), _third(s)), NAMES),
            of="steps from the second line to the third",
        ),
        compared(beside(steps(small), lambda s: (sum(_third(s).values()), _last(s)), NAMES), of="last inequalities"),
        compared(
            beside(steps(small), lambda s: (_left(s), _last(s)), NAMES), of="steps from the first line to the last"
        ),
    )


FD39C = Claim(
    id="FD-39c",
    place="corrected statement of FD-39",
    said_by="fedstat",
    words="The combination holds with an inequality throughout, with half the smoothness term and with a spread that "
    "is multiplied by 1 − μη_t.",
    statement="norm(w^t - w^* - eta_t g_t)^2 <= (1 - mu eta_t) (norm(w^t - w^*)^2 + sum_k p_k norm(w^t - w_k^t)^2) + "
    "2 L eta_t^2 sum_k p_k (F_k (w_k^t) - F_k^*) - 2 eta_t sum_k p_k (F_k (w_k^t) - F_k (w^*))",
    severity="false",
    assumptions="weights that add up to one; any η_t",
    sensitivity="the loss of any term, and a tenth of the right side",
)


@FD39C.reading("steps of size up to 1/(4L), and longer ones")
def sharper() -> Evidence:
    """As the clients' distances from their average cancel, g_t may be subtracted in (13) before Young's inequality.

    ``-2 eta sum p_k <w - w_k, grad F_k> = -2 eta sum p_k <w - w_k, grad F_k - g>``, at most the spread S plus
    ``eta^2 sum p_k |grad F_k - g|^2``; with ``eta^2 |g|^2`` of (12) that makes ``eta^2 sum p_k |grad F_k|^2``, at most
    ``2 L eta^2 sum p_k (F_k(w_k) - F_k*)``: the squared gradient is needed once, not twice. And in (15) the clients'
    mean squared distance from w* is ``|w - w*|^2 + S``, so that ``-mu eta S`` is left.
    """

    def sides(s: Step) -> tuple[Any, Any]:
        share = 1 - s.convexity * s.eta
        gradients = 2 * s.smoothness * s.eta**2 * s.above_own
        return _left(s), {"distance": share * s.distance, "spread": share * s.spread, "smoothness": gradients}

    cases = steps(lambda big_l: [*small(big_l), 1 / (2 * big_l), 1 / big_l, 2 / big_l])
    return compared(beside(cases, sides, NAMES), of="steps")
