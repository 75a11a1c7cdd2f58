"""What the phase study compares: a split against both yardsticks in every cell, and where it pays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.effects import DRAWN, LEVEL, Effects, Question, above_all, once
from simulations.phase.study import YARDSTICKS

#: 'Level' with the better yardstick: within so many points.
MARGIN = 1.0
CELL = ["samples", "p", "alpha"]
LINE = ["samples", "alpha"]
SPLITS = ("random split", "FedFac")
Outcome = Literal["pays", "harms", "level", "undecided", "undefined"]


@once
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
        cell_name(dict(zip(keys, cell, strict=True))): 100 * rows.pivot(index="seed", columns="arm", values="accuracy")
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
    each = [[found["accuracy", cell_name(cell), split, other] for other in YARDSTICKS] for cell, split in places]
    p = above_all({f"{cell_name(cell)}, {split}": both for (cell, split), both in zip(places, each, strict=True)})
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


def cell_name(row: Mapping[str, float] | pd.Series) -> str:
    """Name a cell of the grid, or a place on the line of images."""
    if pd.isna(row["samples"]):
        return "a gain is missing"
    if "p" not in row:
        return f"Dirichlet {row['alpha']:g}, {row['samples']:g} samples"
    return f"{row['samples']:g} samples, p = {row['p']:g}, α = {row['alpha']:g}"
