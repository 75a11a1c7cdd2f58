"""What the FedDecomp study's chapter shows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.effects import Effects
from simulations.estimates import half_widths, mean_of
from simulations.feddecomp.cells import CODE, QUESTION, TEXT
from simulations.feddecomp.effects import effects, setting
from simulations.feddecomp.per_seed import Layout, by_seed, drawn, layouts, spreads
from simulations.feddecomp.study import SPREAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How often a curve is compared, for limits that hold together over rounds and arms.
MARKS = 6


def draw(tables: Tables) -> dict[str, Figure]:
    """Draw Table 1's differences, samples per client, Figure 5 and Figure 6, each for the first world that has them."""
    from fedstat.report.figures import style

    every = effects(tables)
    how = {
        "methods": partial(_methods, every), "samples": partial(_samples, every),
        "epochs": partial(_epochs, tables), "spread": partial(_spread, tables),
    }  # fmt: skip
    with style():
        return {figure: how[figure](layout) for figure, layout in drawn(layouts(tables)).items()}


def _methods(every: Effects, layout: Layout) -> Figure:
    """Draw FedDecomp − every other arm of Table 1, by concentration."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    others = [arm for arm in layout.arms if arm not in (CODE, TEXT)]
    figure, axes = plt.subplots(
        1,
        len(layout.every),
        figsize=(WIDTH, 0.56 + 0.118 * len(others)),
        sharey=True,
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, a in zip(axes[0], layout.every, strict=True):
        axis.axvline(0, color="black", lw=0.6)
        for shift, arm, fill in ((0.16, CODE, "black"), (-0.16, TEXT, "white")):
            for i, other in enumerate(others):
                mean, low, high = every["accuracy", setting(layout, a), arm, other].estimate
                axis.plot([low, high], [shift - i] * 2, color="black", lw=0.8)
                axis.plot(mean, shift - i, "o", color="black", mfc=fill, ms=3.5, label=None if i else arm)
        axis.set_yticks([-i for i in range(len(others))], [f"− {other}" for other in others])
        axis.set_ylim(0.5 - len(others), 0.5)
        axis.set_title(f"Dirichlet {a:g}")
        axis.set_xlabel("accuracy (points)")
    # only FedAvg lies far to the right there
    axes[0][0].legend(loc="center right", frameon=False, fontsize=7, handlelength=0.8)
    return figure


def _samples(every: Effects, layout: Layout) -> Figure:
    """Draw FedDecomp − Local and FedAvg over samples per client; limits hold together at each number of samples."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    figure, axes = plt.subplots(
        1, len(layout.main), figsize=(WIDTH, 2.5), sharey=True, squeeze=False, layout="constrained"
    )
    looks = [(arm, other) for arm in QUESTION[2:] for other in QUESTION[:2]]
    for axis, a in zip(axes[0], layout.main, strict=True):
        axis.axhline(0, color="black", lw=0.6)
        for j, (arm, other) in enumerate(looks):
            at = np.arange(len(layout.samples)) + 0.12 * (j - 1.5)
            wheres = [setting(layout, a, n) for n in layout.samples]
            values = np.array([every["accuracy", where, arm, other].estimate for where in wheres])
            axis.plot(at, values[:, 0], "-" if other == "Local" else ":", color="black", lw=0.7)
            axis.errorbar(
                at, values[:, 0], yerr=[values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]],
                fmt="o" if other == "Local" else "s", color="black", mfc="black" if arm == CODE else "white", ms=4,
                lw=0.7, capsize=1.5, label=f"{arm} − {other}",
            )  # fmt: skip
        axis.set_xticks(range(len(layout.samples)), [str(n) for n in layout.samples])
        axis.set_title(f"Dirichlet {a:g}")
        axis.set_xlabel("training samples of a client")
    axes[0][0].set_ylabel("difference in accuracy (points)")
    _legend(figure, axes[0][0], 2)
    return figure


def _epochs(tables: Tables, layout: Layout) -> Figure:
    """Draw accuracy over the epochs of the low-rank part (the paper's Figure 5)."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    wide = by_seed(tables, layout, layout.first)
    figure, axis = plt.subplots(figsize=(0.62 * WIDTH, 2.4), layout="constrained")
    sets: list[tuple[str, dict[int, str], Any, str]] = [
        ("random start", layout.epochs, "black", "-"), ("pre-trained start", layout.warm, "white", "--"),
    ]  # fmt: skip
    for shift, (label, arms, fill, line) in enumerate(sets):
        own = wide[list(arms.values())].dropna()
        values = np.array([mean_of(own[arm], 1 - 0.05 / len(arms), within=(0, 100)) for arm in arms.values()])
        at = np.array(list(arms)) + 0.08 * (shift - 0.5)
        axis.plot(at, values[:, 0], line, color="black", lw=0.8)
        axis.errorbar(
            at, values[:, 0], yerr=[values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]], fmt="o", color="black",
            mfc=fill, ms=4, lw=0.7, capsize=1.5, label=label,
        )  # fmt: skip
    for arm, line in (("Local", ":"), ("FedAvg", "-.")):
        level = wide.loc[wide[layout.epochs[0]].notna(), arm].mean()
        axis.axhline(level, color="0.4", lw=0.8, ls=line, label=f"{arm}, its own rate")
    axis.set_xticks(list(layout.epochs))
    axis.set_xlabel("epochs of the low-rank part, of five in a round")
    axis.set_ylabel("accuracy (per cent)")
    _legend(figure, axis, 2)
    return figure


def _spread(tables: Tables, layout: Layout) -> Figure:
    """Draw the spread of the clients' sigma over rounds with limits that hold together (the paper's Figure 6)."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    figure, axes = plt.subplots(1, len(SPREAD), figsize=(WIDTH, 1.3), squeeze=False, layout="constrained")
    names = ("alternating", "simultaneous, as many epochs in all", "simultaneous, as many epochs of σ")
    looks = (("-", "o", "black"), ("--", "s", "white"), (":", "^", "0.6"))
    for axis, (reading, arms) in zip(axes[0], SPREAD.items(), strict=True):
        for shift, (arm, name, look) in enumerate(zip(arms, names, looks, strict=True)):
            _band(axis, spreads(tables, layout, arm), name, look, shift - 1, len(arms))
        axis.set_title(f"{reading}: low-rank parts learn {'slowly' if reading == 'code' else 'as fast as σ'}")
        axis.set_xlabel("round")
        axis.set_ylim(bottom=0)
    axes[0][0].set_ylabel("distance of σ\nfrom its mean")
    _legend(figure, axes[0][0], 3)
    return figure


def _band(axis: Axes, wide: pd.DataFrame, name: str, look: tuple[str, str, str], shift: int, arms: int) -> None:
    """Draw a mean curve, with limits at marked rounds that hold together over them and over the panel's arms."""
    line, mark, fill = look
    mean = wide.mean(axis=0)
    axis.plot(mean.index, mean, line, color="black", lw=0.9)
    at = mean.index[np.unique(np.linspace(0, len(mean) - 1, min(MARKS, len(mean))).round().astype(int))]
    half = half_widths(wide[at], len(at) * arms)
    axis.errorbar(
        at + 0.2 * shift, mean[at], yerr=half, fmt=mark, color="black", mfc=fill, ms=3.5, lw=0.6, capsize=1.5,
        label=name,
    )  # fmt: skip


def _legend(figure: Figure, axis: Axes, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=7, ncol=columns, loc="outside lower center")
