"""FS-44: the statistic of the authors' code and the communality of the text."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

import fedstat as fs
from fedstat.claims import Claim, Evidence, all_of, both, sampled, search, within
from fedstat.factor import principal_components_loadings
from fedstat.inference import mean_interval
from fedstat.methods.cut import is_shared
from fedstat.methods.fedfac import squares_in_eigenvectors
from theory_checks.fedsplit.factor_models import (
    LOADINGS,
    TABLES,
    Groups,
    Nu,
    correlations,
    farthest,
    groups,
    in_words,
    one_factor,
    principal_axis,
    rows,
    unit_squares,
)

#: Settings of Figure 6, (p, alpha), and seeds of the agreement study.
SETTINGS = ((0.2, 0.4), (0.5, 0.4), (0.8, 0.4), (0.5, 0.2), (0.5, 0.8))
SEEDS = range(100, 106)
#: Recovery: this share of the units lies on its true side.
RECOVERED = 0.95


def _orders(statistic: Nu, models: Iterable[Groups]) -> Evidence:
    """Ask whether the group with the smaller communality never gets the larger value.

    The leading eigenvector of a group of p units with equal correlations is 1 / sqrt(p) in each of them. So the sum of
    squares is 1 / p whatever the correlation: the smaller group comes first.
    """

    def holds(case: Groups) -> bool:
        found = statistic(case.matrix(), 2)
        return bool(found[0] < found[-1] + 1e-9)

    def show(case: Groups) -> str:
        return f"{case}, sums of squares 1/{case.sizes[0]} > 1/{case.sizes[1]}"

    return sampled(models, holds, of="models with two groups of 3 to 6 units", show=show)


def _orders_one_factor(statistic: Nu) -> Evidence:
    """Count the pairs of units in the wrong order, on exact one-factor correlation matrices.

    From R u = lambda u, u_j = a_j (a'u) / (c + a_j^2) with c = lambda - 1, which is at least a_i a_j for all pairs
    by interlacing; and a / (c + a^2) increases while a^2 < c.
    """

    def sides(a: list[Any]) -> tuple[float, float]:
        values, size = statistic(one_factor(a), 1), np.abs(np.array(a, dtype=float))
        wrong = (size[:, None] < size) & (values[:, None] > values + 1e-9)
        return float(wrong.sum()), 0.0

    names = ("pairs in the wrong order", "claimed")
    return search(LOADINGS, sides, relation="==", examples=150, names=names, show=in_words)


def _recovers(kappa: float) -> Evidence:
    """Cut the statistic of the generator's true parameters at the true size, in the settings of Figure 6."""
    parts, level = [], 1 - 0.05 / len(SETTINGS)
    for p, alpha in SETTINGS:
        _, low, high = mean_interval([_right(p, alpha, seed, kappa) for seed in SEEDS], level)
        what = f"share of units on their true side at p = {p:g}, α = {alpha:g}"
        region = (RECOVERED, float("inf"))
        parts.append(within(low, high, region, cases=len(SEEDS), what=what, level=level))
    return all_of(parts)


def _right(p: float, alpha: float, seed: int, kappa: float) -> float:
    with warnings.catch_warnings():  # labels are not looked at
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        truth = fs.data.relu_mixture(
            clients=100,
            d=100,
            units=200,
            shared_units=p,
            shared_inputs=alpha,
            samples=1,
            validation=0,
            test=1,
            seed=seed,
        ).truth
    shared = ~truth.personal_units
    found = is_shared(squares_in_eigenvectors(truth.weights, kappa), fs.Count(int(shared.sum())), shared)
    return float((found == shared).mean())


FS44 = Claim(
    id="FS-44",
    place="section 4.1, the definition of ν, against the authors' public code",
    said_by="fedstat",
    words="The statistic of the authors' code, a unit's squares in the leading unit eigenvectors of R, orders units as "
    "the communality does.",
    statement="s_j = sum_(m=1)^G u_(j m)^2: quad nu_i < nu_j => s_i <= s_j",
    severity="unstated condition",
    assumptions="as many eigenvectors as the model has factors. On the true parameters their number is one below the "
    "count whose eigenvalues reach κ, as in the code; recovery is 95% of the units on their true side of a cut at the "
    "true size, seeds 100 to 105",
    sensitivity="one pair of units in the wrong order; on the true parameters one unit in twenty on the wrong side",
    flaw="Unit eigenvectors count every component alike, where loadings carry the root of its eigenvalue: a component "
    "that few units share gives each of them a large square, however weak it is.",
    corrected="FS-44c",
)


@FS44.reading("two common factors, one for each of two groups of units")
def two_groups() -> Evidence:
    return _orders(unit_squares, groups())


@FS44.reading("one common factor", natural=False)
def one_common_factor() -> Evidence:
    return _orders_one_factor(unit_squares)


@FS44.reading("in its purpose, the true split from the true parameters: κ = 0.85 as in the code", natural=False)
def true_split() -> Evidence:
    return _recovers(0.85)


@FS44.reading("in its purpose, the true split from the true parameters: κ = 0.75", natural=False)
def true_split_smaller_kappa() -> Evidence:
    return _recovers(0.75)


@FS44.mutant("one common factor, a unit's squares in the other eigenvectors in place of the leading one")
def the_others() -> Evidence:
    return _orders_one_factor(lambda r, factors: 1 - unit_squares(r, factors))


@FS44.control("two groups, the one with the smaller communality at least as large as the other")
def smaller_group_first() -> Evidence:
    return _orders(unit_squares, (case for case in groups() if case.sizes[0] >= case.sizes[1]))


@FS44.control("two groups of any size, with the communality itself")
def communality() -> Evidence:
    return _orders(principal_axis, groups())


def _bounds(largest: int) -> Evidence:
    """Compare sum_m gamma_m u_jm^2 with gamma_G s_j and gamma_1 s_j, for two components of any correlation matrix.

    gamma_G <= gamma_m <= gamma_1 for every m up to G; multiply by u_jm^2 and add. `largest` numbers the eigenvalue
    of the upper bound.
    """

    def sides(columns: list[list[int]], lower: bool) -> tuple[float, float]:
        r = correlations(columns)
        gamma = np.linalg.eigvalsh(r)[::-1]
        nu, s = (principal_components_loadings(r, 2) ** 2).sum(axis=1), unit_squares(r, 2)
        left, right = (gamma[1] * s, nu) if lower else (nu, gamma[largest - 1] * s)
        j = int((left - right).argmax())
        return float(left[j]), float(right[j])

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


@FS44C.reading("two principal components")
def two_components() -> Evidence:
    return _bounds(largest=1)


@FS44C.reading("all components")
def all_components() -> Evidence:
    return _all_components()


@FS44C.mutant("the second eigenvalue in the upper bound")
def second_eigenvalue() -> Evidence:
    return _bounds(largest=2)
