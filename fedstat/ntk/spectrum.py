"""Find the extreme eigenvalues of a kernel matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Below this size a full decomposition is as fast as any other way.
_DENSE = 1500
_ROWS = 1024


def extreme_eigenvalues(h: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric positive semidefinite matrix.

    From about 1,500 rows on the largest comes from Lanczos iterations and the smallest from Lanczos iterations on
    the inverse, by one Cholesky factorisation; a matrix that is singular to working precision is decomposed in
    full.

    Parameters
    ----------
    h : ndarray, shape (N, N)
        Symmetric and finite. For a singular kernel the smallest eigenvalue is rounding noise of either sign, of
        the order of ``N * 1e-16`` times the largest; `mpmath.eigsy` tells it from zero.

    Returns
    -------
    tuple of float

    Raises
    ------
    ValueError
        If `h` is not square, not symmetric or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.ntk import extreme_eigenvalues
    >>> smallest, largest = extreme_eigenvalues(np.full((3, 3), 0.5) + np.eye(3) / 2)
    >>> round(smallest, 12), round(largest, 12)  # of correlations of 1/2: 1 - 1/2 and 1 + 2/2
    (0.5, 2.0)
    """
    h = np.asarray(h, dtype=np.float64)
    if h.ndim != 2 or h.shape[0] != h.shape[1] or h.size == 0:
        raise ValueError(f"h must be a square matrix, got shape {h.shape}.")
    slices = [slice(i, i + _ROWS) for i in range(0, len(h), _ROWS)]  # row by row, so that no temporary is as large as h
    finite = all(bool(np.isfinite(h[rows]).all()) for rows in slices)
    scale = max(float(np.abs(h[rows]).max()) for rows in slices)
    if not finite or any(np.abs(h[rows] - h[:, rows].T).max() > 1e-10 * max(scale, 1e-300) for rows in slices):
        raise ValueError("h must be finite and symmetric.")
    if len(h) >= _DENSE and (found := _by_lanczos(h)):
        return found
    values = np.linalg.eigvalsh(h)
    return float(values[0]), float(values[-1])


def _by_lanczos(h: np.ndarray) -> tuple[float, float] | None:
    """Return the two eigenvalues, or None if h has no Cholesky factor or the iteration does not converge."""
    from scipy.linalg import blas, lapack
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    n = len(h)
    start = np.random.default_rng(0).normal(size=n)
    factor, failed = lapack.dpotrf(h.T, lower=0, clean=0)  # h.T has LAPACK's order of storage, which saves a copy

    def solve(v: np.ndarray) -> np.ndarray:
        forward = blas.dtrsv(factor, np.ascontiguousarray(v).ravel(), lower=0, trans=1)
        return np.asarray(blas.dtrsv(factor, forward, lower=0, trans=0))

    def largest(operator: Any) -> float:
        return float(eigsh(operator, k=1, which="LA", return_eigenvectors=False, tol=1e-13, v0=start)[0])

    if failed:
        return None
    try:
        return 1 / largest(LinearOperator((n, n), matvec=solve, dtype=np.float64)), largest(h)
    except ArpackNoConvergence:
        return None
