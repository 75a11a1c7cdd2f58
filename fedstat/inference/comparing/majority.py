"""Say which methods are not shown to beat always predicting a client's most frequent class, and which it beats."""

from __future__ import annotations

import numpy as np

from fedstat.inference.formatting import interval
from fedstat.inference.intervals.paired import mean_interval
from fedstat.inference.reading.scores import Scores

_REMEDY = (
    'Are columns on one scale (prepare="standard" brings them there), is the learning rate right, and were '
    "there rounds enough?"
)


def beside_majority(accuracy: Scores, share: Scores, level: float) -> list[str]:
    """Return sentences that name the methods below the majority share and those not shown to be above it.

    The accuracy minus the share, both of the same methods, seeds and clients, has an interval over seeds, all methods
    together at `level`. A method is below if the interval is, and not shown to be above if it holds 0; under a single
    seed the difference alone counts.
    """
    below, unshown = [], []
    each = 1 - (1 - level) / len(accuracy.methods)
    for label, values, shares in zip(accuracy.methods, accuracy.values, share.values, strict=True):
        by_seed = 100 * (values - shares)[~np.isnan(values).all(axis=1)].mean(axis=1)
        if not len(by_seed) or not np.isfinite(by_seed).all():
            continue
        found = mean_interval(by_seed, each) if len(by_seed) > 1 else (by_seed[0],) * 3
        if found[2] < 0:
            below.append(f"{label} by {-found[0]:.1f} points")
        elif found[1] <= 0:
            how = f"{interval(found, 1, ' points')} above it" if len(by_seed) > 1 else "equal"
            unshown.append(f"{label} ({how})")
    said = [f"Always naming a client's most frequent class beats {', '.join(below)}."] if below else []
    if unshown:
        said.append(f"Not shown to beat always predicting a client's most frequent class: {', '.join(unshown)}.")
    return [*said[:-1], f"{said[-1]} {_REMEDY}"] if said else []
