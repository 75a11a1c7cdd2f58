"""Two numbers over several settings: how often a method wins, and the mean of the middle half.

Both follow Agarwal et al. (2021), whose package rliable is archived, but keep the pairs: methods under one seed are
compared with each other, and resampled together. Their percentile bootstrap covers 70 to 86% with three seeds per
setting; the limits here cover 93 to 95% (normal values; 89% of skewed ones in a single setting).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fedstat._checks import number, whole
from fedstat._random import stream
from fedstat.inference.proportion import clopper_pearson
from fedstat.inference.settings import complete_rows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ImprovementProbability:
    """How often methods beat a control; ``print`` it for a table.

    Attributes
    ----------
    table : DataFrame
        One row per method: the probability to be better than the control under the same setting and seed, where a tie
        counts half; simultaneous exact limits; wins, ties and pairs.
    control : str
        What the methods are compared with.
    level : float
        Joint confidence level of all rows.
    notes : tuple of str
        What the numbers rest on.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import probability_of_improvement
    >>> runs = {("digits", "FedAvg"): [70, 72, 71, 10, 70], ("digits", "Ditto"): [74, 75, 73, 74, 73]}
    >>> runs |= {("wine", "FedAvg"): [88, 90, 89, 87, 88], ("wine", "Ditto"): [89, 90, 88, 90, 91]}
    >>> rows = [(d, m, s, v) for (d, m), of in runs.items() for s, v in enumerate(of)]
    >>> table = pd.DataFrame(rows, columns=["setting", "method", "seed", "value"])
    >>> probability_of_improvement(table, "FedAvg").table.round(2)
            probability   low  high  wins  ties  pairs
    method
    Ditto          0.85  0.44   1.0     8     1     10
    """

    table: pd.DataFrame
    control: str
    level: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.table.to_string(float_format="%.3f"), "", *self.notes])


@dataclass(frozen=True, eq=False)
class InterquartileMeans:
    """Means of the middle half over settings and seeds; ``print`` it for a table.

    Attributes
    ----------
    summary : DataFrame
        One row per method: mean of the values between the quartiles, with limits.
    differences : DataFrame
        One row per pair, or per method but the control: difference with simultaneous limits.
    level : float
        Confidence level.
    notes : tuple of str
        What the numbers rest on.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import interquartile_mean
    >>> runs = {("digits", "FedAvg"): [70, 72, 71, 10, 70], ("digits", "Ditto"): [74, 75, 73, 74, 73]}
    >>> runs |= {("wine", "FedAvg"): [88, 90, 89, 87, 88], ("wine", "Ditto"): [89, 90, 88, 90, 91]}
    >>> rows = [(d, m, s, v) for (d, m), of in runs.items() for s, v in enumerate(of)]
    >>> table = pd.DataFrame(rows, columns=["setting", "method", "seed", "value"])
    >>> interquartile_mean(table).summary.iloc[:, 0].round(3)
    method
    FedAvg    79.333
    Ditto     81.667
    Name: interquartile mean, dtype: float64
    """

    summary: pd.DataFrame
    differences: pd.DataFrame
    level: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        shown = [self.summary.to_string(float_format="%.4g", na_rep="-")]
        if len(self.differences):
            shown += ["", self.differences.to_string(index=False, float_format="%.4g", na_rep="-")]
        return "\n".join([*shown, "", *self.notes])


def probability_of_improvement(
    table: pd.DataFrame, control: str, *, smaller: bool = False, complete: bool = False, level: float = 0.95
) -> ImprovementProbability:
    """Estimate how probably each method beats the control under the same setting and seed.

    Parameters
    ----------
    table : DataFrame
        Columns setting, seed, method, value; the same number of seeds in each setting.
    control : str
        The method that the others are compared with.
    smaller : bool
        Whether smaller values are better, as of a loss.
    complete : bool
        Whether to leave out, and count, settings and seeds that lack a method; otherwise they are refused.
    level : float
        Joint confidence level, in (0, 1).

    Raises
    ------
    ValueError
        If the table is not as said, or the control is missing somewhere.

    Notes
    -----
    The limits are Clopper and Pearson's, with Bonferroni's level. They hold although the probability differs between
    settings: the number of wins then spreads less than a binomial one (Hoeffding 1956). The lower limit counts ties as
    losses, the upper one as wins. Settings and seeds must be independent draws.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import probability_of_improvement
    >>> runs = {("digits", "FedAvg"): [70, 72, 71, 10, 70], ("digits", "Ditto"): [74, 75, 73, 74, 73]}
    >>> runs |= {("wine", "FedAvg"): [88, 90, 89, 87, 88], ("wine", "Ditto"): [89, 90, 88, 90, 91]}
    >>> rows = [(d, m, s, v) for (d, m), of in runs.items() for s, v in enumerate(of)]
    >>> table = pd.DataFrame(rows, columns=["setting", "method", "seed", "value"])
    >>> print(probability_of_improvement(table, "FedAvg"))
            probability   low  high  wins  ties  pairs
    method
    Ditto         0.850 0.444 0.997     8     1     10
    <BLANKLINE>
    Probability to beat FedAvg in one of these 2 settings, drawn at random, under a new seed.
    """
    import pandas as pd

    confidence = number("level", level, "(0, 1)")
    values, _, methods, notes = _by_setting(table, complete)
    if control not in methods or len(methods) < 2:
        raise ValueError(f"control must be one of two or more methods, {methods}, got {control!r}.")
    others = [name for name in methods if name != control]
    rows = {}
    for name in others:
        gain = (values[..., methods.index(name)] - values[..., methods.index(control)]) * (-1 if smaller else 1)
        wins, ties, pairs = int((gain > 0).sum()), int((gain == 0).sum()), gain.size
        each = 1 - (1 - confidence) / len(others)
        low, high = clopper_pearson(wins, pairs, each)[0], clopper_pearson(wins + ties, pairs, each)[1]
        rows[name] = ((wins + ties / 2) / pairs, low, high, wins, ties, pairs)
    columns = ["probability", "low", "high", "wins", "ties", "pairs"]
    shown = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("method")
    notes.append(
        f"Probability to beat {control} in one of these {len(values)} settings, drawn at random, under a new seed."
    )
    return ImprovementProbability(shown, control, confidence, tuple(notes))


def interquartile_mean(
    table: pd.DataFrame,
    *,
    control: str | None = None,
    complete: bool = False,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> InterquartileMeans:
    """Average the middle half of the values over settings and seeds, and compare methods.

    Parameters
    ----------
    table : DataFrame
        Columns setting, seed, method, value; the same number of seeds, two or more, in each setting. Values must be
        comparable over settings: a setting on another scale decides alone which values are cut off.
    control : str, optional
        The method that others are compared with; by default all pairs are.
    complete : bool
        Whether to leave out, and count, settings and seeds that lack a method; otherwise they are refused.
    level : float
        Confidence level, in (0, 1).
    draws : int
        Number of bootstrap draws.
    seed : int
        Key of the draws; the same key gives the same limits.

    Raises
    ------
    ValueError
        If the table is not as said, or the control is no method of it.

    Notes
    -----
    A quarter of all values, rounded down, is cut off at either end. The standard error comes from a bootstrap that
    draws S - 1 of the S seeds of a setting, all methods together (Rao and Wu 1988): drawing S would make it too small
    by the factor sqrt(1 - 1/S). Limits are t limits on M (S - 1) degrees of freedom for M settings. They speak of new
    seeds in these settings.

    Examples
    --------
    Two settings; in one of them a run collapsed, which the middle half leaves out:

    >>> import pandas as pd
    >>> from fedstat.inference import interquartile_mean
    >>> runs = {("digits", "FedAvg"): [70, 72, 71, 10, 70], ("digits", "Ditto"): [74, 75, 73, 74, 73]}
    >>> runs |= {("wine", "FedAvg"): [88, 90, 89, 87, 88], ("wine", "Ditto"): [89, 90, 88, 90, 91]}
    >>> rows = [(d, m, s, v) for (d, m), of in runs.items() for s, v in enumerate(of)]
    >>> table = pd.DataFrame(rows, columns=["setting", "method", "seed", "value"])
    >>> print(interquartile_mean(table))
            interquartile mean   low  high  settings  seeds
    method
    FedAvg               79.33  73.5 85.17         2      5
    Ditto                81.67 80.71 82.62         2      5
    <BLANKLINE>
    method against  difference    low  high
    FedAvg   Ditto      -2.333 -8.193 3.526
    <BLANKLINE>
    Limits speak of new seeds in these 2 settings; those of differences hold jointly.
    """
    import pandas as pd
    from scipy import stats

    confidence = number("level", level, "(0, 1)")
    values, _, methods, notes = _by_setting(table, complete)
    if control is not None and control not in methods:
        raise ValueError(f"control must be a method of the table, {methods}, got {control!r}.")
    settings, seeds, k = values.shape
    if seeds < 2:
        raise ValueError("an interquartile mean with limits needs at least 2 seeds per setting, got 1. Run more seeds.")
    rng = stream(seed, "interquartile mean")
    chosen = rng.integers(0, seeds, size=(whole("draws", draws, 100), settings, seeds - 1))
    rows = np.arange(settings)[None, :, None]
    # one method at a time, under the same draws: memory for one
    drawn = np.stack([_middle(values[rows, chosen, j].reshape(len(chosen), -1)) for j in range(k)], axis=1)
    estimate = _middle(values.reshape(-1, k).T)
    degrees = settings * (seeds - 1)

    def limits(of: float, error: float, tests: int) -> tuple[float, float]:
        if error < 1e-12 * max(1.0, abs(of)):
            return float("nan"), float("nan")
        half = stats.t.isf((1 - confidence) / 2 / tests, degrees) * error
        return of - half, of + half

    summary = pd.DataFrame(
        [(estimate[j], *limits(estimate[j], drawn[:, j].std(ddof=1), 1), settings, seeds) for j in range(k)],
        index=pd.Index(methods, name="method"),
        columns=["interquartile mean", "low", "high", "settings", "seeds"],
    )
    if control is None:
        pairs = list(combinations(range(k), 2))
    else:
        pairs = [(j, methods.index(control)) for j in range(k) if methods[j] != control]
    found = []
    for a, b in pairs:
        difference = float(estimate[a] - estimate[b])
        error = float((drawn[:, a] - drawn[:, b]).std(ddof=1))
        found.append((methods[a], methods[b], difference, *limits(difference, error, len(pairs))))
    differences = pd.DataFrame(found, columns=["method", "against", "difference", "low", "high"])
    notes.append(f"Limits speak of new seeds in these {settings} settings; those of differences hold jointly.")
    if summary["low"].isna().any() or differences["low"].isna().any():
        notes.append("No limits where the values of the seeds do not vary.")
    return InterquartileMeans(summary, differences, confidence, tuple(notes))


def _middle(values: np.ndarray) -> np.ndarray:
    """Return the mean along the last axis without the lowest and the highest quarter, as scipy's trim_mean does."""
    n = values.shape[-1]
    cut = n // 4
    return np.sort(values, axis=-1)[..., cut : n - cut].mean(axis=-1)


def _by_setting(table: pd.DataFrame, complete: bool) -> tuple[np.ndarray, list[object], list[str], list[str]]:
    """Return values (settings, seeds, methods), the settings, the methods, and what is to be said of the table."""
    if missing := [name for name in ("setting", "seed", "method", "value") if name not in table.columns]:
        raise ValueError(f"the table lacks the columns {missing}; it has {list(table.columns)}.")
    wide, notes = complete_rows(table, complete=complete)
    counts = wide.groupby(level=0, sort=False).size()
    if counts.nunique() > 1:
        raise ValueError(
            f"settings must have the same number of seeds, got {counts.idxmin()!r} with {counts.min()} and "
            f"{counts.idxmax()!r} with {counts.max()}. Keep as many seeds of each."
        )
    ordered = wide.loc[list(counts.index)]
    return ordered.to_numpy().reshape(len(counts), -1, wide.shape[1]), list(counts.index), list(wide.columns), notes
