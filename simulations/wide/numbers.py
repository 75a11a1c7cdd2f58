"""What the study of wide networks hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.estimates import mean_of, times
from simulations.showing import fixed, interval, rounded
from simulations.wide.study import CONVENTIONS, STARTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def findings(tables: Tables) -> dict[str, Finding]:
    """Return residuals of the widest networks over the claimed bound, and kernels' distances over the exact value."""
    half, curves, limits = _half(tables)
    widest = curves.index.get_level_values("width").max()
    found = {}
    for start, words in STARTS.items():
        for convention in CONVENTIONS:
            bound = limits.loc[(start, convention, half), "bound"]
            estimate = times(_inverse(bound), curves.loc[(start, convention, widest, half), ["ratio", "low", "high"]])
            what = f"residual half-way over the bound, widest networks, {words}, updates {convention}"
            found[f"{start} {convention}"] = Finding.of(what, estimate, border=1.0)
    for kernel, rows in tables["concentration"].groupby("kernel"):
        last = rows.loc[rows["width"].idxmax()]
        what = f"distance of the widest {kernel} kernel from its limit over the exact value"
        estimate = times(_inverse(last["exact"]), last[["rms", "low", "high"]])
        found[f"{kernel} kernel"] = Finding.of(what, estimate, border=1.0)
    slopes = _slopes(tables["designs"])
    for width in (slopes.columns.min(), slopes.columns.max()):
        what = f"power of the smallest eigenvalue with which the rate grows, {_spaced(width)} units"
        found[f"slope {'widest' if width == slopes.columns.max() else 'narrowest'}"] = Finding.of(
            what, mean_of(slopes[width]), border=1.0
        )
    return found


def _slopes(designs: pd.DataFrame) -> pd.DataFrame:
    """Return the least-squares slopes of log rate on log smallest eigenvalue, a row for each seed, a column a width."""
    logs = np.log(designs[["lowest", "rate"]].clip(lower=1e-12))
    found = {}
    for keys, rows in logs.groupby([designs["seed"], designs["width"]]):
        (spread, common), _ = np.cov(rows, rowvar=False)
        found[keys] = common / spread if spread else math.nan
    return pd.Series(found).unstack()


def _spaced(width: int) -> str:
    return f"{width:,}".replace(",", " ")


def _designs(designs: pd.DataFrame) -> dict[str, Any]:
    """Return what became of the samples: slopes, runs that keep the guaranteed rate, and kernels along training."""
    slopes = _slopes(designs)
    rows = []
    for width, runs in designs.groupby("width"):
        kept = (runs["rate"] >= runs["bound"]).groupby(runs["design"]).mean()
        rows.append(
            {
                "width": _spaced(int(width)),
                "slope": interval(mean_of(slopes[width]), 2),
                "kept": int((runs["rate"] >= runs["bound"]).sum()),
                "whole": int((kept == 1).sum()),
                "none": int((kept == 0).sum()),
                "half": int((runs["least kernel"] >= runs["lowest"] / 2).sum()),
                "start": int((runs["kernel at the start"] >= runs["lowest"] / 2).sum()),
            }
        )
    lowest = designs["lowest"]
    return {
        "rows": rows,
        "runs": int(designs.groupby("width").size().iloc[0]),
        "number": int(designs["design"].nunique()),
        "seeds": int(designs["seed"].nunique()),
        "from": fixed(lowest.min(), 4),
        "to": fixed(lowest.max(), 2),
        "wide": rows[-1],
    }


def _inverse(value: float) -> float:
    return 1 / value if value else math.nan


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return runs under the claimed bound, and the residuals reached."""
    half, curves, limits = _half(tables)
    runs = tables["networks"].groupby(["start", "convention", "width"])["below"].agg(["sum", "count"])
    rows: list[dict[str, Any]] = []
    under = []
    for start, words in STARTS.items():
        for convention in CONVENTIONS:
            chosen = runs.loc[(start, convention)]
            under.append(
                {
                    "start": start,
                    "words": words,
                    "updates": convention,
                    "good": int(chosen["sum"].sum()),
                    "all": int(chosen["count"].sum()),
                }
            )
            block = []
            for width, (good, every) in chosen.iterrows():
                block.append(
                    {
                        "start": words,
                        "updates": convention,
                        "first": bool(width == chosen.index[0]),
                        "width": f"{width:,}".replace(",", " "),
                        "under": f"{good} of {every}",
                        "residual": times(100, curves.loc[(start, convention, width, half), ["ratio", "low", "high"]]),
                        # the limit starts from zero output
                        "limit": fixed(100 * limits.loc[(start, convention, half), "limit"], 1)
                        if start == "bottom"
                        else "",
                        "bound": fixed(100 * limits.loc[(start, convention, half), "bound"], 1),
                    }
                )
            rows += rounded(block, residual=3)
    return {"rows": rows, "half": half, "under": under, "designs": _designs(tables["designs"])}


def _half(tables: Tables) -> tuple[int, pd.DataFrame, pd.DataFrame]:
    """Return the middle round, and the tables of networks and of limits by what they are of."""
    curves = tables["curves"].set_index(["start", "convention", "width", "round"]).sort_index()
    limits = tables["limits"].set_index(["start", "convention", "round"]).sort_index()
    return int(tables["curves"]["round"].max()) // 2, curves, limits


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw loss against the claimed bound and the limit, kernels' distance from their limit, and rates of designs."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    widths = sorted(tables["curves"]["width"].unique())
    looks = dict(zip(widths, (":", "-.", (0, (5, 1)), (0, (1, 1))), strict=False))
    with style():
        convergence, axes = plt.subplots(2, 2, figsize=(WIDTH, 3.3), sharex=True, sharey="row", layout="constrained")
        for row, (start, title) in zip(axes, STARTS.items(), strict=True):
            for axis, convention in zip(row, CONVENTIONS, strict=True):
                query = f"start == {start!r} and convention == {convention!r}"
                for width, curve in tables["curves"].query(query).groupby("width"):
                    axis.fill_between(curve["round"], curve["low"].clip(lower=1e-9), curve["high"], color="0.85", lw=0)
                    axis.plot(
                        curve["round"], curve["ratio"], ls=looks[width], color="black", lw=0.9, label=f"width {width}"
                    )
                limit = tables["limits"].query(query)
                axis.plot(limit["round"], limit["limit"], color="0.5", lw=2.2, zorder=0, label="infinite width")
                axis.plot(limit["round"], limit["bound"], "k-", lw=1.2, label="claimed bound")
                axis.set_yscale("log")
                axis.set_title(f"{title}\nupdates {convention}")
            row[0].set_ylabel("squared residual\nrelative to its start")
            lowest = tables["limits"].query(f"start == {start!r}")["limit"].min()
            row[0].set_ylim(np.nanmax([lowest, 1e-6]) / 3, 2)
        for axis in axes[1]:
            axis.set_xlabel("round")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        convergence.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize=7)

        distance, axis = plt.subplots(figsize=(78 / 25.4, 2.3), layout="constrained")
        for (kernel, rows), mark in zip(tables["concentration"].groupby("kernel"), ("s", "o"), strict=True):
            axis.plot(rows["width"], rows["exact"], "k-", lw=0.8)
            bars = [(rows["rms"] - rows["low"]).clip(lower=0), (rows["high"] - rows["rms"]).clip(lower=0)]
            axis.errorbar(
                rows["width"], rows["rms"], bars, fmt=mark, color="black", mfc="white", ms=4, label=str(kernel)
            )
        axis.set(
            xscale="log", yscale="log", xlabel="width m (units)", ylabel="distance from the limit\n(root mean square)"
        )
        axis.legend(frameon=False, fontsize=7, title="kernel; lines: exact", title_fontsize=7)
        designs = _draw_designs(tables["designs"])
    return {"convergence": convergence, "concentration": distance, "designs": designs}


def _draw_designs(designs: pd.DataFrame) -> Figure:
    """Draw the rate and the least eigenvalue along training over the smallest eigenvalue, means over seeds."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 2.7), layout="constrained")
    widths = sorted(designs["width"].unique())
    mean = designs.groupby(["width", "design"]).mean(numeric_only=True).sort_values("lowest")
    limits = mean.loc[widths[0]]
    lines = (("rate", "limit", "infinite width"), ("least kernel", "lowest", "infinite width"))
    for axis, (column, line, label) in zip(axes, lines, strict=True):
        axis.plot(limits["lowest"], limits[line], color="0.5", lw=2.2, zorder=0, label=label)
        for width, grey in zip(widths, np.linspace(0.65, 0.0, len(widths)), strict=True):
            rows = mean.loc[width]
            look = {"color": f"{grey:.2f}", "lw": 0.9, "marker": ".", "ms": 3}
            axis.plot(rows["lowest"], rows[column], label=f"{_spaced(width)} units", **look)
        axis.set(xscale="log", yscale="log", xlabel="smallest eigenvalue of the limit kernel")
    axes[0].plot(limits["lowest"], limits["bound"], "k--", lw=1.2, label="guaranteed rate")
    axes[0].set_ylabel("rate (per round)")
    axes[1].set_ylabel("least eigenvalue in training")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=7)
    return figure
