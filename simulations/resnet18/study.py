"""Ask FedFac's Tables 2 and 8 with the network, optimiser, rate and cut of its authors' scripts, on a GPU.

All arms start from the same weights, trained on another data set, and keep running statistics of batch norm at the
clients, as the scripts do under every method. Nobody tuned the rate, which is the scripts', for any arm; what another
one is worth to FedAvg is tried beside it. Equal numbers of images, as JPEG, every image with one client, fewer epochs
and a start from a smaller data set are what differs from the scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.inference import primary_rows
from simulations.contract import About
from simulations.parts import SECOND_LOOK, Part, complete, run_parts
from simulations.rates import tried, tune_arms, validating
from simulations.resnet18.cells import ARMS, AVERAGED, CODE, Size, arms, populate, started, trained_start

ABOUT = About(
    "FedFac with the scripts’ network",
    "FedSplit/FedFac",
    "Tables 2 and 8, CIFAR-10 at Dirichlet .5",
    order=16,
    data=("cifar10-jpeg", "tiny-imagenet"),
    times={
        "smoke": "a few seconds",
        "quick": "a minute on two cores",
        "desk": "seven minutes of an H200 beside other runs, and 19 minutes of one core",
        "paper": "half an hour of an H200 (an estimate from the same rounds)",
    },
)
FIRST_SEED, FIRST_TUNING_SEED = 100, 10_000
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: The arm whose rate is tried as well.
TRIED = "FedAvg"


@dataclass(frozen=True)
class Experiment:
    """One size: which arms run, under how many seeds, and which rates FedAvg tries beside the scripts'."""

    size: Size
    arms: tuple[str, ...]
    seeds: int
    rates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Scale:
    """Size of the study; to all seeds `shift` is added."""

    experiments: tuple[Experiment, ...]
    shift: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class Job:
    """An arm under all its seeds, trained as one stack."""

    size: Size
    arm: str
    seeds: tuple[int, ...]

    @property
    def device(self) -> str:
        """Where networks train."""
        return self.size.device


_IMAGES = Size(
    "cifar10-jpeg", "resnet18", "stage4.block2.conv2", "tiny-imagenet", clients=100, train=300, held_out=60, rounds=100,
    every=2, last=5, dtype="tf32",
)  # fmt: skip
_SMALL = replace(_IMAGES, network="small_cnn", layer="conv2", train=150, rounds=60, dtype="float32")
SCALES = {
    "smoke": Scale(
        (
            Experiment(
                Size("digits", "small_cnn", "conv2", "digits", 6, 20, 10, rounds=2, every=1, last=1, participation=0.5,
                     epochs=1, batch=10, lr=3e-3, warm_epochs=1),
                tuple(ARMS), seeds=2, rates=(1e-3, 3e-3),
            ),
        ),
        SECOND_LOOK,
    ),
    "quick": Scale(
        (
            Experiment(
                replace(_SMALL, start="", clients=10, train=60, held_out=40, rounds=10, every=1, last=1,
                        participation=0.3, epochs=2, batch=10),
                tuple(ARMS), seeds=3,
            ),
        ),
        SECOND_LOOK,
    ),
    "desk": Scale(
        (
            Experiment(replace(_IMAGES, rounds=30), ("FedAvg", AVERAGED, "FedPer"), seeds=3),
            Experiment(_SMALL, ("FedAvg", AVERAGED, CODE), seeds=4),
        )
    ),
    "paper": Scale((Experiment(_IMAGES, tuple(ARMS), seeds=3, rates=(3e-4, 1e-3, 3e-3)),)),
}  # fmt: skip


def training(size: Size) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(
        lr=size.lr, optimizer="adam", batch_size=size.batch, local_epochs=size.epochs, weight_decay=size.weight_decay
    )


def federate(job: Job, start: pd.DataFrame | None, seeds: Sequence[int]) -> fs.Result:
    """Train an arm under some seeds."""
    size = job.size
    at = sorted({*range(size.rounds, 0, -size.every), 1})
    return complete(
        fs.federate(
            {job.arm: arms(size)[job.arm]}, started(size, start), partial(populate, size), training(size),
            rounds=size.rounds, participation=size.participation, seed=list(seeds), evaluate_at=at, device=size.device,
            dtype=size.dtype, progress=False,
        )
    )  # fmt: skip


def one_job(job: Job, start: pd.DataFrame | None) -> Tables:
    """Return an arm's metrics by seed, means over clients and the last measured rounds, and its accuracy by round."""
    history = federate(job, start, job.seeds).history
    by_round = {
        metric: primary_rows(history, metric, last=job.size.rounds).groupby(["seed", "round"])["value"].mean().unstack()
        for metric in METRICS
    }
    rows = [
        {"seed": seed, "metric": metric, "value": value}
        for metric, wide in by_round.items()
        for seed, value in wide[wide.columns[-job.size.last :]].mean(axis=1).items()
    ]
    curves = by_round["accuracy"].stack().rename("accuracy").reset_index()
    return {"accuracy": pd.DataFrame(rows).assign(arm=job.arm), "curves": curves.assign(arm=job.arm)}


def tune(scale: Scale, of: Experiment, start: pd.DataFrame | None) -> Tables:
    """Try rates for one arm by the last measurement on further images under one seed; return the table ``tuning``."""
    size = replace(of.size, device=scale.device)
    tuning = fs.tune(
        arms(size)[TRIED], {"lr": of.rates}, started(size, start),
        lambda seed: validating(populate(size, seed, tuning=True)), training(size), rounds=size.rounds, last=1,
        participation=size.participation, seed=[FIRST_TUNING_SEED + scale.shift], device=size.device, dtype=size.dtype,
        progress=False,
    )  # fmt: skip
    return tried(tuning, TRIED)


def run(scale: Scale, out: Path) -> Tables:
    """Run all sizes, one after the other."""
    found = [_sized(scale, of, out) for of in scale.experiments]
    names = dict.fromkeys(name for tables in found for name in tables)
    return {name: pd.concat([some[name] for some in found if name in some], ignore_index=True) for name in names}


def _sized(scale: Scale, of: Experiment, out: Path) -> Tables:
    """Train the start, run every arm from it, and try FedAvg at other rates."""
    size, first = replace(of.size, device=scale.device), FIRST_SEED + scale.shift
    what, tables = f"resnet18, {size.network}", dict[str, pd.DataFrame]()
    if size.start:
        tables = run_parts([Part(f"{what}-start", size, partial(trained_start, size))], out, f"{what}: start")
    start = tables.pop("start", None)
    jobs = [Job(size, arm, tuple(range(first, first + of.seeds))) for arm in of.arms]
    parts = [Part(f"{what}-{job.arm}", job, partial(one_job, job, start)) for job in jobs]
    tables |= run_parts(parts, out, f"{what}: arms")
    if of.rates:
        tables["tuning"] = tune_arms(what, {TRIED: partial(tune, scale, of, start)}, scale, out)
    return {name: table.assign(network=size.network) for name, table in tables.items()}


def evidence(tables: Tables) -> Tables:
    """Return all tables, with few digits."""
    return {name: table.round(5) for name, table in tables.items()}
