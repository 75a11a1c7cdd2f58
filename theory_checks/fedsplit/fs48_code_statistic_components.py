"""FS-48: the code's statistic is a leverage."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, both, search
from fedstat.factor import principal_components_loadings
from fedstat.methods.fedfac import squares_in_eigenvectors
from theory_checks.fedsplit.factor_models import TABLES, correlations, farthest, row, rows, unit_squares

#: Legs and hypotenuse of right triangles: cosines and sines that are exact.
TRIANGLES = st.sampled_from([(3, 4, 5), (5, 12, 13), (8, 15, 17), (4, -3, 5)])
#: Contributions at which the code's own count of components is looked at.
KAPPAS = st.sampled_from([0.5, 0.75, 0.85, 0.9, 0.95])
#: Components that are looked at where their number is given.
FACTORS = 2


def _basis(columns: list[list[int]], factors: int = FACTORS) -> np.ndarray:
    """Return the leading unit eigenvectors of the columns' correlations, (units, factors)."""
    return np.asarray(np.linalg.eigh(correlations(columns))[1][:, -factors:])


def _leverage(basis: np.ndarray) -> np.ndarray:
    """Return one minus the squared distance of each unit's axis from the space that the columns span.

    For orthonormal columns V the nearest point to e_j is V V'e_j, and |e_j - V V'e_j|^2 = 1 - |V'e_j|^2, whose last
    term is the squared length of V's row j. The distance itself is the same for every basis of the space.
    """
    axes = np.eye(len(basis))
    nearest = basis @ np.linalg.lstsq(basis, axes, rcond=None)[0]
    return np.asarray(1 - ((axes - nearest) ** 2).sum(axis=0))


def _of_the_code(more: int = 0) -> Evidence:
    """Compare the code's statistic of stacked weights with the leverage, at the number of components that it takes."""

    def sides(case: tuple[list[list[int]], float]) -> tuple[float, float]:
        columns, kappa = case
        found = squares_in_eigenvectors(np.array(columns, dtype=float)[None], kappa)
        factors = round(found.sum()) + more
        wanted = _leverage(_basis(columns, factors)) if factors else np.zeros(len(columns))
        return farthest(found, wanted)

    def show(case: tuple[list[list[int]], float]) -> str:
        return f"columns {rows(case[0])}, κ = {case[1]:g}"

    names = ("the code's statistic", "one minus the squared distance")
    cases = st.tuples(TABLES, KAPPAS)
    return search(cases, sides, relation="==", tolerance=1e-8, examples=100, names=names, show=show)


def _rotated(shear: float = 0.0) -> Evidence:
    """Compare the sums of squares of V and V Q: |Q'v_j| = |v_j|, since Q Q' = I. `shear` spoils Q."""

    def sides(case: tuple[list[list[int]], tuple[int, int, int]]) -> tuple[float, float]:
        columns, (a, b, c) = case
        vectors = _basis(columns)
        turn = np.array([[a, -b], [b, a]]) / c + [[0.0, shear], [0.0, 0.0]]
        return farthest(((vectors @ turn) ** 2).sum(axis=1), (vectors**2).sum(axis=1))

    def show(case: tuple[list[list[int]], tuple[int, int, int]]) -> str:
        return f"columns {rows(case[0])}, turned by the angle of the triangle {row(case[1])}"

    names = ("sum of squares in the turned basis", "in the eigenvectors")
    return search(
        st.tuples(TABLES, TRIANGLES), sides, relation="==", tolerance=1e-10, examples=100, names=names, show=show
    )


def _sums(scaled: bool = False) -> Evidence:
    """Over units the squares sum to G, as G unit vectors have length one; each lies in [0, 1], as P = V V' has P² = P.

    From P = P' P follows s_j = P_jj = P_jj^2 + sum_(i != j) P_ij^2 >= s_j^2. With `scaled` loadings take the place of
    the unit eigenvectors.
    """

    def squares(columns: list[list[int]]) -> np.ndarray:
        if scaled:
            return np.asarray((principal_components_loadings(correlations(columns), FACTORS) ** 2).sum(axis=1))
        return unit_squares(correlations(columns), FACTORS)

    def show(columns: list[list[int]]) -> str:
        return f"columns {rows(columns)}"

    total = search(
        TABLES,
        lambda c: (float(squares(c).sum()), float(FACTORS)),
        relation="==",
        tolerance=1e-10,
        examples=100,
        names=("sum over units", "components"),
        show=show,
    )
    largest = search(
        TABLES,
        lambda c: (float(squares(c).max()), 1.0),
        tolerance=1e-10,
        examples=100,
        names=("largest value", "one"),
        show=show,
    )
    return both(total, largest)


def _all_components() -> Evidence:
    """Over all components V is square and orthogonal, so its rows have length one like its columns."""

    def sides(columns: list[list[int]]) -> tuple[float, float]:
        return farthest(unit_squares(correlations(columns), len(columns)), np.ones(len(columns)))

    def show(columns: list[list[int]]) -> str:
        return f"columns {rows(columns)}"

    names = ("sum of squares", "one")
    return search(TABLES, sides, relation="==", tolerance=1e-10, examples=100, names=names, show=show)


FS48 = Claim(
    id="FS-48",
    place="the authors' public code, the statistic of a unit; section 4.1, where squares sum to one over all "
    "components",
    said_by="fedstat",
    words="The statistic of the authors' code is a unit's leverage in principal components: the squared length of its "
    "axis in the space of the leading ones. It does not depend on the basis of that space, lies between zero and one, "
    "sums to the number of components, and is one if all are taken.",
    statement="s_j = norm(P e_j)^2 = P_(j j), quad P = V V', quad 0 <= s_j <= 1, quad sum_j s_j = G",
    severity="false",
    assumptions="V holds the G leading unit eigenvectors of R, all units vary. So the statistic is one of principal "
    "components: it has no unique variances and no iteration, and takes from R the space alone, not the eigenvalues",
    sensitivity="a difference of 1e-8",
)


@FS48.reading("the distance of a unit's axis, any rotation, sum and range over units, and all components")
def leverage() -> Evidence:
    return both(_of_the_code(), _rotated(), _sums(), _all_components())


@FS48.mutant("the distance from the space of one component more")
def one_more() -> Evidence:
    return _of_the_code(more=1)


@FS48.mutant("a rotation that shears")
def sheared() -> Evidence:
    return _rotated(shear=0.5)


@FS48.mutant("loadings in place of unit eigenvectors")
def loadings() -> Evidence:
    return _sums(scaled=True)
