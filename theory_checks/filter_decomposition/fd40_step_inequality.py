"""FD-40: the inequality needs steps of at most 1/(4L).

FD-40c: a sharper inequality for steps below 1/L.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from fedstat.claims import Claim, Evidence, compared
from theory_checks.filter_decomposition.one_step import Step, beside, small, steps

FD40 = Claim(
    id="FD-40",
    place="section A.4.1, equation (21), with the step sizes chosen after (20)",
    said_by="paper",
    words="One step leaves at most 1 − μη_t times the squared distance, twice the clients' spread and 6LΓη_t².",
    statement="norm(w^t - w^* - eta_t g_t)^2 <= (1 - mu eta_t) norm(w^t - w^*)^2 + 2 sum_k p_k norm(w_k^t - w^t)^2 + "
    "6 L eta_t^2 Gamma",
    severity="misprint",
    assumptions="objectives on the line that need not be quadratic, with the clients at any points",
    sensitivity="a tenth of the right side; the heterogeneity and most of the spread are not needed (FD-40c), so that "
    "no case can show their loss",
    flaw="The text compares the step with 1/4 where it must be compared with 1/(4L). A step below 1/4 overshoots if "
    "the curvature is large: one client of curvature 10 moves away from its own minimum.",
    corrected="FD-40c",
)

NAMES = ("squared distance after the step", "bound")


def _printed(s: Step) -> dict[str, Any]:
    return {
        "distance": (1 - s.convexity * s.eta) * s.distance,
        "spread": 2 * s.spread,
        "heterogeneity": 6 * s.smoothness * s.eta**2 * s.heterogeneity,
    }


def _judged(
    sizes: Callable[[Fraction], Iterable[Fraction]], bound: Callable[[Step], dict[str, Any]] = _printed
) -> Evidence:
    return compared(beside(steps(sizes), lambda s: (s.after, bound(s)), NAMES), of="steps")


@FD40.reading("steps below 1/4, as the text chooses them")
def below_a_quarter() -> Evidence:
    return _judged(lambda big_l: [Fraction(1, 100), Fraction(1, 10), Fraction(6, 25)])


@FD40.reading("steps up to 1/(4L), as section A.4.3 has them")
def below_smoothness() -> Evidence:
    return _judged(small)


FD40C = Claim(
    id="FD-40c",
    place="corrected statement of FD-40",
    said_by="fedstat",
    words="For every step below 1/L no term for heterogeneity is needed, and the spread is multiplied by "
    "η_t L/(1 − η_t L), a third at 1/(4L).",
    statement="norm(w^t - w^* - eta_t g_t)^2 <= (1 - mu eta_t) norm(w^t - w^*)^2 + (eta_t L)/(1 - eta_t L) sum_k p_k "
    "norm(w_k^t - w^t)^2, quad eta_t < 1/L",
    severity="false",
    assumptions="clients at any points; the derivation holds in any dimension, the cases are on the line",
    sensitivity="a tenth of the right side, and the spread",
)


@FD40C.reading("steps from 1/(40L) to 9/(10L)")
def without_heterogeneity() -> Evidence:
    """Let S be the spread, e the average's distance from w* and ``d_k = w_k - w*``.

    ``grad F_k(w_k) - grad F_k(w*) = H_k d_k`` with a symmetric H_k between mu and L, and the gradients at w* cancel.
    With ``D = sum p_k d_k' H_k d_k >= mu (|e|^2 + S)`` Cauchy and Schwarz give ``<e, g> >= D - sqrt(L S D)`` and
    ``|g|^2 <= L D``. So with ``x = eta L``

        |e - eta g|^2 <= |e|^2 - (2 - x) eta D + 2 sqrt(eta D x S) <= |e|^2 - eta D + x/(1 - x) S,

    as ``2 sqrt(a b) <= (1 - x) a + b/(1 - x)``; and ``eta D >= mu eta |e|^2``.
    """

    def bound(s: Step) -> dict[str, Any]:
        x = s.eta * s.smoothness
        return {"distance": (1 - s.convexity * s.eta) * s.distance, "spread": x / (1 - x) * s.spread}

    return _judged(lambda big_l: [*small(big_l), 1 / (2 * big_l), 9 / (10 * big_l)], bound)
