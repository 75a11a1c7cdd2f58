"""Say which methods end below the majority share: what always naming a client's most frequent class would reach."""

from __future__ import annotations

import numpy as np

from fedstat.inference.intervals.paired import mean_interval
from fedstat.inference.reading.scores import Scores

_REMEDY = (
    'Are columns on one scale (prepare="standard" brings them there), is the learning rate right, and were '
    "there rounds enough?"
)


def below_majority(accuracy: Scores, share: Scores, level: float) -> list[str]:
    """Return a sentence that names the methods below the majority share, none if there are none.

    A method is named if the upper limit of its accuracy minus the share, over seeds, is below zero, all methods
    together at `level`; under a single seed, if the difference is.

    Parameters
    ----------
    accuracy, share : Scores
        Values of the same methods, seeds and clients.
    level : float
        Confidence level.
    """
    found = []
    for label, values, shares in zip(accuracy.methods, accuracy.values, share.values, strict=True):
        by_seed = (values - shares)[~np.isnan(values).all(axis=1)].mean(axis=1)
        if not len(by_seed) or not np.isfinite(by_seed).all():
            continue
        each = 1 - (1 - level) / len(accuracy.methods)
        high = mean_interval(by_seed, each)[2] if len(by_seed) > 1 else by_seed[0]
        if high < 0:
            found.append(f"{label} by {-100 * by_seed.mean():.1f} points")
    if not found:
        return []
    return [f"Always naming a client's most frequent class beats {', '.join(found)}. {_REMEDY}"]
