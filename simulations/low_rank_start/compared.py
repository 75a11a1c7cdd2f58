"""The study's tables by seed and level of dose."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from simulations.estimates import logarithms
from simulations.low_rank_start.runs import Arm
from simulations.low_rank_start.study import Scale

Kind = Literal["paper", "tuned"]
#: Accuracy in points of a run that diverged: its clients guess one of ten classes by chance.
CHANCE = 10.0


def settings_of(tables: Tables) -> list[str]:
    """Return the settings by name."""
    return list(dict.fromkeys(tables["runs"]["setting"]))


def levels_of(tables: Tables) -> list[float]:
    """Return the levels of the dose, ascending."""
    runs = tables["runs"]
    return sorted(float(level) for level in runs.loc[runs["control"].fillna("") == "", "level"].unique())


def kinds_of(tables: Tables) -> list[Kind]:
    """Return the rates that were compared: the paper's and the tuned ones; the paper's alone if nothing was tuned."""
    chosen = tables["tuning"][tables["tuning"]["chosen"]]
    return ["paper"] if (chosen["lr"] == Scale.lr).all() else ["paper", "tuned"]


def curves_of(kind: Kind) -> list[Arm]:
    """Return the arms that make curves at a rate, at level 0; routes are compared at the paper's rate only."""
    by_start = [Arm(reading="code"), Arm(reading="text")]
    return [*by_start, Arm(route="output")] if kind == "paper" else by_start


def at(arm: Arm, level: float) -> Arm:
    """Return an arm of a curve; at level 0 of the code's arrangement both routes are one."""
    route = "start" if level == 0 else arm.route
    return Arm(reading=arm.reading, route=route, level=level)


def tuned_rate(tables: Tables, setting: str, arm: Arm) -> float:
    """Return the rate chosen for a control, or for a dose in the code's arrangement."""
    rows = tables["tuning"]
    label = arm.label if arm.control else Arm(level=arm.level).label
    return float(rows.loc[(rows["setting"] == setting) & (rows["arm"] == label) & rows["chosen"], "lr"].iloc[0])


def runs_of(tables: Tables, setting: str, arm: Arm, kind: Kind = "tuned") -> pd.DataFrame:
    """Return an arm's runs, one row per seed."""
    lr = tuned_rate(tables, setting, arm) if kind == "tuned" or arm.control else Scale.lr
    rows = tables["runs"]
    found = rows[(rows["setting"] == setting) & (rows["arm"] == arm.label) & np.isclose(rows["lr"], lr)]
    return found.set_index("seed").sort_index()


def points(tables: Tables, setting: str, arm: Arm, kind: Kind = "tuned") -> pd.Series:
    """Return an arm's accuracy by seed, in points; a run that diverged counts as chance."""
    runs = runs_of(tables, setting, arm, kind)
    return (100 * runs["accuracy"]).where(~runs["diverged"].astype(bool), CHANCE)


def response(tables: Tables, setting: str, curve: Arm, kind: Kind) -> pd.DataFrame:
    """Return accuracies in points, seeds by levels."""
    return pd.DataFrame({level: points(tables, setting, at(curve, level), kind) for level in levels_of(tables)})


def share_diverged(tables: Tables, setting: str, curve: Arm, kind: Kind) -> pd.Series:
    """Return the share of the seeds in which training diverged, by level."""
    found = {
        level: runs_of(tables, setting, at(curve, level), kind)["diverged"].astype(bool).mean()
        for level in levels_of(tables)
    }
    return pd.Series(found, dtype=float)


def ratios(tables: Tables, setting: str, curve: Arm, kind: Kind) -> pd.DataFrame:
    """Return the length of tau over that of sigma after the last round, seeds by levels; NaN if diverged."""
    every = {level: runs_of(tables, setting, at(curve, level), kind)["ratio"] for level in levels_of(tables)}
    return pd.DataFrame(every)


def dose_of(tables: Tables, setting: str) -> pd.Series:
    """Return the geometric mean of the weights' doses, by level."""
    rows = tables["doses"]
    rows = rows[rows["setting"] == setting]
    return np.exp(logarithms(rows["dose"]).groupby(rows["level"]).mean(skipna=False))


def best_level(tables: Tables, setting: str) -> float:
    """Return the level that did best on the validation samples of the tuning seeds."""
    rows = tables["tuning"]
    label = rows.loc[(rows["setting"] == setting) & rows["best"], "arm"].iloc[0]
    return next(level for level in levels_of(tables) if Arm(level=level).label == label)


def inner_level(tables: Tables) -> float:
    """Return the first level above the code's: the response is told by the steps to it and on to the text's."""
    return levels_of(tables)[1]
