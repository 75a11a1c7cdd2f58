"""The data, the arms and the runs of the study, and what is measured of each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.federated.client.network import Network, build
from fedstat.models import Factory
from fedstat.parameterization import LowRankSum
from simulations.images import images, small_cnn
from simulations.low_rank_start.dosed import Dosed, DosedSum, Route, own_dose, target_dose

METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
CONTROLS = ("Local", "FedAvg")
#: Share of what a client trains on beside its validation samples, which only tuning looks at.
VALIDATION = 0.2
#: Of the digits a client tests on this share; the images have an official test part.
TEST = 0.25


@dataclass(frozen=True)
class Setting:
    """What is learnt, by whom and how long.

    Attributes
    ----------
    name : str
        In the tables; never the paper's name where data or sizes are others.
    dataset : {"digits", "cifar10"}
        The digits are dealt by class; of the images every client draws its own, in the paper's manner.
    clients : int
        Number of clients.
    alpha : float
        Dirichlet concentration.
    rounds, last, epochs, lora_epochs, batch : int
        Training, and how many of the last rounds are averaged.
    train, test : int
        Images of a client for training and test; 0 for the digits, which are dealt out.
    network : {"small", "resnet8"}
        A small convolutional network with batch norm, or the paper's.
    """

    name: str
    dataset: Literal["digits", "cifar10"]
    clients: int
    alpha: float
    rounds: int
    last: int
    epochs: int = 4
    lora_epochs: int = 2
    batch: int = 20
    train: int = 0
    test: int = 0
    network: Literal["small", "resnet8"] = "small"


@dataclass(frozen=True)
class Arm:
    """A control, or FedDecomp at a level of dose, in an arrangement, by a route."""

    control: str = ""
    reading: Literal["code", "text"] = "code"
    route: Route = "start"
    level: float = 0.0

    @property
    def label(self) -> str:
        """The arm in one word or three."""
        return self.control or f"{self.reading}, {self.route}, {self.level:.3g}"


@dataclass(frozen=True)
class Job:
    """One arm at one learning rate under some seeds; `validation` if tested on validation samples."""

    setting: Setting
    arm: Arm
    lr: float
    momentum: float
    seeds: tuple[int, ...]
    validation: bool
    device: str


def draw(setting: Setting, validation: bool, seed: int) -> Clients:
    """Draw one seed's clients."""
    if setting.dataset == "digits":
        x, y = fs.data.digits()
        parts = fs.data.dirichlet(y, setting.clients, setting.alpha, min_size=12, seed=seed)
    else:
        x, y, test = images(setting.dataset)
        drawn = round(setting.train / (1 - VALIDATION))
        parts = fs.data.dirichlet_draws(
            y, test, setting.clients, setting.alpha, train=drawn, held_out=setting.test, seed=seed
        )
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        clients = fs.data.from_indices(x, y, parts, test=TEST, validation=VALIDATION, seed=seed)
        return Clients(clients.train, clients.validation, classes=clients.classes) if validation else clients


def network(setting: Setting) -> Factory:
    """Return what builds a setting's network."""
    if setting.network == "resnet8":
        return fs.models.resnet8(10)
    if setting.dataset == "digits":
        return fs.models.cnn(8, 10, norm=True)
    return small_cnn(np.empty((0, 3, 32, 32)), norm=True)


def method(setting: Setting, arm: Arm) -> fs.Method:
    """Return an arm's method. FedAvg weighs clients alike, as FedDecomp does."""
    if arm.control:
        return fs.Local() if arm.control == "Local" else fs.FedAvg(weighting="uniform")
    return Dosed(lora_epochs=setting.lora_epochs, reading=arm.reading, level=arm.level, route=arm.route)


def measure(job: Job) -> Tables:
    """Return a job's summaries, one row per seed; a seed whose training diverged has a row that says so.

    All seeds are trained together; if any diverges, each is trained by itself.
    """
    try:
        rows = _measured(job, job.seeds)
    except FloatingPointError:
        rows = []
        for seed in job.seeds:
            try:
                rows += _measured(job, (seed,))
            except FloatingPointError:
                rows.append({"seed": seed, "diverged": True})
    table = pd.DataFrame(rows, columns=["seed", "diverged", *METRICS, "ratio"])
    arm = job.arm
    return {
        "runs": table.assign(
            setting=job.setting.name, arm=arm.label, control=arm.control, reading=arm.reading, route=arm.route,
            level=arm.level, lr=job.lr,
        )
    }  # fmt: skip


def training(setting: Setting, lr: float, momentum: float) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(lr=lr, momentum=momentum, batch_size=setting.batch, local_epochs=setting.epochs)


def _measured(job: Job, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Train and return a row per seed; a seed has diverged, too, if some client's outputs are no numbers."""
    setting, label = job.setting, job.arm.label
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # outputs that are no numbers: counted here
        result = fs.federate(
            {label: method(setting, job.arm)}, network(setting), partial(draw, setting, job.validation),
            training(setting, job.lr, job.momentum),
            rounds=setting.rounds, seed=seeds, evaluate_at=range(setting.rounds - setting.last + 1, setting.rounds + 1),
            device=job.device, progress=False,
        )  # fmt: skip
    history = result.history[result.history["estimand"] == result.history["estimand"].iloc[0]]
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        own = history[history["seed"] == seed]
        means = own.groupby(own["metric"].astype(str))["value"].agg(lambda v: v.mean(skipna=False))
        if not np.isfinite(means["accuracy"]):
            rows.append({"seed": seed, "diverged": True})
            continue
        found = {metric: float(means[metric]) for metric in METRICS}
        ratio = float("nan") if job.arm.control else part_ratio(result, label, seed)
        rows.append({"seed": seed, "diverged": False, **found, "ratio": ratio})
    return rows


def part_ratio(result: fs.Result, label: str, seed: int) -> float:
    """Return the length of tau over that of sigma, over all weights together, as a mean over clients."""
    state, net = result.states[label, seed], result.federations[label, seed].network
    clients = len(result.clients[result.clients["seed"] == seed])
    rows = state.clients.rows(torch.arange(clients, device=next(iter(state.server.values())).device))
    tau, sigma = torch.zeros(clients), 0.0
    for name, form in net.forms.items():
        assert isinstance(form, DosedSum)
        full = state.server[f"{name}.full"].cpu()
        sigma += float(full.square().sum())
        a, b = rows[f"{name}.a"].cpu(), rows[f"{name}.b"].cpu()
        tau += torch.stack([form.low_rank({"full": full, "a": a[k], "b": b[k]}).square().sum() for k in range(clients)])
    return float(tau.sqrt().mean()) / sigma**0.5


def doses(setting: Setting, levels: Sequence[float]) -> pd.DataFrame:
    """Return the dose of every weight of a setting's network at every level, and both readings' ranks."""
    net: Network = build(network(setting), np.random.default_rng(0))
    rows = []
    for name, shape in net.kernels.items():
        code, text = (LowRankSum(tuple(shape), 0.6, reading) for reading in ("code", "text"))
        for level in levels:
            found = {"level": level, "dose": target_dose(code, level), "own": own_dose(code)}
            ranks = {"code_rank": code.rank, "text_rank": text.rank}
            rows.append({"setting": setting.name, "weight": name, "shape": "x".join(map(str, shape)), **found, **ranks})
    return pd.DataFrame(rows)
