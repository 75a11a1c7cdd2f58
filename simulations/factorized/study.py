"""Ask whether Factorized-FL gains where labels or domains differ (Factorized-FL paper, Table 1 and Figure 6).

Twenty clients train Factorized-FL, alpha and beta, as the paper's text has it and as the authors' code has it, beside
the paper's other methods, on IID and non-IID samples, with labels that are the same for all or that every client
permutes by itself, and on five domains. All clients take part in all rounds, for equally many epochs. The study
measures accuracy over rounds and over the bytes that travel by our codec. Learning rates are tuned by one rule in one
cell, for the methods that train the same form of weights together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import datasets
from simulations.contract import About, Shown
from simulations.factorized.arms import KIN, TUNED
from simulations.factorized.cells import Cell, loaded, population
from simulations.factorized.runs import FIRST_SEED, FIRST_TUNING_SEED, LAST, Size, arms, compare, costs, model, training
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tried, tune_arms

ABOUT = About(
    "Factorized-FL where labels and domains differ",
    "Factorized-FL",
    "",
    order=72,
    shows=(
        Shown(
            "Table 1",
            "accuracy and bytes of nine methods, with standard and permuted labels, IID and not, and in five domains",
            "in part",
            "the first 9,085 images of CIFAR-10, twenty classes of Tiny-ImageNet in place of CIFAR-100, a network of "
            "21 thousand weights, fewer rounds; the cells of SVHN, which is not at hand, are not measured",
        ),
        Shown("Figure 6", "test accuracy over rounds and over the bytes that travelled", "in part", "as Table 1"),
    ),
    data=("cifar10", "tiny-imagenet"),
    times={
        "smoke": "half a minute",
        "quick": "under a minute on two cores",
        "desk": "forty minutes of processor time",
        "paper": "an estimate: 5.7e18 operations, two days at 30 teraflops on one GPU",
    },
)


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Attributes
    ----------
    cells : tuple of (str, str, str)
        Data set, partition and labels of each cell, as `Cell` has them.
    tuned_at : (str, str, str)
        The cell in which learning rates are tuned.
    clients, samples, test, local_epochs, batch_size, every, network, device
        As in `Size`.
    rounds, domain_rounds : int
        Rounds on one data set and in domains.
    seeds, tuning_seeds : int
        How many, for results and for tuning.
    rates : tuple of float
        The grid to begin with.
    given : tuple of (str, float)
        Learning rates of the arms that are tuned otherwise; if there are any, nothing is tuned.
    costs : bool
        Whether the bytes of the authors' network are counted.
    shift : int
        Added to all seeds.
    """

    cells: tuple[tuple[str, str, str], ...]
    tuned_at: tuple[str, str, str]
    clients: int
    samples: int
    test: int
    rounds: int
    domain_rounds: int
    seeds: int
    tuning_seeds: int
    rates: tuple[float, ...]
    local_epochs: int = 2
    batch_size: int = 16
    every: int = 4
    network: Literal["small", "resnet9"] = "small"
    given: tuple[tuple[str, float], ...] = ()
    costs: bool = True
    shift: int = 0
    device: str = "cpu"

    def size(self, cell: Cell) -> Size:
        """Return the size of a cell's runs."""
        rounds = self.domain_rounds if cell.domains else self.rounds
        return Size(
            self.clients, self.samples, self.test, rounds, self.local_epochs, self.batch_size, self.every, self.network,
            self.device,
        )  # fmt: skip


def _four(data: str) -> tuple[tuple[str, str, str], ...]:
    """Return the four cells of a data set."""
    return tuple((data, partition, labels) for partition in ("IID", "non-IID") for labels in ("standard", "permuted"))


#: The rates that tuning at desk scale found.
_FOUND = tuple(zip(TUNED, (0.01, 0.03, 0.1, 0.03, 0.01), strict=True))
SCALES = {
    "smoke": Scale(
        cells=(("digits", "IID", "standard"), ("digits", "IID", "permuted"), ("digits", "domains", "permuted")),
        tuned_at=("digits", "IID", "permuted"), clients=10, samples=20, test=40, rounds=1, domain_rounds=1, seeds=2,
        tuning_seeds=1, rates=(0.01, 0.03), local_epochs=1, every=1, given=tuple((arm, 0.03) for arm in TUNED),
        costs=False, shift=SECOND_LOOK,
    ),
    "quick": Scale(
        cells=(("cifar10", "IID", "permuted"),), tuned_at=("cifar10", "IID", "permuted"), clients=20, samples=80,
        test=200, rounds=11, domain_rounds=11, seeds=3, tuning_seeds=1, rates=(0.01, 0.03), given=_FOUND, costs=False,
        shift=SECOND_LOOK,
    ),
    "desk": Scale(
        cells=(*_four("cifar10"), ("tiny-imagenet", "domains", "permuted")), tuned_at=("cifar10", "IID", "permuted"),
        clients=20, samples=150, test=400, rounds=16, domain_rounds=16, seeds=3, tuning_seeds=3,
        rates=(0.01, 0.03, 0.1),
    ),
    "paper": Scale(
        cells=(*_four("cifar10"), *_four("svhn"), ("cifar100", "domains", "permuted")),
        tuned_at=("cifar10", "IID", "permuted"), clients=20, samples=2500, test=5000, rounds=50, domain_rounds=100,
        seeds=3, tuning_seeds=3, rates=(1e-3, 3e-3, 1e-2), local_epochs=5, batch_size=256, every=5, network="resnet9",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What decides a part's numbers: the runs' size, the cell, and rates or seeds."""

    size: Size
    cell: Cell
    rates: tuple[tuple[str, float], ...]
    seeds: tuple[int, ...]

    @property
    def device(self) -> str:
        """The device on which the part's networks train."""
        return self.size.device


@dataclass(frozen=True)
class Costs:
    """What decides the part that counts bytes: whether heads are private."""

    permuted: bool


def tune(scale: Scale, arm: str) -> Tables:
    """Choose an arm's learning rate by the rounds that a result's summary has; return the table ``tuning``."""
    cell, first = _cell(scale.tuned_at), FIRST_TUNING_SEED + scale.shift
    size = scale.size(cell)
    tuning = fs.tune(
        arms(size, cell)[arm], {"lr": scale.rates}, model(size, cell),
        partial(population, cell, size.clients, size.samples, size.test), training(size, scale.rates[0]),
        rounds=size.rounds, seed=range(first, first + scale.tuning_seeds), last=LAST,
        evaluate_at=[r for r in size.evaluated if r > size.rounds - LAST], device=size.device, progress=False,
    )  # fmt: skip
    return tried(tuning, arm)


def cell_parts(scale: Scale, rates: Mapping[str, float]) -> Iterator[Part]:
    """Yield the parts that compare the arms of a cell under a seed."""
    of_arm = {arm: rates[kin] for arm, kin in KIN.items()}
    for seed in range(FIRST_SEED + scale.shift, FIRST_SEED + scale.shift + scale.seeds):
        for cell in map(_cell, scale.cells):
            job = Job(scale.size(cell), cell, tuple(of_arm.items()), (seed,))
            name = f"factorized-{cell.data}-{cell.partition}-{cell.labels}-{seed}"
            yield Part(name, job, partial(compare, job.size, cell, of_arm, seed))


def run(scale: Scale, out: Path) -> Tables:
    """Tune the learning rates, unless they are given, and run all cells."""
    for data in sorted({cell[0] for cell in scale.cells}):
        datasets.check_present(data)
    if scale.given:
        tuning = pd.DataFrame([{"arm": arm, "lr": lr, "chosen": True, "end": False} for arm, lr in scale.given])
    else:
        tuning = tune_arms(
            "factorized", {arm: partial(tune, scale, arm) for arm in TUNED}, replace(scale, seeds=0), out
        )
    parts = list(cell_parts(scale, chosen(tuning)))
    if scale.costs:
        parts += [
            Part(f"factorized-costs-{permuted}", Costs(permuted), partial(costs, permuted))
            for permuted in (False, True)
        ]
    tables = run_parts(parts, out, "factorized: cells")
    return {**tables, "bytes": per_round(tables["bytes"]), "tuning": tuning, "data": held(scale)}


def held(scale: Scale) -> pd.DataFrame:
    """Return how many images there are of each data set, and how many of them are for testing."""
    names = dict.fromkeys(cell[0] for cell in scale.cells)
    return pd.DataFrame([{"data": n, "images": len(loaded(n).y), "test": int(loaded(n).test.sum())} for n in names])


def per_round(traffic: pd.DataFrame) -> pd.DataFrame:
    """Return the bytes up and down of a client in a mean round, and the number of rounds, by cell, arm and seed."""
    grouped = traffic.groupby(["data", "partition", "labels", "arm", "seed"], sort=False)
    return grouped.agg(up=("up", "mean"), down=("down", "mean"), rounds=("round", "max")).reset_index()


def _cell(words: tuple[Any, Any, Any]) -> Cell:
    return Cell(*words)
