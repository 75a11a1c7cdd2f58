"""What the chapter of the phase study shows: the diagram on the generator, and the line on images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.phase.effects import MARGIN, grid_gains, image_gains
from simulations.phase.study import CONTROL, DESIGN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the phase diagram on the generator, and the line on images."""
    return {"phase": _phase_figure(grid_gains(tables)), "images": _image_figure(image_gains(tables))}


#: What becomes of a cell: the colour of its tile, and how its number is set.
TILES: dict[str, tuple[str, dict[str, Any]]] = {
    "pays": ("#2f7d4f", {"color": "white", "weight": "bold"}),
    "harms": ("#a83232", {"color": "white", "weight": "bold"}),
    "level": ("#c9c9c9", {"color": "black"}),
    "undecided": ("white", {"color": "0.45"}),
}
LEGEND = {
    "pays": "pays",
    "harms": "does harm",
    "level": f"within {MARGIN:g} point of the better",
    "undecided": "undecided",
}
#: What is drawn around the two places of interest.
FRAMES = ((CONTROL, "-", "positive control"), (DESIGN, "--", "FedFac’s design"))


def _phase_figure(grid: pd.DataFrame) -> Figure:
    """Draw a tile for each cell, by its outcome and with its gain, a panel for each share of shared inputs."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    from fedstat.report.figures import WIDTH, style

    alphas = sorted(grid["alpha"].unique())
    with style():
        figure, axes = plt.subplots(
            1, len(alphas), figsize=(WIDTH, 2.6), sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for axis, alpha in zip(axes.flat, alphas, strict=True):
            _tiles(axis, grid[grid["alpha"] == alpha])
            axis.set_title(f"shared inputs α = {alpha:g}", pad=5)
        axes.flat[0].set_ylabel("share of shared units, p")
        figure.supxlabel("training samples per client", fontsize=8)
        handles = [Rectangle((0, 0), 1, 1, fc=TILES[k][0], ec="0.6", lw=0.4, label=LEGEND[k]) for k in TILES]
        handles += [Rectangle((0, 0), 1, 1, fc="none", ec="black", lw=1.2, ls=ls, label=name) for _, ls, name in FRAMES]
        figure.legend(
            handles=handles, loc="outside upper center", ncols=6, frameon=False, fontsize=7, handlelength=1.2,
            columnspacing=1.2,
        )  # fmt: skip
    return figure


def _tiles(axis: Axes, cells: pd.DataFrame) -> None:
    """Draw the cells of one share of shared inputs; a number is the gain in percentage points."""
    from matplotlib.patches import Rectangle

    samples, shares = sorted(cells["samples"].unique()), sorted(cells["p"].unique())
    for cell in cells.itertuples():
        x, y = samples.index(cell.samples), shares.index(cell.p)
        colour, look = TILES.get(str(cell.outcome), TILES["undecided"])
        axis.add_patch(Rectangle((x, y), 1, 1, fc=colour, ec="0.6", lw=0.4))
        number = "–" if np.isnan(cell.mean) else f"{cell.mean:.1f}".replace("-", "−").replace("−0.0", "0.0")
        axis.text(x + 0.5, y + 0.5, number, ha="center", va="center", fontsize=7, **look)
    for (n, p, alpha), line, _ in FRAMES:
        if cells["alpha"].iloc[0] == alpha and n in samples and p in shares:
            corner = (samples.index(n) + 0.06, shares.index(p) + 0.06)
            axis.add_patch(Rectangle(corner, 0.88, 0.88, fc="none", ec="black", lw=1.2, ls=line))
    axis.set_xticks([k + 0.5 for k in range(len(samples))], [f"{n:g}" for n in samples])
    axis.set_yticks([k + 0.5 for k in range(len(shares))], [f"{p:g}" for p in shares])
    axis.tick_params(length=0)
    axis.set(xlim=(0, len(samples)), ylim=(0, len(shares)))
    for spine in axis.spines.values():
        spine.set_visible(False)


def _image_figure(line: pd.DataFrame) -> Figure:
    """Draw the gain against samples, a panel for each strength of label skew; bars are simultaneous intervals."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    from fedstat.report.figures import WIDTH, style

    skews = sorted(line["alpha"].unique())
    looks: dict[str, dict[str, Any]] = {
        "random split": {"marker": "o", "mfc": "black", "ls": "-"},
        "FedFac": {"marker": "s", "mfc": "white", "ls": "--"},
    }
    labels = {
        "random split": "split, half of the units at random",
        "FedFac": "FedFac, half of the units by communality",
    }
    with style():
        figure, axes = plt.subplots(
            1, len(skews), figsize=(WIDTH, 2.5), sharex=True, sharey=True, squeeze=False, layout="constrained"
        )
        for axis, skew in zip(axes.flat, skews, strict=True):
            axis.axhspan(-MARGIN, MARGIN, color="0.9", lw=0, zorder=0)
            axis.axhline(0, color="0.45", lw=0.6, zorder=1)
            for place, (arm, look) in enumerate(looks.items()):
                rows = line[(line["alpha"] == skew) & (line["arm"] == arm)].sort_values("samples")
                x = rows["samples"].to_numpy() * 2 ** (0.16 * (place - 0.5))
                axis.plot(x, rows["mean"], color="black", lw=0.7, ms=3.6, mew=0.8, mec="black", zorder=4, **look)
                axis.vlines(x, rows["low"], rows["high"], color="black", lw=0.8, zorder=3)
            axis.set_xscale("log", base=2)
            samples = sorted(line["samples"].unique())
            axis.set_xticks(samples, [f"{n:g}" for n in samples])
            axis.xaxis.set_minor_locator(NullLocator())
            axis.tick_params(length=2, width=0.5)
            axis.set_title(f"Dirichlet {skew:g}")
        axes.flat[0].set_ylabel("gain (percentage points)")
        figure.supxlabel("training images per client (logarithmic)", fontsize=8)
        handles = [
            plt.Line2D([], [], color="black", lw=0.7, ms=3.6, mew=0.8, mec="black", label=labels[arm], **look)
            for arm, look in looks.items()
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False, fontsize=7)
    return figure
