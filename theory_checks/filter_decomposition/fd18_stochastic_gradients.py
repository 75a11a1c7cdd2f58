"""FD-18: the bound leaves out the gradients' noise.

FD-18c: the bound with the gradients' noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fedstat.claims import Claim, Evidence, both
from theory_checks.filter_decomposition.averaging_exactly import (
    AFTER_MANY,
    PARTED,
    Bound,
    Scalars,
    bound_of,
    client_pairs,
    gaps_along,
)
from theory_checks.filter_decomposition.printed_bound import ALONG, LOOSE, STATED, several_steps

NOISES = ((1, 1), (0, 4))


def _along_paths(bound: Bound, local_steps: Sequence[int], starts: tuple[int, ...] = (0,)) -> Evidence:
    """Exact expectations over independent gradient noise, first of one client that starts at the optimum."""
    one = [Scalars((1,), (0,), Fraction(0), 1, e, 1, (1,)) for e in local_steps]
    problems = [*one, *client_pairs(local_steps, NOISES, starts)]
    return gaps_along(problems, bound, 2, steps=range(1, 9), of="scalar problems with gradient noise")


FD18 = Claim(
    id="FD-18",
    place="section 5, Assumption 5.3, taken with Theorem 5.4",
    said_by="fedstat",
    words="The bound of Theorem 5.4 covers the stochastic gradients that Assumption 5.3 speaks of.",
    statement=f"{STATED}, quad EE norm(nabla F_k)^2 <= G^2",
    severity="unstated condition",
    assumptions="η_t = 2/(μ(γ + t)); unbiased gradients with independent noise (two points, say), which counts in G; a "
    "start at the optimum where E = 1, so that the lost factor of FD-14 plays no part. "
    "Assumption 5.3 and section A.4.1 speak of stochastic gradients, the sentence before Theorem 5.4 restricts it to "
    "all local data in every step",
    sensitivity=LOOSE,
    flaw="The proof replaces the stochastic gradient by its mean in the first step and never adds its variance. With "
    "E = 1, equal clients and a start at the optimum the bound is zero, but one noisy step moves away. With E > 1 the "
    "variance is part of G², and 8 (E − 1)² G² covers it.",
    corrected="FD-18c",
)


@FD18.reading("stochastic gradients, started at the optimum, E = 1 among the numbers of local steps")
def stochastic() -> Evidence:
    return _along_paths(bound_of("printed"), [1, 2, 3])


@FD18.condition("several local steps, E > 1, and any start")
def several_local_steps() -> Evidence:
    return several_steps(2, NOISES)


FD18C = Claim(
    id="FD-18c",
    place="corrected statement of FD-18",
    said_by="fedstat",
    words="With the variance of the averaged gradient added, the corrected bound covers stochastic gradients.",
    statement="EE F(w^T) - F^* <= 2/mu^2 L/(gamma + T) (B + mu^2/4 (gamma + 1) norm(w^1 - w^*)^2), quad "
    "B = sum_k p_k^2 sigma_k^2 + 6 L Gamma + 8 (E/beta - 1)^2 G^2 + 4 (M - m)/(m (M - 1)) (E/beta)^2 G^2",
    severity="false",
    assumptions=f"independent, unbiased gradient noise with variances σ_k²; {ALONG}",
    sensitivity="a tenth of the bound and the loss of noise, start or drift; not that of heterogeneity or sampling, "
    "which the others cover (FD-14c)",
)


@FD18C.reading("exact expectations")
def exact_expectations() -> Evidence:
    bound = bound_of("corrected")
    parted = gaps_along([PARTED], bound, 2, steps=[401], of=AFTER_MANY)
    return both(_along_paths(bound, [1, 2, 3], starts=(0, 1, -10)), parted)
