"""Principal-axis factor analysis as a bounded minimisation.

Write R_h for the correlation matrix with the communalities h on its diagonal and F(h) for the diagonal of its
rank-m positive part. Principal-axis factoring iterates ``h <- min(F(h), 1)``. That is projected gradient
descent with unit step on ``psi(h) = 1/2 * (sum of squares of the discarded eigenvalues of R_h)``, because
``grad psi = h - F(h)``; so L-BFGS-B on psi with bounds [0, 1] finds the same points in far fewer
eigendecompositions.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import minimize


class PrincipalAxis:
    """Iterated principal-axis factoring with communalities bounded at one (Harman 1976, chapter 8).

    Parameters
    ----------
    n_factors : int, optional
        Number of factors m; by default the least m whose share of the eigenvalues of R reaches `contribution`,
        at most p - 1.
    contribution : float
        The FedFac paper's kappa, in (0, 1].
    tol : float
        Convergence: the largest move of a communality under one projected step, ``max |h - clip(F(h))|``.
    max_iter : int
        Iterations of L-BFGS-B.

    Attributes
    ----------
    loadings_ : ndarray, shape (p, m)
        Unrotated loadings; signs make each column's sum non-negative.
    communalities_ : ndarray, shape (p,)
        h, in [0, 1]. Zero for columns that do not vary.
    n_factors_ : int
        m.
    eigenvalues_ : ndarray, shape (p,)
        Eigenvalues of the correlation matrix, descending.
    converged_ : bool
        Whether `tol` was reached. With kappa = 0.85 the number of factors often exceeds what the data
        identify; many h then fit equally well, and this one depends on the start.
    residual_ : float
        The quantity that `tol` bounds.
    n_iter_ : int
        Iterations used.
    heywood_ : ndarray of int
        Columns at the bound h = 1.
    constant_ : ndarray of int
        Columns that do not vary, left out of the analysis.
    """

    def __init__(
        self,
        n_factors: int | None = None,
        *,
        contribution: float = 0.85,
        tol: float = 1e-7,
        max_iter: int = 1000,
    ) -> None:
        if n_factors is not None and n_factors < 1:
            raise ValueError(f"n_factors must be at least 1, got {n_factors}.")
        if not 0 < contribution <= 1:
            raise ValueError(f"contribution must lie in (0, 1], got {contribution}.")
        self.n_factors, self.contribution, self.tol, self.max_iter = n_factors, contribution, tol, max_iter

    def fit(self, x: np.ndarray) -> PrincipalAxis:
        """Analyse the correlations of the columns of `x`, shape (n, p).

        Raises
        ------
        ValueError
            If `x` is no finite matrix with at least two rows, or `n_factors` exceeds the columns that vary.
        """
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or len(x) < 2:
            raise ValueError(f"x must be a matrix with at least two rows, got shape {x.shape}.")
        if not np.isfinite(x).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            raise ValueError(f"x must be finite; row {row}, column {column} holds {x[row, column]}.")
        centred = x - x.mean(axis=0)
        norm = np.sqrt((centred**2).sum(axis=0))
        # a column of equal values can leave rounding noise after centring
        varies = norm > 1e-12 * np.sqrt(len(x)) * np.abs(x).max(axis=0, initial=0)
        z = centred[:, varies] / norm[varies]
        return self._fit(z.T @ z, varies)

    def fit_correlation(self, r: np.ndarray) -> PrincipalAxis:
        """Analyse a correlation matrix `r`, shape (p, p).

        Raises
        ------
        ValueError
            If `r` is not symmetric with unit diagonal and finite entries in [-1, 1].
        """
        r = np.asarray(r, dtype=np.float64)
        if r.ndim != 2 or r.shape[0] != r.shape[1] or not np.isfinite(r).all():
            raise ValueError(f"r must be a finite square matrix, got shape {r.shape}.")
        if np.abs(r - r.T).max() > 1e-8 or np.abs(np.diag(r) - 1).max() > 1e-8 or np.abs(r).max() > 1 + 1e-8:
            raise ValueError("r must be symmetric with ones on the diagonal and entries in [-1, 1].")
        return self._fit((r + r.T) / 2, np.ones(len(r), dtype=bool))

    def _fit(self, r: np.ndarray, varies: np.ndarray) -> PrincipalAxis:
        p = len(r)
        self.constant_ = np.flatnonzero(~varies)
        if self.n_factors is not None and self.n_factors > max(p, 1):
            raise ValueError(f"n_factors is {self.n_factors}, but only {p} columns vary.")
        communalities = np.zeros(len(varies))
        if p < 2:  # a single variable has no common variance with others
            self.eigenvalues_, self.n_factors_ = np.ones(p), p
            self.loadings_ = np.zeros((len(varies), p))
            self.converged_, self.residual_, self.n_iter_ = True, 0.0, 0
        else:
            with _one_thread(p):
                self.eigenvalues_ = np.linalg.eigvalsh(r)[::-1]
                m = self.n_factors or number_of_factors(self.eigenvalues_, self.contribution)
                found = minimize(
                    _discarded,
                    squared_multiple_correlations(r),
                    args=(r, m),
                    jac=True,
                    method="L-BFGS-B",
                    bounds=[(0.0, 1.0)] * p,
                    options={
                        "maxiter": self.max_iter,
                        "maxfun": 2 * self.max_iter,
                        "gtol": self.tol,
                        "ftol": 0.0,
                    },
                )
                h = found.x
                loadings = _loadings(r, h, m)
            step = np.minimum((loadings**2).sum(axis=1), 1.0)
            self.n_factors_, self.n_iter_ = m, int(found.nit)
            self.residual_ = float(np.abs(h - step).max())
            self.converged_ = self.residual_ <= 10 * self.tol
            self.loadings_ = np.zeros((len(varies), m))
            self.loadings_[varies] = loadings * np.where(loadings.sum(axis=0) < 0, -1.0, 1.0)
            communalities[varies] = h
        self.communalities_ = communalities
        self.heywood_ = np.flatnonzero(communalities >= 1.0)
        return self


def number_of_factors(eigenvalues: np.ndarray, contribution: float) -> int:
    """Return the least m whose share of the eigenvalues reaches `contribution`, at most p - 1.

    Negative eigenvalues (rounding, or an indefinite matrix) count as zero.
    """
    positive = np.sort(np.maximum(eigenvalues, 0.0))[::-1]
    share = np.cumsum(positive) / positive.sum()
    # the last share is 1 up to rounding, whatever the contribution
    reached = int(np.searchsorted(share, contribution * (1 - 1e-12))) + 1
    return max(1, min(reached, len(eigenvalues) - 1))


def squared_multiple_correlations(r: np.ndarray) -> np.ndarray:
    """Start values ``1 - 1 / (R^{-1})_jj``; the largest absolute correlation where R is singular."""
    try:
        inverse = cho_solve(cho_factor(r), np.eye(len(r)))
        start = 1 - 1 / np.diag(inverse)
        if np.isfinite(start).all() and np.linalg.cond(r, 1) < 1e12:
            return np.clip(start, 0.0, 1.0)
    except LinAlgError:
        pass
    return np.abs(r - np.eye(len(r))).max(axis=1).clip(0.0, 1.0)


def _reduced(r: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (ascending) and eigenvectors of R with h on the diagonal."""
    reduced = r.copy()
    np.fill_diagonal(reduced, h)
    values, vectors = eigh(reduced, driver="evd", overwrite_a=True, check_finite=False)
    return values, vectors


def _discarded(h: np.ndarray, r: np.ndarray, m: int) -> tuple[float, np.ndarray]:
    """Return psi(h) and its gradient h - F(h)."""
    values, vectors = _reduced(r, h)
    keep = np.zeros(len(h), dtype=bool)
    keep[-m:] = values[-m:] > 0
    dropped = vectors[:, ~keep]
    # h - F(h) is the diagonal of the discarded part
    return 0.5 * float((values[~keep] ** 2).sum()), np.einsum("ij,ij,j->i", dropped, dropped, values[~keep])


def _loadings(r: np.ndarray, h: np.ndarray, m: int) -> np.ndarray:
    values, vectors = _reduced(r, h)
    return vectors[:, : -m - 1 : -1] * np.sqrt(np.maximum(values[: -m - 1 : -1], 0.0))


@functools.cache
def _blas() -> Any:
    """The BLAS libraries of this process; finding them costs more than a small eigendecomposition."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread(p: int) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread below p = 1000, where a second one only waits."""
    return _blas().limit(limits=1, user_api="blas") if p < 1000 else nullcontext()
