"""One arm in one cell under some seeds: what it measures, and how its learning rate is tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch

import fedstat as fs
from fedstat._tables import Tables
from fedstat.federated.state import State
from simulations.filterdecomp.arms import ESTIMAND, method
from simulations.filterdecomp.cells import Cell, Size, network, population
from simulations.parts import complete

METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
_BYTES = 4  # of a number that travels


@dataclass(frozen=True)
class Run:
    """An arm in a cell.

    Attributes
    ----------
    shown : str
        The figure or table that it is for.
    cell, size
        What is learnt.
    arm : str
        The arm.
    lr : float
        Its learning rate; SGD with momentum 0.9.
    seeds : tuple of int
        Master seeds, trained as one stack.
    rounds : int
        Communication rounds.
    at : tuple of int
        Rounds after which models are measured.
    last : int
        A run's summary is the mean over the measured ones of so many last rounds.
    atoms : int
        FilterDecomp's.
    """

    shown: str
    cell: Cell
    size: Size
    arm: str
    lr: float
    seeds: tuple[int, ...]
    rounds: int
    at: tuple[int, ...]
    last: int
    atoms: int = 9


def training(size: Size, lr: float) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(lr=lr, momentum=0.9, batch_size=size.batch, local_epochs=size.epochs)


def federate(run: Run, seeds: Sequence[int]) -> fs.Result:
    """Train an arm under these seeds."""
    size = run.size
    return complete(
        fs.federate(
            {run.arm: method(run.arm, size.epochs, run.atoms)}, network(run.cell, size),
            partial(population, run.cell, size), training(size, run.lr), rounds=run.rounds,
            participation=size.participants, seed=seeds, evaluate_at=run.at, device=size.device, progress=False,
        )
    )  # fmt: skip


def results(run: Run) -> tuple[list[fs.Result], list[int]]:
    """Return the results of all seeds, as one where all went well, and the seeds under which training diverged."""
    try:
        return [federate(run, run.seeds)], []
    except FloatingPointError:
        found: list[fs.Result] = []
        lost: list[int] = []
        for seed in run.seeds:
            try:
                found.append(federate(run, [seed]))
            except FloatingPointError:
                lost.append(seed)
        return found, lost


def measure(run: Run) -> Tables:
    """Return what an arm comes to.

    Returns
    -------
    Tables
        ``values`` (estimand, split, metric, seed, value: the mean over clients and the last measured rounds),
        ``curves`` (seed, round, accuracy and log_loss of the global model on the common test set, and the numbers that
        travelled until then, of all participants in both directions), ``counts`` (the numbers that a client keeps for
        itself, and what a participant sends and receives in a round, in the mean) and ``diverged`` (seed), each with
        figure or table, cell, arm, atoms, local epochs and participants.
    """
    found, lost = results(run)
    tables: dict[str, list[pd.DataFrame]] = {"values": [], "curves": [], "counts": []}
    for result in found:
        history = result.history.astype({"estimand": str, "split": str, "metric": str})
        late = history[history["metric"].isin(METRICS) & (history["round"] > run.rounds - run.last)]
        by = ["estimand", "split", "metric", "seed"]
        tables["values"].append(late.groupby(by)["value"].mean().reset_index())
        if ESTIMAND.get(run.arm, "global") == "global":
            tables["curves"].append(_curves(history, result.traffic))
        tables["counts"].append(_counts(run.arm, result))
    where = {
        "shown": run.shown, "cell": run.cell.name, "arm": run.arm, "atoms": run.atoms, "epochs": run.size.epochs,
        "participants": round(run.size.participants * run.cell.clients),
    }  # fmt: skip
    joined = {name: pd.concat(some, ignore_index=True).assign(**where) for name, some in tables.items() if some}
    return {**joined, "diverged": pd.DataFrame({"seed": pd.Series(lost, dtype=int)}).assign(**where)}


def _curves(history: pd.DataFrame, traffic: pd.DataFrame) -> pd.DataFrame:
    """Return the global model's accuracy and log-loss on the common test set by round, and what had travelled."""
    rows = history[(history["split"] == "common") & (history["estimand"] == "global")]
    wide = rows.pivot(index=["seed", "round"], columns="metric", values="value")[["accuracy", "log_loss"]].reset_index()
    sent = traffic.assign(numbers=(traffic["bytes_up"] + traffic["bytes_down"]) / _BYTES)
    total = sent.groupby(["seed", "round"])["numbers"].sum().groupby(level=0).cumsum().reset_index()
    return wide.merge(total, on=["seed", "round"], how="left").fillna({"numbers": 0.0})


def _counts(arm: str, result: fs.Result) -> pd.DataFrame:
    """Count what a client keeps for itself, and what a participant sends and receives in a round, in numbers."""
    rows = [
        {"seed": seed, "private": private_numbers(state), "up": t["bytes_up"].mean() / _BYTES,
         "down": t["bytes_down"].mean() / _BYTES}
        for (_, seed), state in result.states.items()
        for t in [result.traffic[result.traffic["seed"] == seed]]
    ]  # fmt: skip
    return pd.DataFrame(rows)


def private_numbers(state: State) -> int:
    """Return how many numbers a client keeps for itself."""
    if not state.shared:
        return 0
    held = state.clients.rows(torch.arange(1))
    return sum(int((~mask[:1].expand_as(held[name]).bool()).sum()) for name, mask in state.shared.items())
