"""Moments of a table with gaps: pair by pair, or by maximum likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from fedstat._checks import array, choice
from fedstat.factor.moments import Moments

Missing = Literal["pairwise", "likelihood"]
MISSING = ("pairwise", "likelihood")
#: The change of a correlation at which the likelihood has settled, and the largest number of steps.
_SETTLED, _STEPS = 1e-9, 10_000


def moments_with_gaps(x: np.ndarray, how: Missing = "likelihood", *, weights: np.ndarray | None = None) -> Moments:
    """Return means and cross-products of rows in which values are missing, for `PrincipalAxis.fit_moments`.

    "pairwise" takes every correlation from the rows that have both values, and every mean and deviation from those
    that have the one: right if values are missing completely at random, though the correlations together may belong to
    no table, and `PrincipalAxis.fit_moments` then refuses them. "likelihood" fits a normal law to all that was observed
    (full-information maximum likelihood, by EM; Dempster, Laird and Rubin 1977): right also if what is missing depends
    on what was observed.

    Parameters
    ----------
    x : ndarray, shape (n, p)
        Rows with NaN for gaps.
    how : {"likelihood", "pairwise"}
        How the gaps are dealt with.
    weights : ndarray, shape (n,), optional
        How often each row counts; by default once.

    Returns
    -------
    Moments
        Of n rows; ``scatter`` is n times the covariances.

    Raises
    ------
    ValueError
        If `x` is no matrix of numbers and NaN with moderate squares, a weight is negative or not finite, no row has the
        values of two columns; or columns are combinations of others where likelihood is asked for.

    Examples
    --------
    The second test was taken only by those who did well in the first; the correlation is 0.6:

    >>> import numpy as np
    >>> from fedstat.factor import moments_with_gaps
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=5000)
    >>> second = np.where(first > 0, 0.6 * first + 0.8 * rng.normal(size=5000), np.nan)
    >>> for how in ("pairwise", "likelihood"):
    ...     print(f"{how} {moments_with_gaps(np.c_[first, second], how).correlation()[0, 1]:.2f}")
    pairwise 0.43
    likelihood 0.62
    """
    choice("how", how, MISSING)
    x = np.asarray(x, dtype=np.float64)
    known = ~np.isnan(x)
    Moments.of(np.where(known, x, 0.0))  # refuses what is no table, and numbers without squares
    w = np.ones(len(x)) if weights is None else array("weights", weights, (len(x),))
    if w.min() < 0:
        raise ValueError(f"weights must be numbers of times, at least 0, got {w.min():g}.")
    together = (known * w[:, None]).T @ known
    if not together.all():
        i, j = np.argwhere(together == 0)[0]
        raise ValueError(f"x must have rows with the values of both, but none has columns {i} and {j}; leave one out.")
    low, high = np.nanmin(x[w > 0], axis=0), np.nanmax(x[w > 0], axis=0)
    mean = np.nansum(x * w[:, None], axis=0) / np.diag(together)
    scale = np.sqrt(np.nansum(w[:, None] * (x - mean) ** 2, axis=0) / np.diag(together))
    varies = low < high
    z, own = (x[:, varies] - mean[varies]) / scale[varies], known[:, varies]
    shift, s = np.zeros(x.shape[1]), np.zeros(together.shape)
    if how == "pairwise":
        s[np.ix_(varies, varies)] = _pairwise(np.where(own, z, 0.0), own.astype(float), w)
    else:
        shift[varies], s[np.ix_(varies, varies)] = _likelihood(z, own, w)
    n = float(w.sum())
    return Moments(n, mean + shift * scale, n * s * np.outer(scale, scale), low, high)


def _pairwise(z: np.ndarray, known: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the correlations of each pair of columns over the rows that have both; gaps of `z` hold zero."""
    n = (known * w[:, None]).T @ known
    first, second, cross = ((a * w[:, None]).T @ b / n for a, b in ((z, known), (z**2, known), (z, z)))
    spread = np.sqrt(np.maximum(second - first**2, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (cross - first * first.T) / (spread * spread.T)
    if not np.isfinite(r).all():
        i, j = np.argwhere(~np.isfinite(r))[0]
        raise ValueError(
            f"x must vary in the rows that have columns {i} and {j}, but one of them does not; leave it out."
        )
    return np.asarray(np.clip(r, -1, 1))


def _patterns(
    z: np.ndarray, known: np.ndarray, w: np.ndarray
) -> Iterator[tuple[np.ndarray, float, np.ndarray, np.ndarray]]:
    """Yield of rows with the same gaps which columns they have, their weight, sums and sums of products."""
    kinds, of = np.unique(known, axis=0, return_inverse=True)
    for k, has in enumerate(kinds):
        rows = np.flatnonzero((of.ravel() == k) & (w > 0))
        if has.any() and len(rows):
            own, weight = z[np.ix_(rows, np.flatnonzero(has))], w[rows]
            yield has, weight.sum(), weight @ own, (own * weight[:, None]).T @ own


def _likelihood(z: np.ndarray, known: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance of the normal law under which the observed values are likeliest, by EM."""
    p = z.shape[1]
    patterns = list(_patterns(z, known, w))
    n, mean, s = sum(weight for _, weight, _, _ in patterns), np.zeros(p), np.eye(p)
    for _ in range(_STEPS):
        first, second = np.zeros(p), np.zeros((p, p))
        for has, weight, sums, products in patterns:
            lacks = ~has
            # a row is expected to be `start + slope @ own`, with the covariance `rest` where it has gaps
            slope, rest = np.zeros((p, has.sum())), np.zeros((p, p))
            slope[has] = np.eye(has.sum())
            if lacks.any():
                try:
                    slope[lacks] = np.linalg.solve(s[np.ix_(has, has)], s[np.ix_(has, lacks)]).T
                except np.linalg.LinAlgError:
                    raise ValueError("x must have no column that is a combination of others; leave one out.") from None
                rest[np.ix_(lacks, lacks)] = s[np.ix_(lacks, lacks)] - slope[lacks] @ s[np.ix_(has, lacks)]
            start = mean - slope @ mean[has]
            own = slope @ sums
            first += weight * start + own
            second += weight * (np.outer(start, start) + rest) + slope @ products @ slope.T
            second += np.outer(start, own) + np.outer(own, start)
        before, mean = s, first / n
        s = second / n - np.outer(mean, mean)
        if np.abs(s - before).max(initial=0) < _SETTLED:
            return mean, s
    raise ValueError(f"the likelihood has not settled after {_STEPS} steps: too many values are missing.")
