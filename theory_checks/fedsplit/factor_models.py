"""Small factor models, and the estimates of communalities that the paper's section 4.1 may mean.

Where the paper transposes a product in one formula and not in the next, A has one row for each unit here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Evidence, Sides, compared
from fedstat.factor import IdentificationWarning, PrincipalAxis, principal_components_loadings

#: Maps a correlation matrix and a number of factors to nu, one value for each unit.
Nu = Callable[[np.ndarray, int], np.ndarray]


def row(values: Iterable[object]) -> str:
    """Write numbers as people do: (1, −2)."""
    return f"({', '.join(str(v) for v in values)})".replace("-", "−")


def rows(columns: Iterable[Iterable[object]]) -> str:
    """Write columns or rows one after the other."""
    return ", ".join(map(row, columns))


def correlations(columns: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the correlation matrix; integer products make it equal to the last bit for equal tables."""
    z = np.array(columns, dtype=np.int64).T
    scatter = len(z) * z.T @ z - np.outer(z.sum(axis=0), z.sum(axis=0))
    scale = np.sqrt(np.diag(scatter).astype(float))
    return scatter / np.outer(scale, scale)


def table(rows: int, units: int) -> st.SearchStrategy[list[list[int]]]:
    """Draw small integer tables by columns, each of which varies."""
    column = st.lists(st.integers(-3, 3), min_size=rows, max_size=rows).filter(lambda c: len(set(c)) > 1)
    return st.lists(column, min_size=units, max_size=units)


TABLES = st.one_of([table(rows, units) for rows, units in ((4, 3), (6, 4), (8, 5))])

#: Loadings on one common factor, in tenths; one half comes first, so that counterexamples shrink to it.
LOADINGS = st.lists(
    st.tuples(st.sampled_from([5, 6, 7, 8, 9, 4, 3]), st.sampled_from([1, -1])).map(
        lambda t: Fraction(t[0] * t[1], 10)
    ),
    min_size=3,
    max_size=6,
)

#: Loadings that leave no specific variance.
NOTHING_SPECIFIC = st.lists(st.sampled_from([Fraction(1), Fraction(-1)]), min_size=3, max_size=6)


def one_factor(a: Sequence[Fraction]) -> np.ndarray:
    """Return R = a a' + Psi with unit diagonal."""
    loadings = np.array(a, dtype=float)
    r = np.outer(loadings, loadings)
    np.fill_diagonal(r, 1.0)
    return r


def in_words(a: Sequence[Fraction]) -> str:
    """Write a one-factor model."""
    return f"one factor with loadings {row(a)}, R = aa′ + Ψ with unit diagonal"


class Groups(NamedTuple):
    """Two uncorrelated groups of units; a group has one common factor and equal correlations, its communalities."""

    sizes: tuple[int, int]
    correlations: tuple[Fraction, Fraction]

    def matrix(self) -> np.ndarray:
        """Return the correlation matrix of all units."""
        first = self.sizes[0]
        r = np.zeros((sum(self.sizes),) * 2)
        r[:first, :first], r[first:, first:] = (float(b) for b in self.correlations)
        np.fill_diagonal(r, 1.0)
        return r

    def __str__(self) -> str:
        (p, q), (b, c) = self
        return (
            f"{p} units with correlations {b} and {q} with correlations {c}, none between the groups: communalities "
            f"{b} < {c}"
        )


def groups() -> Iterator[Groups]:
    """Yield pairs of groups of 3 to 6 units, small ones first; the first group has the smaller communality."""
    correlations = [Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3)]
    for sizes in sorted(product(range(3, 7), repeat=2), key=sum):
        for b, c in product(correlations, repeat=2):
            if b < c:
                yield Groups((sizes[0], sizes[1]), (b, c))


def orders(statistic: Nu, models: Iterable[Groups]) -> Evidence:
    """Ask whether the group with the smaller communality never gets the larger value, exactly.

    All values are simple fractions, whatever the estimate, and are rounded to those.
    """

    def sides(case: Groups) -> Sides:
        found = statistic(case.matrix(), 2)
        return Sides(str(case), simple(found[0]), simple(found[-1]), ("a unit of the first gets", "one of the second"))

    return compared(map(sides, models), of="models with two groups of 3 to 6 units")


def simple(value: float) -> Fraction:
    """Return the fraction with a denominator of at most 200 that is nearest."""
    return Fraction(float(value)).limit_denominator(200)


def printed_loop(r: np.ndarray, factors: int) -> np.ndarray:
    """Return nu of the iteration as printed: Sigma = R - A A' in full, and A from R - Sigma.

    It starts at A_0, the leading eigenpairs of R. Then R - Sigma = R - (R - A_0 A_0') = A_0 A_0', whose positive
    eigenpairs are those that made A_0; so A_1 A_1' = A_0 A_0', and no step changes anything.
    """
    a = principal_components_loadings(r, factors)
    for _ in range(3):
        a = full_step(r, a)
    return (a**2).sum(axis=1)


def full_step(r: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Take one step of the iteration as printed."""
    sigma = r - a @ a.T
    return principal_components_loadings(r - sigma, a.shape[1])


def principal_axis(r: np.ndarray, factors: int) -> np.ndarray:
    """Return nu of the iteration with the diagonal of R - A A' as Sigma, unique or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        return PrincipalAxis(n_factors=factors).fit_correlation(r).communalities_


def unit_squares(r: np.ndarray, factors: int) -> np.ndarray:
    """Return the sum of each unit's squares in the leading unit eigenvectors."""
    return np.asarray((np.linalg.eigh(r)[1][:, -factors:] ** 2).sum(axis=1))


def farthest(found: np.ndarray, wanted: np.ndarray) -> tuple[float, float]:
    """Return the pair of values that differ most."""
    j = int(np.abs(found - wanted).argmax())
    return float(found[j]), float(wanted[j])
