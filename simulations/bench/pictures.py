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
from simulations.showing import greek

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Differences up to here are drawn on a linear axis, larger ones on a logarithmic one (points).
LINEAR = 5.0
MARKS = ("o", "s", "^", "D", "v")


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw a forest for each data set, the critical difference where arms can be ranked, and accuracy over bytes."""
    from fedstat.report.figures import style

    if not cells(tables):
        return {}
    with style():
        found = {f"forest-{cell}": _forest(tables, cell) for cell in cells(tables)}
        found["bytes"] = _bytes(tables)
        if (ranks := _ranks(tables)) is not None:
            found["ranks"] = ranks
        return found


# --- differences to the controls -------------------------------------------------------------------------------


def _forest(tables: Tables, cell: str) -> Figure:
    """Draw each arm minus its controls of equal budget, grouped by budget; filled where the limits leave out zero."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    joint = against(tables, effects(tables), cell)
    lines: list[tuple[str | None, str]] = []
    for budget, arms in budgets(tables, cell):
        lines.append((None, f"epochs × {compared.epochs_of(tables, cell, budget)}"))
        lines += [(arm, greek(arm)) for arm in arms]
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 0.7 + 0.155 * len(lines)), sharey=True, layout="constrained")
    end = _end(np.array([[abs(e.low), abs(e.high)] for e in joint.values()]))
    for axis, control in zip(axes, CONTROLS, strict=True):
        for height, (arm, _) in enumerate(lines):
            if arm is None:
                axis.axhline(height, color="0.85", lw=5, zorder=0)
            elif (arm, control) in joint:
                effect = joint[arm, control]
                _interval(axis, height, effect.mean, effect.low, effect.high)
            else:
                axis.plot(0, height, "|", color="0.25", ms=7)
        axis.axvline(0, color="0.5", lw=0.6, zorder=0)
        _points_axis(axis, end)
        axis.set_title(f"minus {control} of the same budget")
    axes[0].set_yticks(range(len(lines)), [label for _, label in lines], fontsize=7)
    for (arm, _), label in zip(lines, axes[0].get_yticklabels(), strict=True):
        label.set_fontstyle("italic" if arm is None else "normal")
    axes[0].tick_params(axis="y", length=0)
    axes[0].set_ylim(len(lines) - 0.5, -0.8)
    figure.supxlabel("difference in test accuracy (points; mean and simultaneous 95% interval)", fontsize=8)
    return figure


def _interval(axis: Axes, height: float, mean: float, low: float, high: float) -> None:
    """Draw one difference, filled if its limits leave out zero; a cross if it has no limits."""
    clear = low > 0 or high < 0
    axis.plot([low, high], [height] * 2, color="0.25", lw=0.9)
    mark = "x" if np.isnan(low) else "o"
    axis.plot(mean, height, mark, color="0.25", mfc="0.25" if clear else "white", ms=3.5)


def _end(limits: np.ndarray) -> float:
    """Return where the axis ends: beyond the largest limit."""
    known = limits[np.isfinite(limits)]
    return float(min(105.0, 1.15 * max(LINEAR, known.max() if len(known) else 0.0)))


def _points_axis(axis: Axes, end: float) -> None:
    """Make the axis of differences linear within a few points and logarithmic beyond."""
    from matplotlib.ticker import NullLocator

    axis.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    axis.set_xlim(-end, end)
    right = (2, 5, 20) if end > 20 else (2, 10) if end > 10 else (2, 5)
    ticks = sorted({side * t for t in (0, *right) for side in (-1, 1) if t <= end})
    axis.set_xticks(ticks, [f"{t}".replace("-", "−") for t in ticks], fontsize=7)
    axis.xaxis.set_minor_locator(NullLocator())


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
        methods=tuple(greek(name) for name in found.methods),
        groups=tuple(tuple(greek(name) for name in group) for group in found.groups),
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
    for number, (x, y) in enumerate(steps, start=1):
        axis.annotate(str(number), (x, y), (-4, 4), textcoords="offset points", fontsize=7, ha="right")
    axis.set_xscale("log")
    steps_of = (1, 2, 5) if spent.max() < 100 * floor else (1,)
    ticks = [s * 10.0**p for p in range(-4, 5) for s in steps_of if 1.5 * floor < s * 10.0**p < 1.5 * spent.max()]
    nothing = [floor] if (spent == 0).any() else []
    axis.set_xticks([*nothing, *ticks], [*("0" for _ in nothing), *(f"{t:g}" for t in ticks)])
    axis.xaxis.set_minor_locator(NullLocator())
    names = "\n".join(f"{number} {greek(arm)}" for number, arm in enumerate(best, start=1))
    axis.text(1.02, 1, f"not dominated:\n{names}", transform=axis.transAxes, fontsize=7, va="top")
    axis.set_title(CELLS[cell], loc="left")
    axis.set_ylabel("test accuracy (per cent)")
    axis.legend(frameon=False, fontsize=7, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0)
