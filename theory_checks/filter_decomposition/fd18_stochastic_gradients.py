"""FD-18: stochastic gradients in Theorem 5.4."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fedstat.claims import Claim, Evidence
from theory_checks.filter_decomposition.averaging_exactly import Bound, Scalars, bound_of, client_pairs, gaps_along
from theory_checks.filter_decomposition.printed_bound import ALONG, STATED

NOISES = ((1, 1), (0, 4))


def _along_paths(
    bound: Bound,
    local_steps: Sequence[int],
    *,
    variances: Sequence[tuple[int, ...]] = NOISES,
    starts: tuple[int, ...] = (0, 1, -10),
) -> Evidence:
    """Exact expectations over independent gradient noise, first of one client that starts at the optimum."""
    noise = max(variances[0], default=0)
    one = [Scalars((1,), (0,), Fraction(0), 1, e, 1, (noise,)) for e in local_steps]
    problems = [*one, *client_pairs(local_steps, variances, starts)]
    of = f"scalar problems {'with' if noise else 'without'} gradient noise"
    return gaps_along(problems, bound, 2, steps=range(1, 9), of=of)


FD18 = Claim(
    id="FD-18",
    place="section 5, Assumption 5.3, taken with Theorem 5.4",
    said_by="fedstat",
    words="The bound of Theorem 5.4 covers the stochastic gradients that Assumption 5.3 speaks of.",
    statement=f"{STATED}, quad EE norm(nabla F_k)^2 <= G^2",
    severity="misprint",
    assumptions="η_t = 2/(μ(γ + t)); unbiased gradients with independent noise (two points, say), which counts in G. "
    "Assumption 5.3 and section A.4.1 speak of stochastic gradients, the sentence before Theorem 5.4 restricts it to "
    "all local data in every step",
    sensitivity="exact",
    flaw="The proof replaces the stochastic gradient by its mean in the first step and never adds its variance. With "
    "E = 1, equal clients and a start at the optimum the bound is zero, but one noisy step moves away. With full "
    "gradients, to which the sentence before the theorem restricts it, nothing is missing; with E > 1 the variance is "
    "part of G², and 8 (E − 1)² G² covers it in all cases tried.",
    corrected="FD-18c",
)


@FD18.reading("stochastic gradients, E = 1, started at the optimum")
def stochastic() -> Evidence:
    return _along_paths(bound_of("printed"), [1], starts=(0,))


@FD18.reading("full gradients, as the sentence before Theorem 5.4 has them, with E = 1 and a start at the optimum")
def full_gradients() -> Evidence:
    return _along_paths(bound_of("printed"), [1], variances=[()], starts=(0,))


@FD18.reading("stochastic gradients, E > 1, any start")
def several_local_steps() -> Evidence:
    return _along_paths(bound_of("printed"), [2, 3])


@FD18.control("stochastic gradients, E = 1, with the terms of FD-18c")
def terms_put_back() -> Evidence:
    return _along_paths(bound_of("corrected", noise=Fraction(1)), [1], starts=(0,))


@FD18.mutant("the start corrected, the noise still missing")
def no_noise() -> Evidence:
    return _along_paths(bound_of("corrected"), [1], starts=(1, -10))


FD18C = Claim(
    id="FD-18c",
    place="corrected statement of FD-18",
    said_by="fedstat",
    words="With the variance of the averaged gradient added, the corrected bound covers stochastic gradients.",
    statement="EE F(w^T) - F^* <= 2/mu^2 L/(gamma + T) (B + mu^2/4 (gamma + 1) norm(w^1 - w^*)^2), quad "
    "B = sum_k p_k^2 sigma_k^2 + 6 L Gamma + 8 (E/beta - 1)^2 G^2 + 4 (M - m)/(m (M - 1)) (E/beta)^2 G^2",
    severity="false",
    assumptions=f"independent, unbiased gradient noise with variances σ_k²; {ALONG}",
    sensitivity="a noise term twenty times too small along trajectories, a hundredth of it in one step (FD-14c); the "
    "other terms of B are not seen here and come from the inequalities of FD-14c",
)


@FD18C.reading("exact expectations")
def exact_expectations() -> Evidence:
    return _along_paths(bound_of("corrected", noise=Fraction(1)), [1, 2, 3])


@FD18C.mutant("a twentieth of the noise")
def less_noise() -> Evidence:
    return _along_paths(bound_of("corrected", noise=Fraction(1, 20)), [1, 2, 3])
