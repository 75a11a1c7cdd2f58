"""Means and cross-products of rows, formed block by block: factor analysis needs nothing else of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

_BLOCK = 2**22  # entries centred at a time: 32 MiB


@dataclass(frozen=True)
class Moments:
    """Sufficient statistics of the rows of a matrix; blocks of rows (clients) add up.

    The rows of a block are centred at their own mean before they are squared, and blocks are then pooled (Chan, Golub,
    LeVeque 1983). A column's level therefore costs no digits within a block, and between blocks only those of the
    means; and all rows need never be held together.

    Parameters
    ----------
    rows : float
        Number of rows n; not whole if blocks were weighted.
    mean : ndarray, shape (p,)
        Column means.
    scatter : ndarray, shape (p, p)
        Sum over rows of the outer product of the deviations from `mean`.
    low, high : ndarray, shape (p,)
        Smallest and largest entry of each column, against which rounding is judged.

    Examples
    --------
    Clients send their moments, and the server has the correlations of all rows, to the last digits:

    >>> import numpy as np
    >>> from fedstat.factor import Moments
    >>> x = np.random.default_rng(0).normal(size=(300, 4))
    >>> pooled = sum((Moments.of(part) for part in (x[:100], x[100:150])), Moments.of(x[150:]))
    >>> np.allclose(pooled.correlation(), np.corrcoef(x.T), atol=1e-14)
    True
    """

    rows: float
    mean: np.ndarray
    scatter: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray) -> Moments:
        """Return the moments of the rows of `x`, shape (n, p), in float64 whatever the type of `x`.

        Raises
        ------
        ValueError
            If `x` is no matrix of numbers with rows and columns, or an entry is not finite or too large or too small
            for its square.
        """
        x = np.asarray(x)
        if x.dtype not in (np.float32, np.float64):
            x = x.astype(np.float64)
        if x.ndim != 2 or x.size == 0:
            raise ValueError(f"x must be a matrix with at least one row and one column, got shape {x.shape}.")
        low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
        if not (np.isfinite(low) & np.isfinite(high)).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            what = "NaN" if np.isnan(x[row, column]) else x[row, column]
            raise ValueError(
                f"x must be finite, but row {row}, column {column} holds {what}; leave such rows out or impute them."
            )
        mean = x.mean(axis=0, dtype=np.float64)
        scatter, rest = np.zeros((x.shape[1], x.shape[1])), np.zeros(x.shape[1])
        height = max(1, _BLOCK // x.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for top in range(0, len(x), height):
                deviation = x[top : top + height] - mean
                rest += deviation.sum(axis=0)
                scatter += deviation.T @ deviation
            # corrects the mean by what rounding lost in the sum of many rows
            rest /= len(x)
            scatter -= len(x) * np.outer(rest, rest)
            lost = (low < high) & ((high - low) ** 2 == 0)
        wrong = ~np.isfinite(np.diag(scatter)) | lost
        if wrong.any():
            column = int(np.argmax(wrong))
            raise ValueError(
                f"x must have entries whose squares are neither too large nor too small, but column {column} ranges "
                f"from {low[column]:.3g} to {high[column]:.3g}; multiply it by a constant."
            )
        return cls(len(x), mean + rest, scatter, low, high)

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of the rows of both."""
        if len(self.mean) != len(other.mean):
            raise ValueError(f"blocks must have the same columns, got {len(self.mean)} and {len(other.mean)}.")
        rows = self.rows + other.rows
        if rows == 0:
            return self
        gap = other.mean - self.mean
        scatter = self.scatter + other.scatter + np.outer(gap, gap) * (self.rows * other.rows / rows)
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Moments(rows, self.mean + gap * (other.rows / rows), scatter, low, high)

    def __mul__(self, weight: float) -> Moments:
        """Return the moments of the same rows counted `weight` times."""
        if not 0 <= weight < np.inf:
            raise ValueError(f"weight must be a number of times, at least 0, got {weight}.")
        return replace(self, rows=self.rows * weight, scatter=self.scatter * weight)

    def varies(self) -> np.ndarray:
        """Tell which columns vary by more than rounding leaves after centring; bool, shape (p,)."""
        deviation = np.sqrt(np.maximum(np.diag(self.scatter), 0))
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.asarray((self.low < self.high) & (deviation > 1e-12 * np.sqrt(self.rows) * largest))

    def correlation(self) -> np.ndarray:
        """Return the correlations of the columns that vary; shape (v, v), ones on the diagonal."""
        varies = self.varies()
        norm = np.sqrt(np.diag(self.scatter)[varies])
        r = self.scatter[np.ix_(varies, varies)] if not varies.all() else self.scatter.copy()
        r /= norm[:, None]
        r /= norm
        np.clip(r, -1, 1, out=r)
        np.fill_diagonal(r, 1.0)
        return r
