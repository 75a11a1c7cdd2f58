"""FS-22: with the full matrix the printed iteration stands still.

FS-22c: the diagonal gives the communalities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, both, search
from fedstat.factor import principal_components_loadings
from theory_checks.fedsplit.factor_models import (
    LOADINGS,
    NOTHING_SPECIFIC,
    TABLES,
    Nu,
    correlations,
    farthest,
    full_step,
    groups,
    in_words,
    one_factor,
    orders,
    principal_axis,
    printed_loop,
    rows,
)


def _diagonal_step(r: np.ndarray, a: np.ndarray) -> np.ndarray:
    sigma = np.diag(np.diag(r - a @ a.T))
    return principal_components_loadings(r - sigma, a.shape[1])


def _single_step(r: np.ndarray, factors: int) -> np.ndarray:
    return (_diagonal_step(r, principal_components_loadings(r, factors)) ** 2).sum(axis=1)


def _recovers(nu: Nu, models: Any = LOADINGS) -> Evidence:
    """Compare nu_j with a_j^2 on exact one-factor correlation matrices.

    Three or more loadings away from zero are identified: a_i^2 = r_ij r_ik / r_jk. Equal loadings a can be
    followed on paper: the leading eigenvalue of R is 1 + (p - 1) a^2, with equal weights, so the printed loop gives
    (1 + (p - 1) a^2) / p = a^2 + (1 - a^2) / p: a share 1 / p of the specific variance too much. It gives a^2 where
    nothing is specific, a^2 = 1.
    """
    return search(
        models,
        lambda a: farthest(nu(one_factor(a), 1), np.array(a, dtype=float) ** 2),
        relation="==",
        tolerance=1e-5,
        examples=150,
        names=("estimated ν", "communality"),
        show=in_words,
    )


def _stationary(step: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Evidence:
    """Ask whether a step from the principal components leaves A A' as it is, for any correlation matrix."""

    def sides(case: tuple[list[list[int]], int]) -> tuple[float, float]:
        r = correlations(case[0])
        a = principal_components_loadings(r, case[1])
        b = step(r, a)
        return farthest((b @ b.T).ravel(), (a @ a.T).ravel())

    return search(
        st.tuples(TABLES, st.integers(1, 2)),
        sides,
        relation="==",
        tolerance=1e-10,
        examples=150,
        names=("entry of AA′ after the step", "before"),
        show=lambda case: f"columns {rows(case[0])}, {case[1]} factors",
    )


FS22 = Claim(
    id="FS-22",
    place="section 4.1, paragraph after equation (7), first four sentences",
    said_by="paper",
    words="Iterating the loadings and the specific covariance, as printed, estimates the factor model's communalities.",
    statement="R = A A^top + Sigma, quad hat(Sigma)_t = R - hat(A)_t hat(A)_t^top => nu_j (hat(A)_t) -> nu_j (A)",
    severity="misprint",
    assumptions="R is the correlation matrix of an exact factor model with a known number of factors. The diagonal is "
    "a reading, as the specific factors of the model are uncorrelated and the paper follows common practice",
    sensitivity="a communality off by 1e-5",
    flaw="With Σ = R − AA′ in full, R − Σ is AA′ again, so the loop stands still at its start, the principal "
    "components. Their sums of squares count part of the specific variance as common, the more so the fewer units "
    "share a factor, and this can reverse the order of units. The classic iteration takes the diagonal.",
    corrected="FS-22c",
)


@FS22.reading("Σ in full, as printed")
def in_full() -> Evidence:
    return _recovers(printed_loop)


@FS22.reading("the diagonal of R − AA′ taken as Σ")
def diagonal() -> Evidence:
    return _recovers(principal_axis)


@FS22.reading("Σ in full, and only the order of the units asked for")
def order_in_full() -> Evidence:
    """Compare two groups, each with its own leading eigenpair, as 1 + (p - 1) b > 1 exceeds all others, 1 - b.

    In the printed loop a group of p units gains (1 - b) / p, which can outweigh the difference of the communalities.
    (With a single factor and positive loadings the order survives: the leading eigenvector has u_j proportional to
    a_j / (c + a_j^2) with c = lambda - 1 >= a_i a_j for all pairs, by interlacing.)
    """
    return orders(printed_loop, groups())


@FS22.mutant("the iteration with the diagonal, stopped after one step")
def one_step() -> Evidence:
    return _recovers(_single_step)


@FS22.control("Σ in full, on models without specific variance")
def nothing_specific() -> Evidence:
    return _recovers(printed_loop, NOTHING_SPECIFIC)


@FS22.control("Σ in full, the order of units in two groups of equal size")
def equalgroups() -> Evidence:
    return orders(printed_loop, (case for case in groups() if len(set(case.sizes)) == 1))


FS22C = Claim(
    id="FS-22c",
    place="corrected statement of FS-22",
    said_by="fedstat",
    words="With the diagonal of R − AA′ the iteration recovers an identified model's communalities; with the full "
    "matrix it stands still at the principal components.",
    statement='R = A A^top + Psi, quad hat(Psi)_t = op("diag")(R - hat(A)_t hat(A)_t^top) '
    "=> nu_j (hat(A)_t) -> nu_j (A)",
    severity="false",
    assumptions="three to six units with loadings of 0.3 to 0.9 in absolute value; the number of factors is known",
    sensitivity="a communality off by 1e-5; of two communalities the larger one a third smaller",
)


@FS22C.reading("one factor, the order with two, and the full matrix")
def corrected() -> Evidence:
    return both(_recovers(principal_axis), orders(principal_axis, groups()), _stationary(full_step))


@FS22C.mutant("one factor too many")
def one_too_many() -> Evidence:
    return _recovers(lambda r, factors: principal_axis(r, factors + 1))
