"""Run the methods in the cells of Factorized-FL's Table 1: accuracies, curves, bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.inference import primary_rows, primary_summary
from fedstat.models import Factory
from simulations.factorized.arms import methods
from simulations.factorized.cells import Cell, classes_of, loaded, population
from simulations.images import small_cnn
from simulations.parts import complete

#: The summary is the mean over the evaluated ones of the last rounds, so many.
LAST = 10
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
FIRST_SEED = 0
#: Learning rates are tuned on seeds of their own.
FIRST_TUNING_SEED = 10_000


@dataclass(frozen=True)
class Size:
    """How large a run is.

    Attributes
    ----------
    clients, samples, test : int
        As `population` takes them.
    rounds, local_epochs, batch_size : int
        Of training.
    every : int
        All clients are evaluated after the first and each so many rounds.
    network : {"small", "resnet9"}
        Two convolutions with batch norm, or the network of the authors' code.
    device : str
        Torch device.
    """

    clients: int
    samples: int
    test: int
    rounds: int
    local_epochs: int
    batch_size: int
    every: int
    network: Literal["small", "resnet9"] = "small"
    device: str = "cpu"

    @property
    def evaluated(self) -> list[int]:
        """The rounds after which all clients are evaluated."""
        return sorted({1, *range(self.every, self.rounds + 1, self.every), self.rounds})


def model(size: Size, cell: Cell) -> Factory:
    """Return the network of a cell."""
    x, classes = loaded(cell.data).x, classes_of(cell)
    return (
        small_cnn(x, classes, norm=True) if size.network == "small" else fs.models.resnet9(classes, channels=x.shape[1])
    )


def arms(size: Size, cell: Cell) -> dict[str, fs.Method]:
    """Return the methods of a cell."""
    return methods(domains=cell.domains, permuted=cell.permuted, clients=size.clients, rounds=size.rounds)


def training(size: Size, lr: float) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(
        lr=lr, momentum=0.9, weight_decay=1e-6, batch_size=size.batch_size, local_epochs=size.local_epochs
    )


def run(size: Size, cell: Cell, chosen: Iterable[str], lr: float, seed: int) -> fs.Result:
    """Train the chosen arms at one learning rate."""
    every = arms(size, cell)
    return fs.federate(
        {arm: every[arm] for arm in chosen}, model(size, cell),
        partial(population, cell, size.clients, size.samples, size.test), training(size, lr), rounds=size.rounds,
        seed=seed, evaluate_at=size.evaluated, device=size.device, progress=False,
    )  # fmt: skip


def compare(size: Size, cell: Cell, rates: Mapping[str, float], seed: int) -> Tables:
    """Run all arms of a cell under one seed.

    Returns
    -------
    Tables
        ``values`` (arm, metric, value: the mean over clients and the last evaluated rounds), ``curves`` (arm, round,
        accuracy: the mean over clients) and ``bytes`` (arm, round, up, down: of a client, in the mean), each with the
        cell and the seed; for domains also ``domains`` (arm, domain, accuracy: the mean over the domain's clients).
    """
    tables: dict[str, list[pd.DataFrame]] = {"values": [], "curves": [], "bytes": []}
    if cell.domains:
        tables["domains"] = []
    for lr in sorted(set(rates.values())):
        some = [arm for arm in arms(size, cell) if rates[arm] == lr]
        if not some:
            continue
        result = complete(run(size, cell, some, lr, seed))
        for metric in METRICS:
            found = primary_summary(result.history, metric, last=LAST)
            tables["values"].append(found.melt(var_name="arm", value_name="value").assign(metric=metric))
        tables["curves"].append(_curves(result.history))
        if cell.domains:
            tables["domains"].append(_by_domain(result.history, cell, size.clients))
        mean = result.traffic.groupby(["method", "round"], sort=False, observed=True)[["bytes_up", "bytes_down"]].mean()
        names = {"method": "arm", "bytes_up": "up", "bytes_down": "down"}
        tables["bytes"].append(mean.reset_index().rename(columns=names))
    where = {**cell.columns, "seed": seed}
    return {
        name: pd.concat(some, ignore_index=True).astype({"arm": str}).assign(**where) for name, some in tables.items()
    }


def _by_domain(history: pd.DataFrame, cell: Cell, clients: int) -> pd.DataFrame:
    """Return the mean accuracy over the clients of each domain and the last evaluated rounds, by arm."""
    rows = primary_rows(history, "accuracy", last=LAST)
    names = list(loaded(cell.data).domains)
    domain = rows["client"].map(lambda k: names[int(k) * len(names) // clients])
    mean = rows.assign(domain=domain).groupby(["method", "domain"], observed=True)["value"].mean()
    return mean.reset_index().rename(columns={"method": "arm", "value": "accuracy"})


def costs(permuted: bool) -> Tables:
    """Return the bytes that a client sends and receives in a round with the authors' network, by our codec.

    Six clients train two rounds on noise; the second round is counted, since FedFOMO sends nothing down in the first.
    What does not depend on training is kept: the text's beta sends entries of mu that differ from zero, and is left
    out.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 3, 32, 32)).astype(np.float32), np.arange(24) % 10
    every = methods(domains=False, permuted=permuted, clients=6, rounds=2)
    clients = fs.data.from_indices(x, y, fs.data.iid(24, 6), test=0.5, classes=range(10))
    training = fs.Training(lr=1e-4, momentum=0.9, batch_size=2)
    traffic = fs.federate(
        {arm: method for arm, method in every.items() if arm != "Factorized-FL β, text"}, fs.models.resnet9(10),
        clients, training, rounds=2, evaluate_at=(), progress=False,
    ).traffic  # fmt: skip
    second = traffic[traffic["round"] == 2].groupby("method", sort=False, observed=True)[["bytes_up", "bytes_down"]]
    table = second.mean().reset_index().rename(columns={"method": "arm", "bytes_up": "up", "bytes_down": "down"})
    return {"costs": table.astype({"arm": str}).assign(labels="permuted" if permuted else "standard")}


def _curves(history: pd.DataFrame) -> pd.DataFrame:
    """Return the mean accuracy over clients after each evaluated round, by arm, of the model that is summarised."""
    rounds = sorted(history["round"].unique())
    rows = []
    for at in rounds:
        mean = primary_summary(history[history["round"] == at], "accuracy", last=1).iloc[0]
        rows += [{"arm": str(arm), "round": int(at), "accuracy": float(value)} for arm, value in mean.items()]
    return pd.DataFrame(rows)
