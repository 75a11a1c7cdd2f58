"""FS-05: when the shared kernel is positive definite."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import extreme_eigenvalues
from theory_checks.fedsplit.exact_kernels import (
    DIGITS,
    Inputs,
    exact_kernel,
    no_two_parallel,
    not_zero,
    parallel,
    positive,
    rank,
    spread,
    with_opposites,
    written,
    zero_aside,
)


def _opposite(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return parallel(a, b) and sum(p * q for p, q in zip(a, b, strict=True)) < 0


def _no_two_alike(x: Inputs) -> bool:
    """Tell whether no input is zero and no two have one direction; opposite directions are allowed."""
    return not_zero(x) and all(not parallel(a, b) or _opposite(a, b) for a, b in itertools.combinations(x, 2))


def _independent_pairs(x: Inputs) -> bool:
    """Tell whether no input is zero, no two have one direction, and opposite pairs have independent directions."""
    pairs = [a for a, b in itertools.combinations(x, 2) if _opposite(a, b)]
    return _no_two_alike(x) and rank(pairs) == len(pairs)


def _dependent_pairs_are_singular() -> Evidence:
    """Inputs with opposite pairs along dependent directions: the kernel must be singular.

    The feature of x is the function ``w -> x 1{w . x >= 0}``. Those of x and -x differ by the constant x, almost
    everywhere. So for opposite pairs (x_k, -x_k) the differences are the constants x_k, and they are linearly
    dependent as functions exactly if the vectors x_k are.
    """
    import mpmath

    def sides(x: Inputs) -> tuple[float, float]:
        with mpmath.workdps(DIGITS):
            low, _ = extreme_eigenvalues(exact_kernel(x), dps=DIGITS)
            return float(abs(low)), 0.0

    directions = st.lists(st.tuples(*[st.integers(-2, 2)] * 2), min_size=3, max_size=4, unique=True)
    pairs = directions.filter(no_two_parallel).map(lambda x: [*x, *[tuple(-v for v in a) for a in x]])
    names = ("smallest eigenvalue", "claimed")
    return search(pairs, sides, relation="==", tolerance=1e-25, examples=20, names=names, show=written)


FS05 = Claim(
    id="FS-05",
    place="section 3.3, Assumption 1, last sentence, with the sentence after it",
    said_by="paper",
    words="Inputs of which no two are parallel make the shared kernel positive definite.",
    statement="forall i != j: x_i parallel.not x_j => lambda_min (H^s) > 0",
    severity="unstated condition",
    assumptions="opposite directions count as parallel, and zero as parallel to every input, as is usual; the other "
    "readings say how much of this is needed: opposite pairs do no harm as long as their directions are linearly "
    "independent",
    sensitivity="a smallest eigenvalue below 1e-30 among up to eight inputs in whole numbers from −4 to 4",
)


@FS05.reading("opposite directions are parallel, inputs are not zero")
def as_usual() -> Evidence:
    return positive(no_two_parallel, spread)


@FS05.reading("opposite directions are not parallel", natural=False)
def opposites_allowed() -> Evidence:
    return positive(_no_two_alike)


@FS05.reading("opposite pairs along linearly independent directions are harmless", natural=False)
def independent_pairs() -> Evidence:
    return positive(_independent_pairs, spread.flatmap(with_opposites))


@FS05.reading("beyond that, opposite pairs make the kernel singular", natural=False)
def dependent_pairs() -> Evidence:
    return _dependent_pairs_are_singular()


@FS05.reading("a zero input is parallel to none", natural=False)
def zero_allowed() -> Evidence:
    return positive(zero_aside)


@FS05.mutant("parallel inputs allowed")
def parallel_allowed() -> Evidence:
    return positive(not_zero)
