"""Estimates for chapters: a mean, a difference or a share with its limits, or undefined, with the reason.

The functions of `fedstat.inference` refuse values that are missing. A chapter has to be written all the same: a unit
may be dead, a run may have diverged, a seed may stand alone. Here such an estimate is NaN and says why. Values that are
left are never averaged in its place, since what is missing is not missing by chance.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedstat.inference import (
    Design,
    PairedDifference,
    clopper_pearson,
    equivalence,
    mean_interval,
    paired_difference,
    simultaneous,
)
from fedstat.inference.intervals.paired import NO_SPREAD

#: Mean, lower and upper limit.
Estimate = tuple[float, float, float]
REAL = (-math.inf, math.inf)
Name = TypeVar("Name", bound=Hashable)
_noted: ContextVar[dict[str, None] | None] = ContextVar("noted", default=None)


class Undefined(tuple[float, float, float]):
    """An estimate without limits, and in most cases without a mean: these are NaN, and `why` says the reason."""

    why: str


@dataclass(frozen=True)
class Difference(PairedDifference):
    """A paired difference; `why` says the reason if it has no limits."""

    why: str = ""


@contextmanager
def noted() -> Iterator[dict[str, None]]:
    """Yield the reasons, each once, for which estimates made inside the block are undefined."""
    reasons: dict[str, None] = {}
    token = _noted.set(reasons)
    try:
        yield reasons
    finally:
        _noted.reset(token)


def undefined(why: str, mean: float = math.nan) -> Undefined:
    """Return an estimate without limits; the reason is noted.

    Parameters
    ----------
    why : str
        The reason, in words that can stand behind a colon.
    mean : float
        The mean, where it is known.
    """
    found = Undefined((mean, math.nan, math.nan))
    found.why = why
    if (reasons := _noted.get()) is not None:
        reasons[why] = None
    return found


def reason(estimate: Estimate) -> str:
    """Return why an estimate is undefined; empty if it is defined."""
    return estimate.why if isinstance(estimate, Undefined) else ""


def missing(*values: ArrayLike) -> str:
    """Say how many values are not there, in words such as "2 of 6 values of accuracy are missing"; empty if all are."""
    for some in values:
        x = np.asarray(some, dtype=float)
        name = some.name if isinstance(some, pd.Series) else None
        of = f" of {name}" if isinstance(name, str) else ""
        gone = int((~np.isfinite(x)).sum())
        if not x.size:
            return f"there are no values{of}"
        if gone:
            number = f"{gone} of {x.size} values{of} are" if x.size > 1 else f"the value{of} is"
            return f"{number} missing"
    return ""


def note(*values: pd.Series) -> None:
    """Note what is missing of values in whose place a chapter shows a dash."""
    for why in filter(None, map(missing, values)):
        undefined(why)


def mean_of(values: ArrayLike, level: float = 0.95, *, within: tuple[float, float] = REAL) -> Estimate:
    """Return the mean of independent values, as `fedstat.inference.mean_interval` does, where it is defined."""
    x = np.asarray(values, dtype=float)
    if why := missing(values):
        return undefined(why)
    if len(x) < 2:
        return undefined("one run has no limits", float(x[0]))
    return mean_interval(x, level, within=within)


def half_widths(values: ArrayLike, together: int = 1, level: float = 0.95) -> np.ndarray:
    """Return half-widths of t limits of a table's column means, of which `together` hold jointly (Bonferroni).

    A column counts the values that it has; with fewer than two its half-width is NaN.
    """
    from scipy import stats

    table = pd.DataFrame(np.asarray(values, dtype=float))
    n = table.notna().sum().to_numpy()
    return np.asarray(stats.t.isf((1 - level) / 2 / together, n - 1) * table.std().to_numpy() / np.sqrt(n))


def difference_of(a: ArrayLike, b: ArrayLike, *, level: float = 0.95, within: tuple[float, float] = REAL) -> Difference:
    """Compare value by value, as `fedstat.inference.paired_difference`, where that is defined."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if why := missing(a, b):
        mean, low, high = undefined(why)
    elif len(x) < 2:
        why = "one pair has no limits"
        mean, low, high = undefined(why, float(x[0] - y[0]))
    else:
        found = paired_difference(x, y, level=level, within=within)
        return Difference(**vars(found), why=NO_SPREAD if math.isnan(found.low) else "")
    return Difference(mean, low, high, sd=math.nan, correlation=math.nan, p=math.nan, n=len(x), level=level, why=why)


def joint_of(
    wide: pd.DataFrame,
    pairs: Sequence[tuple[Name, Name]],
    design: Design,
    *,
    level: float = 0.95,
    moderated: bool | Literal["auto"] = False,
) -> dict[tuple[Name, Name], Estimate]:
    """Compare pairs of columns with limits that hold together, as `fedstat.inference.simultaneous`, where defined.

    Parameters
    ----------
    wide : DataFrame
        One row per seed.
    pairs : sequence of (name, name)
        Columns, the first less the second.
    design, level, moderated
        As there. Limits hold together for all pairs without a missing value.
    """
    gone = {pair: why for pair in pairs if (why := missing(wide[pair[0]], wide[pair[1]]))}
    found: dict[tuple[Name, Name], Estimate] = {pair: undefined(why) for pair, why in gone.items()}
    if whole := [pair for pair in pairs if pair not in gone]:
        names = list(dict.fromkeys(name for pair in whole for name in pair))
        places = [(names.index(a), names.index(b)) for a, b in whole]
        family = simultaneous(
            wide[names].to_numpy(dtype=float).T[:, :, None], places, design=design, level=level, moderated=moderated
        )
        why = "one pair has no limits" if len(wide) < 2 else NO_SPREAD
        for pair, mean, low, high in zip(whole, family.estimate, family.low, family.high, strict=True):
            found[pair] = undefined(why, float(mean)) if np.isnan(low) else (float(mean), float(low), float(high))
    return {pair: found[pair] for pair in pairs}


def by_run(rows: pd.DataFrame, columns: str, values: str = "value") -> pd.DataFrame:
    """Return one row per seed, NaN where nothing ran and infinity where a run left no number.

    So runs that were not asked for can be left out, as `dropna` does, and what is missing stays undefined.
    """
    return rows.assign(**{values: rows[values].fillna(math.inf)}).pivot(index="seed", columns=columns, values=values)


def means_by(rows: pd.DataFrame, columns: str, values: str) -> pd.DataFrame:
    """Return means by seed (rows) and the labels of a column, NaN where one of the averaged values is."""
    return rows.groupby(["seed", columns])[values].mean(skipna=False).unstack()


def share_of(hits: ArrayLike, level: float = 0.95) -> Estimate:
    """Return the share of values that are true, with exact limits (Clopper and Pearson's), where there are any values.

    Parameters
    ----------
    hits : array_like of bool or float, shape (n,)
        NaN where it is not known.
    level : float
        Confidence level, in (0, 1).
    """
    x = np.asarray(hits, dtype=float)
    if why := missing(hits):
        return undefined(why)
    return float(x.mean()), *clopper_pearson(int(x.sum()), len(x), level)


def margin_of(points: pd.DataFrame) -> float:
    """Return the margin of equivalence: a tenth of the gap between FedAvg and Local, one point at most; NaN if unknown.

    Parameters
    ----------
    points : DataFrame
        Accuracies in percentage points; the two arms are among its columns.
    """
    gap = abs(float(points["FedAvg"].mean(skipna=False)) - float(points["Local"].mean(skipna=False)))
    return min(1.0, gap / 10) if math.isfinite(gap) else math.nan


def outcome_of(a: pd.Series, b: pd.Series, difference: Estimate, margin: float, alpha: float = 0.05) -> str:
    """Say whether two arms are "equivalent" within the margin, "different", "undecided", or "undefined" without a mean.

    They are "different" if `difference` has limits on one side of zero. Without limits or a margin nothing is decided.
    """
    mean, low, high = difference
    if math.isnan(mean):
        return "undefined"
    if math.isnan(low):
        return "undecided"
    if margin > 0 and equivalence(a, b, margin=margin, alpha=alpha).outcome == "equivalent":
        return "equivalent"
    return "different" if low > 0 or high < 0 else "undecided"


def limits(difference: PairedDifference) -> Estimate:
    """Return a paired difference as mean and confidence limits."""
    if math.isnan(difference.low):
        why = difference.why if isinstance(difference, Difference) else NO_SPREAD
        return undefined(why, difference.mean)
    return difference.mean, difference.low, difference.high


def times(factor: float, estimate: Estimate) -> Estimate:
    """Return an estimate and its limits in another unit."""
    mean, low, high = (factor * value for value in estimate)
    return undefined(reason(estimate), mean) if reason(estimate) else (mean, low, high)


def strict_mean(values: Iterable[float]) -> float:
    """Return the mean, NaN if a value is missing or there is none; pandas would average what is left."""
    x = np.asarray(list(values), dtype=float)
    return float(x.mean()) if x.size else math.nan
