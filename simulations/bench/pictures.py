"""What the bench's chapter shows: forests of differences, ranks over data sets, accuracy over bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.bench import compared
from simulations.bench.compared import CELLS, budgets, by_seed, cells
from simulations.bench.effects import against, effects
from simulations.bench.outcomes import CONTROLS
from simulations.estimates import half_widths
from simulations.names import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = ("o", "s", "^", "D", "v")


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw a forest of all data sets, the critical difference where arms can be ranked, and accuracy over bytes."""
    from fedstat.report.figures import style

    if not cells(tables):
        return {}
    with style():
        found = {"forest": _forest(tables)}
        found["bytes"] = _bytes(tables)
        if (ranks := _ranks(tables)) is not None:
            found["ranks"] = ranks
        return found


# --- differences to the controls -------------------------------------------------------------------------------


def _forest(tables: Tables) -> Figure:
    """Draw each arm minus its controls of equal budget, data sets side by side; filled where limits leave out zero."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    from fedstat.report.figures import WIDTH

    joint = {cell: against(tables, effects(tables), cell) for cell in cells(tables)}
    lines: dict[tuple[int, str], None] = {}
    for cell in joint:
        for budget, arms in budgets(tables, cell):
            times = compared.epochs_of(tables, cell, budget)
            lines |= dict.fromkeys(
                (times, arm) for arm in arms if any((arm, control) in joint[cell] for control in CONTROLS)
            )
    rows = sorted(lines, key=lambda line: (line[0], line[1].lower()))
    figure, axes = plt.subplots(
        1,
        2 * len(joint),
        figsize=(WIDTH, 1.1 + 0.12 * max(len(rows), 8)),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for place, (cell, found) in enumerate(joint.items()):
        for axis, control in zip(axes[0][2 * place :], CONTROLS, strict=False):
            shown = {arm: e for (arm, against_), e in found.items() if against_ == control and np.isfinite(e.low)}
            for height, (_, arm) in enumerate(rows):
                if arm in shown:
                    _interval(axis, height, shown[arm].mean, shown[arm].low, shown[arm].high)
            axis.axvline(0, color="0.5", lw=0.6, zorder=0)
            axis.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
            axis.tick_params(axis="x", labelsize=7)
            name = CELLS[cell].replace(" of ", " of\n") + "\n" if control == CONTROLS[0] else ""
            axis.set_title(f"{name}− {control}", loc="left", fontsize=7.5)
            axis.tick_params(axis="y", length=0)
            if not shown:
                words, style = f"not judged: {control} is not trained enough", {"ha": "center", "va": "center"}
                box = {"fc": "white", "lw": 0}
                axis.text(0.5, 0.5, words, transform=axis.transAxes, rotation=90, fontsize=7, bbox=box, **style)
                axis.set_xticks([])
    more = [f" ×{times}" if times > 1 else "" for times, _ in rows]
    names = [readable(arm) + m for (_, arm), m in zip(rows, more, strict=True)]
    axes[0][0].set_yticks(range(len(rows)), names, fontsize=7)
    axes[0][0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel("difference in test accuracy (points; mean and simultaneous 95% interval)", fontsize=8)
    return figure


def _interval(axis: Axes, height: float, mean: float, low: float, high: float) -> None:
    """Draw one difference, filled and coloured if its limits leave out zero."""
    colour = "#1b6e3c" if low > 0 else "#a01c1c" if high < 0 else "0.45"
    axis.plot([low, high], [height] * 2, color=colour, lw=0.9)
    axis.plot(mean, height, "o", color=colour, mfc=colour if colour != "0.45" else "white", ms=2.6, mew=0.7)


# --- ranks -----------------------------------------------------------------------------------------------------


def _ranks(tables: Tables) -> Figure | None:
    """Draw mean ranks with a data set under one seed as the block, beside the critical difference of data sets."""
    from dataclasses import replace

    import matplotlib.pyplot as plt

    from fedstat.inference.comparing.drawing import draw_ranks
    from fedstat.report.figures import WIDTH

    found, coarse = compared.over_seeds(tables), compared.over_cells(tables)
    if found is None:
        return None
    shown = replace(
        found,
        methods=tuple(readable(name) for name in found.methods),
        groups=tuple(tuple(readable(name) for name in group) for group in found.groups),
    )
    groups = sum(len(group) > 1 for group in found.groups)
    height = 1.4 + 0.14 * groups + 0.17 * -(-len(found.methods) // 2)
    figure, axis = plt.subplots(figsize=(WIDTH, height), layout="constrained")
    draw_ranks(shown, axis)
    if coarse is not None:
        length = coarse.critical_difference
        axis.plot([1, 1 + length], [3.4, 3.4], color="black", lw=1, ls=(0, (4, 2)))
        for end in (1, 1 + length):
            axis.plot([end, end], [3.25, 3.55], color="black", lw=1)
        axis.text(
            1, 3.65, f"with the {coarse.settings} data sets as blocks {length:.2f}", va="bottom", fontsize="small"
        )
        axis.set_ylim(top=4.6)
    return figure


# --- bytes -----------------------------------------------------------------------------------------------------


def _bytes(tables: Tables) -> Figure:
    """Draw accuracy over bytes of each data set; the arms that none dominates are numbered and named at the side."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    there = cells(tables)
    figure, axes = plt.subplots(
        len(there), 1, figsize=(WIDTH, 2.35 * len(there)), squeeze=False, layout="constrained"
    )  # fmt: skip
    for axis, cell in zip(axes[:, 0], there, strict=True):
        _bytes_of(axis, tables, cell)
    axes[-1][0].set_xlabel("sent and received by a client over the run (megabytes)")
    return figure


def _bytes_of(axis: Axes, tables: Tables, cell: str) -> None:
    """Draw accuracy over bytes of one data set. Arms that send nothing stand at the left, off the logarithmic axis."""
    from matplotlib.ticker import NullLocator

    table, spent = 100 * by_seed(tables, cell), compared.sent(tables, cell)
    best = list(compared.undominated(tables, cell).index)
    positive = spent[spent > 0]
    floor = float(positive.min()) / 2 if len(positive) else 1.0
    half = pd.Series(half_widths(table), table.columns)
    for (budget, arms), mark in zip(budgets(tables, cell), MARKS, strict=False):
        times = compared.epochs_of(tables, cell, budget)
        for first, arm in enumerate(arms):
            chosen = arm in best
            axis.errorbar(
                max(spent[arm], floor), table[arm].mean(), yerr=half[arm], fmt=mark, ms=4, lw=0.7,
                color="black" if chosen else "0.6", mfc="black" if chosen else "white", zorder=3 if chosen else 2,
                label=f"epochs × {times}" if first == 0 else None,
            )  # fmt: skip
    steps = [(max(spent[arm], floor), table[arm].mean()) for arm in best]
    axis.step(*zip(*steps, strict=True), where="post", color="black", lw=0.6, ls=":", zorder=1)
    axis.set_xscale("log")
    axis.margins(y=0.15)
    place = 0.0
    for number, (x, y) in enumerate(steps, start=1):  # in a row above all, each where its arm is or next to the last
        place = max(place + 0.02, (axis.transData + axis.transAxes.inverted()).transform((x, y))[0])
        axis.annotate(
            str(number), (x, y), (place, 0.98), textcoords="axes fraction", fontsize=7, ha="center", va="top",
            arrowprops={"arrowstyle": "-", "lw": 0.3, "color": "0.5"},
        )  # fmt: skip
    steps_of = (1, 2, 5) if spent.max() < 100 * floor else (1,)
    ticks = [s * 10.0**p for p in range(-4, 5) for s in steps_of if 1.5 * floor < s * 10.0**p < 1.5 * spent.max()]
    nothing = [floor] if (spent == 0).any() else []
    axis.set_xticks([*nothing, *ticks], [*("0" for _ in nothing), *(f"{t:g}" for t in ticks)])
    axis.xaxis.set_minor_locator(NullLocator())
    names = "\n".join(f"{number} {readable(arm)}" for number, arm in enumerate(best, start=1))
    axis.text(1.02, 1, f"not dominated:\n{names}", transform=axis.transAxes, fontsize=7, va="top")
    axis.set_title(CELLS[cell], loc="left")
    axis.set_ylabel("test accuracy (per cent)")
    axis.legend(frameon=False, fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0)
