"""The privacy study's table by seed: means and maxima over a seed's images."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from fedstat._tables import Tables

How = Literal["mean", "max"]
#: Where an image counts as found: the PSNR that rounding to bytes leaves, 10 log10(12 * 255^2) decibels. Beyond it
#: only the optimiser's last digits differ, and they would rule the means.
FOUND = 58.92


def rows(tables: Tables, *, steps: int, stage: int | None = None) -> pd.DataFrame:
    """Return the images behind messages of so many steps: of one image each, and of trained networks by default.

    PSNR is cut off at `FOUND`.
    """
    table = tables["images"]
    beyond = (table["psnr"] - FOUND).clip(lower=0)
    table = table.assign(psnr=table["psnr"] - beyond, printed=table["printed"] - beyond)
    chosen = (table["steps"] == steps) & (table["batch"] == 1)
    return table[chosen & (table["stage"] == stage if stage is not None else table["stage"] > 0)]


def stages(tables: Tables) -> list[int]:
    """Return the rounds after which trained networks were attacked."""
    return sorted(int(stage) for stage in tables["images"]["stage"].unique() if stage)


def several(tables: Tables) -> int:
    """Return the number of steps of the messages about several images."""
    return int(tables["images"]["steps"].max())


def by_seed(table: pd.DataFrame, measure: str = "psnr", how: How = "mean") -> pd.DataFrame:
    """Return one row per seed and one column per arm and attack: the mean or the maximum over the seed's images."""
    return table.groupby(["seed", "arm", "attack"])[measure].agg(how, skipna=False).unstack(["arm", "attack"])
