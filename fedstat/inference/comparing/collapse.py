"""Say which runs collapsed, and what their number tells of runs to come."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedstat.inference.formatting import listed
from fedstat.inference.proportion import clopper_pearson
from fedstat.inference.reading.scores import Scores

#: A collapsed run lies so many usual distances below its method's median run, and has lost this share of its value.
_APART, _LOST = 10, 0.25
#: More methods that collapsed are counted rather than named.
_NAMED = 6


def collapsed(scores: Scores, majority: Scores | None = None) -> np.ndarray | None:
    """Tell which runs collapsed, as (methods, seeds); None where the metric has no known direction, or with one seed.

    ``docs/reading-a-comparison.md`` says when a run has. The usual distance is a median over the other runs of the
    method or over those of all methods, so that a noisy method does not collapse by chance. Of an even number of runs
    the median run is the better one in the middle; a collapse of more than half of a method's runs is not found.
    """
    direction = scores.direction
    if not direction or len(scores.seeds) < 2:
        return None
    worth = direction * scores.by_seed()
    ran = np.isfinite(worth)
    order = np.argsort(np.where(ran, -worth, np.inf), axis=1, kind="stable")
    places = order[np.arange(len(worth)), np.maximum(ran.sum(axis=1) - 1, 0) // 2]
    median = np.take_along_axis(worth, places[:, None], axis=1)
    fall = median - worth
    useless = fall > np.abs(median) * (_LOST if direction > 0 else 1.0)
    if majority is not None:
        share = majority.by_seed()
        useless |= (worth <= share) & (median > np.take_along_axis(share, places[:, None], axis=1))
    others = ran & (np.arange(worth.shape[1]) != places[:, None])
    found = np.zeros(worth.shape, dtype=bool)
    for m, s in np.argwhere(others & useless):
        rest = others.copy()
        rest[m, s] = False
        own = np.abs(fall[m, rest[m]])
        found[m, s] = fall[m, s] > _APART * max(_lower_median(own), _lower_median(np.abs(fall[rest])))
    return found


def _lower_median(values: np.ndarray) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0.0


def tabulate_collapses(scores: Scores, fallen: np.ndarray, level: float) -> pd.DataFrame:
    """Count each method's collapsed runs, with exact (Clopper-Pearson) limits for the probability that a run collapses.

    The limits are two-sided at `level`, for each method alone; missing for a method without a run.
    """
    rows = []
    for hits, n in zip(fallen.sum(axis=1), np.isfinite(scores.by_seed()).sum(axis=1), strict=True):
        low, high = clopper_pearson(int(hits), int(n), level) if n else (np.nan, np.nan)
        rows.append((int(hits), low, high))
    return pd.DataFrame(rows, index=list(scores.methods), columns=["collapsed", "collapse low", "collapse high"])


def collapse_sentence(scores: Scores, fallen: np.ndarray | None, level: float) -> tuple[str, ...]:
    """Say in one sentence which methods collapsed, and in how many of their runs each may: the one-sided upper limit.

    It stands beside every "better": after few runs no interval can tell of a collapse that has not happened yet.
    """
    from scipy import stats

    if fallen is None:
        return ()
    runs, hits = np.isfinite(scores.by_seed()).sum(axis=1), fallen.sum(axis=1)
    limits = stats.beta.isf(1 - level, hits + 1, np.maximum(runs - hits, 1))
    may = [f"up to {100 * limit:.0f}% may" for limit in limits]
    some, none = np.flatnonzero(hits), np.flatnonzero((hits == 0) & (runs > 0))
    said = []
    if len(some) > _NAMED:
        most = may[some[limits[some].argmax()]]
        said.append(f"{len(some)} of {len(runs)} methods collapsed in some of their runs ({most}).")
    elif len(some):
        each = listed(f"{scores.methods[i]} in {hits[i]} of {runs[i]} runs ({may[i]})" for i in some)
        said.append(f"Collapsed: {each}.")
    if len(none):
        counts = " to ".join(str(n) for n in sorted({runs[none].min(), runs[none].max()}))
        whose = "any other method's " if len(some) else "any method's " if len(none) > 1 else ""
        known = " that have values" if scores.missing else ""
        said.append(f"None of {whose}{counts} runs{known} collapsed; {may[none[runs[none].argmin()]]}.")
    return (" ".join(said),) if said else ()
