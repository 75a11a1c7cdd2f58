"""What the phase study hands to its chapter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.estimates import mean_of, strict_mean
from simulations.phase.effects import CELL, MARGIN, SPLITS, cell_name, effects, grid_gains, image_gains
from simulations.phase.pictures import figures
from simulations.phase.study import CONTROL, DESIGN, SKEW, YARDSTICKS
from simulations.showing import NONE, fixed, rounded

__all__ = ["effects", "figures", "findings", "numbers"]

#: How each outcome is written in tables.
MARKS = {"pays": "+", "harms": "−", "level": "=", "undecided": "?", "undefined": ""}
DATASETS = {"mnist": "MNIST", "digits": "scikit-learn’s digits"}
PER_CENT = (0.0, 100.0)


def _at(grid: pd.DataFrame, cell: Sequence[float]) -> pd.Series:
    return grid[(grid[CELL] == list(cell)).all(axis=1)].iloc[0]


def _extreme(grid: pd.DataFrame, *, largest: bool) -> pd.Series:
    """Return the cell of the largest or the smallest gain; it is not known where a gain is missing."""
    if grid["mean"].isna().any():
        return pd.Series(math.nan, index=grid.columns)
    return grid.loc[grid["mean"].idxmax() if largest else grid["mean"].idxmin()]


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
        "best": cell_name(best),
        "paying": _where(grid[grid["outcome"] == "pays"]),
        "harmed": _where(grid[grid["outcome"] == "harms"]),
        "worst": {"cell": cell_name(worst), "points": fixed(worst["mean"], 1)},
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
        f"{name}: {cell_name(cell)}": grid[(grid[CELL] == [cell[key] for key in CELL]).all(axis=1)]
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
