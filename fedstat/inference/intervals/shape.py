"""See in differences over seeds what a t interval does not forgive: collapsed runs, skewness, few values."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

#: Numbers in the normal samples by which the statistics are judged, of 100,000 samples at most; and their seed.
_NUMBERS, _DRAWS, _SEED = 2_000_000, 100_000, 0
#: How often single t intervals held for skewed and collapsing runs, by the committed coverage tables.
HELD = "45 to 92%"
#: Below so many seeds nothing can be seen.
_MIN_SEEDS = 4
#: Largest share of families with normal differences in which there is a warning.
_ALARMS = 0.05


def shape_notes(differences: np.ndarray) -> tuple[str, ...]:
    """Return the sentences that a reader of t intervals over these differences has to see.

    Two statistics are compared with those of normal samples of the same size: the largest gap between neighbouring
    values as a share of their range, which is large if one run or some collapsed, and the absolute skewness. Each pair
    is tested at ``0.05 / (2 P)`` for each, so that normal differences raise a false alarm in at most 5% of families,
    whatever their correlations. A pair with at most half as many values as seeds is told as such. With 3
    seeds nothing can be seen, and with 5 only gross collapses: no sentence does not mean that all is well.

    Parameters
    ----------
    differences : ndarray, shape (P, S)
        One value per pair and seed, NaN where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.inference import shape_notes
    >>> gains = np.array([0.02, 0.03, 0.025, 0.021, 0.028, 0.024, 0.026, 0.022, 0.027, -0.60])  # one run collapsed
    >>> print(*shape_notes(gains[None]))
    1 of 1 differences are skewed, or some of their runs lie far from the others (collapsed?): in simulation t
    intervals at 95% held in only 45 to 92% there. Look at the runs.
    """
    of = shapes(differences)
    apart, coarse, tested = (of == "apart").sum(), (of == "coarse").sum(), (of != "").sum()
    notes = []
    if apart:
        notes.append(
            f"{apart} of {tested} differences are skewed, or some of their runs lie far from the others (collapsed?): "
            f"in simulation t intervals at 95% held in only {HELD} there. Look at the runs."
        )
    if coarse:
        notes.append(
            f"{coarse} of {tested} differences take few values: their intervals are rough. Measure more finely."
        )
    return tuple(notes)


def shapes(differences: np.ndarray) -> np.ndarray:
    """Return what `shape_notes` sees in each pair: "apart", "coarse", "fine", or "" where nothing can be seen."""
    found = []
    for row in differences:
        d = row[~np.isnan(row)]
        if len(d) < _MIN_SEEDS or np.ptp(d) <= 1e-12 * np.abs(d).max():
            found.append("")
        elif 1 + (np.diff(np.sort(d)) > 1e-9 * np.ptp(d)).sum() <= len(d) // 2:
            found.append("coarse")  # values that rounding tells apart are one
        else:
            found.append("apart" if shape_p(d) < _ALARMS / len(differences) else "fine")
    return np.array(found)


def shape_p(values: np.ndarray) -> np.ndarray:
    """Return twice the smaller p-value of largest gap and absolute skewness of normal samples; values (..., S)."""
    null = _null(values.shape[-1])
    found = [
        (1 + len(known) - np.searchsorted(known, statistic)) / (1 + len(known))
        for known, statistic in zip(null, _statistics(values), strict=True)
    ]
    return np.minimum(2 * np.minimum(*found), 1.0)


@lru_cache(maxsize=8)
def _null(seeds: int) -> tuple[np.ndarray, ...]:
    normal = np.random.default_rng(_SEED).standard_normal((min(_DRAWS, _NUMBERS // seeds + 1), seeds))
    return tuple(np.sort(statistic) for statistic in _statistics(normal))


def _statistics(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest gap as a share of the range, and the absolute skewness."""
    ordered = np.sort(values, axis=-1)
    gap = np.diff(ordered, axis=-1).max(axis=-1) / (ordered[..., -1] - ordered[..., 0])
    errors = values - values.mean(axis=-1, keepdims=True)
    skewness = (errors**3).mean(axis=-1) / (errors**2).mean(axis=-1) ** 1.5
    return gap, np.abs(skewness)
