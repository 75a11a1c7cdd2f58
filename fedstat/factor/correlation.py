"""Correlation matrices: check that a matrix is one, and measure what each variable shares with the others."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpocon, dpotrf, dtrtri

from fedstat._threads import one_thread

_SLACK = 1e-6  # rounding in single precision
_ROUNDING = 1e-7  # times the number of variables: negative eigenvalues down to there may be owed to it


def squared_multiple_correlations(r: np.ndarray) -> np.ndarray:
    """Return the share of each variable's variance that the others explain, ``1 - 1 / (R^{-1})_jj``.

    If R is singular to working precision, columns are combinations of others, and the largest absolute correlations are
    returned instead.
    """
    factor, failed = dpotrf(r, lower=1)
    if failed or dpocon(factor, float(np.abs(r).sum(axis=0).max()), uplo="L")[0] < 1e-12:
        return largest_correlations(r)
    inverse, _ = dtrtri(factor, lower=1)
    return np.clip(1 - 1 / (inverse**2).sum(axis=0), 0.0, 1.0)


def largest_correlations(r: np.ndarray) -> np.ndarray:
    """Return each variable's largest absolute correlation with another variable."""
    return np.abs(r - np.eye(len(r))).max(axis=1).clip(0.0, 1.0)


def reduced(r: np.ndarray, communalities: np.ndarray) -> np.ndarray:
    """Return R with communalities on its diagonal."""
    out = r.copy()
    np.fill_diagonal(out, communalities)
    return out


def broken_rule(r: np.ndarray) -> tuple[int, int, str] | None:
    """Return the row and column of the first entry of a square matrix that no correlation matrix has, and why."""
    diagonal = np.diag(r)
    with np.errstate(invalid="ignore"):
        rules = {
            "must be finite": ~np.isfinite(r),
            "must be symmetric": np.abs(r - r.T) > _SLACK,
            "must have ones on its diagonal (divide covariances by deviations)": np.diag(np.abs(diagonal - 1) > _SLACK),
            "must have entries in [-1, 1]": np.abs(r) > 1 + _SLACK,
        }
    for what, wrong in rules.items():
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            return row, column, what
    return None


def check_correlation(r: np.ndarray) -> np.ndarray:
    """Return `r` in float64, exactly symmetric with unit diagonal; raise an error that says what is wrong with it.

    Up to rounding it must be so already, and be positive semidefinite with entries in [-1, 1].
    """
    r = np.asarray(r, dtype=np.float64)
    if r.ndim != 2 or r.shape[0] != r.shape[1] or r.size == 0:
        raise ValueError(
            f"R must be a square matrix, got shape {r.shape}; that of a table x is Moments.of(x).correlation()."
        )
    if broken := broken_rule(r):
        row, column, what = broken
        values = f"{r[row, column]:.6g}" + (f" against {r[column, row]:.6g}" if row != column else "")
        raise ValueError(f"R {what}; row {row}, column {column} holds {values} (counted from 0).")
    r = (r + r.T) / 2
    np.fill_diagonal(r, 1.0)
    slack = _ROUNDING * len(r)
    with one_thread(len(r)):
        try:
            cholesky(r + slack * np.eye(len(r)), check_finite=False)
        except LinAlgError:
            least = float(np.linalg.eigvalsh(r)[0])
            if least < -slack:
                raise ValueError(
                    f"R must be positive semidefinite, but has the eigenvalue {least:.6g}: no complete table has these "
                    "correlations (gaps left out pair by pair, polychoric correlations, rounding or a wrong sign do "
                    "that). Use complete rows; or, in Python, fit_correlation(corr_nearest(R)) with corr_nearest of "
                    "statsmodels.stats.correlation_tools."
                ) from None
    return r


def smoothed(r: np.ndarray) -> tuple[np.ndarray, float]:
    """Return R without negative eigenvalues and with ones on its diagonal, and the largest change of a correlation.

    This is `cor.smooth` of R's psych up to 1e-10; an R that is positive semidefinite, to rounding, stays as it is.
    """
    with one_thread(len(r)):
        values, vectors = np.linalg.eigh(r)
    if values[0] >= -_ROUNDING * len(r):
        return r, 0.0
    rows = vectors * np.sqrt(np.maximum(values, 0))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    near = rows @ rows.T
    np.fill_diagonal(near, 1.0)
    return near, float(np.abs(near - r).max())
