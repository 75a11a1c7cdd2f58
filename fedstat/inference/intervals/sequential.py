"""Looking at a comparison more than once: intervals that hold at every look.

An interval for a fixed number of seeds does not allow a second look: whoever adds seeds until it excludes zero gets
there by chance far more often than in 5% of the runs. A confidence sequence covers the mean at all looks at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedstat import _checks
from fedstat.inference.formatting import interval, number
from fedstat.inference.intervals.paired import decimals
from fedstat.inference.levels import check_level

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Looks:
    """A confidence sequence, look by look; ``print`` it for the last look and what it allows.

    Attributes
    ----------
    table : DataFrame
        One row per number of seeds from 1 on: mean, low, high, and p, valid at every look (the smallest so far).
        Limits are infinite where there is no interval yet: below about half of `planned`, or without spread.
    level : float
        Probability that the true mean lies in all intervals.
    planned : int
        Number of seeds at which the sequence was made narrowest.

    Examples
    --------
    >>> from fedstat.inference import looks
    >>> found = looks([0.031, 0.012, 0.024, 0.015, 0.041, 0.022, 0.019])
    >>> found.table.tail(3).round(3)  # limits that hold at every look together
            mean    low   high      p
    seeds
    5      0.025 -0.010  0.060  0.100
    6      0.024  0.002  0.046  0.038
    7      0.023  0.007  0.040  0.015
    """

    table: pd.DataFrame
    level: float
    planned: int

    @property
    def decided_at(self) -> int | None:
        """The number of seeds at the first look whose interval excludes zero; None if none does."""
        clear = (self.table["low"] > 0) | (self.table["high"] < 0)
        return int(clear.idxmax()) if clear.any() else None

    def __str__(self) -> str:
        n = len(self.table)
        mean, low, high = self.table.loc[n, ["mean", "low", "high"]]
        if np.isinf(low):
            now = f"mean difference {number(mean)}, no interval yet"
        else:
            now = f"mean difference {interval((mean, low, high), decimals(high - low))}"
        decided = f"different from zero since {at} seeds" if (at := self.decided_at) else "undecided so far"
        return (
            f"After {n} seed{'s' * (n > 1)}: {now}; {decided}. The {100 * self.level:.4g}% intervals hold at every "
            "look together, so seeds may be added and runs stopped whenever one likes."
        )


def looks(differences: ArrayLike, *, planned: int = 10, level: float = 0.95) -> Looks:
    """Return intervals for the mean paired difference that hold however often one looks, and whenever one stops.

    For normal differences of unknown mean m and standard deviation the likelihood ratio of ``d - m`` against a normal
    law of the mean over the standard deviation with variance c, both invariant under scale,

        E_n(m) = (1 + n c)^(-1/2) * (Q / (Q - n c / (1 + n c) * n (mean - m)^2))^(n/2),   Q = sum (d - m)^2,

    is a martingale that starts at 1, so it ever exceeds ``1 / alpha`` with probability `alpha` at most (Ville). The
    interval after n seeds holds the m with ``E_n(m) < 1 / alpha``. It is finite from about half of `planned` on, and at
    ten seeds 1.7 times as wide as the t interval, which is the price of looking. By simulation, with a look
    after each of 30 seeds, it errs in 2 to 3% of runs with normal differences and in 8 to 12% with exponential ones:
    skewness breaks it, as it breaks the t.

    Parameters
    ----------
    differences : array_like, length n >= 1
        Differences of the two methods, one per seed, in the order in which the seeds were run.
    planned : int
        At least 3. Number of seeds at which the intervals shall be narrowest; to be fixed before the first look.
    level : float
        Probability that all intervals cover, in (0, 1).

    Raises
    ------
    ValueError
        If differences are not finite, or arguments out of their range.

    References
    ----------
    Wang and Ramdas (2025), Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance,
    Sequential Analysis 44; Lai (1976), On confidence sequences, Annals of Statistics 4.

    Examples
    --------
    >>> from fedstat.inference import looks
    >>> print(looks([0.031, 0.012, 0.024, 0.015, 0.041, 0.022, 0.019]))
    After 7 seeds: mean difference 0.023 [0.007, 0.040]; different from zero since 6 seeds. The 95% intervals hold at
    every look together, so seeds may be added and runs stopped whenever one likes.
    """
    import pandas as pd

    d = np.asarray(differences, dtype=float)
    if d.ndim != 1 or len(d) < 1:
        raise ValueError(f"differences must be a vector with one value per seed, got shape {d.shape}.")
    if not np.isfinite(d).all():
        raise ValueError(f"differences must be finite, got {d[~np.isfinite(d)][0]:g}.")
    level, planned = check_level(level), _checks.whole("planned", planned, 3)
    c = _prior(planned, 1 - level)
    n = np.arange(1, len(d) + 1)
    mean = np.cumsum(d) / n
    # about the mean of all, so that little is lost by rounding
    centred = d - d.mean()
    squares = np.cumsum(centred**2) - n * (mean - d.mean()) ** 2
    squares = np.where(squares > (1e-12 * np.abs(d).max()) ** 2 * n, squares, 0)
    half = np.full(len(d), np.inf)
    spread = squares > 0
    half[spread] = _factor(n[spread], c, 1 - level) * np.sqrt(squares[spread])
    shrunk = 1 / (1 + n * c)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = squares + n * mean**2
        log_e = n / 2 * np.log(total / (squares + shrunk * n * mean**2)) + np.log(shrunk) / 2
    p = np.exp(-np.maximum.accumulate(np.where(spread, np.maximum(log_e, 0), 0)))
    table = pd.DataFrame(
        {"mean": mean, "low": mean - half, "high": mean + half, "p": p}, index=pd.Index(n, name="seeds")
    )
    return Looks(table, level, planned)


def _factor(n: np.ndarray, c: float, alpha: float) -> np.ndarray:
    """Return the half-width over the root of the sum of squares about the mean; infinite where there is none."""
    g = 1 + n * c
    k = (g / alpha**2) ** (1 / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(k < g, np.sqrt((k - 1) / (1 - k / g) / n), np.inf)


@cache
def _prior(planned: int, alpha: float) -> float:
    """Return the variance c of the standardised mean that makes the interval after `planned` seeds narrowest."""
    from scipy import optimize

    n = np.array([planned])
    # with K < 1 + n c the width is finite; it falls to one minimum and grows slowly beyond
    least = np.log((alpha ** (-2 / (planned - 1)) - 1) / planned)
    found = optimize.minimize_scalar(
        lambda x: float(np.log(_factor(n, np.exp(x), alpha)[0])), bounds=(least + 1e-9, least + 15), method="bounded"
    )
    return float(np.exp(found.x))


def added_seeds(looked_at: Sequence[int], level: float = 0.95) -> str:
    """Say why a fixed-sample interval does not hold where seeds were added after a look, and by how much.

    Parameters
    ----------
    looked_at : sequence of int
        Numbers of seeds at which one looked, rising from 2 or more, the last one included; such as ``[5, 10]``.
    level : float
        Level of the fixed-sample intervals, in (0, 1).

    Returns
    -------
    str
        A sentence with the chance that the t interval excludes zero at one of the looks if there is no difference, by
        simulation of 20,000 runs with normal differences.

    Examples
    --------
    >>> from fedstat.inference import added_seeds
    >>> print(added_seeds([5, 10, 20]))
    An interval for a fixed number of seeds allows one look. With looks at 5, 10 and 20 seeds the 95% interval
    excludes zero at one of them in 12% of runs without any difference, in place of 5%. The intervals of
    fedstat.inference.looks hold at every look.
    """
    from scipy import stats

    sizes, level = [_checks.whole("looked_at", n, 2) for n in looked_at], check_level(level)
    if not sizes or any(b <= a for a, b in pairwise(sizes)):
        raise ValueError(f"looked_at must hold rising numbers of seeds such as [5, 10], got {list(looked_at)}.")
    d = np.random.default_rng(0).normal(size=(20_000, sizes[-1]))
    clear = [
        np.abs(d[:, :n].mean(axis=1)) > stats.t.ppf((1 + level) / 2, n - 1) * d[:, :n].std(axis=1, ddof=1) / np.sqrt(n)
        for n in sizes
    ]
    wrong = np.any(clear, axis=0).mean()
    return (
        f"An interval for a fixed number of seeds allows one look. With looks at {_listed(sizes)} seeds the "
        f"{100 * level:.4g}% interval excludes zero at one of them in {100 * wrong:.0f}% of runs without any "
        f"difference, in place of {100 * (1 - level):.3g}%. The intervals of fedstat.inference.looks hold at "
        "every look."
    )


def _listed(sizes: Sequence[int]) -> str:
    if len(sizes) > 4 and list(sizes) == list(range(sizes[0], sizes[-1] + 1)):
        return f"each of {sizes[0]} to {sizes[-1]}"
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
