"""Stacked weights of two clients in which the same units move together and other units agree."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Evidence, Sides, compared, search
from fedstat.inference import number
from theory_checks.fedsplit.factor_models import (
    Nu,
    correlations,
    farthest,
    principal_axis,
    row,
    rows,
    simple,
    table,
    unit_squares,
)


class Stack(NamedTuple):
    """Incoming weights of the units at two clients, one row for each unit."""

    first: tuple[tuple[int, ...], ...]
    second: tuple[tuple[int, ...], ...]

    def columns(self) -> list[tuple[int, ...]]:
        """Return columns of the stacked matrix, client above client."""
        return [a + b for a, b in zip(self.first, self.second, strict=True)]

    def shared(self) -> np.ndarray:
        """Tell whether a unit's weights agree at both clients."""
        return np.array([a == b for a, b in zip(self.first, self.second, strict=True)])

    def __str__(self) -> str:
        r = correlations(self.columns())
        values = [str(Fraction(v).limit_denominator(100)) for v in r[np.triu_indices(len(r), 1)]]
        nu = row(number(round(v, 6)) for v in principal_axis(r, 1))
        squares = row(number(round(v, 6)) for v in unit_squares(r, 1))
        agreeing = ", ".join(str(j + 1) for j in np.flatnonzero(self.shared()))
        return (
            f"units {rows(self.first)} at client 1 and {rows(self.second)} at client 2; those that agree: "
            f"{agreeing}; correlations above the diagonal {row(values)}; ν with one factor {nu}, "
            f"squares in the leading unit eigenvector {squares}"
        )


def _negative(block: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-w for w in block)


#: Three blocks of weights with correlations 1/2.
_TRIPLE = ((1, -1, 0, 0), (1, 0, -1, 0), (1, 0, 0, -1))

#: Three units move together in both stacks, and a fourth alone: R is one and the same matrix.
_SHARED_TOGETHER = Stack((*_TRIPLE, (1, 1, 1, 1)), (*_TRIPLE, (-1, -1, -1, -1)))
PERSONAL_TOGETHER = Stack((*_TRIPLE, (1, 1, -1, -1)), (*map(_negative, _TRIPLE), (1, 1, -1, -1)))
_BOTH = (_SHARED_TOGETHER, PERSONAL_TOGETHER)
#: The first stack, and the same with its clients in the other order.
FAVOURABLE = (_SHARED_TOGETHER, Stack(_SHARED_TOGETHER.second, _SHARED_TOGETHER.first))


def marks(nu: Nu, stacks: Sequence[Stack] = _BOTH) -> Evidence:
    """Compare a statistic of the units that agree across clients with that of the others, in two stacks with one R.

    Three units with correlations 1/2 and one uncorrelated with them have the communalities 1/2, 1/2, 1/2 and 0: the
    one-factor model with loadings sqrt(1/2) and 0 gives exactly these correlations, and is identified. The squares in
    the leading unit eigenvector are 1/3, 1/3, 1/3 and 0.
    """

    def sides(stack: Stack) -> Sides:
        found, shared = nu(correlations(stack.columns()), 1), stack.shared()
        names = ("largest value of a unit that does not agree", "least of one that does")
        return Sides(str(stack), simple(found[~shared].max()), simple(found[shared].min()), names)

    return compared(map(sides, stacks), of="stacks with the same correlations", relation="<")


#: Stacked weights by units, and an order of their rows.
_STACKS = st.one_of(
    [st.tuples(table(rows, units), st.permutations(range(rows))) for rows, units in ((4, 3), (6, 3), (8, 4))]
)


def _rearranged(columns: Sequence[Sequence[int]], order: Sequence[int], units: slice) -> list[list[int]]:
    moved = range(len(columns))[units]
    return [[c[i] for i in order] if j in moved else list(c) for j, c in enumerate(columns)]


def invariant(statistic: Nu, units: slice, name: str) -> Evidence:
    """Compare R and a statistic of it before and after the rows of `units` are rearranged, within or across clients.

    An entry of R is formed from sums over rows of z_i, z_i^2 and z_i z_j. Sums do not know the order of their terms,
    so one permutation of the rows, the same for all units, changes neither R nor anything computed from R. (The
    statistic is looked at where R has not changed.)
    """

    def sides(case: tuple[list[list[int]], list[int]]) -> tuple[float, float]:
        before, after = (correlations(c) for c in (case[0], _rearranged(*case, units)))
        if (after != before).any():
            return farthest(after.ravel(), before.ravel())
        return farthest(statistic(after, 1), statistic(before, 1))

    return search(
        _STACKS,
        sides,
        relation="==",
        tolerance=1e-6,
        examples=150,
        names=(f"entry of R or {name} after", "before"),
        show=lambda case: f"columns {rows(case[0])}, rows in the order {row(i + 1 for i in case[1])}",
    )
