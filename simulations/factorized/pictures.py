"""Draw Factorized-FL's Figure 6: accuracy over rounds and over the bytes that travelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.estimates import mean_of
from simulations.factorized.arms import FACTORIZED
from simulations.factorized.cells import Cell
from simulations.factorized.judged import cells, of_cell, per_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Look(NamedTuple):
    line: str
    mark: str
    fill: str
    colour: str


#: The four arms of Factorized-FL and the two yardsticks are black or dark, the others grey with marks without an area.
LOOKS = {
    "Local": _Look("-", "^", "black", "black"),
    "FedAvg": _Look("--", "v", "white", "black"),
    FACTORIZED[0]: _Look("-", "o", "white", "black"),
    FACTORIZED[1]: _Look("-", "o", "black", "black"),
    FACTORIZED[2]: _Look("-", "s", "white", "0.35"),
    FACTORIZED[3]: _Look("-", "s", "black", "0.35"),
}
_OTHERS = {
    "FedProx": _Look("-", "x", "none", "0.45"),
    "Clustered-FL": _Look("--", "+", "none", "0.45"),
    "Per-FedAvg": _Look("-.", "1", "none", "0.45"),
    "FedFOMO": _Look(":", "2", "none", "0.45"),
    "pFedPara": _Look("--", "|", "none", "0.45"),
}


def title(cell: Cell) -> str:
    """Name a cell above a panel or a column."""
    return f"{cell.partition}, {cell.labels} labels"


def drawn(tables: Tables, over: Literal["round", "megabytes"]) -> Figure:
    """Draw a panel per cell; over rounds with 95% intervals of the summaries at the right."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH, style

    shown = cells(tables)
    columns = min(3, len(shown) + 1)  # the legend takes a panel's place
    rows = -(-(len(shown) + 1) // columns)
    with style():
        figure, axes = plt.subplots(
            rows, columns, figsize=(WIDTH, 0.4 + 2.0 * rows), squeeze=False, layout="constrained"
        )
        for axis, cell in zip(axes.flat, shown, strict=False):
            panel(axis, tables, cell, over)
            axis.set_title(title(cell))
        for axis in axes.flat[len(shown) :]:
            axis.set_axis_off()
        axes.flat[len(shown)].legend(handles=_legend(), loc="center", handlelength=4, labelspacing=0.55, frameon=False)
        figure.supylabel("test accuracy (per cent)", fontsize=8)
        words = {
            "round": "round; right of the curves: mean over the last evaluated rounds with its 95% interval",
            "megabytes": "megabytes that a client has sent and received (logarithmic; Local sends nothing)",
        }
        figure.supxlabel(words[over], fontsize=8)
    return figure


def curves(tables: Tables, cell: Cell) -> pd.DataFrame:
    """Return accuracy in per cent and the megabytes until then of a client, mean over seeds, by arm and round."""
    mean = of_cell(tables["curves"], cell).groupby(["arm", "round"])["accuracy"].mean().mul(100).reset_index()
    traffic = of_cell(tables["bytes"], cell).groupby("arm")[["up", "down"]].mean().sum(axis=1)
    return mean.assign(megabytes=mean["round"] * mean["arm"].map(traffic) / 1e6)


def panel(axis: Axes, tables: Tables, cell: Cell, over: Literal["round", "megabytes"]) -> None:
    """Draw the curves of one cell."""
    from matplotlib.ticker import NullFormatter

    table, summary = curves(tables, cell), per_seed(tables, cell)
    last = table["round"].max()
    drawn_arms = [arm for arm in (*_OTHERS, *LOOKS) if arm in summary]
    for arm in drawn_arms:
        rows = table[table["arm"] == arm]
        if over == "megabytes" and arm == "Local":
            axis.axhline(rows["accuracy"].iloc[-1], color="black", lw=0.7)
        else:
            look = (_OTHERS | LOOKS)[arm]
            axis.plot(
                rows[over], rows["accuracy"], ls=look.line, color=look.colour, lw=0.9 if arm in LOOKS else 0.7,
                marker=look.mark, mfc=look.fill, ms=3.6, mew=0.7,
            )  # fmt: skip
    if over == "megabytes":
        if np.isfinite(axis.dataLim.minposx):  # anything is drawn
            axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
        return
    for place, arm in enumerate(LOOKS):
        mean, low, high = mean_of(summary[arm], within=(0.0, 100.0))
        at, look = last * (1.07 + 0.05 * place), LOOKS[arm]
        axis.plot([at, at], [low, high], color=look.colour, lw=0.8, ls="-")
        axis.plot(at, mean, look.mark, color=look.colour, mfc=look.fill, ms=3.6, mew=0.8)
    axis.set_xticks(np.unique(table["round"]))


def _legend() -> list[object]:
    import matplotlib.pyplot as plt

    return [
        plt.Line2D(
            [], [], color=look.colour, ls=look.line, marker=look.mark, mfc=look.fill, ms=3.6,
            lw=0.9 if arm in LOOKS else 0.7, label=arm,
        )
        for arm, look in (LOOKS | _OTHERS).items()
    ]  # fmt: skip
