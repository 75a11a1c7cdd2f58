"""Test equivalence with three outcomes: what cannot be told apart is not equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedstat import _checks
from fedstat.inference.formatting import interval, number, p_value
from fedstat.inference.intervals.paired import NO_SPREAD, decimals, paired_difference

Outcome = Literal["equivalent", "different", "undecided"]


@dataclass(frozen=True)
class Equivalence:
    """Outcome of two one-sided paired t tests; ``print`` it for a sentence.

    Attributes
    ----------
    outcome : {"equivalent", "different", "undecided"}
        "equivalent" if the interval at level ``1 - 2 alpha`` lies within the margin, even if it excludes zero;
        otherwise "different" if the interval at level ``1 - alpha`` excludes zero; otherwise "undecided". Always
        "undecided" if all pairs differ by the same amount, because without spread there is no test.
    margin : float
        Largest difference that counts as none.
    mean, low, high : float
        The mean difference ``a - b`` and its interval at level ``1 - 2 alpha``; no limits (NaN) without spread.
    p : float
        The larger of the two one-sided p-values; NaN without spread.
    n : int
        Number of pairs.
    alpha : float
        Level of each one-sided test.

    Examples
    --------
    >>> from fedstat.inference import equivalence
    >>> found = equivalence([0.81, 0.79, 0.80, 0.82], [0.80, 0.80, 0.79, 0.82], margin=0.02)
    >>> found.outcome, round(found.low, 3), round(found.high, 3)  # the 90% interval lies within 0.02 of zero
    ('equivalent', -0.009, 0.014)
    """

    outcome: Outcome
    margin: float
    mean: float
    low: float
    high: float
    p: float
    n: int
    alpha: float

    def __str__(self) -> str:
        margin = f"margin {number(self.margin)}"
        if np.isnan(self.p):
            return f"undecided within the {margin}: {number(self.mean)} in each of {self.n} pairs; {NO_SPREAD}"
        shown = interval((self.mean, self.low, self.high), decimals(self.high - self.low))
        p = f"p = {p_value(self.p)}".replace("= <", "<")
        return f"{self.outcome} ({margin}): {shown} ({100 * (1 - 2 * self.alpha):.4g}% interval, {self.n} pairs, {p})"


def equivalence(a: ArrayLike, b: ArrayLike, *, margin: float, alpha: float = 0.05) -> Equivalence:
    """Test whether paired values differ by less than `margin` on average.

    How many seeds such a test needs, `fedstat.inference.plan` says of a pilot.

    Parameters
    ----------
    a, b : array_like, length n >= 2
        One value per seed, in the same order of seeds.
    margin : float
        Positive and finite; to be fixed before looking at the data.
    alpha : float
        Level of each one-sided test, in (0, 0.5).

    Raises
    ------
    ValueError
        For a margin or level out of its range, and for values that `paired_difference` refuses.

    Examples
    --------
    >>> from fedstat.inference import equivalence
    >>> ours, theirs = [0.81, 0.79, 0.80, 0.82, 0.80], [0.80, 0.80, 0.79, 0.82, 0.81]
    >>> print(equivalence(ours, theirs, margin=0.02))
    equivalent (margin 0.02): 0.0000 [−0.0095, 0.0095] (90% interval, 5 pairs, p = 0.006)
    >>> print(equivalence(ours, theirs, margin=0.005))
    undecided (margin 0.005): 0.0000 [−0.0095, 0.0095] (90% interval, 5 pairs, p = 0.163)
    """
    from scipy import stats

    margin, alpha = check_margin(margin), _checks.number("alpha", alpha, "(0, 0.5)")
    inner = paired_difference(a, b, level=1 - 2 * alpha)
    outer = paired_difference(a, b, level=1 - alpha)
    p = float("nan")
    if not np.isnan(inner.p):
        p = float(stats.t.sf((margin - abs(inner.mean)) / (inner.sd / np.sqrt(inner.n)), inner.n - 1))
    outcome: Outcome = "undecided"
    if -margin < inner.low and inner.high < margin:
        outcome = "equivalent"
    elif outer.low > 0 or outer.high < 0:
        outcome = "different"
    return Equivalence(outcome, margin, inner.mean, inner.low, inner.high, p, inner.n, alpha)


def check_margin(margin: float) -> float:
    """Return a margin, which must be positive and finite: beyond all differences everything would be equivalent."""
    try:
        return _checks.number("margin", margin, "(0, inf)")
    except ValueError as error:
        raise ValueError(f"{error} It is the largest difference that counts as none, in the values' unit.") from None
