"""Curves over rounds with limits that hold for several rounds and all methods together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat.inference.reading.scores import Scores

#: Rounds at which limits are taken. More of them make all limits wider.
ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Band:
    """Mean curves over seeds, with simultaneous limits ``curves[:, places] ± half`` at some rounds.

    The curves have the shape (methods, rounds), NaN where a value is missing or a run has ended. `places` are positions
    on the axis of rounds. The half-widths have the shape (methods, places), NaN for methods with one seed.
    """

    curves: np.ndarray
    places: np.ndarray
    half: np.ndarray


def simultaneous_band(scores: Scores, level: float = 0.95) -> Band:
    """Return limits for the mean curves of all methods that hold together with probability `level`.

    They are Bonferroni's t limits at no more than 8 evaluated rounds, evenly spaced from the first to the last, of each
    method. For normal runs they hold whatever the correlation of rounds and methods; between these rounds nothing is
    claimed. A maximal t over all rounds, with their correlation estimated from few seeds, is narrower and covered as
    little as 54% (2 methods, 3 seeds, 40 rounds): the rounds look more alike than they are.
    """
    from scipy import stats

    m, _, t = scores.curves.shape
    places = np.unique(np.linspace(0, t - 1, min(t, ROUNDS)).round().astype(int))
    curves, half = np.full((m, t), np.nan), np.full((m, len(places)), np.nan)
    for i, runs in enumerate(scores.curves):
        own = runs[np.isfinite(runs).any(axis=1)]
        n = len(own)
        if not n:
            continue
        own = np.where(np.isfinite(own), own, np.nan)
        curves[i] = own.mean(axis=0)
        if n > 1:
            t_limit = stats.t.isf((1 - level) / (2 * m * len(places)), n - 1)
            half[i] = t_limit * own[:, places].std(axis=0, ddof=1) / np.sqrt(n)
    return Band(curves, places, half)
