"""Run all methods on one bench: three data sets, equal budgets, every method tuned by one small rule.

A method is compared with Local and with FedAvg at its own budget of epochs (`arms` has the rule), in three cells
(`cells`): digits and images, whose clients are dealt anew under every seed, and the roles of Shakespeare's plays, who
are the same under every seed. The primary summary is the mean over the last third of the rounds, in which clients count
alike.

One rule tunes all arms, Local and FedAvg included, in each cell by itself: the learning rate first, then the main
hyper-parameter beyond it, if there is one, at that rate. Both are chosen on validation samples of three seeds of their
own, in runs as long as the results'. The tuning samples of digits are of the same images as the results', dealt
otherwise; those of roles are of the same roles.

At one rate only (scales smoke and quick) nothing is tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from fedstat._tables import Tables
from simulations.bench.arms import CONTROLS
from simulations.bench.cells import Cell, digits
from simulations.bench.runs import Trial, every_arm, measure, tuned
from simulations.contract import About
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "All methods on one bench",
    "",
    "",
    order=100,
    data=("cifar10", "cifar10-jpeg", "shakespeare"),
    times={
        "smoke": "ten seconds",
        "quick": "under a minute on two cores",
        "desk": "three hours of processor time",
        "paper": "ten days on one H200 (an estimate: 7e17 operations, nearly all of them in the roles' LSTM, at 1e12 a "
        "second, which batches of 50 allow)",
    },
)
#: Seeds from 100 on served the study of digits that this one replaces.
FIRST_SEED = 200
#: Learning rates and hyper-parameters are tuned on seeds of their own.
FIRST_TUNING_SEED = 10_000


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    `arms` names those that run, all if None; `dataset` says what was used; `shift` is added to all seeds.
    """

    cells: tuple[Cell, ...]
    tuning_seeds: int
    dataset: str
    arms: tuple[str, ...] | None = None
    shift: int = 0
    device: str = "cpu"

    def seeds_of(self, cell: Cell) -> tuple[int, ...]:
        """Return the master seeds of a cell's results."""
        return tuple(range(FIRST_SEED + self.shift, FIRST_SEED + self.shift + cell.seeds))

    @property
    def every_tuning_seed(self) -> tuple[int, ...]:
        """The master seeds of tuning."""
        return tuple(range(FIRST_TUNING_SEED + self.shift, FIRST_TUNING_SEED + self.shift + self.tuning_seeds))


_GRID, _ROLES_GRID = (0.03, 0.1, 0.3), (0.3, 1.0, 3.0)
SCALES = {
    "smoke": Scale(
        (digits(2, 2, (0.1,), clients=6),), tuning_seeds=1, dataset="digits", arms=(*CONTROLS, "FedPer"),
        shift=SECOND_LOOK,
    ),
    "quick": Scale(
        (digits(8, 4, (0.1,)),), tuning_seeds=1, dataset="digits", shift=SECOND_LOOK,
        arms=(*CONTROLS, "FedAvg + FT", "FedRep", "FedBN", "FedFac static", "Factorized-FL beta, code",
              "FedDecomp code", "FilterDecomp global"),
    ),
    "desk": Scale(
        (
            digits(15, 10, _GRID),
            Cell("images", 10, 300, 0.1, 50, 2, rounds=20, last=6, seeds=5, rates=_GRID),
            Cell("roles", 20, 200, 0.0, 20, 2, rounds=12, last=4, seeds=6, rates=_ROLES_GRID,
                 length=10, width=24),
        ),
        tuning_seeds=3, dataset="digits, 60,000 JPEG images of CIFAR-10, halved to 16 x 16, 20 roles of Shakespeare",
    ),
    "paper": Scale(
        (
            digits(20, 10, _GRID),
            Cell("images", 100, None, 0.1, 50, 2, rounds=100, last=33, seeds=10, rates=_GRID),
            Cell("roles", 100, None, 0.0, 50, 2, rounds=100, last=33, seeds=10, rates=_ROLES_GRID,
                 length=40, width=256, layers=2),
        ),
        tuning_seeds=3, dataset="digits, cifar10, 100 roles of shakespeare",
    ),
}  # fmt: skip


def run(scale: Scale, out: Path) -> Tables:
    """Tune all arms in each cell, run each as it was tuned, and compare it with Local and FedAvg of its budget.

    An arm that diverges at every rate has rows in the table of the tuning alone.
    """
    found = [run_cell(scale, cell, out) for cell in scale.cells]
    return {name: pd.concat([tables[name] for tables in found], ignore_index=True) for name in found[0]}


def run_cell(scale: Scale, cell: Cell, out: Path) -> Tables:
    """Return the tables of one cell."""
    every = every_arm(cell)
    labels = [label for label in scale.arms or every if label in every]

    tuning, chosen = tuned(cell, labels, scale.every_tuning_seed, scale.device, out)
    parts = []
    # arms with several models take longest and run first
    for label in sorted(chosen, key=lambda label: -every[label].models):
        lr, setting = chosen[label]
        tried = tuning.loc[tuning["arm"] == label, "lr"].unique()
        asked = Trial(cell, label, lr, setting, scale.seeds_of(cell), scale.device)
        smaller = tuple(sorted(float(rate) for rate in tried if rate < lr))
        parts.append(Part(f"bench-{asked.slug}", asked, partial(measure, asked, smaller)))
    results = run_parts(parts, out, f"bench, {cell.name}: results")
    place = {label: k for k, label in enumerate(labels)}
    return {name: t.sort_values("arm", key=lambda arms: arms.map(place), kind="stable", ignore_index=True)
            for name, t in {**results, "tuning": tuning}.items()}  # fmt: skip


def evidence(tables: Tables) -> Tables:
    """Return all tables, their values rounded to six digits."""
    return {name: table.round(6) for name, table in tables.items()}
