"""Runs of the FedDecomp study, and what is measured of each."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.federated.client.network import Model, Network, Params
from fedstat.federated.state import Update
from fedstat.inference import primary_rows, primary_summary
from simulations.feddecomp.cells import Setup, World, network, pools, populate, samples

METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: The paper's summary: the largest, over rounds, of the mean over clients.
BEST = "best accuracy"
#: Learning rate of the pre-training, batch, and its seed, which no other run has.
WARM_RATE, WARM_BATCH, WARM_SEED = 0.03, 50, 1


@dataclass(frozen=True)
class Job:
    """One arm in one setting, under all its seeds.

    Attributes
    ----------
    world, setup
        What is learnt, and the common sizes.
    arm : str
        Name in the tables.
    method : Method
        What runs.
    dirichlet : float
        Concentration of the clients' class proportions.
    lr : float
        Learning rate.
    seeds : tuple of int
        Master seeds.
    train : int
        Training samples of each client.
    rounds, epochs : int
        Rounds, and local epochs in each.
    pretrained : bool
        Whether the network starts from weights trained on images apart, with a head drawn anew.
    """

    world: World
    setup: Setup
    arm: str
    method: fs.Method
    dirichlet: float
    lr: float
    seeds: tuple[int, ...]
    train: int
    rounds: int
    epochs: int
    pretrained: bool = False

    @property
    def device(self) -> str:
        """Where networks train."""
        return self.setup.device

    @property
    def name(self) -> str:
        """A name for the part."""
        return f"feddecomp-{self.world.name}-{self.arm}-{self.dirichlet:g}-{self.train}-{self.lr:g}"


# --- what is measured of weights ----------------------------------------------------------------------------------


def sigma(network: Network, leaves: Params) -> Tensor:
    """Return all trained weights but the low-rank factors, one row per client: (m, d)."""
    own = [leaves[name] for name in network.trainable if not (name in network.parts and name.endswith((".a", ".b")))]
    return torch.cat([leaf.flatten(1) for leaf in own], dim=1)


def tau(network: Network, leaves: Params) -> Tensor:
    """Return the low-rank parts as weights, one row per client: (m, d); no columns where nothing is decomposed."""
    clients = len(next(iter(leaves.values())))
    rows = []
    for k in range(clients):
        whole = []
        for name, form in network.forms.items():
            parts = {part: leaves[f"{name}.{part}"][k] for part in ("full", "a", "b")}
            whole.append(form.compose({**parts, "full": torch.zeros_like(parts["full"])}).flatten())
        rows.append(torch.cat(whole) if whole else torch.zeros(0))
    return torch.stack(rows)


def spread(network: Network, leaves: Params) -> float:
    """Return the mean distance of the clients' sigma from their average (Figure 6)."""
    own = sigma(network, leaves)
    return float((own - own.mean(0)).norm(dim=1).mean())


def distances(network: Network, start: Params, end: Params) -> tuple[float, float]:
    """Return how far the average sigma has moved, and how far the clients' tau on average (Table 6)."""
    of_sigma = (sigma(network, end).mean(0) - sigma(network, start).mean(0)).norm()
    of_tau = (tau(network, end) - tau(network, start)).norm(dim=1).mean()
    return float(of_sigma), float(of_tau)


# --- the runs -----------------------------------------------------------------------------------------------------


@functools.cache
def pretrained(world: World, epochs: int) -> tuple[nn.Module, float]:
    """Train the network on the images set aside, as one client; return it with a new head, and its accuracy before.

    The accuracy is that on a fifth of these images, which are not trained on.
    """
    x, y, _ = samples(world)
    clients = fs.data.from_indices(x, y, [pools(world)["aside"]], test=0.2, seed=WARM_SEED)
    training = fs.Training(lr=WARM_RATE, momentum=0.9, batch_size=WARM_BATCH, local_epochs=epochs)
    result = fs.federate(
        fs.FedAvg(), network(world), clients, training, rounds=1, seed=WARM_SEED, progress=False
    )  # fmt: skip
    (state,) = result.states.values()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(WARM_SEED)
        module = network(world)()
    kept = {name: leaf.cpu() for name, leaf in state.server.items() if not name.startswith("head.")}
    missing, unknown = module.load_state_dict(kept, strict=False)
    assert not unknown
    assert all(name.startswith("head.") or "num_batches" in name for name in missing)
    return module, float(primary_summary(result.history, "accuracy").iloc[0, 0])


@dataclass(frozen=True, eq=False)
class Played:
    """What the rounds of some seeds left: the history, and what was measured of weights."""

    history: pd.DataFrame
    spreads: pd.DataFrame
    moved: pd.DataFrame


def _clients(job: Job, seed: int) -> Clients:
    return populate(job.world, job.setup, job.dirichlet, job.train, seed, validation=False)


def play(job: Job, seeds: Sequence[int]) -> Played:
    """Run a job under some seeds, stacked."""
    model: Model = network(job.world)
    if job.pretrained:
        model, _ = pretrained(job.world, job.setup.warm_epochs)
    training = fs.Training(
        lr=job.lr, momentum=job.setup.momentum, batch_size=job.setup.batch, local_epochs=job.epochs
    )  # fmt: skip
    history, spreads, moved = [], [], []
    starts: dict[int, Params] = {}
    for round in fs.rounds(
        {job.arm: job.method}, model, partial(_clients, job), training, seed=list(seeds), device=job.device,
        dtype=job.setup.dtype,
    ):  # fmt: skip
        history.append(round.evaluate())
        for (_, seed), update in round.updates.items():
            if round.number == 1:
                starts[seed] = {name: leaf.clone() for name, leaf in update.start.items()}
            if update.network.forms:
                spreads.append({"seed": seed, "round": round.number, "spread": spread(update.network, update.end)})
            if update.network.forms and round.number == job.rounds:
                moved.append(_moved(seed, update, starts[seed]))
        if round.number == job.rounds:
            break
    return Played(pd.concat(history, ignore_index=True), pd.DataFrame(spreads), pd.DataFrame(moved))


def _moved(seed: int, update: Update, start: Params) -> dict[str, float]:
    of_sigma, of_tau = distances(update.network, start, update.end)
    return {"seed": seed, "sigma": of_sigma, "tau": of_tau}


def one_job(job: Job) -> Tables:
    """Run a job; return accuracies, curves and distances by seed. Seeds at which training diverges have NaN."""
    try:
        played = [play(job, job.seeds)]
        lost: list[int] = []
    except FloatingPointError:
        played, lost = [], []
        for seed in job.seeds:
            try:
                played.append(play(job, [seed]))
            except FloatingPointError:
                lost.append(seed)
    where = {
        "world": job.world.name, "arm": job.arm, "dirichlet": job.dirichlet, "train": job.train,
    }  # fmt: skip
    tables = [_tables(job, one) for one in played]
    empty = pd.DataFrame([{"seed": seed, "metric": m, "value": np.nan} for seed in lost for m in (*METRICS, BEST)])
    found = {name: pd.concat([table[name] for table in tables]) for name in (tables[0] if tables else {})}
    found["accuracy"] = pd.concat([found.get("accuracy", empty), empty]) if lost else found["accuracy"]
    return {name: table.reset_index(drop=True).assign(**where) for name, table in found.items() if len(table)}


def _tables(job: Job, played: Played) -> Tables:
    """Return the tables of the seeds that came to the end."""
    history = played.history
    wide = {metric: primary_summary(history, metric, last=job.setup.last)[job.arm] for metric in METRICS}
    rows = primary_rows(history, "accuracy", last=job.rounds)
    curves = rows.groupby(["seed", "round"])["value"].mean()
    wide[BEST] = curves.groupby("seed").max()
    long = [values.rename("value").rename_axis("seed").reset_index().assign(metric=m) for m, values in wide.items()]
    by_round = curves.rename("accuracy").reset_index()
    if len(played.spreads):
        by_round = by_round.merge(played.spreads, on=["seed", "round"])
    return {
        "accuracy": pd.concat(long)[["seed", "metric", "value"]],
        "curves": by_round,
        "moved": played.moved.assign(
            warm=pretrained(job.world, job.setup.warm_epochs)[1] if job.pretrained else np.nan
        ),
    }
