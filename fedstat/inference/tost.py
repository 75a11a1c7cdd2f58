"""Test equivalence with three outcomes: 'not significant' is never 'equal'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedstat.inference.paired import paired_difference

Outcome = Literal["equivalent", "different", "undecided"]


@dataclass(frozen=True)
class Equivalence:
    """Outcome of two one-sided paired t tests.

    Attributes
    ----------
    outcome : {"equivalent", "different", "undecided"}
        "equivalent" if the interval at level ``1 - 2 alpha`` lies within the margin, even if it excludes zero;
        otherwise "different" if the interval at level ``1 - alpha`` excludes zero; otherwise "undecided".
    margin : float
        Largest difference that counts as none.
    low, high : float
        The interval at level ``1 - 2 alpha``.
    p : float
        The larger of the two one-sided p-values.
    power : float
        Probability of "equivalent" with this spread and number of pairs if the true difference were zero.
    """

    outcome: Outcome
    margin: float
    low: float
    high: float
    p: float
    power: float


def equivalence(a: ArrayLike, b: ArrayLike, *, margin: float, alpha: float = 0.05) -> Equivalence:
    """Test whether paired values differ by less than `margin` on average.

    Parameters
    ----------
    a, b : array_like, length n >= 2
        One value per seed, in the same order of seeds.
    margin : float
        Positive; to be fixed before looking at the data.
    alpha : float
        Level of each one-sided test, in (0, 0.5).
    """
    from scipy import stats

    if not margin > 0:
        raise ValueError(f"margin must be positive, got {margin}.")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie in (0, 0.5), got {alpha}.")
    inner = paired_difference(a, b, level=1 - 2 * alpha)
    outer = paired_difference(a, b, level=1 - alpha)
    error = inner.sd / np.sqrt(inner.n)
    if error > 0:
        p = float(stats.t.sf((margin - abs(inner.mean)) / error, inner.n - 1))
    else:
        p = float(abs(inner.mean) >= margin)
    outcome: Outcome = "undecided"
    if -margin < inner.low and inner.high < margin:
        outcome = "equivalent"
    elif outer.low > 0 or outer.high < 0:
        outcome = "different"
    return Equivalence(outcome, margin, inner.low, inner.high, p, equivalence_power(inner.sd, inner.n, margin, alpha))


def equivalence_power(sd: float, n: int, margin: float, alpha: float = 0.05) -> float:
    """Return the probability that two one-sided paired t tests find equivalence if the true difference is zero.

    The mean and the standard deviation of normal differences are independent, so the power is the expectation
    over the sample standard deviation s of ``P(|mean| < margin - t s / sqrt(n))``.
    """
    from scipy import integrate, stats

    if sd == 0:
        return 1.0
    df, error = n - 1, sd / np.sqrt(n)
    t = stats.t.ppf(1 - alpha, df)

    def at(u: float) -> float:
        room = margin - t * error * np.sqrt(u / df)
        return (2 * stats.norm.cdf(room / error) - 1) * stats.chi2.pdf(u, df) if room > 0 else 0.0

    upper = df * (margin / (t * error)) ** 2
    return float(integrate.quad(at, 0, min(upper, stats.chi2.isf(1e-12, df)), limit=200)[0])
