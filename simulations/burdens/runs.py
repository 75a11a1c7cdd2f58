"""The data, the arms and the runs of the study, and what is measured of each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.inference.comparing.learning import LAST, late_gain
from fedstat.models import Factory
from simulations.burdens.loads import NONE, Burden, of_method, of_world
from simulations.images import halved, small_cnn
from simulations.rates import tried

METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: Shares of a client's samples; images have an official test part.
TEST, VALIDATION = 0.2, 0.2
METHODS = {"FedAvg": fs.FedAvg, "FedPer": fs.methods.FedPer, "Ditto": fs.methods.Ditto, "FedNova": fs.methods.FedNova}


@dataclass(frozen=True)
class Setting:
    """What is learnt, by whom and how long, and under which burdens.

    Attributes
    ----------
    name : str
        In the tables.
    dataset : {"digits", "cifar10-jpeg"}
        The digits are dealt by class; of the images, halved to 16 x 16 pixels, every client draws its own.
    methods : tuple of str
        The methods that bear all burdens; Local bears none.
    burdens : tuple of Burden
        What they bear.
    rates : tuple of float
        The grid of learning rates; a single one is taken as it is.
    seeds, tuning_seeds : int
        How many of each.
    clients : int
        Number of clients.
    rounds, last : int
        Rounds, and how many of the last are averaged.
    clip : float
        The norm to which changes are cut where they get noise.
    alpha : float
        Dirichlet concentration.
    batch, epochs, momentum
        A client's work in a round.
    train, held_out : int
        Training and test images of each client.
    """

    name: str
    dataset: Literal["digits", "cifar10-jpeg"]
    methods: tuple[str, ...]
    burdens: tuple[Burden, ...]
    rates: tuple[float, ...]
    seeds: int
    tuning_seeds: int
    clients: int
    rounds: int
    last: int
    clip: float
    alpha: float = 0.3
    batch: int = 20
    epochs: int = 2
    momentum: float = 0.0
    train: int = 0
    held_out: int = 0


@dataclass(frozen=True)
class Arm:
    """A method under a burden."""

    method: str
    burden: Burden = NONE

    @property
    def label(self) -> str:
        """The arm in the tables."""
        return f"{self.method}, {self.burden.label}"


@dataclass(frozen=True)
class Job:
    """An arm at a learning rate under some seeds."""

    setting: Setting
    arm: Arm
    lr: float
    seeds: tuple[int, ...]
    device: str


def draw(setting: Setting, seed: int) -> Clients:
    """Draw one seed's clients."""
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        if setting.dataset == "digits":
            x, y = fs.data.digits()
            parts = fs.data.dirichlet(y, setting.clients, setting.alpha, min_size=20, seed=seed)
            return fs.data.from_indices(x, y, parts, test=TEST, validation=VALIDATION, seed=seed)
        x, y, test = halved(setting.dataset)
        parts = fs.data.dirichlet_draws(
            y, test, setting.clients, setting.alpha, train=round(setting.train / (1 - VALIDATION)),
            held_out=setting.held_out, apart=True, seed=seed,
        )  # fmt: skip
        return fs.data.from_indices(x, y, parts, validation=VALIDATION, seed=seed)


def network(setting: Setting) -> Factory:
    """Return what builds a setting's network; none has batch norm, whose statistics no mechanism hides."""
    return fs.models.mlp(64, 32, 10) if setting.dataset == "digits" else small_cnn(np.empty((0, 3, 16, 16)))


def method(setting: Setting, arm: Arm) -> fs.Method:
    """Return an arm's method; the server weighs clients alike, as a mechanism needs it."""
    if arm.method == "Local":
        return fs.Local()
    return METHODS[arm.method](weighting="uniform", **of_method(arm.burden, setting.clip))


def training(setting: Setting, lr: float) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(lr=lr, momentum=setting.momentum, batch_size=setting.batch, local_epochs=setting.epochs)


def tune(setting: Setting, arm: Arm, seeds: tuple[int, ...], device: str) -> Tables:
    """Choose an arm's learning rate at the reported budget; return the table ``tuning``."""
    tuning = fs.tune(
        method(setting, arm), {"lr": setting.rates}, network(setting), partial(draw, setting),
        training(setting, setting.rates[0]), rounds=setting.rounds, last=setting.last, seed=seeds, growths=2,
        device=device, executor="stacked", progress=False, **of_world(arm.burden),
    )  # fmt: skip
    return tried(tuning, arm.label)


def measure(job: Job) -> Tables:
    """Return what an arm reached at each of its honest clients, how its curves end, and what travelled.

    All seeds are trained together; if one diverges, each is trained by itself, and that one has no rows. Tables have
    none at all where every seed diverges.
    """
    try:
        found = [_measured(job, job.seeds)]
    except FloatingPointError:
        found = []
        for seed in job.seeds:
            try:
                found.append(_measured(job, (seed,)))
            except FloatingPointError:
                continue
    who = {"setting": job.setting.name, "arm": job.arm.label, "lr": job.lr}
    if not found:
        kinds = {"seed": int, "client": int, **dict.fromkeys((*METRICS, "gain", "up", "down", "lr"), float)}
        return {
            name: pd.DataFrame({column: pd.Series(dtype=kinds.get(column, object)) for column in (*columns, *who)})
            for name, columns in _COLUMNS.items()
        }
    return {name: pd.concat([some[name] for some in found]).assign(**who) for name in _COLUMNS}


_COLUMNS = {"clients": ("seed", "client", *METRICS), "curves": ("seed", "gain"), "traffic": ("seed", "up", "down")}


def _measured(job: Job, seeds: Sequence[int]) -> Tables:
    """Train under some seeds; FloatingPointError if one of them diverges, or the outputs of a client are no numbers."""
    setting, label = job.setting, job.arm.label
    late = max(round(LAST * setting.rounds), setting.last)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # outputs that are no numbers: refused below
        result = fs.federate(
            {label: method(setting, job.arm)}, network(setting), partial(draw, setting), training(setting, job.lr),
            rounds=setting.rounds, seed=seeds, device=job.device, executor="stacked", progress=False,
            evaluate_at=range(setting.rounds - late + 1, setting.rounds + 1), **of_world(job.arm.burden),
        )  # fmt: skip
    history = result.history[result.history["estimand"] == result.history["estimand"].iloc[0]]
    return {"clients": _by_client(history, setting), "curves": _gains(history), "traffic": _traffic(result, setting)}


def _by_client(history: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Return means over the last rounds, one row per seed and client."""
    rows = history[history["round"] > setting.rounds - setting.last]
    wide = rows.groupby(["seed", "client", "metric"], observed=True)["value"].agg(lambda v: v.mean(skipna=False))
    table = wide.unstack("metric")[list(METRICS)].reset_index()
    if not np.isfinite(table["accuracy"]).all():
        raise FloatingPointError("some clients have no accuracy.")
    return table.rename_axis(columns=None)


def _gains(history: pd.DataFrame) -> pd.DataFrame:
    """Return by seed the change of accuracy over the last fifth of the rounds, in points."""
    rows = history[history["metric"] == "accuracy"]
    curves = rows.groupby(["seed", "round"], observed=True)["value"].mean().unstack("round")
    return pd.DataFrame({"seed": curves.index, "gain": 100 * late_gain(curves.to_numpy(), curves.columns.to_numpy())})


def _traffic(result: fs.Result, setting: Setting) -> pd.DataFrame:
    """Return by seed the bytes of a client and round, clients that did not come included."""
    sent = result.traffic.groupby("seed")[["bytes_up", "bytes_down"]].sum() / (setting.clients * setting.rounds)
    return sent.rename(columns={"bytes_up": "up", "bytes_down": "down"}).reset_index()


def reference(clients: pd.DataFrame, of: pd.DataFrame, metric: str = "accuracy") -> pd.Series:
    """Return by seed the mean of a run's clients that another run has as well: its honest ones.

    Parameters
    ----------
    clients : DataFrame
        The run that is restricted: seed, client and the metric.
    of : DataFrame
        The run whose clients count.
    """
    both = of[["seed", "client"]].merge(clients, on=["seed", "client"], how="left")
    return both.groupby("seed")[metric].agg(lambda v: v.mean(skipna=False))


def summaries(tables: Tables, arms: Sequence[Arm], setting: Setting) -> pd.DataFrame:
    """Return a row per arm and seed: means over honest clients, and on these without the burden and under Local.

    A seed under which an arm diverged has no values.
    """
    every = {name: tables[name][tables[name]["setting"] == setting.name] for name in ("clients", "curves")}
    by_arm = dict(tuple(every["clients"].groupby("arm")))
    gains = every["curves"].set_index(["arm", "seed"])["gain"]
    seeds = sorted(every["clients"]["seed"].unique())
    rows: list[dict[str, Any]] = []
    for arm in arms:
        own = by_arm.get(arm.label, every["clients"].iloc[:0])
        means = own.groupby("seed")[list(METRICS)].mean()
        beside = {
            name: reference(by_arm.get(other, own.iloc[:0]), own)
            for name, other in {"without": f"{arm.method}, {NONE.label}", "local": Arm("Local").label}.items()
        }
        for seed in seeds:
            ran = seed in means.index
            found = {metric: means.loc[seed, metric] if ran else np.nan for metric in METRICS}
            found |= {name: values[seed] if ran else np.nan for name, values in beside.items()}
            rows.append(
                {
                    "setting": setting.name, "method": arm.method, **vars(arm.burden), "burden": arm.burden.label,
                    "seed": int(seed), **found, "gain": gains[arm.label, seed] if ran else np.nan,
                    "honest": int((own["seed"] == seed).sum()),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)
