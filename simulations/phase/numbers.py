"""What the phase study hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.effects import DRAWN, LEVEL, Effects, Question, above_all
from simulations.estimates import mean_of, strict_mean
from simulations.phase.study import CONTROL, DESIGN, SKEW, YARDSTICKS
from simulations.showing import NONE, fixed, rounded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: 'Level' with the better yardstick: within so many points.
MARGIN = 1.0
CELL = ["samples", "p", "alpha"]
LINE = ["samples", "alpha"]
SPLITS = ("random split", "FedFac")
Outcome = Literal["pays", "harms", "level", "undecided", "undefined"]
#: How each outcome is written in tables.
MARKS = {"pays": "+", "harms": "−", "level": "=", "undecided": "?", "undefined": ""}
DATASETS = {"mnist": "MNIST", "digits": "scikit-learn’s digits"}
PER_CENT = (0.0, 100.0)


# --- the statistic ---------------------------------------------------------------------------------------------


def effects(tables: Tables) -> Effects:
    """Return each split's accuracy minus Local's and FedAvg's in every cell: one question for the grid, one for images.

    Images count as drawn: of sixty thousand training images two seeds have next to none in common. Of the test images
    they have a fifth, for which the limits do not allow.
    """
    return Effects(
        [
            question("the split against Local and FedAvg", tables["grid"], CELL, ["split"]),
            question("splits against Local and FedAvg on images", tables["images"], LINE, SPLITS),
        ]
    )


def question(words: str, table: pd.DataFrame, keys: Sequence[str], splits: Sequence[str]) -> Question:
    """Ask how splits compare with both yardsticks in all cells of a table."""
    values = {
        _cell(dict(zip(keys, cell, strict=True))): 100 * rows.pivot(index="seed", columns="arm", values="accuracy")
        for cell, rows in table.groupby(list(keys), sort=False)
    }
    pairs = list(product(splits, YARDSTICKS))
    return Question(words, "accuracy", values, {cell: pairs for cell in values}, DRAWN, "points")


def outcome(low: float, high: float, inner: tuple[float, float], p: float) -> Outcome:
    """Classify a gain over the better yardstick, in points.

    Parameters
    ----------
    low, high : float
        The smaller of two lower and the smaller of two upper limits.
    inner : (float, float)
        The same of the limits by which an equivalence is judged.
    p : float
        Of "the split beats both yardsticks", adjusted for the number of cells.
    """
    if math.isnan(low):
        return "undecided"
    if p < 1 - LEVEL:
        return "pays"
    if high < 0:
        return "harms"
    return "level" if inner[0] > -MARGIN and inner[1] < MARGIN else "undecided"


def gains(found: Effects, cells: pd.DataFrame, splits: Sequence[str]) -> pd.DataFrame:
    """Return the gain of each split over the better yardstick in every cell, with simultaneous limits, in points.

    The gain is the smaller of the mean differences to Local and to FedAvg, each paired on seeds. Its limits are the
    smaller of the two lower and of the two upper limits of these differences, in one family over all cells, splits and
    both yardsticks: where all of those hold, these hold, since the smaller of two numbers grows with both. The
    yardstick is chosen by means over seeds; chosen anew in every seed it would have noise on its side. A split pays
    where it beats both yardsticks (an intersection-union test over the cells), and does harm where a difference to one
    of them has limits below zero.

    Returns
    -------
    DataFrame
        One row per cell and split: the cell, ``arm``, ``mean``, ``low``, ``high``, ``outcome``, the differences to
        ``Local`` and ``FedAvg``, and which gain would have been found with 80% power, ``could_find``. Where a run is
        missing these are NaN, and the limits of one run are.
    """
    places = [(dict(cell), split) for cell, split in product(cells.drop_duplicates().to_dict("records"), splits)]
    each = [[found["accuracy", _cell(cell), split, other] for other in YARDSTICKS] for cell, split in places]
    p = above_all({f"{_cell(cell)}, {split}": both for (cell, split), both in zip(places, each, strict=True)})
    rows = []
    for (cell, split), both, above in zip(places, each, p.values(), strict=True):
        means, low, high = np.array([(e.mean, e.low, e.high) for e in both]).T
        inner = np.min([e.inner for e in both], axis=0)
        rows.append(
            {
                **cell, "arm": split, "mean": means.min(), "low": low.min(), "high": high.min(),
                "outcome": "undefined" if np.isnan(means).any() else outcome(low.min(), high.min(), inner, above),
                **dict(zip(YARDSTICKS, means, strict=True)),
                "could_find": both[int(means.argmin())].could_find,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def grid_gains(tables: Tables) -> pd.DataFrame:
    """Return the gains on the generator."""
    return gains(effects(tables), tables["grid"][CELL], ["split"])


def image_gains(tables: Tables) -> pd.DataFrame:
    """Return the gains on images."""
    return gains(effects(tables), tables["images"][LINE], SPLITS)


def _at(grid: pd.DataFrame, cell: Sequence[float]) -> pd.Series:
    return grid[(grid[CELL] == list(cell)).all(axis=1)].iloc[0]


def _extreme(grid: pd.DataFrame, *, largest: bool) -> pd.Series:
    """Return the cell of the largest or the smallest gain; it is not known where a gain is missing."""
    if grid["mean"].isna().any():
        return pd.Series(math.nan, index=grid.columns)
    return grid.loc[grid["mean"].idxmax() if largest else grid["mean"].idxmin()]


def _cell(row: Mapping[str, float] | pd.Series) -> str:
    """Name a cell of the grid, or a place on the line of images."""
    if pd.isna(row["samples"]):
        return "a gain is missing"
    if "p" not in row:
        return f"Dirichlet {row['alpha']:g}, {row['samples']:g} samples"
    return f"{row['samples']:g} samples, p = {row['p']:g}, α = {row['alpha']:g}"


# --- what the chapter prints -----------------------------------------------------------------------------------


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the gain in the best cell, at the paper's design and at the control, and at the ends of the image lines.

    Limits are simultaneous over all cells, so that they hold for a cell that was picked as well.
    """
    grid, line = grid_gains(tables), image_gains(tables)
    what = "gain of the split over the better of Local and FedAvg"
    found = {
        "best": _finding(f"{what}, the largest of all cells", _extreme(grid, largest=True)),
        "design": _finding(f"{what}, at FedFac's design", _at(grid, DESIGN)),
        "control": _finding(f"{what}, at the positive control", _at(grid, CONTROL)),
    }
    ends = (line["samples"].min(), line["samples"].max())
    for skew, samples, arm in product(sorted(line["alpha"].unique()), ends, SPLITS):
        row = line[(line["alpha"] == skew) & (line["samples"] == samples) & (line["arm"] == arm)].iloc[0]
        place = "fewest" if samples == ends[0] else "most"
        words = f"{arm} − the better of Local and FedAvg, images, Dirichlet {skew:g}, {samples:g} samples"
        found[f"{arm} {skew:g} {place}"] = _finding(words, row)
    return found


def _finding(what: str, row: pd.Series) -> Finding:
    found = Finding.of(what, (float(row["mean"]), float(row["low"]), float(row["high"])), unit="points", digits=1)
    return replace(found, could_find=float(row["could_find"]))


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the chapter."""
    grid, line = grid_gains(tables), image_gains(tables)
    best, worst = (_extreme(grid, largest=largest) for largest in (True, False))
    return {
        "cells": len(grid),
        "counts": _counts(grid),
        "image_counts": _counts(line),
        "by_alpha": [{"alpha": f"{a:g}", "of": len(g), **_counts(g)} for a, g in grid.groupby("alpha")],
        "by_p": [{"p": f"{p:g}", "of": len(g), **_counts(g)} for p, g in grid.groupby("p")],
        "best": _cell(best),
        "paying": _where(grid[grid["outcome"] == "pays"]),
        "harmed": _where(grid[grid["outcome"] == "harms"]),
        "worst": {"cell": _cell(worst), "points": fixed(worst["mean"], 1)},
        "margin": f"{MARGIN:g}",
        "unclear": {"grid": _unclear(grid), "images": _unclear(line)},
        "half": fixed(float(((grid["high"] - grid["low"]) / 2).median(skipna=False)), 1),
        "comparisons": {"grid": len(YARDSTICKS) * len(grid), "images": len(YARDSTICKS) * len(line)},
        "seeds": {name: tables[name]["seed"].nunique() for name in ("grid", "images")},
        "samples": [f"{n:g}" for n in sorted(grid["samples"].unique())],
        "grid": _grid_rows(grid),
        "line": rounded(_line_rows(line), random=1, fedfac=1),
        "places": _places(tables, {"largest gain": best, "positive control": _at(grid, CONTROL),
                                   "FedFac’s design": _at(grid, DESIGN)}),
        "rates": _rates(tables["tuning"]),
        "ends": int(tables["tuning"].loc[tables["tuning"]["end"], ["data", "family", "samples", "alpha"]]
                    .drop_duplicates().shape[0]),
        "tuned": int(tables["tuning"][["data", "family", "samples", "alpha"]].drop_duplicates().shape[0]),
        "design_outcome": str(_at(grid, DESIGN)["outcome"]),
        "design_high": fixed(float(_at(grid, DESIGN)["high"]), 1),
        "images_of": DATASETS.get(config.get("images", {}).get("dataset", ""), "real images"),
        "control": f"{CONTROL[0]} samples, p = {CONTROL[1]:g}, α = {CONTROL[2]:g}",
        "design": f"{DESIGN[0]} samples, p = {DESIGN[1]:g}, α = {DESIGN[2]:g}",
    }  # fmt: skip


def _unclear(table: pd.DataFrame) -> dict[str, str]:
    """Return which gain would have been found, in the median of the undecided cells, and the largest possible there."""
    some = table[table["outcome"] == "undecided"]
    return {"could": fixed(some["could_find"].median(), 1), "most": fixed(some["high"].max(), 1)}


def _counts(table: pd.DataFrame) -> dict[str, int]:
    return {name: int((table["outcome"] == name).sum()) for name in MARKS}


def _where(cells: pd.DataFrame) -> dict[str, str]:
    """Return the range of every axis over some cells; dashes if there are none."""
    if cells.empty:
        return dict.fromkeys(CELL, NONE)
    return {
        key: f"{cells[key].min():g}" if cells[key].nunique() == 1 else f"{cells[key].min():g} to {cells[key].max():g}"
        for key in CELL
    }


def _grid_rows(grid: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate gain and outcome: a row for each share of inputs and of units, a column for each number of samples."""
    rows: list[dict[str, Any]] = []
    for (alpha, p), group in grid.groupby(["alpha", "p"]):
        cells = {
            f"{row['samples']:g}": f"{fixed(row['mean'], 1)} {MARKS[row['outcome']]}" for _, row in group.iterrows()
        }
        rows.append({"alpha": f"{alpha:g}", "p": f"{p:g}", "first": not rows or rows[-1]["alpha"] != f"{alpha:g}"})
        rows[-1] |= {"cells": cells}
    return rows


def _line_rows(line: pd.DataFrame) -> list[dict[str, Any]]:
    """Tabulate gains with intervals and outcomes, a row for each place on the line, and the better yardstick."""
    rows: list[dict[str, Any]] = []
    for (skew, samples), group in line.groupby(["alpha", "samples"]):
        by_arm = group.set_index("arm")
        rows.append({"alpha": f"{skew:g}", "first": not rows or rows[-1]["alpha"] != f"{skew:g}"})
        rows[-1] |= {"samples": f"{samples:g}"}
        less_local, less_fedavg = by_arm["Local"].iloc[0], by_arm["FedAvg"].iloc[0]
        known = not math.isnan(less_local + less_fedavg)
        rows[-1] |= {"better": NONE if not known else "Local" if less_local < less_fedavg else "FedAvg"}
        for name, arm in (("random", "random split"), ("fedfac", "FedFac")):
            rows[-1] |= {
                name: tuple(by_arm.loc[arm, ["mean", "low", "high"]]),
                f"{name}_mark": MARKS[by_arm.loc[arm, "outcome"]],
            }
    return rows


def _places(tables: Tables, cells: Mapping[str, pd.Series]) -> list[dict[str, Any]]:
    """Tabulate every metric of all arms in some cells and at the ends of one line, with intervals of each alone."""
    grid, line = tables["grid"], tables["images"]
    inside = {
        f"{name}: {_cell(cell)}": grid[(grid[CELL] == [cell[key] for key in CELL]).all(axis=1)]
        for name, cell in cells.items()
    }
    skew = min(line["alpha"].unique(), key=lambda value: abs(value - SKEW))
    for samples in (line["samples"].min(), line["samples"].max()):
        place = f"images: Dirichlet {skew:g}, {samples:g} samples"
        inside[place] = line[(line["alpha"] == skew) & (line["samples"] == samples)]
    rows = []
    for place, table in inside.items():
        for first, (arm, group) in enumerate(table.groupby("arm")):
            rows.append(
                {
                    "place": place,
                    "first": first == 0,
                    "arm": str(arm),
                    "accuracy": mean_of(100 * group["accuracy"], within=PER_CENT),
                    "balanced": mean_of(100 * group["balanced_accuracy"], within=PER_CENT),
                    "log_loss": mean_of(group["log_loss"]),
                    "majority": fixed(100 * strict_mean(group["majority_share"]), 1),
                }
            )
    return rounded(rows, accuracy=1, balanced=1, log_loss=3)


def _rates(tuning: pd.DataFrame) -> list[dict[str, str]]:
    """Tabulate the chosen learning rates: one row per number of samples, the range over alpha of each family."""
    chosen = tuning[tuning["chosen"]]
    rows = []
    for (data, samples), group in chosen.groupby(["data", "samples"]):
        row = {"data": "generator" if data == "generator" else "images", "samples": f"{samples:g}"}
        for family, rates in group.groupby("family")["lr"]:
            low, high = rates.min(), rates.max()
            row[str(family)] = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        rows.append(row)
    return rows


# --- figures ---------------------------------------------------------------------------------------------------


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
