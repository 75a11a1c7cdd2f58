"""The shared kernel of inputs in whole numbers, in forty digits where sixteen do not tell it from a singular one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Evidence, search
from fedstat.ntk import extreme_eigenvalues, infinite_gram
from theory_checks.fedsplit.designs import vectors

Inputs = list[tuple[int, ...]]


DIGITS = 40
ZERO = 1e-30  # what counts as positive in forty digits


def with_opposites(x: Inputs) -> st.SearchStrategy[Inputs]:
    """Draw the inputs together with the opposites of the first few of them."""
    return st.integers(0, len(x)).map(lambda n: [*x, *(tuple(-v for v in a) for a in x[:n])])


whole = (
    st.integers(1, 3)
    .flatmap(lambda d: st.lists(st.tuples(*[st.integers(-2, 2)] * d), min_size=1, max_size=4, unique=True))
    .flatmap(with_opposites)
)


def apart(dimension: int) -> st.SearchStrategy[Inputs]:
    """Draw two to eight inputs, more than their dimension as a rule, no two of them parallel."""
    lines = [
        v
        for v in itertools.product(range(-2, 3), repeat=dimension)
        if math.gcd(*v) == 1 and next(c for c in v if c) > 0
    ]
    chosen = st.lists(st.sampled_from(lines), min_size=2, max_size=min(8, len(lines)), unique=True)
    factors = st.lists(st.sampled_from([-2, -1, 1, 2]), min_size=8, max_size=8)
    return st.tuples(chosen, factors).map(
        lambda case: [tuple(f * c for c in line) for line, f in zip(case[0], case[1], strict=False)]
    )


spread = st.integers(2, 3).flatmap(apart)


def exact_kernel(x: Inputs, scale: int = 1) -> Any:
    """Return H_shared of integer vectors divided by `scale`, in the working precision of mpmath."""
    import mpmath

    def entry(a: tuple[int, ...], b: tuple[int, ...]) -> Any:
        inner = sum(p * q for p, q in zip(a, b, strict=True))
        rest = sum(p * p for p in a) * sum(q * q for q in b) - inner**2  # whole, so parallel vectors give exactly zero
        return mpmath.mpf(inner) / scale**2 * (mpmath.pi - mpmath.atan2(mpmath.sqrt(rest), inner)) / (2 * mpmath.pi)

    return mpmath.matrix([[entry(a, b) for b in x] for a in x])


def written(x: Inputs, scale: int = 1) -> str:
    """Write inputs, divided by `scale`, in words."""
    return f"inputs {vectors([c / scale for c in v] for v in x)}"


def rank(rows: Inputs) -> int:
    return int(np.linalg.matrix_rank(np.array(rows))) if rows else 0


def parallel(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return rank([a, b]) < 2


def full_rank(x: Inputs) -> int:
    """Return how many inputs there are: the rank of a definite kernel."""
    return len(x)


def ranks(
    allowed: Callable[[Inputs], bool],
    inputs: st.SearchStrategy[Inputs] = whole,
    *,
    claimed: Callable[[Inputs], int] = full_rank,
    scale: int = 1,
) -> Evidence:
    """Search inputs in small whole numbers for a kernel whose rank, in forty digits, is not the claimed one."""
    import mpmath

    def sides(x: Inputs) -> tuple[int, int]:
        found = len(x)
        if extreme_eigenvalues(infinite_gram(np.array(x, dtype=float) / scale))[0] < 1e-9:
            # sixteen digits do not tell the smallest eigenvalue from zero
            with mpmath.workdps(DIGITS):
                values = mpmath.eigsy(exact_kernel(x, scale), eigvals_only=True)
                found = sum(value > ZERO for value in values)
        return found, claimed(x)

    names = ("rank of the kernel", "claimed")
    drawn = inputs.filter(allowed)
    return search(drawn, sides, relation="==", examples=100, names=names, show=lambda x: written(x, scale))


def not_zero(x: Inputs) -> bool:
    """Tell whether no input is zero; some may be parallel."""
    return all(map(any, x))


def no_two_parallel(x: Inputs) -> bool:
    """Tell whether no input is zero and no two are parallel, opposite directions counting as parallel."""
    return not_zero(x) and not any(parallel(a, b) for a, b in itertools.combinations(x, 2))
