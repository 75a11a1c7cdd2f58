"""Curves over rounds with limits that hold for all rounds and methods together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedstat.inference.scores import Scores

#: Stretches of rounds that a band is made of. More of them make it wider.
STRETCHES = 8


@dataclass(frozen=True, eq=False)
class Band:
    """Means over seeds, with simultaneous limits.

    Attributes
    ----------
    curves : ndarray, shape (M, T)
        Mean over seeds after each evaluated round; NaN where a value is missing, or a run has ended.
    stretches : tuple of (int, int)
        The first and the last position on the axis of rounds of each of the B stretches that are averaged.
    means, low, high : ndarray, shape (M, B)
        Means over seeds and stretches with their limits; NaN limits of methods with one seed.
    family : int
        Number of limits that hold together.
    """

    curves: np.ndarray
    stretches: tuple[tuple[int, int], ...]
    means: np.ndarray
    low: np.ndarray
    high: np.ndarray
    family: int


def simultaneous_band(scores: Scores, level: float = 0.95) -> Band:
    """Return limits for the mean curves of all methods that hold together with probability `level`.

    The evaluated rounds are cut into at most 8 stretches of equal length, each seed's curve is averaged over each
    stretch, and Bonferroni's t limits are taken over stretches and methods. For normal runs they cover at least at
    `level`, whatever the correlation of rounds and methods and whatever their variances, with two seeds as with many.
    The limits are of the averages; joined by lines they cover the averages joined by lines.

    A maximal t over single rounds, with the correlation of rounds estimated from the seeds, is narrower and does not
    hold its level with few seeds: with n seeds an estimated correlation has rank n - 1, and the rounds look more alike
    than they are.

    Parameters
    ----------
    scores : Scores
        With curves. A seed that a method has no run of counts for nothing. If a value of a run is missing, then its
        method has no mean in that round, and no limits in that stretch.
    level : float
        In (0, 1).
    """
    from scipy import stats

    m, _, t = scores.curves.shape
    edges = np.linspace(0, t, min(t, STRETCHES) + 1).round().astype(int)
    stretches = tuple((int(start), int(end) - 1) for start, end in pairwise(edges))
    family = m * len(stretches)
    curves = np.full((m, t), np.nan)
    means, low, high = np.full((3, m, len(stretches)), np.nan)
    for i, runs in enumerate(scores.curves):
        own = runs[np.isfinite(runs).any(axis=1)]
        n = len(own)
        if not n:
            continue
        own = np.where(np.isfinite(own), own, np.nan)
        curves[i] = own.mean(axis=0)
        averages = np.stack([own[:, start : end + 1].mean(axis=1) for start, end in stretches], axis=1)
        means[i] = averages.mean(axis=0)
        if n > 1:
            half = stats.t.isf((1 - level) / (2 * family), n - 1) * averages.std(axis=0, ddof=1) / np.sqrt(n)
            low[i], high[i] = means[i] - half, means[i] + half
    return Band(curves, stretches, means, low, high, family)
