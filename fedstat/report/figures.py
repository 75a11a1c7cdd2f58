"""The look of all figures: readable in black and white, text as paths, nothing of the system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house style inside the block, without a display."""
    import matplotlib as mpl

    mpl.use("Agg")
    with mpl.rc_context(
        {
            "font.size": 8,
            "axes.labelsize": 8,
            "axes.titlesize": 8,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
            "svg.fonttype": "path",
            "svg.hashsalt": "fedstat",
            "figure.max_open_warning": 0,
        }
    ):
        yield


def mean_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of independent values with t limits; limits equal the mean for a single value."""
    from scipy import stats

    x = np.asarray(values, dtype=float)
    mean = float(x.mean())
    if len(x) < 2:
        return mean, mean, mean
    half = float(stats.t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))
    return mean, mean - half, mean + half
