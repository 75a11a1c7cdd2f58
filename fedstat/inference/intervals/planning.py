"""Seeds that a comparison of two methods needs, from the spread of a pilot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fedstat import _checks
from fedstat.inference.formatting import number
from fedstat.inference.intervals.equivalence import check_margin
from fedstat.inference.intervals.paired import NO_SPREAD, spreads, values_of

Goal = Literal["difference", "equivalence"]
#: Beyond this many seeds the normal approximation stands for the t, which it misses by a seed or two.
_NORMAL_FROM = 100_000
_legendre = cache(np.polynomial.legendre.leggauss)


@dataclass(frozen=True)
class SampleSize:
    """Seeds that a paired comparison needs; ``print`` it for a sentence.

    Attributes
    ----------
    seeds : int
        Seeds needed if the differences spread as in the pilot, at least 2.
    low, high : int
        Seeds needed if their standard deviation were `sd_low` or `sd_high`.
    sd, sd_low, sd_high : float
        Standard deviation of the differences in the pilot, and its chi-square limits at `level`.
    pilot_seeds : int
        Number of differences in the pilot.
    margin : float
        The difference that is to be found, or within which equivalence is to be shown, in the unit of the values.
    power : float
        Probability of finding the difference if it is as large as `margin`, or the equivalence if there is none.
    level : float
        1 minus the chance of any wrong outcome among all `comparisons`.
    goal : {"difference", "equivalence"}
        What is to be found.
    comparisons : int
        Size of the family.

    Examples
    --------
    >>> from fedstat.inference import plan
    >>> found = plan([0.031, -0.012, 0.024, 0.005, 0.041], margin=0.01)
    >>> found.seeds, found.low, found.high, round(found.sd, 4)
    (38, 15, 295, 0.0212)
    """

    seeds: int
    low: int
    high: int
    sd: float
    sd_low: float
    sd_high: float
    pilot_seeds: int
    margin: float
    power: float
    level: float
    goal: Goal
    comparisons: int

    def __str__(self) -> str:
        what = {"difference": "a difference of", "equivalence": "equivalence within"}[self.goal]
        family = f" in each of {self.comparisons} comparisons, adjusted for all," if self.comparisons > 1 else ""
        if _many(self.low) == _many(self.high):
            spread = f"whatever the {self.pilot_seeds} pilot seeds leave open of the spread"
        else:
            spread = f"with {self.pilot_seeds} pilot seeds anything from {_many(self.low)} to {_many(self.high)}"
        about = "About " if self.seeds <= 10_000 else ""
        each = (1 - self.level) / self.comparisons
        least = math.ceil(1 - math.log2(each))  # of 2^n patterns of signs two are extreme
        few = f"; so few rest on normal differences, since sign flips cannot reach {100 * each:.4g}% below {least}" * (
            self.goal == "difference" and self.seeds < least
        )
        said = (
            f"{about}{_many(self.seeds)} seeds are needed to find {what} {number(self.margin)}{family} with a "
            f"probability of {100 * self.power:.4g}% at a level of {100 * self.level:.4g}%; {spread}{few}."
        )
        return said[0].upper() + said[1:]


def plan(
    pilot: ArrayLike,
    *,
    margin: float,
    power: float = 0.8,
    level: float = 0.95,
    goal: Goal = "difference",
    comparisons: int = 1,
    pilot_seeds: int | None = None,
) -> SampleSize:
    """Say how many seeds a paired comparison needs.

    A difference is to be found by the paired t test, two-sided at ``alpha = (1 - level) / comparisons``; equivalence
    by two one-sided tests at `alpha` each, as `equivalence` does it. Both powers are exact for normal
    differences (for the difference it is the noncentral t's). The pilot knows the spread only roughly, and the seeds
    needed grow with its square: the limits of the spread are carried over.

    The pilot's seeds may not decide twice: do not add seeds to a pilot until a fixed-sample interval excludes zero;
    `looks` allows that.

    Parameters
    ----------
    pilot : array_like, length n >= 2, or float
        Differences of the two methods, one per seed; or their standard deviation, with `pilot_seeds`.
    margin : float
        Positive and finite, in the unit of the differences.
    power : float
        Wanted probability of finding a difference of `margin`, or equivalence if the true difference is zero.
    level : float
        In (0, 1); a test at 5% has level 0.95.
    goal : {"difference", "equivalence"}
        What is to be found.
    comparisons : int
        Number of comparisons in the family, over which the level is kept (Bonferroni).
    pilot_seeds : int, optional
        Number of differences behind a standard deviation that is given in place of the pilot.

    Raises
    ------
    ValueError
        For arguments out of their range, and for a pilot without spread, which says nothing of the seeds needed.

    Examples
    --------
    >>> from fedstat.inference import plan
    >>> print(plan([0.031, -0.012, 0.024, 0.005, 0.041], margin=0.01))
    About 38 seeds are needed to find a difference of 0.01 with a probability of 80% at a level of 95%; with 5 pilot
    seeds anything from 15 to 300.
    """
    from scipy import stats

    margin, level = check_margin(margin), _checks.check_level(level)
    power, comparisons = _checks.number("power", power, "(0, 1)"), _checks.whole("comparisons", comparisons, 1)
    _checks.choice("goal", goal, get_args(Goal))
    sd, n = _spread(pilot, pilot_seeds)
    alpha = (1 - level) / comparisons
    if power <= alpha:
        raise ValueError(f"power must exceed the level of the test, {alpha:.3g}, got {power}.")
    tails = np.array([(1 + level) / 2, (1 - level) / 2])
    sd_low, sd_high = (float(v) for v in sd * np.sqrt((n - 1) / stats.chi2.ppf(tails, n - 1)))
    seeds, low, high = (_needed(margin / s, power, alpha, goal) for s in (sd, sd_low, sd_high))
    return SampleSize(seeds, low, high, sd, sd_low, sd_high, n, margin, power, level, goal, comparisons)


def _spread(pilot: ArrayLike, pilot_seeds: int | None) -> tuple[float, int]:
    """Return standard deviation and number of a pilot's differences."""
    if np.ndim(pilot) == 0:
        if pilot_seeds is None:
            raise ValueError("pilot is one number: give pilot_seeds too, or the differences themselves.")
        return _checks.number("pilot", pilot, "(0, inf)"), _checks.whole("pilot_seeds", pilot_seeds, 2)
    if pilot_seeds is not None:
        raise ValueError("pilot_seeds belongs to a pilot that is a standard deviation; differences are counted.")
    d = values_of("pilot", pilot)
    if not spreads(d):
        raise ValueError(
            f"pilot: {NO_SPREAD}, so it cannot say how many seeds are needed. Run more seeds, or give a standard "
            "deviation that you know, with pilot_seeds."
        )
    return float(d.std(ddof=1)), len(d)


@cache
def _needed(effect: float, power: float, alpha: float, goal: Goal) -> int:
    """Return the smallest number of seeds, from 2 on, that reaches the power; `effect` is margin over sd."""
    from scipy import stats

    quantiles = [1 - alpha / 2, power] if goal == "difference" else [1 - alpha, (1 + power) / 2]
    quantile = stats.norm.ppf
    normal = float(np.sum(quantile(quantiles)) / effect) ** 2
    if not normal < _NORMAL_FROM:
        return int(np.ceil(min(normal, 1e18)))
    power_at = difference_power if goal == "difference" else equivalence_power
    # the t distribution costs about z^2 / 2 seeds more than the normal (Guenther 1981): the search starts there
    n = max(2, int(np.ceil(normal + quantile(quantiles[0]) ** 2 / 2)))
    while n > 2 and power_at(effect, n - 1, alpha) >= power:
        n -= 1
    while power_at(effect, n, alpha) < power:
        n += 1
    return n


def difference_power(effect: float, n: int, alpha: float) -> float:
    """Return the power of the two-sided paired t test with n pairs, at a true mean of `effect` standard deviations."""
    from scipy import special

    return t_power(np.sqrt(n) * effect, -float(special.stdtrit(n - 1, alpha / 2)), n - 1)


def t_power(shift: float, critical: float, df: float, sides: Literal[1, 2] = 2) -> float:
    """Return the probability that a noncentral t exceeds a critical value, or lies beyond it on either side.

    scipy has the noncentral t too, but its values are NaN at some powers near one.
    """
    from scipy.special import ndtr

    def beyond(s: np.ndarray) -> np.ndarray:
        return np.asarray(ndtr(shift - critical * s) + (sides == 2) * ndtr(-critical * s - shift))

    return _over_spread(beyond, df, shift, critical)


@cache
def detectable_shift(critical: float, df: float, power: float, sides: Literal[1, 2] = 2) -> float:
    """Return the difference that a t test finds with a power, in standard errors; 0 if it finds none at all so often.

    The test rejects where ``|t|`` or, with one side, t exceeds `critical`.
    """
    from scipy import optimize

    def lack(shift: float) -> float:
        return t_power(shift, critical, df, sides) - power

    high = critical + 2
    while lack(high) < 0:
        high *= 2
    return 0.0 if lack(0.0) >= 0 else float(optimize.brentq(lack, 0.0, high, xtol=1e-10))


def equivalence_power(effect: float, n: int, alpha: float) -> float:
    """Return the power of two one-sided paired t tests with n pairs at a true difference of zero.

    `effect` is the margin in standard deviations. Mean and standard deviation s of normal differences are
    independent, so the power is the expectation over s of ``P(|mean| < margin - t s / sqrt(n))``.
    """
    from scipy import special

    t, shift = -float(special.stdtrit(n - 1, alpha)), np.sqrt(n) * effect
    return _over_spread(lambda s: 2 * special.ndtr(np.maximum(shift - t * s, 0)) - 1, n - 1, shift, t)


def _over_spread(value: Callable[[np.ndarray], np.ndarray], df: float, shift: float, t: float) -> float:
    """Return the expectation of a function of s, which is a chi variable over the root of its degrees of freedom."""
    # the function changes where ``t s`` is near `shift` or 0: Gauss-Legendre between these places, over the range that
    # holds s but with probability 2e-14
    from scipy.special import gammainccinv, gammaincinv, gammaln, xlogy

    k = df / 2  # k s^2 has the gamma distribution of shape k
    low, high = np.sqrt(gammaincinv(k, 1e-14) / k), np.sqrt(gammainccinv(k, 1e-14) / k)
    inner = np.array([9, shift - 9, shift, shift + 9]) / t
    borders = np.unique(np.clip([low, *inner, high], low, high))
    nodes, weights = _legendre(100)
    half = np.diff(borders)[:, None] / 2
    s = borders[:-1, None] + half * (nodes + 1)
    density = 2 * np.exp(k * np.log(k) - gammaln(k) + xlogy(df - 1, s) - k * s**2)
    return float((half * weights * density * value(s)).sum())


def _many(seeds: int) -> str:
    """Write a number of seeds with the digits that an estimate has: two from a hundred on."""
    if seeds > 10_000:
        return "more than 10,000"
    return f"{seeds if seeds < 100 else round(seeds, 1 - int(np.log10(seeds))):,}"
