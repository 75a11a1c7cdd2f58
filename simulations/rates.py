"""Learning rates of a study's arms, chosen by `fedstat.tune`, one part for each arm: the tables that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from simulations.parts import Part, run_parts


def tune_arms(what: str, arms: Mapping[str, Callable[[], Tables]], config: Any, out: Path) -> pd.DataFrame:
    """Tune arms, each in a part of its own, and return their tables ``tuning`` as one.

    Parameters
    ----------
    what : str
        Names the parts, and stands before the progress bar.
    arms : mapping of str to callable
        What makes each arm's table, as `tried` does; importable, since parts run in worker processes.
    config : dataclass
        Everything that decides the numbers, but for the arm.
    out : Path
        Where parts are cached.
    """
    parts = [Part(f"{what}-rate-{arm}".replace("/", ":"), config, compute) for arm, compute in arms.items()]
    return run_parts(parts, out, f"{what}: learning rates")["tuning"]


def tried(tuning: fs.Tuning, arm: str) -> Tables:
    """Return what tuning measured of an arm's rates, as the table ``tuning``.

    Returns
    -------
    Tables
        One row per trial and seed: arm, lr and what else was tuned, seed, accuracy on validation samples (NaN where
        training diverged), whether this was `chosen`, and whether the chosen rate is still an `end` of the grid.
    """
    scores = tuning.scores[(tuning.scores["split"] == "validation") & (tuning.scores["metric"] == tuning.metric)]
    trials = tuning.table.drop_duplicates("trial")[["trial", *tuning.best]]
    best = tuning.table.loc[tuning.table["chosen"], "trial"].iloc[-1]
    table = scores.merge(trials, on="trial").sort_values([*tuning.best, "seed"]).rename(columns={"value": "accuracy"})
    table = table.assign(arm=arm, chosen=table["trial"] == best, end="lr" in tuning.ends)
    return {"tuning": table[["arm", *tuning.best, "seed", "accuracy", "chosen", "end"]].reset_index(drop=True)}


def chosen(tuning: pd.DataFrame) -> Mapping[str, float]:
    """Return each arm's rate from the table ``tuning``."""
    return {str(arm): float(lr) for arm, lr in tuning[tuning["chosen"]].groupby("arm")["lr"].first().items()}


def validating(clients: Clients) -> Clients:
    """Return clients whose samples for the test are for validation, where those for validation stand in their place."""
    return replace(clients, test=None, common=None, validation=clients.test)
