"""Draw the figures of the filter-decomposition paper from our runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference.comparing.bands import simultaneous_band
from simulations.estimates import half_widths, logarithms
from simulations.filterdecomp import judged
from simulations.filterdecomp.arms import GLOBAL, OURS, OURS_HEAD, PERSONAL, SENDING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Line, mark, fill and colour.
LOOKS: dict[str, dict[str, Any]] = {
    "FedAvg": {"ls": "--", "marker": "s", "mfc": "white", "color": "black"},
    "FedProx": {"ls": ":", "marker": "^", "mfc": "white", "color": "0.45"},
    "FilterDecomp": {"ls": "-", "marker": "o", "mfc": "black", "color": "black"},
    "FedPara": {"ls": "-.", "marker": "D", "mfc": "white", "color": "0.45"},
    **{
        arm: {"ls": line, "marker": mark, "mfc": fill, "color": "0.45"}
        for arm, (line, mark, fill) in zip(
            SENDING[1:],
            (("-", "v", "0.45"), ("-", "v", "white"), ("--", "P", "0.45"), ("--", "P", "white")),
            strict=True,
        )
    },
}


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw all figures."""
    from fedstat.report.figures import style

    with style():
        return {
            "curves": _curves(tables),
            "variance": _variance(tables),
            "epochs": _figure_3(tables),
            "personal": _personal(tables),
            "numbers": _numbers(tables),
        }


def _axes(count: int, height: float, **more: Any) -> tuple[Figure, np.ndarray]:
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    figure, axes = plt.subplots(1, count, figsize=(WIDTH, height), layout="constrained", squeeze=False, **more)
    return figure, axes[0]


def _bars(axis: Axes, x: np.ndarray, mean: np.ndarray, half: np.ndarray, arm: str) -> None:
    look = {**LOOKS[arm], "ls": ""}
    axis.errorbar(x, mean, np.nan_to_num(half), label=arm, ms=3.5, lw=0.8, elinewidth=0.8, capsize=1.5, mew=0.7, **look)


def _curves(tables: Tables) -> Figure:
    """Draw Figures 2 and 5: curves with limits at some rounds that hold together in a panel."""
    cells = judged.curve_cells(tables)
    figure, axes = _axes(len(cells), 2.5)
    for axis, cell in zip(axes, cells, strict=True):
        scores = judged.compared(tables, cell).scores
        band = simultaneous_band(scores)
        for i, arm in enumerate(scores.methods):
            moved = scores.rounds[band.places] + 0.25 * (i - 1)
            axis.plot(scores.rounds, 100 * band.curves[i], ls=LOOKS[arm]["ls"], color=LOOKS[arm]["color"], lw=0.9)
            _bars(axis, moved, 100 * band.curves[i, band.places], 100 * band.half[i], arm)
        axis.set_title(f"{judged.short(cell)} ({judged.figure_of(tables, cell)})")
        axis.set_xlabel("round")
    axes[0].set_ylabel("global test accuracy (per cent)")
    _legend_above(figure, axes[0])
    return figure


def _legend_above(figure: Figure, axis: Axes, columns: int = 4) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False, fontsize=7)


def _together(tables: dict[str, pd.DataFrame], level: float = 0.95) -> dict[str, tuple[pd.Series, pd.Series]]:
    """Return means over seeds and half-widths of t limits that hold for all columns of all tables (Bonferroni)."""
    count = max(1, sum(len(table.columns) for table in tables.values()))
    return {
        name: (table.mean(), pd.Series(half_widths(table, count, level), table.columns))
        for name, table in tables.items()
    }


def _figure_3(tables: Tables) -> Figure:
    """Draw Figures 3a and 3c, with limits that hold together in a panel."""
    figure, axes = _axes(2, 2.5)
    panels = (("Figure 3a", "local epochs", GLOBAL), ("Figure 3c", "participants", ("FedAvg", "FilterDecomp")))
    for axis, (shown, words, arms) in zip(axes, panels, strict=True):
        found = _together({arm: judged.figure_3(tables, shown, arm) for arm in arms})
        for i, (arm, (mean, half)) in enumerate(found.items()):
            x = mean.index.to_numpy(dtype=float) * 1.04 ** (i - 1)
            axis.plot(x, mean, ls=LOOKS[arm]["ls"], color=LOOKS[arm]["color"], lw=0.9)
            _bars(axis, x, mean.to_numpy(), half.to_numpy(), arm)
        axis.set_xscale("log")
        ticks = sorted({x for mean, _ in found.values() for x in mean.index})
        axis.set_xticks(ticks, [f"{x}" for x in ticks])
        axis.minorticks_off()
        axis.set_xlabel(f"{words} (logarithmic)")
        axis.set_title(shown)
    axes[0].set_ylabel("global test accuracy (per cent)")
    _legend_above(figure, axes[0])
    return figure


def _variance(tables: Tables) -> Figure:
    """Draw Figure 3b: variances over rounds, and the ratio of both aggregates of the same trained clients."""
    figure, (left, right) = _axes(2, 3.0)
    m = int(tables["spread"]["clients"].iloc[0])
    lines = (
        ("FedAvg", "plain", "FedAvg, its own way", "FedAvg"),
        ("FilterDecomp", "plain", "average of products, FilterDecomp's clients", "FedProx"),
        ("FilterDecomp", "decomposed", "product of averages, FilterDecomp's clients", "FilterDecomp"),
    )
    for arm, column, words, look in lines:
        over = logarithms(judged.moments(tables, m, arm)[column]).unstack("round")
        mean, half = _together({"": over})[""]
        own = {**LOOKS[look], "ms": 3.5, "lw": 0.9, "mew": 0.7, "label": words}
        middle = np.exp(mean)
        left.plot(mean.index, middle, **own)
        left.vlines(mean.index, np.exp(mean - half), np.exp(mean + half), color=LOOKS[look]["color"], lw=0.7)
    left.set_yscale("log")
    left.set_xlabel("round")
    left.set_ylabel(f"variance of the aggregate, {m} participants")
    layers: list[str | None] = [*sorted(tables["spread"]["layer"].unique()), None]
    for i, layer in enumerate(layers):
        found = judged.moments(tables, m, "FilterDecomp", layer)
        ratio = (found["decomposed"] / found["plain"]).unstack("round")
        mean, half = _together({"": ratio})[""]
        mark = ("^", "s", "D", "o")[i % 4]
        shade = {"marker": mark, "mfc": "white" if layer else "black", "color": "0.45" if layer else "black"}
        x = mean.index + 0.15 * (i - 1.5)
        right.errorbar(x, mean, half, ls=":" if layer else "-", ms=3.5, lw=0.8, elinewidth=0.7, mew=0.7,
                       label=layer or "all layers", **shade)  # fmt: skip
    right.axhline(1, color="black", lw=0.5)
    right.set_xlabel("round")
    right.set_ylabel("variance of the product of averages\nover that of the average of products")
    right.ticklabel_format(axis="y", useOffset=False)
    rounds = sorted(tables["spread"]["round"].unique())
    for axis, columns in ((left, 1), (right, 2)):
        axis.set_xticks(rounds[1::2] if len(rounds) > 1 else rounds)
        axis.legend(frameon=False, fontsize=6.5, ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def _personal(tables: Tables) -> Figure:
    """Draw Table 1 as differences: both personal forms minus the other methods, with limits that hold together."""
    known = judged.effects(tables)
    cells = judged.table_cells(tables)
    figure, axes = _axes(len(cells), 2.9, sharey=True)
    others = [arm for arm in PERSONAL if arm not in (OURS, OURS_HEAD)]
    for axis, cell in zip(axes, cells, strict=True):
        for shift, arm, mark, fill in ((-0.15, OURS, "o", "black"), (0.15, OURS_HEAD, "s", "white")):
            for k, other in enumerate(others):
                mean, low, high = known[judged.PERSONAL_ACCURACY, judged.short(cell), arm, other].estimate
                axis.plot([low, high], [k + shift] * 2, color="black", lw=0.8)
                axis.plot(mean, k + shift, mark, color="black", mfc=fill, ms=3.8, label=arm if k == 0 else None)
        axis.axvline(0, color="black", lw=0.5)
        axis.set_title(judged.short(cell))
        axis.set_xlabel("points of personal accuracy")
    axes[0].set_yticks(range(len(others)), [f"− {other}" for other in others])
    axes[0].invert_yaxis()
    _legend_above(figure, axes[0], 2)
    return figure


def _numbers(tables: Tables) -> Figure:
    """Draw accuracy over transmitted numbers, means over seeds with limits at the end."""
    rows = judged.sending(tables)
    figure, (axis,) = _axes(1, 3.1)
    ends = _together({"": judged.late_accuracy(rows)})[""]
    mean = rows.groupby(["arm", "round"])[["accuracy", "numbers"]].mean()
    for arm in ("FedAvg", "FilterDecomp", *SENDING):
        if arm not in mean.index.get_level_values("arm"):
            continue
        some = mean.loc[arm]
        axis.plot(some["numbers"] / 1e6, 100 * some["accuracy"], ms=3.2, lw=0.9, mew=0.7, label=arm, **LOOKS[arm])
        if arm not in ends[0]:
            continue
        at = 1.05 * some["numbers"].max() / 1e6
        look = {key: LOOKS[arm][key] for key in ("color", "marker", "mfc")}
        axis.errorbar(at, ends[0][arm], ends[1][arm], ms=3.2, lw=0.8, capsize=1.5, mew=0.7, **look)
    axis.set_xscale("log")
    axis.set_xlabel("millions of numbers that travelled, both ways, all participants (logarithmic)")
    axis.set_ylabel("global test accuracy (per cent)")
    _legend_above(figure, axis, 2)
    return figure
