"""Compare FedFac with other methods, and its shared units with random ones (FedFac paper, section 5).

Table 2 (methods and data sets), Figure 8 (accuracies of all clients), Figure 9 (training loss over rounds), Table 3
(new clients) and Table 8 (ablations) come from the same runs. In every round all arms train the same participants for
the same local epochs. Budgets differ in this: FedFac static, the text's dynamic version and the random split in every
round spend one further local round of all clients on their first analysis, FedFac agreement two, and FedEM trains three
networks. Of FedRep's epochs the head has some and the body the others.

The primary summary is the mean over clients, which count alike, and over the last ten rounds. Learning rates are tuned
on validation samples of other seeds, one for each family of arms and each data set, at one partition of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from simulations.contract import About, Shown
from simulations.fedfac.cells import PAPER, Cell, digits, network, ours, populate
from simulations.fedfac.runs import ARMS, CORE, OTHERS, TUNED, Job, arms, one_seed, training
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tried, tune_arms

_SMALL = "9,085 images of CIFAR-10 and scikit-learn's digits, 30 and 20 clients, a small network, 20 rounds"
ABOUT = About(
    "FedFac beside other methods",
    "FedSplit/FedFac",
    "",
    order=15,
    shows=(
        Shown("Table 2", "test accuracy of eight methods on four data sets", "in part",
              f"{_SMALL}; and three arms each with the scripts' network and a small one (study resnet18)",
              "the scripts keep running statistics at clients; with a small network FedFac's accuracy is above "
              "FedAvg's so, and below it where FedAvg averages them"),
        Shown("Figure 8", "accuracies of all clients, methods ordered by their median", "in part", _SMALL),
        Shown(
            "Table 3", "accuracy at new clients, by every method's rule", "in part", f"{_SMALL}, a tenth of them new"
        ),
        Shown("Figure 9", "training loss over rounds, FedFac and FedAvg", "in part", _SMALL),
        Shown(
            "Table 8", "shared or personal parameters masked; a random split instead of factor analysis", "in part",
            f"{_SMALL}; masked after training, with a split drawn once and one drawn in every round",
        ),
    ),
    data=("cifar10",),
    times={
        "smoke": "half a minute",
        "quick": "under a minute on two cores",
        "desk": "forty minutes of processor time",
        "paper": "two weeks on one H200 (an estimate: 2.3e19 operations, 1.9e19 of them for ResNet-18 in three cells "
        "under three seeds, at 2e13 a second)",
    },
)  # fmt: skip
FIRST_SEED, FIRST_TUNING_SEED = 100, 10_000


@dataclass(frozen=True)
class Scale:
    """Size of the study; `cheap` are the seeds on the digits, `few` those of arms outside the question.

    To all seeds `shift` is added.
    """

    cells: tuple[Cell, ...]
    seeds: int
    cheap: int
    few: int
    rates: tuple[float, ...]
    tuning_seeds: int
    tuning_rounds: int
    tuned_at: tuple[str, ...]
    dataset: str
    new: float = 0.1
    fine_tune: int = 5
    head_epochs: int = 1
    shift: int = 0
    device: str = "cpu"

    def seeds_of(self, cell: Cell) -> range:
        """Return the master seeds of a cell's comparisons."""
        first = FIRST_SEED + self.shift
        return range(first, first + (self.cheap if cell.dataset == "digits" else self.seeds))

    @property
    def every_tuning_seed(self) -> range:
        """The master seeds on which learning rates are tuned."""
        return range(FIRST_TUNING_SEED + self.shift, FIRST_TUNING_SEED + self.shift + self.tuning_seeds)


_GRID = (3e-4, 1e-3, 3e-3)
SCALES = {
    "smoke": Scale(
        (digits(2, clients=6),), seeds=2, cheap=2, few=2, rates=(1e-3,), tuning_seeds=1, tuning_rounds=2,
        tuned_at=("digits, Dirichlet 0.1",), dataset="digits", fine_tune=1, shift=SECOND_LOOK,
    ),
    "quick": Scale(
        (digits(20),), seeds=6, cheap=6, few=2, rates=(3e-3,), tuning_seeds=1, tuning_rounds=2,
        tuned_at=("digits, Dirichlet 0.1",), dataset="digits", shift=SECOND_LOOK,
    ),
    "desk": Scale(
        (*ours(20), digits(20)), seeds=5, cheap=12, few=3, rates=_GRID, tuning_seeds=3, tuning_rounds=10,
        tuned_at=("9,085 images of CIFAR-10, Dirichlet 0.5", "digits, Dirichlet 0.1"),
        dataset="cifar10 (9,085 images), digits",
    ),
    # the authors' rate, untuned; FedRep's epochs as in the configurations
    "paper": Scale(
        PAPER, seeds=3, cheap=3, few=3, rates=(1e-3,), tuning_seeds=0, tuning_rounds=0, tuned_at=(),
        dataset="cifar10, cifar100, femnist, shakespeare", fine_tune=10, head_epochs=10,
    ),
}  # fmt: skip


def tune(scale: Scale, cell: Cell, arm: str) -> Tables:
    """Choose an arm's rate by the last three rounds; return the table ``tuning``."""
    tuning = fs.tune(
        arms(cell, scale.head_epochs)[arm], {"lr": scale.rates}, network(cell),
        lambda seed: populate(cell, seed, scale.new)[0], training(cell, scale.rates[0]), rounds=scale.tuning_rounds,
        last=3, participation=cell.participation, seed=scale.every_tuning_seed, device=scale.device, progress=False,
    )  # fmt: skip
    return tried(tuning, arm)


def _rates(scale: Scale, out: Path) -> tuple[dict[str, dict[str, float]], pd.DataFrame]:
    """Return the learning rates of all families by data set, and the table of how they were tuned.

    Without a grid, all arms take the one rate: the comparison is then untuned.
    """
    if len(scale.rates) == 1:
        every = {cell.dataset: dict.fromkeys(TUNED, scale.rates[0]) for cell in scale.cells}
        rows = [{"dataset": d, "arm": a, "lr": lr, "chosen": True} for d, r in every.items() for a, lr in r.items()]
        return every, pd.DataFrame(rows)
    rates, tables = {}, []
    for cell in (cell for cell in scale.cells if cell.name in scale.tuned_at):
        arms = {arm: partial(tune, scale, cell, arm) for arm in TUNED}
        table = tune_arms(f"fedfac, {cell.name}", arms, replace(scale, seeds=0, cheap=0, few=0), out)
        rates[cell.dataset] = dict(chosen(table))
        tables.append(table.assign(dataset=cell.dataset, setting=cell.name))
    return rates, pd.concat(tables, ignore_index=True)


def run(scale: Scale, out: Path) -> Tables:
    """Tune the learning rates, then run every cell under every seed."""
    rates, tuning = _rates(scale, out)
    jobs = [
        Job(cell, seed, some, rates[cell.dataset], scale.new, scale.fine_tune, scale.head_epochs, scale.device)
        for some, most in ((CORE, max(scale.seeds, scale.cheap)), (OTHERS, scale.few))
        for place in range(most)
        for cell in scale.cells
        for seed in scale.seeds_of(cell)[place : place + 1]
    ]
    parts = [Part(f"fedfac-{job.cell.name}-{job.seed}-{len(job.arms)}", job, partial(one_seed, job)) for job in jobs]
    return {**run_parts(parts, out, "fedfac: cells and seeds"), "tuning": tuning}


def evidence(tables: Tables) -> Tables:
    """Return all tables in a small form: few digits, the metrics that the chapter shows, arms as columns of clients."""
    kept = {name: table.assign(value=table["value"].round(5)) for name, table in tables.items() if "value" in table}
    kept["newcomers"] = _some_metrics(kept["newcomers"], ("accuracy", "balanced_accuracy", "log_loss"))
    kept["masking"] = _some_metrics(kept["masking"], ("weighted_accuracy", "log_loss"))
    kept["clients"] = tables["clients"]
    if "arm" in tables["clients"]:
        # an arm that did not run in a setting is NaN in the wide table, and a run that left no number infinite
        rows = tables["clients"].assign(value=tables["clients"]["value"].round(3).fillna(math.inf))
        wide = rows.pivot(index=["setting", "seed", "client", "test"], columns="arm", values="value")
        kept["clients"] = wide[[arm for arm in ARMS if arm in wide]].reset_index().rename_axis(columns=None)
    return {**kept, "tuning": tables["tuning"].round(5)}


def _some_metrics(table: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    return table[table["metric"].isin(metrics)].reset_index(drop=True)
