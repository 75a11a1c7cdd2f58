"""FS-05: the kernel is positive definite if no inputs are parallel."""

from __future__ import annotations

import itertools
import math

from fedstat.claims import Claim, Evidence
from theory_checks.fedsplit.exact_kernels import Inputs, no_two_parallel, not_zero, parallel, rank, ranks, spread


def _opposite(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return parallel(a, b) and sum(p * q for p, q in zip(a, b, strict=True)) < 0


def _no_two_alike(x: Inputs) -> bool:
    """Tell whether no input is zero and no two have one direction; opposite directions are allowed."""
    return not_zero(x) and all(not parallel(a, b) or _opposite(a, b) for a, b in itertools.combinations(x, 2))


def _by_directions(x: Inputs) -> int:
    """Return the number of directions, minus the opposite pairs of them, plus the rank of these pairs' directions.

    The feature of x is the function ``w -> x 1{w . x >= 0}``: inputs of one direction have proportional features.
    Those of x and -x differ by the constant x, almost everywhere. So of each opposite pair one feature may be replaced
    by a constant, and constants are linearly dependent as functions exactly if they are as vectors. Otherwise features
    of different lines jump in different places and are independent.
    """
    directions = sorted({tuple(c // math.gcd(*v) for c in v) for v in x if any(v)})
    pairs = [v for v in directions if v > tuple(-c for c in v) in directions]
    return len(directions) - len(pairs) + rank(pairs)


FS05 = Claim(
    id="FS-05",
    place="section 3.3, Assumption 1, last sentence, with the sentence after it",
    said_by="paper",
    words="Inputs of which no two are parallel make the shared kernel positive definite.",
    statement="forall i != j: x_i parallel.not x_j => lambda_min (H^s) > 0",
    severity="unstated condition",
    assumptions="opposite directions count as parallel, and zero as parallel to every input, as is usual; the rank in "
    "general says how much of this is needed: opposite pairs do no harm as long as their directions are linearly "
    "independent",
    sensitivity="a rank one too small (an eigenvalue below 1e-30) among up to eight inputs in whole numbers",
)


@FS05.reading("opposite directions are parallel, inputs are not zero")
def as_usual() -> Evidence:
    return ranks(no_two_parallel, spread)


@FS05.reading("opposite directions are not parallel", natural=False)
def opposites_allowed() -> Evidence:
    return ranks(_no_two_alike)


@FS05.reading(
    "any inputs: the rank is the number of directions, minus the opposite pairs, plus the rank of these pairs' "
    "directions",
    natural=False,
)
def any_inputs() -> Evidence:
    return ranks(lambda x: True, claimed=_by_directions)


@FS05.mutant("parallel inputs allowed")
def parallel_allowed() -> Evidence:
    return ranks(not_zero)
