"""Extreme eigenvalues of a kernel matrix."""

from __future__ import annotations

import numpy as np


def extreme_eigenvalues(h: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric matrix.

    Parameters
    ----------
    h : ndarray, shape (N, N)
        Symmetric and finite. For a singular kernel the smallest eigenvalue is rounding noise of either sign, of
        the order of ``N * 1e-16`` times the largest.

    Raises
    ------
    ValueError
        If `h` is not symmetric or not finite.
    """
    h = np.asarray(h, dtype=np.float64)
    if h.ndim != 2 or h.shape[0] != h.shape[1] or h.size == 0:
        raise ValueError(f"h must be a square matrix, got shape {h.shape}.")
    scale = np.abs(h).max()
    if not np.isfinite(scale) or np.abs(h - h.T).max() > 1e-10 * max(scale, 1e-300):
        raise ValueError("h must be finite and symmetric.")
    values = np.linalg.eigvalsh(h)
    return float(values[0]), float(values[-1])
