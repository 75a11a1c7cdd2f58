"""Learning rates of a study's arms, chosen by `fedstat.tune`, one part for each arm: the tables that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients


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
