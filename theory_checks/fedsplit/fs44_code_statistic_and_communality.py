"""FS-44: the code's statistic does not order units as communality does.

FS-44c: how far the statistic and communality differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedstat.claims import Claim, Evidence, both, search
from fedstat.factor import principal_components_loadings
from theory_checks.fedsplit.factor_models import (
    LOADINGS,
    TABLES,
    Nu,
    correlations,
    farthest,
    groups,
    in_words,
    one_factor,
    orders,
    principal_axis,
    rows,
    unit_squares,
)


def _orders_one_factor(statistic: Nu) -> Evidence:
    """Compare the statistic of the two units that are most in the wrong order, on exact one-factor models.

    From R u = lambda u, u_j = a_j (a'u) / (c + a_j^2) with c = lambda - 1, which is at least a_i a_j for all pairs
    by interlacing; and a / (c + a^2) increases while a^2 < c.
    """

    def sides(a: list[Any]) -> tuple[float, float]:
        values, size = statistic(one_factor(a), 1), np.abs(np.array(a, dtype=float))
        excess = np.where(size[:, None] < size, values[:, None] - values, -np.inf)
        smaller, larger = np.unravel_index(excess.argmax(), excess.shape)
        return float(values[smaller]), float(values[larger])  # with equal loadings a unit and itself

    names = ("square of the unit with the smaller loading", "of the other")
    return search(LOADINGS, sides, tolerance=1e-9, examples=150, names=names, show=in_words)


FS44 = Claim(
    id="FS-44",
    place="section 4.1, the definition of ν, against the authors' public code",
    said_by="fedstat",
    words="The statistic of the authors' code, a unit's squares in the leading unit eigenvectors of R, orders units as "
    "the communality does.",
    statement="s_j = sum_(m=1)^G u_(j m)^2: quad nu_i < nu_j => s_i <= s_j",
    severity="false",
    assumptions="as many eigenvectors as the model has factors. What becomes of the true split: FS-46",
    sensitivity="one pair of units in the wrong order",
    flaw="Unit eigenvectors count every component alike, where loadings carry the root of its eigenvalue: a component "
    "that few units share gives each of them a large square, however weak it is.",
    corrected="FS-44c",
)


@FS44.reading("two common factors, one for each of two groups of units")
def two_groups() -> Evidence:
    """Compare two groups; the leading eigenvector of one of p units with equal correlations is 1 / sqrt(p) in each.

    So the sum of squares is 1 / p whatever the correlation: the smaller group comes first.
    """
    return orders(unit_squares, groups())


@FS44.reading("one common factor", natural=False)
def one_common_factor() -> Evidence:
    return _orders_one_factor(unit_squares)


@FS44.control("two groups, the one with the smaller communality at least as large as the other")
def smaller_group_first() -> Evidence:
    return orders(unit_squares, (case for case in groups() if case.sizes[0] >= case.sizes[1]))


@FS44.control("two groups of any size, with the communality itself")
def communality() -> Evidence:
    return orders(principal_axis, groups())


def _bounds(largest: int) -> Evidence:
    """Compare sum_m gamma_m u_jm^2 with gamma_G s_j and gamma_1 s_j, for two components of any correlation matrix.

    gamma_G <= gamma_m <= gamma_1 for every m up to G; multiply by u_jm^2 and add. `largest` numbers the eigenvalue
    of the upper bound.
    """

    def sides(columns: list[list[int]], lower: bool) -> tuple[float, dict[str, float]]:
        r = correlations(columns)
        gamma, vectors = (a[..., ::-1] for a in np.linalg.eigh(r))
        loadings, squares = principal_components_loadings(r, 2) ** 2, vectors[:, :2] ** 2
        left, right = (gamma[1] * squares, loadings) if lower else (loadings, gamma[largest - 1] * squares)
        j = int((left.sum(axis=1) - right.sum(axis=1)).argmax())
        return float(left[j].sum()), {"first component": float(right[j, 0]), "second component": float(right[j, 1])}

    def bound(lower: bool, names: tuple[str, str]) -> Evidence:
        def show(columns: list[list[int]]) -> str:
            return f"columns {rows(columns)}"

        return search(TABLES, lambda c: sides(c, lower), tolerance=1e-10, examples=100, names=names, show=show)

    return both(bound(False, ("sum of squared loadings", "upper bound")), bound(True, ("lower bound", "found")))


def _all_components() -> Evidence:
    """Over all d components both are one: the rows of an orthogonal matrix, and the diagonal of R."""

    def sides(columns: list[list[int]]) -> tuple[float, float]:
        r = correlations(columns)
        return farthest(unit_squares(r, len(r)), (principal_components_loadings(r, len(r)) ** 2).sum(axis=1))

    names = ("sum of squares", "sum of squared loadings")
    return search(TABLES, sides, relation="==", tolerance=1e-10, examples=100, names=names)


FS44C = Claim(
    id="FS-44c",
    place="corrected statement of FS-44",
    said_by="fedstat",
    words="For G principal components the sum of a unit's squared loadings lies between γ_G and γ₁ times its squares "
    "in the unit eigenvectors; over all components both are one.",
    statement="gamma_G s_j <= sum_(m=1)^G gamma_m u_(j m)^2 <= gamma_1 s_j, quad sum_(m=1)^d u_(j m)^2 = 1 = R_(j j)",
    severity="false",
    assumptions="γ₁ ≥ … ≥ γ_G are the leading eigenvalues of a correlation matrix R; two components are looked at",
    sensitivity="an excess of 1e-10",
)


@FS44C.reading("two principal components, and all")
def corrected() -> Evidence:
    return both(_bounds(largest=1), _all_components())


@FS44C.mutant("the second eigenvalue in the upper bound")
def second_eigenvalue() -> Evidence:
    return _bounds(largest=2)
