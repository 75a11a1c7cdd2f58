"""The bound of Theorem 5.4 with one local step and with several, on scalar problems and on random ones."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from fedstat.claims import Evidence, both
from theory_checks.filter_decomposition.averaging_exactly import (
    SINGLE_CLIENTS,
    Bound,
    bound_of,
    client_pairs,
    gaps_along,
    search_for_gaps,
)

STATED = (
    "EE F(w^T) - F^* <= 2/mu^2 L/(gamma + T) (6 L Gamma + 8 (E - 1)^2 G^2 + 4 (M^2 - m^2)/(m^2 M^2 (M^2 - 1)) "
    "(E - 1)^2 G^2 + mu^2/4 norm(w^1 - w^*)^2)"
)
ALONG = (
    "G bounds the gradients at all points that the clients visit, the start included, since no strongly convex "
    "function has bounded gradients everywhere; L may exceed the curvature h, as for (w₁² + L w₂²)/2 started on "
    "the first axis"
)

#: What the check for E > 1 cannot see.
LOOSE = (
    "for E > 1 the loss of the drift; not that of start, heterogeneity or sampling, as the bound holds without these"
)


def one_step(bound: Bound, numerator: int) -> Evidence:
    """Judge the bound for the step ``numerator / (mu (gamma + t))`` and E = 1."""
    problems = [*SINGLE_CLIENTS, *client_pairs([1])]
    return gaps_along(problems, bound, numerator, steps=range(1, 11), of="scalar problems with one local step")


def several_steps(numerator: int, variances: Iterable[tuple[int, ...]] = ((),)) -> Evidence:
    """Judge the printed bound for E > 1, exactly on scalar problems and on random ones in several dimensions.

    For E > 1 it holds, since ``8 (E - 1)^2 G^2`` alone suffices, for both step sizes ``eta = b/(mu s)``, s = gamma + t,
    for any number of participants, and for noise that counts in G. Let k = L/mu, so that ``eta L <= 1/4``; let D be the
    expected gap of the clients' average w, S their spread about it and e the difference of their mean gradient from
    the gradient at w, ``|e|^2 <= L^2 S <= 4 L^2 eta^2 (E - 1)^2 G^2``. Smoothness and
    ``<grad, e> <= |grad|^2/4 + |e|^2`` give for a step ``D' <= D - (5/8) eta |grad|^2 + (9/8) eta |e|^2`` and, by
    ``|grad|^2 >= 2 mu D``, ``D' <= (1 - p/s) D + (9/2) eta^3 L^2 (E - 1)^2 G^2`` with p = 5/4 for b = 1 and p = 2 for
    b = 2. An averaging of drawn clients adds at most ``(L/2) E^2 eta_t0^2 G^2``, once in E steps; noise adds at most
    ``(L/2) eta^2 G^2`` a step. As ``1 - p/s <= (1 - 1/s)^p``, all that sums up to

        S^p D_T <= gamma^p D_1 + sum over s <= S of s^p times what is added,  S = gamma + T - 1,

    where ``D_1 <= G^2/(2 mu)``, because G bounds the gradients at the start too. In units of ``(E - 1)^2 G^2/mu`` the
    bound is ``16 k/(S + 1) >= 14.2 k/S``. For E = 2, with ``eta_t0 <= (10/9) eta_t``, and for larger E, with
    ``eta_t0 <= 2 eta_t``, start, drift, draws and noise come to at most ``(4 + .75 + 5 + 2) k/S`` for b = 1, and to
    ``(32 + 36 log x + 40 (x - 1) + 16 (x - 1)) k^2/S^2`` with ``x = S/gamma``, ``gamma = 8 k``, for b = 2, less than
    ``114 x k^2/S^2``; where gamma = E > 8 k, the start is less than ``(2/3)/S^2`` and the rest smaller still.
    """
    singles = [p._replace(local_steps=e) for p in SINGLE_CLIENTS for e in (2, 3)]
    problems = [*singles, *client_pairs([2, 3], variances)]
    of = "scalar problems with several local steps"
    scalars = gaps_along(problems, bound_of("printed"), numerator, steps=range(1, 9), of=of)
    return both(scalars, search_for_gaps("printed", numerator, st.integers(2, 8), st.just(1)))
