"""Runs of the bench: one arm in one cell, its summaries and costs, and how it is tuned."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.inference.comparing.learning import late_gain
from simulations.bench.arms import BUDGETS, CONTROLS, Arm, arms, controls
from simulations.bench.cells import Cell, network, offered, populate, ratio, split_layers
from simulations.parts import Part, complete, run_parts
from simulations.rates import tried

METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
LEVEL = 0.95


@dataclass(frozen=True)
class Trial:
    """One arm in one cell.

    Attributes
    ----------
    cell : Cell
        The data set.
    arm : str
        Label of the arm.
    lr : float
        Learning rate.
    setting : str
        Value of the main hyper-parameter in words; "" is the default.
    seeds : tuple of int
        Master seeds.
    device : str
        Torch device.
    """

    cell: Cell
    arm: str
    lr: float
    setting: str
    seeds: tuple[int, ...]
    device: str

    @property
    def slug(self) -> str:
        """The trial in characters that are fit for the name of a folder."""
        words = f"{self.cell.name}-{self.arm}-{self.lr:g}" + f"-{self.setting}" * bool(self.setting)
        return "".join(c if c.isalnum() or c in "-." else "_" for c in words)


def every_arm(cell: Cell) -> dict[str, Arm]:
    """Return the arms that a cell's network can run."""
    return arms(cell.local_epochs, cell.rounds, cell.clients, split_layers(cell), offered(cell))


# --- one arm ---------------------------------------------------------------------------------------------------


def training(cell: Cell, arm: Arm, lr: float) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(lr=lr, batch_size=cell.batch_size, local_epochs=arm.local_epochs or cell.local_epochs)


def federate(trial: Trial) -> fs.Result:
    """Run an arm, evaluated in the last rounds only.

    Raises
    ------
    FloatingPointError
        If training diverged.
    """
    cell = trial.cell
    arm = every_arm(cell)[trial.arm]
    with warnings.catch_warnings():  # FedFac's warning that factors are not identified has a study of its own
        warnings.simplefilter("ignore", UserWarning)
        result = fs.federate(
            {trial.arm: arm.at(trial.setting)}, network(cell), partial(populate, cell), training(cell, arm, trial.lr),
            rounds=cell.rounds, seed=trial.seeds, evaluate_at=range(cell.rounds - cell.last + 1, cell.rounds + 1),
            device=trial.device, progress=False,
        )  # fmt: skip
    return complete(result)


def summaries(history: pd.DataFrame) -> pd.DataFrame:
    """Return primary summaries, one row per estimand, seed and metric: means over clients and evaluated rounds.

    The method's own estimand, which it lists first, is marked and has all metrics, and what its mean accuracy gains
    over the last fifth of the rounds if that is known; others have their accuracy.
    """
    table = history.groupby(["estimand", "seed", "metric"], observed=True)["value"].mean().reset_index()
    table = table.astype({"estimand": str, "metric": str})
    own = table["estimand"] == str(history["estimand"].iloc[0])
    kept = table["metric"].isin(METRICS) & (own | (table["metric"] == "accuracy"))
    first = history[(history["estimand"] == history["estimand"].iloc[0]) & (history["metric"] == "accuracy")]
    curves = first.pivot_table("value", "seed", "round", observed=True)
    gains = late_gain(curves.to_numpy(), curves.columns.to_numpy())
    gained = pd.DataFrame({"estimand": str(first["estimand"].iloc[0]), "seed": curves.index, "metric": "gain"})
    return pd.concat([table.assign(own=own)[kept], gained.assign(value=gains, own=True).dropna()], ignore_index=True)


def measure(trial: Trial, smaller: Sequence[float] = ()) -> Tables:
    """Return summaries and costs of one arm.

    If training diverges under any seed, the next of the `smaller` rates takes over, which the costs' rate tells. If it
    diverges at all of them, the accuracies are NaN.
    """
    cell = trial.cell
    arm = every_arm(cell)[trial.arm]
    who = {"cell": cell.name, "arm": trial.arm}
    try:
        result = federate(trial)
    except FloatingPointError:
        if smaller:
            tried = max(smaller)
            rest = tuple(rate for rate in smaller if rate < tried)
            return measure(Trial(cell, trial.arm, tried, trial.setting, trial.seeds, trial.device), rest)
        result = None
    if result is None:
        lost = pd.DataFrame({"seed": trial.seeds, "estimand": "", "own": True, "metric": "accuracy", "value": np.nan})
        accuracy, sent = lost, {"up": np.nan, "down": np.nan, "state": np.nan}
    else:
        accuracy, sent = summaries(result.history), _bytes(result, cell)
    by_kind = controls(trial.arm, arm)
    told = {
        "lr": trial.lr,
        "setting": trial.setting,
        "epochs": arm.epochs,
        "times": arm.models + arm.once / cell.rounds,
        "budget": BUDGETS[arm.models],
        **{f"control_{kind.lower()}": by_kind[kind] for kind in CONTROLS},
        **sent,
        "clients": cell.clients,
        "rounds": cell.rounds,
        "test_to_train": ratio(cell),
    }
    columns = ["cell", "arm", "estimand", "own", "seed", "metric", "value"]
    return {"accuracy": accuracy.assign(**who)[columns], "costs": pd.DataFrame([{**who, **told}])}


def _bytes(result: fs.Result, cell: Cell) -> dict[str, float]:
    """Return bytes per client and round, the prelude's spread over rounds, and those kept for a client between rounds.

    What is kept is the client's row in the run's store: its own leaves, and what the server remembers of it alone.
    """
    runs = len(result.states)
    sent = result.traffic[["bytes_up", "bytes_down"]].sum() / (runs * cell.clients * cell.rounds)
    kept = [sum(leaf.nbytes for leaf in state.clients.values()) / cell.clients for state in result.states.values()]
    return {"up": sent["bytes_up"], "down": sent["bytes_down"], "state": float(np.mean(kept))}


# --- tuning ----------------------------------------------------------------------------------------------------


def tune(first: Trial) -> Tables:
    """Choose an arm's learning rate, then the value of its main hyper-parameter at that rate: one rule for all.

    Both have the largest mean accuracy on validation samples over the tuning seeds, in the last third of the rounds; of
    equal values the default wins, of equal rates the smallest. The grid of rates grows until the choice is no end of
    it. Of the three values of a hyper-parameter the outer ones are ends, and that is left so. An arm that diverges at
    all rates has no accuracy, and none of its rows is chosen.

    Parameters
    ----------
    first : Trial
        The arm at the first of the cell's rates, under the tuning seeds.
    """
    cell, arm = first.cell, every_arm(first.cell)[first.arm]
    with warnings.catch_warnings():  # FedFac's warning that factors are not identified has a study of its own
        warnings.simplefilter("ignore", UserWarning)
        try:
            tuning = fs.tune(
                lambda setting="": arm.at(setting),
                {"lr": cell.rates} | ({"setting": ["", *arm.settings]} if arm.settings else {}),
                network(cell),
                partial(populate, cell),
                training(cell, arm, first.lr),
                rounds=cell.rounds,
                last=cell.last,
                seed=first.seeds,
                order=("lr", "setting") if arm.settings else None,
                device=first.device,
                progress=False,
            )
        except FloatingPointError:
            lost = pd.MultiIndex.from_product([cell.rates, first.seeds], names=["lr", "seed"]).to_frame(index=False)
            return {"tuning": lost.assign(arm=first.arm, setting="", accuracy=np.nan, chosen=False, end=False)}
    return {"tuning": pd.DataFrame({"setting": "", **tried(tuning, first.arm)["tuning"]})}


def tuned(
    cell: Cell, labels: Sequence[str], seeds: tuple[int, ...], device: str, out: Path
) -> tuple[pd.DataFrame, dict[str, tuple[float, str]]]:
    """Tune the arms of a cell, each in a part of its own.

    Parameters
    ----------
    cell : Cell
        If its grid has one rate, nothing is tuned, and the table has a row without accuracy for each arm.
    labels : sequence of str
        The arms.
    seeds : tuple of int
        The tuning seeds.
    device : str
        Torch device.
    out : Path
        Where parts are cached.

    Returns
    -------
    table : DataFrame
        The study's table ``tuning``.
    chosen : dict of str to (float, str)
        Rate and setting by arm. An arm that diverges at all rates is missing here.
    """
    if len(cell.rates) == 1:
        told = {"lr": cell.rates[0], "setting": "", "seed": seeds[0], "accuracy": np.nan, "chosen": True, "end": False}
        table = pd.DataFrame([{**told, "arm": label} for label in labels])
    else:
        every = [Trial(cell, label, cell.rates[0], "", seeds, device) for label in labels]
        parts = [Part(f"bench-tuning-{one.slug}", one, partial(tune, one)) for one in every]
        table = run_parts(parts, out, f"bench, {cell.name}: learning rates and hyper-parameters")["tuning"]
    best = table[table["chosen"]].drop_duplicates("arm")
    choice = {arm: (float(lr), setting) for arm, lr, setting in best[["arm", "lr", "setting"]].itertuples(index=False)}
    return table.assign(cell=cell.name)[_TUNING], choice


_TUNING = ["cell", "arm", "lr", "setting", "seed", "accuracy", "chosen", "end"]
