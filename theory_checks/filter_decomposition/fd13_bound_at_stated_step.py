"""FD-13: with one local step the bound fails at the stated step.

FD-13c: a bound of order log T / T at the stated step.
"""

from __future__ import annotations

from fractions import Fraction

from fedstat.claims import Claim, Evidence, both
from theory_checks.filter_decomposition.averaging_exactly import (
    AFTER_MANY,
    PARTED,
    SINGLE_CLIENTS,
    Scalars,
    bound_of,
    client_pairs,
    gaps_along,
    recursion_terms,
    whole_offset,
)
from theory_checks.filter_decomposition.printed_bound import ALONG, LOOSE, STATED, one_step, several_steps

FD13 = Claim(
    id="FD-13",
    place="section 5, Theorem 5.4",
    said_by="paper",
    words="The stated bound holds for the step size 1/(μ(γ + t)).",
    statement=f"{STATED}, quad eta_t = 1/(mu (gamma + t)), gamma = max(8 L / mu, E)",
    severity="unstated condition",
    assumptions=f"exact gradients; w¹ is the start; {ALONG}",
    sensitivity=LOOSE,
    flaw="The induction needs its constant v to be at least (γ + 1) |w¹ − w*|², and the theorem keeps |w¹ − w*|² "
    "without the factor; with E = 1 and equal clients nothing else is left, and the bound already fails at the start. "
    "With E > 1 the drift 8 (E − 1)² G² covers the omission, by an argument of our own: for this step size the paper's "
    "induction does not work at all (FD-16).",
    corrected="FD-13c",
)


@FD13.reading("any number of local steps, E = 1 among them")
def one_local_step() -> Evidence:
    return one_step(bound_of("printed"), 1)


@FD13.condition("several local steps, E > 1")
def several_local_steps() -> Evidence:
    return several_steps(1)


FD13C = Claim(
    id="FD-13c",
    place="corrected statement of FD-13",
    said_by="fedstat",
    words="For the step size 1/(μ(γ + t)) the squared distance is of order log T over T, with explicit constants.",
    statement="EE norm(w^T - w^*)^2 <= 1/(gamma + T - 1) (gamma norm(w^1 - w^*)^2 + B/mu^2 sum_(t=1)^(T-1) "
    "1/(gamma + t)), quad eta_t = 1/(mu (gamma + t)), quad F - F^* <= L/2 norm(w - w^*)^2",
    severity="false",
    assumptions="γ = max(8 L/μ, E); B with a term for the noise of stochastic gradients and one for the draw of "
    "clients added (derived in FD-18c and FD-14c)",
    sensitivity="a tenth of the bound and the loss of start, noise, sampling or drift; not that of heterogeneity, "
    "which is not needed (FD-14c)",
)


@FD13C.reading("exact expectations")
def exact_expectations() -> Evidence:
    """Bound for ``eta_t = 1 / (mu (gamma + t))``.

    From ``Delta_{t+1} <= (1 - mu eta_t) Delta_t + eta_t^2 B`` (see `strongly_convex_bound`; smaller steps keep
    ``eta_1 <= 1/(4L)`` and ``eta_t0 <= 2 eta_t``), multiplied by ``gamma + t``::

        (gamma + t) Delta_{t+1} <= (gamma + t - 1) Delta_t + (B / mu^2) / (gamma + t)

    The left factor is the next step's right factor, so the sum telescopes::

        (gamma + T - 1) Delta_T <= gamma Delta_1 + (B / mu^2) sum_{t=1}^{T-1} 1 / (gamma + t)

    and ``F - F* <= L Delta / 2``. The sum grows like log T.
    """

    def bound(problem: Scalars, t: int, squared_gradient: Fraction) -> dict[str, Fraction]:
        gamma = whole_offset(problem)
        harmonic = sum((Fraction(1, gamma + s) for s in range(1, t)), Fraction(0))
        scale = harmonic / problem.convexity**2 / (gamma + t - 1)
        start = {"start": gamma * (problem.start - problem.optimum) ** 2 / (gamma + t - 1)}
        return start | {name: b * scale for name, b in recursion_terms(problem, squared_gradient).items()}

    problems = [*SINGLE_CLIENTS, *client_pairs([1, 2, 3]), *client_pairs([1, 2], [(1, 1), (0, 4)])]
    of = "scalar problems, with and without sampling and noise"
    return both(
        gaps_along(problems, bound, 1, steps=range(1, 9), of=of, quantity="distance"),
        gaps_along([PARTED], bound, 1, steps=[401], of=AFTER_MANY, quantity="distance"),
    )
