"""How soon a method gets there: rounds, bytes, FLOPs or local steps to a target.

A run that never reaches the target is not left out, and its last round is not taken for its time: it is censored.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from fedstat._checks import check_level, number
from fedstat.inference.formatting import p_value
from fedstat.inference.intervals.paired import holm, mean_interval, paired_difference, sign_flip_test
from fedstat.inference.reading.missing import complete_mean

# Simulated (gamma times, 3 to 20 seeds): t limits cover 92 to 96% up to this share at the horizon, down to 84% beyond.
_AT_HORIZON = 0.3


@dataclass(frozen=True, eq=False)
class TimeToTarget:
    """Times to a target; ``print`` it for a table.

    Attributes
    ----------
    runs : DataFrame
        One row per run: method, seed, whether it reached the target, and the time: the first value of the axis at
        which it was there, or its last if it never was.
    summary : DataFrame
        One row per method: how many runs reached the target up to their own end, of how many; the Kaplan-Meier median
        with exact limits (order statistics; infinite where the data give none); the restricted mean, which is the
        mean of the time up to the horizon, with t limits (NaN with one run, where all agree, or where more than three
        in ten had not arrived by the horizon: t limits under-cover there).
    differences : DataFrame
        Differences of restricted means, paired on seeds, with simultaneous t limits (Bonferroni over the rows), the
        p-value of the sign-flip test and the Holm-adjusted p-value of the paired t test. No limits and no t test where
        under more than three in ten seeds neither method had arrived by the horizon.
    log_rank_p : float
        P-value of the log-rank test that all methods share one law of the time up to the horizon; 1 if the runs do
        not differ at all, NaN with one method.
    horizon : float
        Last value of the axis that every run has reached: what comes after is not compared.
    target : float
        The value to reach.
    axis : str
        What the time is counted in.
    level : float
        Confidence level.
    notes : tuple of str
        What the numbers rest on.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import to_target
    >>> rows = [("A" if fast else "B", s, r, min(0.9, (0.1 + 0.05 * fast + 0.01 * s) * r))
    ...     for fast in (0, 1) for s in range(4) for r in range(1, 13)]
    >>> found = to_target(pd.DataFrame(rows, columns=["method", "seed", "round", "value"]), 0.8)
    >>> found.runs.groupby("method")["time"].mean().to_dict()  # rounds until 80%
    {'A': 5.25, 'B': 7.5}
    """

    runs: pd.DataFrame
    summary: pd.DataFrame
    differences: pd.DataFrame
    log_rank_p: float
    horizon: float
    target: float
    axis: str
    level: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        shown = [self.summary.to_string(float_format="%.4g", na_rep="-")]
        if len(self.differences):
            formats = {name: p_value for name in self.differences.columns if name.startswith("p ")}
            shown += ["", self.differences.to_string(index=False, float_format="%.4g", formatters=formats, na_rep="-")]
            shown += [f"log-rank test of all methods: p {p_value(self.log_rank_p)}"]
        return "\n".join([*shown, "", *self.notes])


def to_target(
    curves: pd.DataFrame,
    target: float,
    axis: str = "round",
    *,
    smaller: bool = False,
    stays: bool = False,
    control: str | None = None,
    level: float = 0.95,
) -> TimeToTarget:
    """Find when each run first reaches a target, and compare methods with runs that never do as censored.

    Parameters
    ----------
    curves : DataFrame
        Columns method, seed, value and the axis; with a column client its rows are averaged, clients equally. A mean
        that is NaN or infinite is not at the target.
    target : float
        The value that the mean is to reach: at least this, or at most, if `smaller`. Fix it before looking.
    axis : str
        The column in which time is counted, such as "round", "bytes", "flops" or "steps".
    smaller : bool
        Whether smaller values are better, as of a loss.
    stays : bool
        Whether the run must stay at the target up to its end; the time is then the first from which on it does.
    control : str, optional
        The method that others are compared with; by default all pairs are.
    level : float
        Confidence level, in (0, 1).

    Raises
    ------
    ValueError
        If a column is missing, the table mixes metrics or splits, or a method's estimands, a value of the axis is not
        finite, or the control is no method of the table.

    Notes
    -----
    Up to the horizon no run is censored before its end, so that the restricted mean is a mean over seeds of the
    smaller of time and horizon: its limits, and the pairing, need no survival theory. Kaplan-Meier's median
    and the log-rank test are statsmodels'. Times are known up to the distance of two evaluations.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import to_target
    >>> gains = {"FedAvg": 0.10, "FedPer": 0.15}  # of accuracy in a round, and a little more under each seed
    >>> rows = [(m, s, r, min(0.9, (g + 0.01 * s) * r))
    ...     for m, g in gains.items() for s in range(4) for r in range(1, 13)]
    >>> table = pd.DataFrame(rows, columns=["method", "seed", "round", "value"])
    >>> print(to_target(table, 0.8, control="FedAvg"))
            reached  runs  median  median low  median high  restricted mean   low  high
    method
    FedAvg        4     4       7           0          inf              7.5 6.581 8.419
    FedPer        4     4       5           0          inf             5.25 4.454 6.046
    <BLANKLINE>
    method against  difference    low   high p (sign flip) p (Holm)  pairs
    FedPer  FedAvg       -2.25 -3.046 -1.454         0.125    0.003      4
    log-rank test of all methods: p 0.006
    <BLANKLINE>
    Reached 0.8: FedAvg 4 of 4, FedPer 4 of 4. Runs that did not are censored, not left out.
    Restricted means count round up to 12, where the shortest run ends.
    A median without an upper limit: too few runs, or too few that reached the target.
    The log-rank test does not use the pairs and is meant for many runs; the other tests are paired.
    """
    level = check_level(level)
    goal = number("target", target)
    means, notes = _mean_curves(curves, axis)
    rows = []
    for (method, seed), run in means.groupby(["method", "seed"], sort=False, observed=True):
        x, y = run[axis].to_numpy(dtype=float), run["value"].to_numpy(dtype=float)
        there = np.isfinite(y) & ((y <= goal) if smaller else (y >= goal))
        if stays:
            there = np.logical_and.accumulate(there[::-1])[::-1]
        hit = bool(there.any())
        rows.append((method, seed, hit, float(x[there.argmax()]) if hit else float(x[-1]), float(x[-1])))
    runs = pd.DataFrame(rows, columns=["method", "seed", "reached", "time", "last"])
    methods = list(runs["method"].unique())
    if control is not None and control not in methods:
        raise ValueError(f"control must be a method of the table, {methods}, got {control!r}.")
    horizon = float(runs["last"].min())
    if runs["last"].nunique() > 1:
        first = runs.loc[runs["last"].idxmin()]
        notes.append(f"Runs end at different {axis}; {first['method']} under seed {first['seed']} sets the horizon.")
    runs["restricted"] = runs["time"].clip(upper=horizon)
    runs["by horizon"] = runs["reached"] & (runs["time"] <= horizon)
    summary = pd.DataFrame({m: _summary(own, horizon, level) for m, own in runs.groupby("method", sort=False)}).T
    summary = summary.astype({"reached": int, "runs": int}).rename_axis("method")
    reached = ", ".join(f"{m} {row['reached']:.0f} of {row['runs']:.0f}" for m, row in summary.iterrows())
    notes.insert(0, f"Reached {'and held ' * stays}{goal:g}: {reached}. Runs that did not are censored, not left out.")
    notes.append(f"Restricted means count {axis} up to {horizon:g}, where the shortest run ends.")
    if np.isinf(summary["median high"]).any():
        notes.append("A median without an upper limit: too few runs, or too few that reached the target.")
    if summary["low"].isna().any():
        notes.append("A restricted mean without limits: one run, no variation, or over three in ten not at the target.")
    pairs = [(m, control) for m in methods if m != control] if control is not None else list(combinations(methods, 2))
    differences = _differences(runs, pairs, level, notes)
    if len(methods) > 1:
        notes.append("The log-rank test does not use the pairs and is meant for many runs; the other tests are paired.")
    p = _log_rank(runs)
    shown = runs[["method", "seed", "reached", "time"]]
    return TimeToTarget(shown, summary, differences, p, horizon, goal, axis, level, tuple(notes))


def _mean_curves(curves: pd.DataFrame, axis: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the mean over clients at every value of the axis, sorted along it, and what is to be said of it."""
    needed = ["method", "seed", axis, "value"]
    if missing := [name for name in needed if name not in curves.columns]:
        raise ValueError(
            f"curves lacks the columns {missing}; it has {list(curves.columns)}. Rename or choose an axis."
        )
    if curves.empty:
        raise ValueError("curves has no rows.")
    for name in ("metric", "split"):
        if name in curves.columns and curves[name].nunique() > 1:
            raise ValueError(f"curves mixes values of {name}: {list(curves[name].unique())}. Keep the rows of one.")
    if "estimand" in curves.columns:
        for label, models in curves.groupby("method", observed=True)["estimand"].unique().items():
            if len(models) > 1:
                raise ValueError(
                    f"curves mixes values of estimand: {list(models)} of {label}. Keep the rows of one; primary_rows "
                    "takes those that compare takes."
                )
    if not np.isfinite(curves[axis].to_numpy(dtype=float)).all():
        raise ValueError(f"the axis {axis!r} has values that are NaN or infinite.")
    by = ["method", "seed", axis]
    sizes = curves.groupby(by, observed=True).size()
    if "client" not in curves.columns and (sizes > 1).any():
        raise ValueError(
            f"curves has several values at {dict(zip(by, sizes.idxmax(), strict=True))} and no column client."
        )
    notes = []
    if sizes.min() < sizes.max():
        notes.append(f"Means are over the clients that were evaluated: {sizes.min()} to {sizes.max()} of them.")
    means = complete_mean(curves, by).rename("value").reset_index()
    if gaps := int(means["value"].isna().sum()):
        notes.append(f"{gaps} of {len(means)} means are NaN or infinite and count as not at the target.")
    return means, notes


def _summary(own: pd.DataFrame, horizon: float, level: float) -> dict[str, float]:
    n = len(own)
    estimate = SurvfuncRight(own["time"].to_numpy(), own["reached"].to_numpy(dtype=int))
    half = np.flatnonzero(estimate.surv_prob <= 0.5 + 1e-9)
    # exact for any law: the k-th smallest and k-th largest of n times enclose the median
    k = int(stats.binom.ppf((1 - level) / 2, n, 0.5))
    restricted = own["restricted"].to_numpy()
    known = np.sort(np.where(own["by horizon"], own["time"], np.inf))
    low, high = float("nan"), float("nan")
    if np.ptp(restricted) > 0 and (~own["by horizon"]).mean() <= _AT_HORIZON:
        _, low, high = mean_interval(restricted, level, within=(-np.inf, horizon))
    return {
        "reached": float(own["reached"].sum()),
        "runs": n,
        "median": float(estimate.surv_times[half[0]]) if len(half) else float("inf"),
        "median low": float(np.sort(restricted)[k - 1]) if k else 0.0,
        "median high": float(known[n - k]) if k else float("inf"),
        "restricted mean": float(restricted.mean()),
        "low": low,
        "high": high,
    }


def _differences(runs: pd.DataFrame, pairs: list[tuple[str, str]], level: float, notes: list[str]) -> pd.DataFrame:
    wide = runs.pivot(index="seed", columns="method", values="restricted")
    late = ~runs.pivot(index="seed", columns="method", values="by horizon").fillna(False).astype(bool)
    rows, lacking = [], dict[str, list[str]]()
    for a, b in pairs:
        both, why = wide[[a, b]].dropna(), None
        row = {"method": a, "against": b, "pairs": len(both)}
        if len(both) < 2:
            why = "Fewer than two seeds in common, so no difference"
        else:
            x, y = both[a].to_numpy(), both[b].to_numpy()
            found = paired_difference(x, y, level=1 - (1 - level) / len(pairs))
            row |= {"difference": found.mean, "p (sign flip)": sign_flip_test(x, y)}
            if np.isnan(found.p):
                why = "The same difference under every seed, so no limits and no t test"
            elif late.loc[both.index, [a, b]].mean().max() > _AT_HORIZON:
                why = "Too many seeds under which one is not at the target, so no limits and no t test"
            else:
                row |= {"low": found.low, "high": found.high, "p (Holm)": found.p}
        if why:
            lacking.setdefault(why, []).append(f"{a} and {b}")
        rows.append(row)
    notes += [f"{why}: {', '.join(of)}." for why, of in lacking.items()]
    columns = ["method", "against", "difference", "low", "high", "p (sign flip)", "p (Holm)", "pairs"]
    table = pd.DataFrame(rows, columns=columns)
    table["p (Holm)"] = holm(table["p (Holm)"])
    return table


def _log_rank(runs: pd.DataFrame) -> float:
    if runs["method"].nunique() < 2:
        return float("nan")
    if not runs["by horizon"].any() or (runs["by horizon"].all() and runs["restricted"].nunique() == 1):
        return 1.0
    return float(survdiff(runs["restricted"], runs["by horizon"].astype(int), runs["method"].to_numpy())[1])
