"""The FedFac study's tables by seed and arm."""

from __future__ import annotations

import pandas as pd

from fedstat._tables import Tables
from simulations.estimates import by_run

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


def masked(
    tables: Tables, setting: str, arm: str = "FedFac dynamic", metric: str = "weighted_accuracy"
) -> pd.DataFrame:
    """Return the accuracy of masked models, by seed."""
    rows = tables["masking"]
    rows = rows[(rows["setting"] == setting) & (rows["metric"] == metric) & (rows["arm"] == arm)]
    return rows.pivot(index="seed", columns="masked", values="value")
