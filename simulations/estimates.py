"""Estimates for chapters: a mean, a difference or a share with its limits, or undefined, with the reason.

The functions of `fedstat.inference` refuse values that are missing. A chapter has to be written all the same: a unit
may be dead, a run may have diverged, a seed may stand alone. Here such an estimate is NaN and says why. Values that are
left are never averaged in its place, since what is missing is not missing by chance.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedstat.inference import mean_interval

#: Mean, lower and upper limit.
Estimate = tuple[float, float, float]
REAL = (-math.inf, math.inf)
Name = TypeVar("Name", bound=Hashable)
Table = TypeVar("Table", pd.Series, pd.DataFrame)
_noted: ContextVar[dict[str, None] | None] = ContextVar("noted", default=None)


class Undefined(tuple[float, float, float]):
    """An estimate without limits, and in most cases without a mean: these are NaN, and `why` says the reason."""

    why: str


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


def by_run(rows: pd.DataFrame, columns: str, values: str = "value") -> pd.DataFrame:
    """Return one row per seed, NaN where nothing ran and infinity where a run left no number.

    So runs that were not asked for can be left out, as `dropna` does, and what is missing stays undefined.
    """
    return rows.assign(**{values: rows[values].fillna(math.inf)}).pivot(index="seed", columns=columns, values=values)


def means_by(rows: pd.DataFrame, columns: str, values: str) -> pd.DataFrame:
    """Return means by seed (rows) and the labels of a column, NaN where one of the averaged values is."""
    return rows.groupby(["seed", columns])[values].mean(skipna=False).unstack()


def times(factor: float, estimate: Estimate) -> Estimate:
    """Return an estimate and its limits in another unit."""
    mean, low, high = (factor * value for value in estimate)
    return undefined(reason(estimate), mean) if reason(estimate) else (mean, low, high)


def logarithms(values: Table) -> Table:
    """Return natural logarithms, NaN where a value is not positive."""
    return np.log(values.where(values > 0))


def strict_mean(values: Iterable[float]) -> float:
    """Return the mean, NaN if a value is missing or there is none; pandas would average what is left."""
    x = np.asarray(list(values), dtype=float)
    return float(x.mean()) if x.size else math.nan
