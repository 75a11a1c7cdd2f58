"""What the chapter of the phase study shows: the diagram on the generator, and the line on images."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
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


def _phase_figure(grid: pd.DataFrame) -> Figure:
    """Draw contours of the gain over samples and shared units, a panel for each share of shared inputs."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import BoundaryNorm, ListedColormap

    from fedstat.report.figures import WIDTH, style

    alphas = sorted(grid["alpha"].unique())
    levels = _levels(grid["mean"].to_numpy())
    gains_ = int((levels > 0).sum()) - 1
    greys = ["1.0"] * (len(levels) - 1 - gains_) + [f"{g:.3f}" for g in np.linspace(0.91, 0.5, max(gains_, 1))]
    with style(), plt.rc_context({"hatch.linewidth": 0.3}):
        figure, axes = plt.subplots(
            1, len(alphas), figsize=(WIDTH, 2.75), sharex=True, sharey=True, squeeze=False,
            gridspec_kw={"left": 0.068, "right": 0.885, "bottom": 0.15, "top": 0.86, "wspace": 0.14},
        )  # fmt: skip
        greys = greys[: len(levels) - 1]
        looks = {"cmap": ListedColormap(greys), "norm": BoundaryNorm(levels, len(greys))}
        looks["hatches"] = ["//////" if high < 0 else None for low, high in pairwise(levels)]
        for axis, alpha in zip(axes.flat, alphas, strict=True):
            filled = _phase_panel(axis, grid[grid["alpha"] == alpha], levels, looks)
            axis.set_title(f"shared inputs α = {alpha:g}", pad=5)
        bar = figure.colorbar(filled, cax=figure.add_axes((0.905, 0.15, 0.014, 0.71)), ticks=levels)
        bar.set_label("gain (percentage points)", fontsize=8)
        bar.ax.tick_params(length=2, width=0.5, pad=2)
        bar.ax.set_yticklabels([_signed(level) for level in levels])
        bar.outline.set_linewidth(0.5)
        axes.flat[0].set_ylabel("share of shared units, p", labelpad=2)
        figure.text(0.4765, 0.025, "training samples per client", ha="center", fontsize=8)
        figure.legend(
            handles=_legend(), loc="upper center", bbox_to_anchor=(0.4765, 1.01), ncols=7, frameon=False, fontsize=7,
            handletextpad=0.3, handlelength=1.3, columnspacing=1.1, borderpad=0.1,
        )  # fmt: skip
    return figure


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _levels(values: np.ndarray) -> np.ndarray:
    """Return at most ten levels of contours in equal steps, without zero, around which there is mostly noise."""
    values = np.nan_to_num(values)
    for step in (0.25, 0.5, 1.0, 2.0, 5.0, 10.0):
        low, high = (int(np.ceil(max(side, step) / step)) for side in (-values.min(), values.max()))
        if low + high <= 10:
            break
    return step * np.array([i for i in range(-low, high + 1) if i])


def _phase_panel(axis: Axes, cells: pd.DataFrame, levels: np.ndarray, looks: Mapping[str, Any]) -> Any:
    """Draw one share of shared inputs: filled contours, where the yardsticks cross, and the cells."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import NullLocator

    surface = cells.pivot(index="p", columns="samples", values="mean")
    apart = cells.assign(apart=cells["Local"] - cells["FedAvg"]).pivot(index="p", columns="samples", values="apart")
    x, y = np.log2(surface.columns.to_numpy(dtype=float)), surface.index.to_numpy(dtype=float)
    filled: Any = ScalarMappable(looks["norm"], looks["cmap"])
    if cells["mean"].notna().all():  # between missing values nothing can be interpolated
        fine, measured = _smooth(x, y, surface.to_numpy()), np.array(list(product(x, y)))
        filled = axis.contourf(*fine, levels, **looks)
        lines = axis.contour(*fine, levels, colors="black", linewidths=0.45, linestyles="solid")
        axis.clabel(lines, manual=_label_places(lines, measured), fmt=_signed, fontsize=6.5, inline_spacing=2)
        level = _smooth(x, y, apart.to_numpy())
        axis.contour(*level, [0.0], colors="black", linewidths=1.3, linestyles=[(0, (1, 1.2))])
    for kind, look in GLYPHS.items():
        some = cells[cells["outcome"] == kind]
        axis.plot(np.log2(some["samples"]), some["p"], ls="none", zorder=4, clip_on=False, **look)
    for (samples, p, alpha), look in ((CONTROL, RINGS["control"]), (DESIGN, RINGS["design"])):
        if cells["alpha"].iloc[0] == alpha and samples in surface.columns and p in surface.index:
            axis.plot(np.log2(samples), p, ls="none", zorder=5, clip_on=False, **look)
    axis.set_xticks(x, [f"{n:g}" for n in surface.columns])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_yticks(y, [f"{p:g}" for p in y])
    axis.tick_params(length=0, pad=4)
    axis.set_xlim(x[0], x[-1])
    axis.set_ylim(y[0], y[-1])
    for spine in axis.spines.values():
        spine.set(visible=True, linewidth=0.4)
    return filled


def _label_places(lines: Any, cells: np.ndarray) -> list[tuple[float, float]]:
    """Return where each level is labelled: on its longest line, away from the ends, where the cells (N, 2) are far."""
    low, size = cells.min(axis=0), np.ptp(cells, axis=0)
    places = []
    for path in lines.get_paths():
        found = [(line - low) / size for line in path.to_polygons(closed_only=False)]
        longest = max(found, key=_length, default=None)
        if longest is None or _length(longest) < 0.25:
            continue
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(longest, axis=0), axis=1))])
        middle = longest[(along > 0.2 * along[-1]) & (along < 0.8 * along[-1])]
        inside = middle[((middle > 0.08) & (middle < 0.92)).all(axis=1)]
        if len(inside):
            gaps = np.linalg.norm(inside[:, None] - (cells - low) / size, axis=2).min(axis=1)
            places.append(tuple(inside[gaps.argmax()] * size + low))
    return places


def _length(line: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(line, axis=0), axis=1).sum())


#: What a cell looks like by its outcome, and what is drawn around the two places of interest.
GLYPHS: dict[str, dict[str, Any]] = {
    "pays": {"marker": "o", "ms": 3.8, "mfc": "black", "mec": "white", "mew": 0.5},
    "harms": {"marker": "x", "ms": 3.8, "mec": "black", "mew": 1.0},
    "level": {"marker": "_", "ms": 4.5, "mec": "black", "mew": 1.0},
    "undecided": {"marker": ".", "ms": 3.4, "mfc": "black", "mec": "black", "mew": 0.0},
}
RINGS: dict[str, dict[str, Any]] = {
    "control": {"marker": "o", "ms": 9.5, "mfc": "none", "mec": "black", "mew": 0.9},
    "design": {"marker": "s", "ms": 8.5, "mfc": "none", "mec": "black", "mew": 0.9},
}
LEGEND = {"pays": "pays", "harms": "harms", "level": f"level (±{MARGIN:g})", "undecided": "undecided"}


def _legend() -> list[Any]:
    """Return the handles of the legend."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], ls="none", label=LEGEND[kind], **look) for kind, look in GLYPHS.items()]
    rings = {kind: {**look, "ms": 7} for kind, look in RINGS.items()}
    return [
        *handles,
        Line2D([], [], color="black", lw=1.3, ls=(0, (1, 1.2)), label="Local = FedAvg"),
        Line2D([], [], ls="none", label="positive control", **rings["control"]),
        Line2D([], [], ls="none", label="FedFac’s design", **rings["design"]),
    ]


def _smooth(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Interpolate a surface z (len(y), len(x)) between its cells, without overshooting along either axis."""
    from scipy.interpolate import PchipInterpolator

    fine_x, fine_y = np.linspace(x[0], x[-1], 121), np.linspace(y[0], y[-1], 121)
    along = PchipInterpolator(x, z, axis=1)(fine_x) if len(x) > 1 else np.repeat(z, 121, axis=1)
    return fine_x, fine_y, PchipInterpolator(y, along, axis=0)(fine_y) if len(y) > 1 else np.repeat(along, 121, axis=0)


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
