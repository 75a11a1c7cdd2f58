"""Draw the training loss over rounds, and both methods' ways on contours of the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.report.figures import WIDTH
from simulations.estimates import mean_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {"FedAvg": ("-", "o", "white"), "FilterDecomp": ("--", "^", "black")}
#: Limits are drawn at so many rounds, and hold for all of them and both methods together.
_PLACES, _LEVEL = 8, 0.95


def curves_figure(curves: pd.DataFrame) -> Figure:
    """Draw both methods' training loss, with limits that hold together."""
    figure, axis = plt.subplots(figsize=(0.7 * WIDTH, 2.4), layout="constrained")
    rounds = np.sort(curves["round"].unique())
    places = rounds[np.unique(np.linspace(1, len(rounds) - 1, _PLACES).round().astype(int))]
    level = 1 - (1 - _LEVEL) / (len(places) * len(LOOKS))
    for shift, (arm, (line, marker, face)) in zip((-1, 1), LOOKS.items(), strict=True):
        wide = curves[curves["arm"] == arm].pivot(index="round", columns="seed", values="loss")
        axis.plot(wide.index, wide.mean(axis=1), line, color="black", lw=1)
        limits = np.array([mean_of(wide.loc[r].to_numpy(), level) for r in places])
        x = places + shift * 0.002 * rounds[-1]
        axis.errorbar(
            x, limits[:, 0], [limits[:, 0] - limits[:, 1], limits[:, 2] - limits[:, 0]], color="black", lw=0.7, ls="",
            marker=marker, mfc=face, ms=3.5, mew=0.7, capsize=1.5,
        )  # fmt: skip
        axis.plot([], [], line, color="black", lw=1, marker=marker, mfc=face, ms=3.5, mew=0.7, label=arm)
    axis.set(xlabel="round", ylabel="training loss in nats", xlim=(0, None), ylim=(0, None))
    axis.legend(frameon=False)
    return figure


def plane_figure(tables: Tables) -> Figure:
    """Draw the whole way of both methods, and the close rounds of the decomposition with its clients."""
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.2), layout="constrained")
    path = tables["path"]
    server = path[path["kind"] == "server"]
    for axis in axes:
        _contours(axis, tables["landscape"])
    for arm, (line, marker, face) in LOOKS.items():
        own = server[server["arm"] == arm].sort_values("round")
        axes[0].plot(own["x"], own["y"], line, color="black", lw=0.8, marker=marker, mfc=face, ms=3, mew=0.6, label=arm)
    axes[0].set_title(f"{int(server['round'].max())} rounds from a common start")
    axes[0].legend(frameon=False, loc="best")

    ours = path[path["arm"] == "FilterDecomp"]
    local = ours[ours["kind"] == "local"]
    close = np.sort(local["round"].unique())
    own = ours[(ours["kind"] == "server") & ours["round"].isin([close[0] - 1, *close])].sort_values("round")
    axes[1].plot(own["x"], own["y"], "--", color="black", lw=0.8, marker="^", mfc="black", ms=4, label="aggregate")
    axes[1].plot(local["x"], local["y"], "v", color="black", mfc="white", ms=4, mew=0.7, label="local client")
    virtual = ours[ours["kind"] == "virtual"]
    axes[1].plot(virtual["x"], virtual["y"], "x", color="0.35", ms=3, mew=0.6, label="virtual client")
    every = ours[(ours["kind"] != "server") | ours["round"].isin(close)]
    every = every[every["round"] >= close[0] - 1]
    for name, limits in (("x", axes[1].set_xlim), ("y", axes[1].set_ylim)):
        low, high = every[name].min(), every[name].max()
        limits(low - 0.08 * (high - low), high + 0.08 * (high - low))
    axes[1].set_title(f"FilterDecomp, rounds {close[0]} to {close[-1]}")
    axes[1].legend(frameon=False, loc="best")
    axes[0].set_ylabel("second direction (filters' norms)")
    return figure


def _contours(axis: Axes, landscape: pd.DataFrame) -> None:
    """Draw lines of equal training loss, the same in both panels."""
    axis.set_xlabel("first direction (filters' norms)")
    grid = landscape.pivot(index="y", columns="x", values="loss")
    low, high = float(grid.to_numpy().min()), float(np.quantile(grid.to_numpy(), 0.9))
    if not low < high:  # a value is missing, or all are equal
        return
    levels = np.linspace(low, high, 12)[1:]
    lines = axis.contour(grid.columns, grid.index, grid.to_numpy(), levels=levels, colors="0.65", linewidths=0.6)
    axis.clabel(lines, levels[::2], fontsize=6.5, fmt="%.2f")
