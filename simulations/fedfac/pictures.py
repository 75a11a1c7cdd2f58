"""What the FedFac study's chapter shows: the differences in question, all clients, the training loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedstat._tables import Tables
from simulations.estimates import half_widths
from simulations.fedfac.effects import MARGIN, effects, over
from simulations.fedfac.per_seed import AGAINST, FACTOR, MARKS, groups, settings_of
from simulations.fedfac.runs import ARMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the differences in question, the clients' accuracies (Figure 8) and the training loss (Figure 9)."""
    from fedstat.report.figures import style

    with style():
        return {"question": _question(tables), "clients": _clients(tables), "loss": _loss(tables)}


def _question(tables: Tables) -> Figure:
    """Draw FedFac's arms − what they are compared with, by group."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    shown, found = groups(tables), effects(tables)
    figure, axes = plt.subplots(1, len(shown), figsize=(WIDTH, 2.6), sharey=True, squeeze=False, layout="constrained")
    marks = ("o", "s", "^", "D")
    for axis, group in zip(axes[0], shown, strict=True):
        axis.axvspan(-MARGIN, MARGIN, color="0.88", lw=0)
        axis.axvline(0, color="black", lw=0.6)
        for i, other in enumerate(AGAINST):
            for j, arm in enumerate(FACTOR):
                mean, low, high = found["accuracy", over(tables, group), arm, other].estimate
                y = -i - 0.18 * (j - 1.5)
                axis.plot([low, high], [y, y], color="black", lw=0.8)
                fill = "black" if j % 2 == 0 else "white"
                axis.plot(mean, y, marks[j], color="black", mfc=fill, ms=4, label=arm if i == 0 else None)
        axis.set_yticks([-i for i in range(len(AGAINST))], [f"− {other}" for other in AGAINST])
        axis.set_title("images of CIFAR-10, mean of the settings" if group == "images" else "digits, Dirichlet 0.1")
        axis.set_xlabel("difference in accuracy (points)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=7, ncol=4, loc="outside lower center")
    return figure


def _clients(tables: Tables) -> Figure:
    """Draw the accuracies of all clients of all seeds, arms ordered by their median (the paper's Figure 8)."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    shown = settings_of(tables)
    columns = min(2, len(shown))
    lines = -(-len(shown) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(WIDTH, 2.7 * lines), squeeze=False, layout="constrained")
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    for axis, setting in zip(axes.flat, shown, strict=False):
        rows = tables["clients"][tables["clients"]["setting"] == setting]
        values = {arm: 100 * rows[arm].to_numpy() for arm in ARMS if arm in rows}
        values = {arm: known for arm, every in values.items() if len(known := every[np.isfinite(every)])}
        order = sorted(values, key=lambda arm: float(np.median(values[arm])))
        boxes = axis.boxplot(
            [values[arm] for arm in order], orientation="horizontal", widths=0.65, patch_artist=True,
            flierprops={"marker": ".", "markersize": 2, "markeredgewidth": 0.3},
            medianprops={"color": "black", "linewidth": 1.3}, boxprops={"linewidth": 0.5},
            whiskerprops={"linewidth": 0.5}, capprops={"linewidth": 0.5},
        )  # fmt: skip
        for arm, box in zip(order, boxes["boxes"], strict=False):  # of nothing there is a box as well
            box.set_facecolor("0.6" if arm.startswith("FedFac") else "white")
        axis.set_yticks(range(1, len(order) + 1), order, fontsize=6)
        axis.set_xlim(0, 100)
        axis.set_title(setting)
        axis.set_xlabel("accuracy of a client (per cent)")
    return figure


def _loss(tables: Tables) -> Figure:
    """Draw the training loss over rounds with limits that hold together at marked rounds (the paper's Figure 9)."""
    import matplotlib.pyplot as plt

    from fedstat.report.figures import WIDTH

    shown = settings_of(tables)
    figure, axes = plt.subplots(1, len(shown), figsize=(WIDTH, 2.3), sharey=True, squeeze=False, layout="constrained")
    looks = {"FedAvg": ("--", "o", "white"), "FedFac static": (":", "s", "0.6"), "FedFac dynamic": ("-", "^", "black")}
    for axis, setting in zip(axes[0], shown, strict=True):
        rows = tables["curves"]
        rows = rows[(rows["setting"] == setting) & (rows["split"] == "train")]
        for shift, (arm, (line, mark, fill)) in enumerate(looks.items()):
            wide = rows[rows["arm"] == arm].pivot(index="round", columns="seed", values="value")
            mean = wide.mean(axis=1)
            axis.plot(mean.index, mean, line, color="black", lw=1)
            at = mean.index[np.unique(np.linspace(0, len(mean) - 1, min(MARKS, len(mean))).round().astype(int))]
            half = half_widths(wide.loc[at].T, len(at) * len(looks))
            axis.errorbar(
                at + 0.25 * (shift - 1), mean[at], yerr=half, fmt=mark, color="black", mfc=fill, ms=3, lw=0.6,
                capsize=1.5, label=arm,
            )  # fmt: skip
        axis.set_title(setting.replace("9,085 images of ", ""))
        axis.set_xlabel("round")
    top = max(float(line.get_ydata()[0]) for axis in axes[0] for line in axis.lines[:1])
    if top > 0:
        axes[0][0].set_ylim(0, 1.5 * top)  # limits of a few seeds may reach far beyond
    axes[0][0].set_ylabel("training loss (nats)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=7, ncol=3, loc="outside lower center")
    return figure
