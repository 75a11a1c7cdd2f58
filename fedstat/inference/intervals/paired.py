"""Differences of two methods over the same seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedstat import _checks
from fedstat.inference.formatting import interval, number, p_value

#: Differences that are smaller than this share of the values are those of rounding alone.
ROUNDING = 1e-12
#: What stands where all pairs differ by the same amount, beyond rounding.
NO_SPREAD = "all pairs differ by the same amount: no spread to judge by"
_EXACT_UP_TO, _DRAWS = 20, 99_999


@dataclass(frozen=True)
class PairedDifference:
    """Mean difference of paired values with a t interval.

    Attributes
    ----------
    mean, low, high : float
        Mean of ``a - b`` and its confidence limits. The limits are NaN if all pairs differ by the same amount: without
        spread a t interval is a point, and says nothing of other seeds.
    sd : float
        Standard deviation of the differences.
    correlation : float
        Correlation of the pairs, from which pairing gains. NaN if a side is constant, or with two pairs.
    p : float
        Two-sided p-value of the paired t test; NaN if all pairs differ by the same amount.
    n : int
        Number of pairs.
    level : float
        Confidence level of the interval.

    Examples
    --------
    >>> from fedstat.inference import paired_difference
    >>> found = paired_difference([0.81, 0.72, 0.90, 0.77], [0.79, 0.71, 0.87, 0.74])
    >>> round(found.mean, 4), round(found.correlation, 3), round(found.p, 3)  # the pairs go together, so 4 are enough
    (0.0225, 0.995, 0.018)
    """

    mean: float
    low: float
    high: float
    sd: float
    correlation: float
    p: float
    n: int
    level: float

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{number(self.mean)} in each of {self.n} pairs; {NO_SPREAD}"
        shown = interval((self.mean, self.low, self.high), decimals(self.high - self.low))
        return f"{shown} ({100 * self.level:.4g}% interval, {self.n} pairs, p = {p_value(self.p)})".replace("= <", "<")


def paired_difference(a: ArrayLike, b: ArrayLike, *, level: float = 0.95) -> PairedDifference:
    """Compare `a` with `b`, value by value.

    Parameters
    ----------
    a, b : array_like, length n >= 2
        One value per seed, in the same order of seeds.
    level : float
        Confidence level, in (0, 1).

    Raises
    ------
    ValueError
        If lengths differ, fewer than two pairs are given, or values are not finite.

    Examples
    --------
    Student's sleep data (1908): hours gained by ten patients with two drugs.

    >>> from fedstat.inference import paired_difference
    >>> second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    >>> first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    >>> found = paired_difference(second, first)
    >>> print(f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}], p = {found.p:.4f}")
    1.58 [0.70, 2.46], p = 0.0028
    """
    from scipy import stats

    x, y = _pair(a, b)
    level = _checks.check_level(level)
    d = gaps(x, y)
    n, mean, sd = len(d), float(d.mean()), float(d.std(ddof=1))
    if spreads(x, y):
        error = sd / np.sqrt(n)
        half = stats.t.ppf((1 + level) / 2, n - 1) * error
        low, high = float(mean - half), float(mean + half)
        p = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    else:
        low = high = p = float("nan")
    # the correlation of two points is always 1 or -1
    unknown = n == 2 or x.std() == 0 or y.std() == 0
    correlation = float("nan") if unknown else float(np.corrcoef(x, y)[0, 1])
    return PairedDifference(mean, low, high, sd, correlation, p, n, level)


def gaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``a - b``, zero where both differ by rounding alone; NaN stays NaN."""
    d = a - b
    return np.where(np.abs(d) <= ROUNDING * np.maximum(np.abs(a), np.abs(b)), 0.0, d)


def spreads(a: np.ndarray, b: np.ndarray | float = 0.0) -> bool:
    """Tell whether values, or the amounts by which paired ones differ, are more than one, beyond rounding."""
    return bool(np.std(a - b, ddof=1) > ROUNDING * max(np.abs(a).max(), np.abs(b).max()))


def decimals(width: float) -> int:
    """Return how many decimals show an interval of this width with two digits of its half; at most 12."""
    return int(np.clip(1 - np.floor(np.log10(width / 2)), 0, 12)) if 0 < width < np.inf else 3


def mean_interval(
    values: ArrayLike, level: float = 0.95, *, within: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[float, float, float]:
    """Return the mean of independent values, and its t limits at `level`.

    Without spread both limits are the mean: a formula's answer, which says nothing of other seeds.

    Parameters
    ----------
    values : array_like, length n >= 2
        Independent values, one per seed.
    level : float
        Confidence level, in (0, 1).
    within : (float, float)
        The range of the values, such as (0, 1) for shares. Limits are cut off there, at no cost of coverage: the mean
        that they are to cover cannot lie outside.

    Raises
    ------
    ValueError
        If fewer than two values are given, or one is not finite or lies outside the range.

    Examples
    --------
    The hours of sleep that ten patients gained (Student 1908), and three accuracies, which cannot exceed 1:

    >>> from fedstat.inference import mean_interval
    >>> gained = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
    >>> tuple(round(x, 2) for x in mean_interval(gained))
    (1.58, 0.7, 2.46)
    >>> tuple(round(x, 2) for x in mean_interval([0.99, 0.80, 1.00], within=(0.0, 1.0)))
    (0.93, 0.65, 1.0)
    """
    from scipy import stats

    level = _checks.check_level(level)
    x, (lowest, highest) = values_of("values", values), within
    if not lowest < highest:
        raise ValueError(f"within must be a range (lowest, highest), got {within}.")
    if (x < lowest).any() or (x > highest).any():
        raise ValueError(f"values must lie in [{lowest:g}, {highest:g}], got {x.min():g} to {x.max():g}.")
    mean = float(x.mean())
    half = float(stats.t.ppf((1 + level) / 2, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))
    return mean, max(mean - half, lowest), min(mean + half, highest)


def sign_flip_test(a: ArrayLike, b: ArrayLike) -> float:
    """Return the two-sided permutation p-value of the mean difference, where each pair's sign is flipped or not.

    Up to n = 20 it enumerates all 2^n sign patterns; beyond that it draws 99,999 random patterns, always the
    same, and counts the observed one among them, so that the test keeps its level.

    Parameters
    ----------
    a, b : array_like, length n
        One value per seed, in the same order of seeds.

    Examples
    --------
    Darwin's fifteen pairs of maize (1876), on which Fisher tried the test first: p = 0.0527, where t gives 0.0497.

    >>> from fedstat.inference import paired_difference, sign_flip_test
    >>> eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]  # of an inch, crossed - selfed
    >>> round(sign_flip_test(eighths, [0] * 15), 4), round(paired_difference(eighths, [0] * 15).p, 4)
    (0.0527, 0.0497)
    """
    d = gaps(*_pair(a, b))
    n = len(d)
    observed = abs(d.sum()) * (1 - 1e-12)  # sums that differ by rounding alone count as ties
    if n <= _EXACT_UP_TO:
        # a pattern and its opposite give the same |sum|: fix the first sign, enumerate the others
        sums = np.array([d[0]])
        for value in d[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= observed).mean())
    rng = np.random.default_rng(0)
    hits = 0
    for size in (*[10_000] * (_DRAWS // 10_000), _DRAWS % 10_000):
        hits += int((np.abs(rng.choice([-1.0, 1.0], size=(size, n)) @ d) >= observed).sum())
    return (hits + 1) / (_DRAWS + 1)


def holm(p: ArrayLike) -> np.ndarray:
    """Return the Holm-adjusted p-values; NaN, where no test was made, stays NaN.

    Parameters
    ----------
    p : array_like, length m
        The p-values of m tests.

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure.

    Examples
    --------
    >>> from fedstat.inference import holm
    >>> holm([0.01, 0.04, 0.03, 0.005]).round(3)  # 4 times the smallest, 3 times the next; never falling
    array([0.03, 0.06, 0.06, 0.02])
    """
    values = np.asarray(p, dtype=float)
    adjusted = values.copy()
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def values_of(name: str, values: ArrayLike) -> np.ndarray:
    """Return a vector of at least 2 finite values, one per seed."""
    found = _checks.array(name, values, ("seeds",))
    if len(found) < 2:
        raise ValueError(f"{name} must hold at least 2 values, got {len(found)}. Run more seeds.")
    return found


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = values_of("a", a), values_of("b", b)
    if len(x) != len(y):
        raise ValueError(f"a and b must be of one length, paired by seed; got {len(x)} and {len(y)} values.")
    return x, y
