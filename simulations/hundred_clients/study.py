"""Ask filter decomposition's Figure 2 and its Table 1 with the paper's clients, work in a round, and rate.

Methods train on all of CIFAR-10 at 100 clients of two classes each, ten in a round. The runs of FedAvg and FedProx also
tell what fine-tuning is worth, and that of FilterDecomp what atoms of the clients' own are: these train beside the
global ones, of which the global model takes no notice. Nothing is tuned: all arms have the paper's rate, and what
others are worth to FedAvg is tried. The network is smaller than the paper's, and rounds are fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

from fedstat._tables import Tables
from simulations.contract import About
from simulations.filterdecomp.cells import PAPER, Cell, Size
from simulations.hundred_clients.runs import ARMS, FEDAVG, Job, measure, tune
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "Filter decomposition with the paper’s clients",
    "Filter decomposition",
    "Figure 2 and Table 1, CIFAR-10 with two classes a client",
    order=82,
    data=("cifar10", "cifar10-jpeg"),
    times={
        "smoke": "ten seconds",
        "quick": "three minutes of one core",
        "desk": "six hours of one core",
        "paper": "two hours of one H200 (an estimate: 1.6e17 operations at 2e13 a second)",
    },
)
FIRST_SEED, FIRST_TUNING_SEED = 100, 10_000
PAPER_RATE = 0.01


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Attributes
    ----------
    cell, size
        Of every run.
    rounds, every : int
        Communication rounds, and from one measurement to the next.
    own : tuple of int
        Rounds after which fine-tuned models are measured.
    seeds : int
        How many.
    rates : tuple of float
        Learning rates that are tried for FedAvg under one further seed.
    shift : int
        Added to all seeds.
    device : str
        Where networks train.
    """

    cell: Cell
    size: Size
    rounds: int
    every: int
    own: tuple[int, ...]
    seeds: int
    rates: tuple[float, ...]
    shift: int = SECOND_LOOK
    device: str = "cpu"


_SMALL = Size("small", held=0, most=200, participants=0.1, epochs=10, batch=10)
SCALES = {
    "smoke": Scale(
        Cell("digits", "digits", 5, 2), replace(_SMALL, held=25, most=20, participants=0.4, epochs=1), rounds=2,
        every=1, own=(2,), seeds=2, rates=(0.01, 0.03),
    ),
    "quick": Scale(
        Cell("9,085 images of CIFAR-10", "cifar10", 20, 2, "CIFAR10 (100,2)"),
        replace(_SMALL, held=200, participants=0.2, epochs=3), rounds=10, every=2, own=(10,), seeds=3, rates=(),
    ),
    "desk": Scale(
        Cell("60,000 JPEG images of CIFAR-10", "cifar10-jpeg", 100, 2, "CIFAR10 (100,2)"), _SMALL, rounds=100, every=5,
        own=(85, 95, 100), seeds=4, rates=(3e-3, PAPER_RATE, 0.03), shift=0,
    ),
    "paper": Scale(
        PAPER[0], replace(_SMALL, network="alexnet", most=500), rounds=200, every=5, own=(165, 175, 185, 195, 200),
        seeds=3, rates=(3e-3, PAPER_RATE, 0.03), shift=0,
    ),
}  # fmt: skip


def jobs(scale: Scale) -> list[Job]:
    """Return the runs of all arms."""
    first = FIRST_SEED + scale.shift
    size, seeds = replace(scale.size, device=scale.device), tuple(range(first, first + scale.seeds))
    return [Job(scale.cell, size, arm, PAPER_RATE, seeds, scale.rounds, scale.every, scale.own) for arm in ARMS]


def run(scale: Scale, out: Path) -> Tables:
    """Run every arm at the paper's rate, and try FedAvg at others."""
    every = jobs(scale)
    parts = [Part(f"hundred_clients-{job.arm}", job, partial(measure, job)) for job in every]
    if scale.rates:
        tried = replace(every[0], arm=FEDAVG, seeds=(FIRST_TUNING_SEED + scale.shift,), own=())
        name = "hundred_clients-rates-" + "-".join(f"{rate:g}" for rate in scale.rates)
        parts.append(Part(name, tried, partial(tune, tried, scale.rates)))
    tables = run_parts(parts, out, "hundred_clients")
    none = pd.DataFrame({"arm": pd.Series(dtype=str), "lr": pd.Series(dtype=float), "accuracy": pd.Series(dtype=float)})
    return {name: tables.get(name, none) for name in ("curves", "diverged", "tuning")}


def evidence(tables: Tables) -> Tables:
    """Return all tables, with few digits."""
    return {**tables, "curves": tables["curves"].round({"value": 5}), "tuning": tables["tuning"].round(5)}
