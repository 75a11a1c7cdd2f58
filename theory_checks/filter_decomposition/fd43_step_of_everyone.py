"""FD-43: a step after a draw starts from the drawn average.

FD-43c: the bound on all clients' average.
"""

from __future__ import annotations

from typing import Any

from fedstat.claims import Claim, Evidence
from theory_checks.filter_decomposition.drawn_paths import AS_ASSUMED, OF_THE_THEOREM, Terms, steps_bounded

FD43 = Claim(
    id="FD-43",
    place="appendix A.5.1, equations (29) and (30)",
    said_by="paper",
    words="With partial participation all clients' average ŵ obeys the recursion of full participation: its squared "
    "distance from the optimum after a step is bounded by its own before the step.",
    statement="EE norm(hat(w)^(t+1) - w^*)^2 <= (1 - mu eta_t) EE norm(hat(w)^t - w^*)^2 + eta_t^2 B, quad B = 8 (E - "
    "1)^2 G^2 + 6 L Gamma",
    severity="misprint",
    assumptions="equal weights, divided by m; exact gradients, with a mean square of at most G² along the path; ŵ is "
    "all clients' average before the draw; by (28), which holds for FedAvg's average, (30) says the same",
    sensitivity="exact; a tenth of the right side, and every term",
    flaw="After a draw the clients go on from w, the drawn clients' average, and not from ŵ, so that the earlier "
    "analysis gives the distance of w on the right side, which is larger by the sampling error of the draw before. "
    "Nothing in B stands for that error. B happens to cover it if the step sizes hardly change from one step to the "
    "next.",
    corrected="FD-43c",
)


def _printed(x: Terms) -> dict[str, Any]:
    return {"distance": x.distance, "drift": 8 * x.drift, "heterogeneity": 6 * x.heterogeneity}


@FD43.reading("for the step sizes that A.4.2 and A.4.3 ask for: at most 1/(4L), not growing, at most halved in E steps")
def as_assumed() -> Evidence:
    return steps_bounded(AS_ASSUMED, _printed, of_drawn=False, from_drawn=False)


@FD43.reading("for the theorem's own step sizes")
def of_the_theorem() -> Evidence:
    """Let ``f = (M - m)/(m (M - 1))`` and V be the sampling error of w^t, which is zero unless t follows a draw.

    With several local steps, after a draw the clients are together and the average makes a plain gradient step, so
    ``(1 - mu eta_t)(|w^_t - w*|^2 + V)`` bounds the left side, and ``V <= f G^2`` times the square of the E step sizes'
    sum. For ``gamma + t0 = a >= max(9, E)`` at the round's first step that sum is at most ``eta_t`` times
    ``sum_(j < E) (a + E)/(a + j)``: 2.33 for E = 2, 3.63 for E = 3 and 2 E always, whose squares are below
    ``8 (E - 1)^2``. All other steps are those of FD-40c.

    With one local step let x be the point before the draw, ``A = F(x) - F*`` and eta' its step size, at most ``10/9
    eta_t`` and ``1/(4 L)``. Then ``V <= f eta'^2 2 L (A + Gamma)``, and the step from w^t gains ``2 eta (1 - L
    eta)(F(w^t) - F*)``, in expectation at least ``2 eta (1 - L eta)(1 - 2 L eta') A``, at least ``3/4 eta A``, which
    exceeds ``2 L eta'^2 A``, at most ``5/9 eta A``. What is left of V, ``2 f L eta'^2 Gamma``, is below ``6 L eta^2
    Gamma``.
    """
    return steps_bounded(OF_THE_THEOREM, _printed, of_drawn=False, from_drawn=False)


FD43C = Claim(
    id="FD-43c",
    place="corrected statement of FD-43",
    said_by="fedstat",
    words="The squared distance of all clients' average ŵ after a step is bounded by that of w before it, the average "
    "from which the clients went on, and a sixth of the drift term is enough.",
    statement="EE norm(hat(w)^(t+1) - w^*)^2 <= (1 - mu eta_t) EE norm(w^t - w^*)^2 + 4/3 eta_t^2 (E - 1)^2 G^2",
    severity="false",
    assumptions="as in FD-43, with step sizes of at most 1/(4L) that do not grow and at most halve in E steps; between "
    "draws w is the average of all clients",
    sensitivity="a tenth of the right side, and the drift",
)


@FD43C.reading("the step sizes of A.4.2 and A.4.3, and the theorem's own")
def from_the_drawn() -> Evidence:
    """FD-40c at ``eta L <= 1/4`` has a third of the spread, which is at most ``4 eta_t^2 (E - 1)^2 G^2`` by (22)."""
    return steps_bounded(
        (*AS_ASSUMED, *OF_THE_THEOREM),
        lambda x: {"distance": x.distance, "drift": x.drift * 4 / 3},
        of_drawn=False,
        from_drawn=True,
    )
