"""Ask what filter decomposition gains on real images (filter-decomposition paper, Figures 2, 3 and 5, Tables 1 and 2).

Global models are measured on all official test images at hand, a client's model on those of the client's own classes.
In every round all arms train the same participants for the same local epochs, with these exceptions: Ditto and the
personal form of FilterDecomp train two models; FedRep trains its head for the others' epochs and its body for one
more; fine-tuning comes after the rounds. Learning rates are tuned by one rule: for every arm of Figures 2 and 5 in each
cell, by the accuracy of the global model, and for every arm of Table 1 in the first cell, by the accuracy of the model
that the table speaks of. Figures 3a to 3c and the fast and slow protocol take the rates of their cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from simulations.contract import About, Shown
from simulations.filterdecomp.arms import DITTO, GLOBAL, OURS, PERSONAL, SENDING, method, rate_of
from simulations.filterdecomp.cells import PAPER, Cell, Size, network, ours, population
from simulations.filterdecomp.runs import Run, measure, training
from simulations.filterdecomp.spread import Watch, watch
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tried, tune_arms

_HOW = (
    "9,085 images of CIFAR-10, of which 1,200 train at 10 clients and 1,017 are the common test set, a network of "
    "three narrow 3x3 convolutions, 5 clients and 3 local epochs a round"
)
ABOUT = About(
    "Filter decomposition on images",
    "Filter decomposition",
    "",
    order=81,
    shows=(
        Shown("Figure 2", "global test accuracy over rounds of four methods, few classes a client", "in part",
              "FedAvg, FedProx and FilterDecomp at the paper’s clients, 100 of 200 rounds (study hundred_clients); "
              f"{_HOW}, 24 rounds; two cells instead of eight",
              "at the paper’s clients FilterDecomp’s accuracy is not shown to differ from FedAvg’s and FedProx’s, nor "
              "are its rounds to 90% of FedAvg’s late accuracy"),
        Shown("Figure 3a", "global accuracy over local epochs", "in part", f"{_HOW.rpartition(' and ')[0]}, 5 rounds"),
        Shown("Figure 3b", "variance of the aggregate over rounds", "in part",
              f"{_HOW}; variance over all choices of participants given a round's trained clients, by formula"),
        Shown("Figure 3c", "global accuracy over the number of participants", "in part", f"{_HOW}, 10 rounds"),
        Shown("Figure 5", "global test accuracy over rounds, iid clients", "in part", f"{_HOW}, 24 rounds"),
        Shown("Table 1", "personal accuracy of nine methods", "in part",
              f"all at the paper’s clients, 100 of 200 rounds (study hundred_clients); {_HOW}, 20 rounds",
              "at the paper’s clients fine-tuned FedAvg and FedProx are above Local, and above personal atoms with a "
              "local head, which are shown to be above FedPAC alone; those with the shared head stay below the share "
              "of a client’s commonest class"),
        Shown("Table 2", "personal accuracy by the number of atoms", "in part", f"{_HOW}, 20 rounds"),
    ),
    data=("cifar10",),
    times={
        "smoke": "ten seconds",
        "quick": "under a minute on two cores",
        "desk": "twenty minutes of one core",
        "paper": "four days on one H200 (an estimate: 7e18 operations, 5e18 of them for Tiny-ImageNet, at 2e13 a "
        "second); needs CIFAR-100 and Tiny-ImageNet",
    },
)  # fmt: skip
FIRST_SEED, FIRST_TUNING_SEED = 100, 10_000


@dataclass(frozen=True)
class Seeds:
    """How many seeds each figure and table has; `table_1` and `table_2` by classes a client, 0 for all others."""

    curves: int
    table_1: Mapping[int, int]
    table_2: Mapping[int, int]
    figure_3a: int
    figure_3b: int
    figure_3c: int
    sending: int
    ditto: int = 1

    def of(self, table: Mapping[int, int], cell: Cell) -> int:
        """Return a table's seeds in a cell."""
        return table.get(cell.classes, table.get(0, 0))


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Attributes
    ----------
    cells : tuple of Cell
        Figure 2 and the tables show those of few classes a client, Figure 5 the others; `place` is the position of
        the cell of Figures 3a to 3c and of the fast and slow protocol.
    size : Size
        Of every run.
    rounds, curve_rounds, epoch_rounds, few_rounds : int
        Rounds of the tables; of Figures 2 and 5 and the protocol; of Figure 3a; of Figures 3b and 3c.
    curve_every : int
        Rounds from one measurement of a curve to the next.
    late : int
        The summary of a table is the mean over this many measured rounds, each second of the last.
    seeds : Seeds
        How many.
    atoms : tuple of int
        Table 2's.
    epochs, participants : tuple of int
        Figure 3a's and Figure 3c's.
    few : tuple of int
        Numbers of participants of Figure 3b, of which the first is the one that is averaged.
    rates : tuple of float
        The grid of learning rates to begin with; a single one is taken as it is.
    tuning_seeds, tuning_rounds : int
        Of tuning.
    shift : int
        Added to all seeds.
    device : str
        Where networks train.
    """

    cells: tuple[Cell, ...]
    size: Size
    rounds: int
    curve_rounds: int
    epoch_rounds: int
    few_rounds: int
    curve_every: int
    late: int
    seeds: Seeds
    atoms: tuple[int, ...]
    epochs: tuple[int, ...]
    participants: tuple[int, ...]
    few: tuple[int, ...]
    rates: tuple[float, ...]
    place: int = 1
    tuning_seeds: int = 0
    tuning_rounds: int = 0
    shift: int = 0
    device: str = "cpu"

    @property
    def sized(self) -> Size:
        """The size of every run, on this scale's device."""
        return replace(self.size, device=self.device)

    @property
    def cell(self) -> Cell:
        """The cell of Figures 3a to 3c and of the protocol."""
        return self.cells[self.place]

    def first(self, count: int) -> tuple[int, ...]:
        """Return so many master seeds."""
        return tuple(range(FIRST_SEED + self.shift, FIRST_SEED + self.shift + count))


_SMALL = Size("small", held=150, most=100, participants=0.5, epochs=3, batch=10)
_TINY = Seeds(2, {2: 2}, {2: 2}, 2, 2, 2, 2)
SCALES = {
    "smoke": Scale(
        ours("digits", 5, "digits")[:2], replace(_SMALL, held=25, participants=0.4, epochs=1, most=20), rounds=1,
        curve_rounds=2, epoch_rounds=1, few_rounds=1, curve_every=1, late=1, seeds=_TINY, atoms=(3,), epochs=(2,),
        participants=(3,), few=(2, 3), rates=(0.02,), shift=SECOND_LOOK,
    ),
    "quick": Scale(
        ours("cifar10", 10, "9,085 images of CIFAR-10")[:2], replace(_SMALL, epochs=2), rounds=5, curve_rounds=6,
        epoch_rounds=3, few_rounds=3, curve_every=2, late=1, seeds=Seeds(3, {2: 3}, {2: 3}, 2, 2, 2, 2, 0),
        atoms=(3,), epochs=(1, 4), participants=(2, 10), few=(5, 2), rates=(0.01,), shift=SECOND_LOOK,
    ),
    "desk": Scale(
        ours("cifar10", 10, "9,085 images of CIFAR-10"), _SMALL, rounds=20, curve_rounds=24, epoch_rounds=5,
        few_rounds=10, curve_every=2, late=2, seeds=Seeds(5, {2: 6, 5: 4}, {2: 4, 5: 3}, 3, 4, 4, 3),
        atoms=(3, 6, 12), epochs=(1, 3, 10, 30), participants=(2, 5, 10), few=(5, 2, 8), rates=(3e-3, 0.01, 0.03),
        tuning_seeds=3, tuning_rounds=5,
    ),
    # the paper's rate for all arms, untuned
    "paper": Scale(
        PAPER, Size("alexnet", held=0, most=500, participants=0.1, epochs=10, batch=10), rounds=200, curve_rounds=200,
        epoch_rounds=200, few_rounds=30, curve_every=5, late=1, seeds=Seeds(3, {0: 3}, {0: 3}, 3, 3, 3, 3),
        atoms=(3, 6, 12), epochs=(1, 5, 10, 20, 40), participants=(2, 5, 10, 20, 40), few=(10, 2, 5, 20, 40),
        rates=(0.01,),
    ),
}  # fmt: skip


def tune(scale: Scale, cell: Cell, arm: str) -> Tables:
    """Choose an arm's rate by the last two rounds; return the table ``tuning``."""
    size = scale.sized
    tuning = fs.tune(
        method(arm, size.epochs), {"lr": scale.rates}, network(cell, size), partial(population, cell, size),
        training(size, scale.rates[0]), rounds=scale.tuning_rounds, last=2, participation=size.participants,
        seed=[s - FIRST_SEED + FIRST_TUNING_SEED for s in scale.first(scale.tuning_seeds)], device=scale.device,
        progress=False,
    )  # fmt: skip
    return tried(tuning, arm)


def tuned(scale: Scale, cell: Cell) -> tuple[str, ...]:
    """Return the arms whose rates are tuned in a cell: those of Table 1 in the first, whose rates all others take."""
    return GLOBAL + (PERSONAL if cell == scale.cells[0] else ()) + (("FedPara",) if cell == scale.cell else ())


def learning_rates(scale: Scale, out: Path) -> tuple[dict[str, Mapping[str, float]], pd.DataFrame]:
    """Return each cell's rates by arm, and the table of how they were tuned.

    Without a grid, all arms take the one rate: the comparison is then untuned.
    """
    rates: dict[str, Mapping[str, float]] = {}
    tables = []
    for cell in scale.cells:
        arms = tuned(scale, cell)
        if len(scale.rates) == 1:
            table = pd.DataFrame({"arm": arms, "lr": scale.rates[0], "chosen": True, "end": False})
        else:
            every = {arm: partial(tune, scale, cell, arm) for arm in arms}
            table = tune_arms(f"filterdecomp, {cell.name}", every, scale, out)
        first = rates.get(scale.cells[0].name, {})
        rates[cell.name] = {**{arm: lr for arm, lr in first.items() if arm in PERSONAL}, **chosen(table)}
        tables.append(table.assign(cell=cell.name))
    return rates, pd.concat(tables, ignore_index=True)


def curve_runs(scale: Scale, rates: Mapping[str, Mapping[str, float]]) -> Iterator[Run]:
    """Yield the runs of Figures 2 and 5 and of the fast and slow protocol."""
    rounds = scale.curve_rounds
    at = tuple(sorted({1, *range(scale.curve_every, rounds + 1, scale.curve_every), rounds}))
    for cell in scale.cells:
        shown = "Figure 2" if cell.classes else "Figure 5"
        for arm in (*GLOBAL, DITTO):
            count = scale.seeds.ditto if arm == DITTO else scale.seeds.curves
            lr = rates[cell.name][rate_of(arm)]
            yield Run(shown, cell, scale.sized, arm, lr, scale.first(count), rounds, at, 10)
    for arm in SENDING:
        lr = rates[scale.cell.name][rate_of(arm)]
        yield Run("A.2", scale.cell, scale.sized, arm, lr, scale.first(scale.seeds.sending), rounds, at, 10)


def table_runs(scale: Scale, rates: Mapping[str, Mapping[str, float]]) -> Iterator[Run]:
    """Yield the runs of Tables 1 and 2."""
    at = tuple(range(scale.rounds - 2 * (scale.late - 1), scale.rounds + 1, 2))
    last = scale.rounds - at[0] + 1
    for cell in (c for c in scale.cells if c.classes):
        of = rates[cell.name]
        first, second = (scale.first(scale.seeds.of(t, cell)) for t in (scale.seeds.table_1, scale.seeds.table_2))
        for arm in PERSONAL:
            yield Run("Table 1", cell, scale.sized, arm, of[arm], first, scale.rounds, at, last)
        for atoms in scale.atoms:
            yield Run("Table 2", cell, scale.sized, OURS, of[OURS], second, scale.rounds, at, last, atoms)


def figure_3_runs(scale: Scale, rates: Mapping[str, Mapping[str, float]]) -> Iterator[Run]:
    """Yield the runs of Figures 3a and 3c."""
    cell, of = scale.cell, rates[scale.cell.name]
    at = {rounds: tuple(range(max(1, rounds - 1), rounds + 1)) for rounds in (scale.epoch_rounds, scale.few_rounds)}
    for epochs in scale.epochs:
        size, rounds = replace(scale.sized, epochs=epochs), scale.epoch_rounds
        for arm in GLOBAL:
            yield Run("Figure 3a", cell, size, arm, of[arm], scale.first(scale.seeds.figure_3a), rounds, at[rounds], 2)
    for count in scale.participants:
        size, rounds = replace(scale.sized, participants=count / cell.clients), scale.few_rounds
        for arm in ("FedAvg", "FilterDecomp"):
            yield Run("Figure 3c", cell, size, arm, of[arm], scale.first(scale.seeds.figure_3c), rounds, at[rounds], 2)


def watches(scale: Scale, rates: Mapping[str, Mapping[str, float]]) -> Iterator[Watch]:
    """Yield the runs of Figure 3b."""
    of = {arm: rates[scale.cell.name][arm] for arm in ("FedAvg", "FilterDecomp")}
    for seed in scale.first(scale.seeds.figure_3b):
        yield Watch(scale.cell, scale.sized, of, seed, scale.few_rounds, scale.few[0], scale.few)


def run(scale: Scale, out: Path) -> Tables:
    """Tune the learning rates, then run everything; an arm without seeds is left out."""
    rates, tuning = learning_rates(scale, out)
    runs = [*table_runs(scale, rates), *curve_runs(scale, rates), *figure_3_runs(scale, rates)]
    parts = [
        Part(f"filterdecomp-{r.shown}-{r.cell.dataset}-{r.cell.classes}-{r.arm}-{r.atoms}".replace("/", ":"), r,
             partial(measure, r))
        for r in runs
        if r.seeds
    ]  # fmt: skip
    parts += [Part(f"filterdecomp-Figure 3b-{w.seed}", w, partial(watch, w)) for w in watches(scale, rates)]
    return {**run_parts(parts, out, "filterdecomp: figures and tables"), "tuning": tuning}


def evidence(tables: Tables) -> Tables:
    """Return all tables with few digits, and of the metrics those that the chapter shows."""
    values = tables["values"]
    shown = values[(values["metric"] == "accuracy") | values["shown"].isin(["Table 1", "Figure 2", "Figure 5"])]
    kept = {**tables, "values": shown.reset_index(drop=True)}
    small = {name: table.round({"value": 5, "accuracy": 5, "log_loss": 4}) for name, table in kept.items()}
    moments = ["plain", "decomposed", "bias", "energy"]
    figures = tables["spread"][moments].map("{:.5g}".format).astype(float)
    return {**small, "spread": tables["spread"].assign(**figures)}
