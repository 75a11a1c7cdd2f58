"""The FedFac study's tables by seed and arm, and intervals that hold together."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from simulations.estimates import Estimate, by_run, joint_of

#: Seeds deal the same images anew, and the sentence is about other deals and runs.
DESIGN = Design(clients="new", data="fixed")
FACTOR = ("FedFac dynamic", "FedFac static", "FedFac code", "FedFac agreement")
AGAINST = ("FedPer", "random split", "random split, every round", "layer split")
#: How often the training loss is compared, for bands that hold together over rounds.
MARKS = 5


def settings_of(tables: Tables, group: str | None = None) -> list[str]:
    """Return the settings, all or those of a group: "digits", or "images" for the others."""
    every = list(dict.fromkeys(tables["accuracy"]["setting"]))
    return [s for s in every if group is None or s.startswith("digits") == (group == "digits")]


def groups(tables: Tables) -> list[str]:
    """Return the groups that the tables hold, the main one first."""
    return [group for group in ("images", "digits") if settings_of(tables, group)]


def by_seed(tables: Tables, setting: str, metric: str = "accuracy", table: str = "accuracy") -> pd.DataFrame:
    """Return one row per seed and one column per arm."""
    rows = tables[table]
    rows = rows[(rows["setting"] == setting) & (rows["metric"] == metric)]
    column = {"accuracy": "arm", "newcomers": "rule"}[table]
    return by_run(rows, column)


def pooled(tables: Tables, group: str, metric: str = "accuracy", table: str = "accuracy") -> pd.DataFrame:
    """Return means over a group's settings, by seed and arm."""
    wide = [by_seed(tables, setting, metric, table) for setting in settings_of(tables, group)]
    return pd.concat(wide, keys=range(len(wide))).groupby("seed").agg(lambda v: v.mean(skipna=False))


def joint(wide: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Estimate]:
    """Return differences of pairs of arms, with limits that hold together at 95%."""
    return joint_of(wide[[*{name: None for pair in pairs for name in pair}]].dropna(), pairs, DESIGN)
