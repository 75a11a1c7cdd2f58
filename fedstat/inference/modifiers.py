"""Modifiers: what is known of clients beside their results, and how an effect goes along with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from fedstat.inference.comparing.comparison import Comparison
from fedstat.inference.intervals.paired import ROUNDING
from fedstat.inference.reading.scores import Scores


def carried(comparison: Comparison) -> dict[str, np.ndarray]:
    """Return what the results tell of their clients, each (S, K)."""
    scores, found = comparison.scores, dict[str, np.ndarray]()
    if scores.samples is not None and (np.nan_to_num(scores.samples)[scores.there] > 0).all():
        found[f"log {scores.split} samples"] = np.log(np.where(scores.there, scores.samples, np.nan))
    if comparison.majority is not None:
        found["majority share"] = comparison.majority.values[0]
    return found


def given(modifiers: pd.DataFrame, scores: Scores, there: np.ndarray, same: bool) -> dict[str, np.ndarray]:
    """Return the modifiers of a table of clients, each (S, K)."""
    if not isinstance(modifiers, pd.DataFrame) or modifiers.index.nlevels > 2 or not len(modifiers.columns):
        raise ValueError("modifiers must be a DataFrame with a column for each, its rows named by client.")
    by_seed = modifiers.index.nlevels == 2
    if not (by_seed or same):
        raise ValueError("modifiers must have rows named by seed and client, since clients are new under every seed.")
    rows = pd.MultiIndex.from_product([scores.seeds, scores.clients]) if by_seed else pd.Index(scores.clients)
    if (twice := modifiers.index.duplicated()).any():
        raise ValueError(f"modifiers must have one row for each client, got two for {modifiers.index[twice][0]}.")
    found = {}
    for name, column in modifiers.items():
        try:
            values = column.reindex(rows).to_numpy(float)
        except (TypeError, ValueError):
            raise ValueError(f"modifiers must be numbers, got {name!r} of type {column.dtype}.") from None
        cells = np.broadcast_to(values.reshape((-1, len(scores.clients))), there.shape)
        if (lacking := there & ~np.isfinite(cells)).any():
            seed, client = np.argwhere(lacking)[0]
            where = f"client {scores.clients[client]!r}" + f" under seed {scores.seeds[seed]}" * by_seed
            raise ValueError(f"modifiers must have a finite number for each client, but {name!r} lacks {where}.")
        if str(name) in found:
            raise ValueError(f"modifiers must have columns of different names, got two named {str(name)!r}.")
        found[str(name)] = cells
    return found


def slopes(d: np.ndarray, columns: dict[str, np.ndarray], same: bool, level: float) -> pd.DataFrame:
    """Return the slopes of the effect on each modifier alone, for one standard deviation of it.

    Of the same clients it is the regression of the clients' means over seeds, with K - 2 degrees of freedom; of new
    clients the mean over seeds of the slopes within each.
    """
    rows = {}
    for name, x in columns.items():
        y, z = (d.mean(axis=0)[None], x.mean(axis=0)[None]) if same else (d, np.where(np.isnan(d), np.nan, x))
        z = z - np.nanmean(z, axis=1, keepdims=True)
        energy, count = np.nansum(z**2, axis=1), (~np.isnan(z)).sum(axis=1)
        some = energy > count * (ROUNDING * float(np.nanmax(np.abs(x)))) ** 2
        if not some.any() or (some.sum() < 2 and not same) or (same and count[0] < 3):
            continue
        y, z, sd = y[some], z[some], float(np.sqrt(energy[some].sum() / (count[some] - 1).sum()))
        slopes = np.nansum(z * y, axis=1) / energy[some] * sd
        if same:
            rest = y - y.mean() - z * slopes[:, None] / sd
            df, se = count[0] - 2, np.sqrt((rest**2).sum() / (count[0] - 2) / (count[0] - 1))
        else:
            df, se = len(slopes) - 1, slopes.std(ddof=1) / np.sqrt(len(slopes))
        rows[name] = (float(slopes.mean()), float(se), float(df), sd)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["slope", "se", "df", "sd"], dtype=float)
    half = stats.t.isf((1 - level) / 2 / max(1, len(table)), table["df"]) * table["se"]
    p = 2 * stats.t.sf(table["slope"].abs() / table["se"], table["df"])
    bounds = {"low": table["slope"] - half, "high": table["slope"] + half, "p": np.minimum(1, p * len(table))}
    return table.assign(**bounds)[["slope", "low", "high", "p", "sd"]]
