"""Quantiles of the studentised bootstrap (bootstrap-t), for intervals over runs whose errors lean to one side."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fedstat._random import stream
from fedstat.inference.intervals.design import Design

#: Fewest seeds for which the union of t and bootstrap-t is offered.
MIN_SEEDS = 8
#: Fewest resamples, and how many of them at least lie beyond each quantile.
_LEAST, _BEYOND = 10_000, 20
#: Studentised means at a time: 64 MB of them.
_CHUNK = 8_000_000


def check_skewed(n: np.ndarray, moderated: bool | str, design: Design) -> None:
    """Refuse what no interval for skewed runs is known to hold for; `n` are the common seeds of pairs."""
    if moderated is True:
        raise ValueError("moderated=True does not go with skewed=True. Use moderated='auto' or False.")
    if design.crossed or design.data == "resplit":
        what = "over='clients'" if design.crossed else "data='resplit'"
        raise ValueError(f"skewed=True does not go with {what}: no interval is known that holds for both.")
    if (few := n[(n > 1) & (n < MIN_SEEDS)]).size:
        raise ValueError(
            f"skewed=True needs at least {MIN_SEEDS} seeds, got {few.min()}: with fewer, no interval of usable width "
            "is known that holds for skewed runs; bootstrap-t limits may be infinite with 5 seeds, and with 3 they "
            "always are. Run more seeds, or leave it out and see docs/coverage.md for what t intervals do."
        )


def bootstrap_t(differences: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return low and high quantiles q of the studentised means of resamples, and the p-values that go with them.

    Limits are ``mean - q * se``, `tail` the probability beyond each; rows of the differences, (..., seeds), without
    spread have NaN. A resample of equal values has an infinite mean, so that quantiles may be infinite. There are
    10,000 resamples, the same for all rows of one length, or as many as it takes for 20 to lie beyond each quantile
    (Efron and Tibshirani 1993, chapter 12). A p-value is below ``2 * tail`` if and only if zero lies beyond a limit.
    """
    rows = differences.reshape(-1, differences.shape[-1])
    # no level with finitely many digits falls onto a share of one more than a multiple of ten
    resamples = max(_LEAST, 10 * int(np.ceil(_BEYOND / tail / 10)))
    found = np.full((3, len(rows)), np.nan)
    there = np.isfinite(rows)
    counts = there.sum(axis=1)
    for n in np.unique(counts[counts > 1]):
        chosen = np.flatnonzero(counts == n)
        values = rows[chosen][there[chosen]].reshape(-1, n)
        size = max(1, _CHUNK // resamples)
        for start in range(0, len(chosen), size):
            found[:, chosen[start : start + size]] = _quantiles(values[start : start + size], resamples, tail)
    low, high, p = found.reshape(3, *differences.shape[:-1])
    return low, high, p


def _quantiles(values: np.ndarray, resamples: int, tail: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = values.shape[1]
    mean = values.mean(axis=1)
    errors = values - mean[:, None]
    sd = errors.std(axis=1, ddof=1)
    spread = sd > 1e-12 * np.abs(values).max(axis=1)
    scaled = errors / np.where(spread, sd, 1.0)[:, None]
    shares = _shares(n, resamples)
    means = scaled @ shares.T
    variances = np.maximum((scaled**2) @ shares.T - means**2, 0.0)
    flat = variances < 1e-12
    t = means / np.sqrt(np.where(flat, 1.0, variances) / (n - 1))
    t = np.where(flat, np.where(np.abs(means) < 1e-12, 0.0, np.copysign(np.inf, means)), t)
    # sums in another order are not to decide whether a resample lies beyond
    t *= 1 + 1e-9
    own = np.sqrt(n) * mean / np.where(spread, sd, np.nan)
    beyond = np.where(own > 0, (t >= own[:, None]).sum(axis=1), (t <= own[:, None]).sum(axis=1))
    most = int(np.ceil(tail * (resamples + 1))) - 1
    t = np.partition(t, (most - 1, resamples - most), axis=1)
    low, high = (np.where(spread, t[:, place], np.nan) for place in (most - 1, resamples - most))
    p = np.where(spread, np.minimum(2 * (beyond + 1) / (resamples + 1), 1.0), np.nan)
    return low, high, p


@lru_cache(maxsize=2)
def _shares(n: int, resamples: int) -> np.ndarray:
    """Return each value's share in each resample, shape (resamples, n)."""
    return stream(0, "bootstrap-t", n).multinomial(n, [1 / n] * n, size=resamples) / n
