"""FS-25: squared loadings sum to one over all components.

FS-25c: communality and specific variance sum to one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedstat.claims import Claim, Evidence, search
from fedstat.factor import principal_components_loadings
from theory_checks.fedsplit.factor_models import (
    LOADINGS,
    NOTHING_SPECIFIC,
    TABLES,
    Nu,
    correlations,
    farthest,
    in_words,
    one_factor,
    principal_axis,
    rows,
)


def _sum_to_one(total: Nu, models: Any = LOADINGS) -> Evidence:
    """Compare sums of squared loadings with one, on exact one-factor models."""

    def sides(a: list[Any]) -> tuple[float, float]:
        return farthest(total(one_factor(a), 1), np.ones(len(a)))

    return search(
        models, sides, relation="==", tolerance=1e-5, examples=150, names=("sum of squares", "claimed"), show=in_words
    )


def _components(r: np.ndarray, count: int) -> np.ndarray:
    """Return sums over the leading components; over all of them sum_m gamma_m u_jm^2 = R_jj = 1."""
    return (principal_components_loadings(r, count) ** 2).sum(axis=1)


def _fixed_point(start: bool) -> Evidence:
    """Compare nu_j + psi_j with one, psi_j = max(R_jj - sum_m a_jm^2, 0), for loadings at the fixed point.

    At the fixed point nu_j = min(sum_m a_jm^2, 1), and R_jj = 1. The loadings are formed from R with nu on its
    diagonal, so that nu and psi agree only where nu is a fixed point; `start` takes nu = 1 there instead, the
    principal components.
    """

    def sides(columns: list[list[int]]) -> tuple[dict[str, float], float]:
        r = correlations(columns)
        nu = np.ones(len(r)) if start else principal_axis(r, 1)
        a = principal_components_loadings(r - np.diag(1 - nu), 1)
        psi = np.maximum(1 - (a**2).sum(axis=1), 0.0)
        j = int(np.abs(nu + psi - 1).argmax())
        return {"communality": float(nu[j]), "specific variance": float(psi[j])}, 1.0

    return search(
        TABLES,
        sides,
        relation="==",
        tolerance=1e-5,
        examples=200,
        names=("communality and specific variance", "claimed"),
        show=lambda columns: f"columns {rows(columns)}",
    )


FS25 = Claim(
    id="FS-25",
    place="section 4.1, paragraph after the iteration, second sentence",
    said_by="paper",
    words="A unit's squared loadings sum to one.",
    statement="sum_(m=1)^(d) a_(j m)^2 = 1",
    severity="unstated condition",
    assumptions="the factor model has G < d factors, so that loadings beyond the G-th do not exist and count as zero. "
    "The printed sum runs over all d, so that all d principal components are a reading",
    sensitivity="a sum off by 1e-5",
    flaw="The identity belongs to all d principal components of a correlation matrix. A factor model's loadings leave "
    "out the specific variance.",
    corrected="FS-25c",
)


@FS25.reading("loadings of the factor model")
def factor_model() -> Evidence:
    return _sum_to_one(principal_axis)


@FS25.reading("loadings of all d principal components of R")
def all_components() -> Evidence:
    return _sum_to_one(lambda r, factors: _components(r, len(r)))


@FS25.reading("entries of all d unit eigenvectors of R, as in the authors' code")
def unit_eigenvectors() -> Evidence:
    return _sum_to_one(lambda r, factors: (np.linalg.eigh(r)[1] ** 2).sum(axis=1))


@FS25.mutant("loadings of d − 1 principal components")
def one_too_few() -> Evidence:
    return _sum_to_one(lambda r, factors: _components(r, len(r) - 1))


@FS25.control("the factor model's loadings where there is no specific variance")
def nothing_specific() -> Evidence:
    return _sum_to_one(principal_axis, NOTHING_SPECIFIC)


FS25C = Claim(
    id="FS-25c",
    place="corrected statement of FS-25",
    said_by="fedstat",
    words="A unit's communality and its specific variance sum to one.",
    statement="sum_(m=1)^G a_(j m)^2 + psi_j = nu_j + psi_j = 1",
    severity="false",
    assumptions="communalities are bounded at one; a unit at the bound has specific variance zero",
    sensitivity="a sum off by 1e-5",
)


@FS25C.reading("at the fixed point of principal-axis factoring")
def at_the_fixed_point() -> Evidence:
    return _fixed_point(start=False)


@FS25C.mutant("the principal components in place of the fixed point")
def at_the_start() -> Evidence:
    return _fixed_point(start=True)
