"""Methods over several data sets or settings: who ranks where, and who cannot be told apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from fedstat._checks import check_level
from fedstat.inference.formatting import first_of, p_value
from fedstat.inference.intervals.paired import ROUNDING, gaps, holm, sign_flip_test


@dataclass(frozen=True, eq=False)
class Ranks:
    """Mean ranks of methods over settings, best first; ``print`` it for a table.

    Attributes
    ----------
    methods : tuple of str
        The methods, by mean rank.
    mean_ranks : ndarray, shape (methods,)
        Mean over settings of the rank; 1 is best, ties share their mean.
    critical_difference : float
        Mean ranks that differ by less cannot be told apart (Nemenyi).
    groups : tuple of tuple of str
        The largest groups of two or more methods of which no two can be told apart; all methods, if Friedman's test
        finds no difference.
    p : float
        P-value of Friedman's test in the form of Iman and Davenport: the F statistic on k - 1 and (k - 1) (N - 1)
        degrees of freedom. Where all settings rank alike, F is infinite and p is exact, ``k!^(1 - N)``.
    settings : int
        Number of settings, N.
    friedman, friedman_p : float
        Friedman's chi-square, corrected for ties, and its p-value.
    iman_davenport : float
        The F statistic; it equals the F of a two-way analysis of variance of the ranks.
    pairs : DataFrame
        One row per pair: difference of mean ranks, Nemenyi's p-value, Holm-adjusted Wilcoxon p-value over settings.
    level : float
        Level of the critical difference.
    notes : tuple of str
        What the numbers rest on.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import ranks
    >>> table = pd.DataFrame({"A": [0.9, 0.8, 0.7, 0.9], "B": [0.8, 0.7, 0.6, 0.8], "C": [0.7, 0.6, 0.65, 0.7]})
    >>> found = ranks(table)  # one row per setting
    >>> dict(zip(found.methods, found.mean_ranks.tolist(), strict=True)), round(found.critical_difference, 2)
    ({'A': 1.0, 'B': 2.25, 'C': 2.75}, 1.66)
    """

    methods: tuple[str, ...]
    mean_ranks: np.ndarray
    critical_difference: float
    groups: tuple[tuple[str, ...], ...]
    p: float
    settings: int
    friedman: float
    friedman_p: float
    iman_davenport: float
    pairs: pd.DataFrame
    level: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        width = max(len(name) for name in self.methods)
        shown = [f"{name:{width}}  {rank:.2f}" for name, rank in zip(self.methods, self.mean_ranks, strict=True)]
        told = "; ".join(", ".join(group) for group in self.groups) or "none"
        f = f"F = {self.iman_davenport:.3g}"
        test = f"Friedman (Iman-Davenport): {f}, p {p_value(self.p)}, {self.settings} settings"
        gap = f"critical difference of mean ranks (Nemenyi): {self.critical_difference:.2f}"
        return "\n".join([*shown, "", test, gap, f"not told apart: {told}", *self.notes])


def ranks(table: pd.DataFrame, *, smaller: bool = False, complete: bool = False, level: float = 0.95) -> Ranks:
    """Rank methods within each setting and test whether they differ.

    Parameters
    ----------
    table : DataFrame
        One row per setting and one column per method; or columns setting, seed, method, value, which are averaged over
        seeds first.
    smaller : bool
        Whether smaller values are better, as of a loss.
    complete : bool
        Whether to leave out, and count, what lacks a method; otherwise a missing value is refused.
    level : float
        Level of the critical difference, in (0, 1).

    Raises
    ------
    ValueError
        If there are fewer than three methods or two settings, or a method is missing in some settings.

    References
    ----------
    J. Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 2006.

    Examples
    --------
    A row for each data set, such as the mean of a run's `primary_summary`:

    >>> import pandas as pd
    >>> from fedstat.inference import ranks
    >>> data_sets = ["digits", "faces", "letters", "wine"]
    >>> accuracy = {"Ditto": [0.9, 0.8, 0.7, 0.9], "FedPer": [0.8, 0.7, 0.6, 0.8], "FedAvg": [0.7, 0.6, 0.65, 0.7]}
    >>> print(ranks(pd.DataFrame(accuracy, index=data_sets)))
    Ditto   1.00
    FedPer  2.25
    FedAvg  2.75
    <BLANKLINE>
    Friedman (Iman-Davenport): F = 13, p 0.007, 4 settings
    critical difference of mean ranks (Nemenyi): 1.66
    not told apart: Ditto, FedPer; FedPer, FedAvg
    The tests speak of settings like these 4: settings are the sample, whatever their seeds.
    With fewer than 6 settings no Wilcoxon test can reach 5%.
    """
    from scipy import stats

    level = check_level(level)
    wide, notes = _complete_rows(table, complete)
    means = wide.groupby(level=0, sort=False).mean()
    settings, k = means.shape
    if k < 3 or settings < 2:
        raise ValueError(
            f"ranks needs at least 3 methods and 2 settings, got {k} and {settings}. "
            "Two methods are compared by paired_difference of their means in each setting."
        )
    values = means.to_numpy()
    steps = _steps(values, np.abs(values).max(axis=1, keepdims=True))
    of_setting = stats.rankdata(steps if smaller else -steps, axis=1)
    order = np.argsort(of_setting.mean(axis=0), kind="stable")
    of_setting, names = of_setting[:, order], [str(means.columns[i]) for i in order]
    mean_ranks = of_setting.mean(axis=0)
    if np.ptp(of_setting, axis=1).max() == 0:  # ties everywhere
        friedman, friedman_p, f, p = 0.0, 1.0, 0.0, 1.0
    else:
        friedman, friedman_p = (float(v) for v in stats.friedmanchisquare(*of_setting.T))
        rest = settings * (k - 1) - friedman
        if rest > 1e-9 * settings:
            f = (settings - 1) * friedman / rest
            p = float(stats.f.sf(f, k - 1, (k - 1) * (settings - 1)))
        else:
            f = float("inf")
            p = float(np.exp(-(settings - 1) * np.log(np.arange(1.0, k + 1)).sum()))
    error = np.sqrt(k * (k + 1) / (6 * settings))
    critical = float(stats.studentized_range.isf(1 - level, k, np.inf) / np.sqrt(2) * error)
    both = list(combinations(range(k), 2))
    gaps = np.array([mean_ranks[j] - mean_ranks[i] for i, j in both])
    values = values[:, order]
    pairs = pd.DataFrame(
        {
            "method": [names[i] for i, _ in both],
            "against": [names[j] for _, j in both],
            "rank difference": -gaps,
            "p (Nemenyi)": stats.studentized_range.sf(gaps / error * np.sqrt(2), k, np.inf),
            "p (Wilcoxon, Holm)": holm([_wilcoxon(values[:, i], values[:, j]) for i, j in both]),
        }
    )
    notes.append(f"The tests speak of settings like these {settings}: settings are the sample, whatever their seeds.")
    if settings < 6:
        notes.append("With fewer than 6 settings no Wilcoxon test can reach 5%.")
    return Ranks(
        methods=tuple(names),
        mean_ranks=mean_ranks,
        critical_difference=critical,
        groups=_groups(names, mean_ranks, critical) if p < 1 - level else (tuple(names),),
        p=p,
        settings=settings,
        friedman=friedman,
        friedman_p=friedman_p,
        iman_davenport=float(f),
        pairs=pairs,
        level=level,
        notes=tuple(notes),
    )


def _complete_rows(table: pd.DataFrame, complete: bool) -> tuple[pd.DataFrame, list[str]]:
    """Return a table of settings (and seeds) by methods without gaps, and what is to be said of it."""
    wide = table
    if {"method", "value"} <= set(table.columns):
        if "setting" not in table.columns:
            raise ValueError(f"the table lacks the column 'setting'; it has {list(table.columns)}.")
        by = ["setting", "seed"] if "seed" in table.columns else ["setting"]
        if (again := table.duplicated([*by, "method"])).any():
            place = table.loc[again, [*by, "method"]].iloc[0].to_dict()
            raise ValueError(f"the table has several values at {place}. Average over clients and rounds first.")
        # in the order of the table, not of the alphabet
        wide = table.set_index([*by, "method"])["value"].unstack("method", sort=False)
    if wide.empty:
        raise ValueError("the table has no values.")
    if text := [name for name in wide.columns if not pd.api.types.is_numeric_dtype(wide[name])]:
        raise ValueError(
            f"the columns {text} do not hold numbers. Give settings as rows (the index), methods as columns."
        )
    if wide.index.nlevels == 1 and not wide.index.is_unique:
        raise ValueError(f"the setting {wide.index[wide.index.duplicated()].tolist()[0]!r} occurs twice.")
    wide = wide.astype(float)
    missing = ~np.isfinite(wide)
    gaps = missing.any(axis=1)
    if not gaps.any():
        return wide, []
    where = {str(name): list(wide.index[column]) for name, column in missing.items() if column.any()}
    told = "; ".join(f"{name} in {first_of(map(_row, rows), 5)}" for name, rows in where.items())
    if not complete:
        raise ValueError(
            f"values are missing (absent, infinite or NaN): {told}. Run the method there, leave it out, "
            f"or give complete=True for the {int((~gaps).sum())} of {len(wide)} rows with all methods."
        )
    if gaps.all():
        raise ValueError(f"no row has all methods; missing: {told}. Compare fewer methods.")
    return wide[~gaps], [f"Left out {int(gaps.sum())} of {len(wide)} rows, which lack a method: {told}."]


def _row(row: object) -> str:
    return f"{row[0]} (seed {row[1]})" if isinstance(row, tuple) else str(row)


def _wilcoxon(x: np.ndarray, y: np.ndarray) -> float:
    """Return the p-value of Wilcoxon's signed-rank test without zeros: exact, with ties, up to 13 settings."""
    from scipy import stats

    d = gaps(x, y)
    scale, d = np.maximum(np.abs(x), np.abs(y))[d != 0], d[d != 0]
    signed = np.sign(d) * stats.rankdata(_steps(np.abs(d), scale.max(initial=0.0)))
    if len(d) > 13:
        return float(stats.wilcoxon(signed).pvalue)
    # scipy enumerates ties in Python; the test is that of flipped signs on ranks
    signed = np.append(signed, [0.0, 0.0])
    return sign_flip_test(signed, np.zeros(len(signed)))


def _steps(values: np.ndarray, scale: np.ndarray | float) -> np.ndarray:
    """Number values along the last axis from the smallest; what differs by rounding, beside `scale`, has one number."""
    order = values.argsort(axis=-1)
    rises = np.diff(np.take_along_axis(values, order, axis=-1), axis=-1) > ROUNDING * scale
    steps = np.zeros(values.shape, int)
    np.put_along_axis(steps, order[..., 1:], rises.cumsum(axis=-1), axis=-1)
    return steps


def _groups(names: list[str], mean_ranks: np.ndarray, critical: float) -> tuple[tuple[str, ...], ...]:
    """Return the maximal runs of sorted mean ranks whose ends differ by less than the critical difference."""
    ends = [int(np.flatnonzero(mean_ranks - low < critical)[-1]) for low in mean_ranks]
    return tuple(
        tuple(names[start : end + 1])
        for start, end in enumerate(ends)
        if end > start and (start == 0 or ends[start - 1] < end)
    )
