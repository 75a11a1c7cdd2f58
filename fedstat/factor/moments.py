"""Means and cross-products of rows, formed block by block: all that factor analysis needs of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

_BLOCK = 2**22  # entries centred at a time: 32 MiB


@dataclass(frozen=True)
class Moments:
    """Sufficient statistics of the rows of a matrix; blocks of rows (clients) add up.

    Rows are centred at their own means before they are squared, and blocks then pooled (Chan, Golub, LeVeque 1983),
    so that columns far from zero lose no digits and all rows need never be held together.

    Parameters
    ----------
    rows : float
        Number of rows n; not whole where blocks were weighted.
    mean : ndarray, shape (p,)
        Column means.
    scatter : ndarray, shape (p, p)
        Sum over rows of the outer product of the deviations from `mean`.
    largest : ndarray, shape (p,)
        Largest absolute entry of each column, against which rounding is judged.
    """

    rows: float
    mean: np.ndarray
    scatter: np.ndarray
    largest: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> Moments:
        """Moments of the rows of `x`, shape (n, p), in float64 whatever the type of `x`.

        Raises
        ------
        ValueError
            If `x` is no matrix with rows and columns, or an entry is not finite.
        """
        x = np.asarray(x)
        if x.ndim != 2 or x.size == 0:
            raise ValueError(f"x must be a matrix with at least one row and one column, got shape {x.shape}.")
        low, high = x.min(axis=0), x.max(axis=0)
        largest = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
        if not np.isfinite(largest).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            what = "NaN" if np.isnan(x[row, column]) else x[row, column]
            raise ValueError(
                f"x must be finite, but row {row}, column {column} holds {what}; leave such rows out or impute them."
            )
        mean = x.mean(axis=0, dtype=np.float64)
        scatter = np.zeros((x.shape[1], x.shape[1]))
        height = max(1, _BLOCK // x.shape[1])
        for top in range(0, len(x), height):
            deviation = x[top : top + height] - mean
            scatter += deviation.T @ deviation
        return cls(len(x), mean, scatter, largest)

    def __add__(self, other: Moments) -> Moments:
        """Moments of the rows of both."""
        if len(self.mean) != len(other.mean):
            raise ValueError(f"blocks must have the same columns, got {len(self.mean)} and {len(other.mean)}.")
        rows = self.rows + other.rows
        if rows == 0:
            return self
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter + np.outer(gap, gap) * (self.rows * other.rows / rows)
        return Moments(rows, self.mean + gap * (other.rows / rows), scatter, np.maximum(self.largest, other.largest))

    def __mul__(self, weight: float) -> Moments:
        """Moments of the same rows counted `weight` times."""
        return replace(self, rows=self.rows * weight, scatter=self.scatter * weight)

    def varies(self) -> np.ndarray:
        """Tell which columns vary by more than rounding leaves after centring; bool, shape (p,)."""
        deviation = np.sqrt(np.diag(self.scatter))
        return np.asarray(deviation > 1e-12 * np.sqrt(self.rows) * self.largest)

    def correlation(self) -> np.ndarray:
        """Correlations of the columns that vary; shape (v, v), ones on the diagonal."""
        varies = self.varies()
        norm = np.sqrt(np.diag(self.scatter)[varies])
        r = self.scatter[np.ix_(varies, varies)] if not varies.all() else self.scatter.copy()
        r /= norm[:, None]
        r /= norm
        np.clip(r, -1, 1, out=r)
        np.fill_diagonal(r, 1.0)
        return r
