"""One arm under some seeds: its global model over rounds, and its clients' own models towards the end."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.federated.rounds import Round
from fedstat.inference import count_missing
from fedstat.methods import FedProx, FilterDecomp
from simulations.filterdecomp.arms import OURS_HEAD
from simulations.filterdecomp.arms import method as of_table
from simulations.filterdecomp.cells import Cell, Size, network, population
from simulations.filterdecomp.runs import METRICS, training
from simulations.rates import tried

FEDAVG, FEDPROX, FILTERDECOMP = GLOBAL_ARMS = ("FedAvg", "FedProx", "FilterDecomp")
LOCAL = "Local"
#: Those with a global model answer for Figure 2, and with their clients' own models for Table 1, as the others do.
ARMS = (*GLOBAL_ARMS, LOCAL, "Ditto", "FedPer", "FedRep", "FedPAC", "LG-FedAvg", OURS_HEAD)
#: Arms whose own models are copies that train at each measurement, which is then as much work as some rounds.
TUNED_AFTER = (FEDAVG, FEDPROX)


@dataclass(frozen=True)
class Job:
    """An arm in a cell.

    Attributes
    ----------
    cell, size
        What is learnt.
    arm : str
        The arm.
    lr : float
        Its learning rate; SGD with momentum 0.9.
    seeds : tuple of int
        Master seeds, trained as one stack.
    rounds, every : int
        Communication rounds, and from one measurement to the next.
    own : tuple of int
        Rounds after which fine-tuned models are measured.
    """

    cell: Cell
    size: Size
    arm: str
    lr: float
    seeds: tuple[int, ...]
    rounds: int
    every: int
    own: tuple[int, ...]

    @property
    def device(self) -> str:
        """Where networks train."""
        return self.size.device


def method(arm: str, epochs: int) -> fs.Method:
    """Return an arm's method, with the paper's hyper-parameters.

    Clients of FedAvg and FedProx fine-tune copies of the global model. FilterDecomp's train atoms of their own beside
    the global ones, of which the global model takes no notice.
    """
    every: dict[str, fs.Method] = {
        FEDAVG: fs.FedAvg(fine_tune=epochs),
        FEDPROX: FedProx(mu=0.1, fine_tune=epochs),
        FILTERDECOMP: FilterDecomp(atoms=9, personal=True),
    }
    return every[arm] if arm in every else of_table(arm, epochs)


@functools.lru_cache(maxsize=4)
def dealt(cell: Cell, size: Size, seed: int) -> Clients:
    """Deal a cell's images; all arms of a process have the same clients."""
    return population(cell, size, seed)


def measure(job: Job) -> Tables:
    """Return what an arm comes to.

    Returns
    -------
    Tables
        ``curves`` (arm, seed, round, model, split, metric, value): global models on the common test set, and clients'
        own models on test images of their classes, in the mean over clients; and ``diverged`` (arm, seed).
    """
    lost: list[int] = []
    try:
        found = [played(job, job.seeds)]
    except FloatingPointError:
        found = []
        for seed in job.seeds:
            try:
                found.append(played(job, [seed]))
            except FloatingPointError:
                lost.append(seed)
    tables = {"curves": pd.concat(found, ignore_index=True).assign(arm=job.arm)} if found else {}
    return {**tables, "diverged": pd.DataFrame({"seed": pd.Series(lost, dtype=int)}).assign(arm=job.arm)}


def played(job: Job, seeds: Sequence[int]) -> pd.DataFrame:
    """Train an arm under these seeds, and return its curves."""
    size = job.size
    rounds = fs.rounds(
        {job.arm: method(job.arm, size.epochs)}, network(job.cell, size), partial(dealt, job.cell, size),
        training(size, job.lr), participation=size.participants, seed=seeds, device=size.device,
    )  # fmt: skip
    tables = []
    for now in rounds:
        tables += [_means(table) for table in _measured(job, now)]
        if now.number == job.rounds:
            now.stop()
    return pd.concat(tables, ignore_index=True)


def _measured(job: Job, now: Round) -> Iterator[pd.DataFrame]:
    """Measure the models of a round, as far as its turn has come."""
    turn = now.number % job.every == 0
    if turn and job.arm in GLOBAL_ARMS:
        yield now.evaluate("common")
    if now.number in job.own if job.arm in TUNED_AFTER else turn:
        table = now.evaluate("test")
        yield table[table["estimand"] != "global"]


def _means(table: pd.DataFrame) -> pd.DataFrame:
    """Average over clients; refuse missing values, of which a mean would tell nothing."""
    table = table.astype({"estimand": str, "split": str, "metric": str}).rename(columns={"estimand": "model"})
    table = table[table["metric"].isin(METRICS)]
    for _, rows in table.groupby("metric"):
        if missing := count_missing(rows):
            raise FloatingPointError("; ".join(f"{label}: {words}" for label, words in missing.items()))
    return table.groupby(["seed", "round", "model", "split", "metric"])["value"].mean().reset_index()


def tune(job: Job, rates: tuple[float, ...]) -> Tables:
    """Try an arm at other rates; return the table ``tuning``."""
    size = job.size
    tuning = fs.tune(
        fs.FedAvg(), {"lr": rates}, network(job.cell, size), partial(dealt, job.cell, size), training(size, rates[0]),
        rounds=job.rounds, last=2, growths=0, participation=size.participants, seed=list(job.seeds), device=size.device,
        progress=False,
    )  # fmt: skip
    return tried(tuning, job.arm)
