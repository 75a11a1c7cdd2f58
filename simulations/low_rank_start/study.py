"""Ask what FedDecomp's start and scale of the low-rank part decide: dose and response.

The dose of a weight is by how much a gradient step on b moves tau, in expectation, relative to the step that a tau of
full rank would make: 1 in the paper's text with our scale, 1 / (3 in rho) or 1 / (3 in r) in the authors' code. Level 0
is the code's dose in every weight, 1 the text's, 2 ten times as much. A dose is reached in either arrangement of tau,
by the spread of a at the start or by a factor of tau.

Two learning rates: the paper's, and one that is tuned for each dose on validation samples of other seeds, by the rule
by which Local and FedAvg are tuned. By the same samples one dose is chosen; the results are under fresh seeds.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from simulations.catalogue import DECOMP
from simulations.contract import About
from simulations.low_rank_start.runs import CONTROLS, Arm, Job, Setting, doses, draw, measure, method, network, training
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import tried, tune_arms

ABOUT = About(
    "The start of FedDecomp’s low-rank part",
    DECOMP,
    "section 3.2 and the authors’ code",
    order=75,
    data=("cifar10",),
    times={
        "smoke": "half a minute",
        "quick": "under a minute on two cores",
        "desk": "half an hour on two cores",
        "paper": "six hours on a GPU at 10 TFLOP a second (an estimate: 81 runs of 2,600 TFLOP)",
    },
)
FIRST_SEED, FIRST_TUNING_SEED = 100, 10_000


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Attributes
    ----------
    settings : tuple of Setting
        What is learnt.
    levels : tuple of float
        Levels of the dose; the routes are compared at all but 0, where they are one.
    seeds, tuning_seeds : int
        How many of each.
    rates : tuple of float
        The grid of rates to begin with; a single one is taken as it is.
    lr, momentum : float
        The rate at which all doses are compared, and the momentum of all runs: the authors'.
    dataset : str
        Names the data in the committed configuration.
    shift : int
        Added to all seeds.
    device : str
        Where networks train.
    """

    settings: tuple[Setting, ...]
    levels: tuple[float, ...]
    seeds: int
    tuning_seeds: int
    rates: tuple[float, ...]
    dataset: str
    lr: float = 0.1
    momentum: float = 0.9
    shift: int = 0
    device: str = "cpu"

    @property
    def result_seeds(self) -> tuple[int, ...]:
        """The master seeds of the comparisons."""
        return tuple(range(FIRST_SEED + self.shift, FIRST_SEED + self.shift + self.seeds))

    @property
    def seeds_for_tuning(self) -> tuple[int, ...]:
        """The master seeds on which rates and the dose are chosen."""
        return tuple(range(FIRST_TUNING_SEED + self.shift, FIRST_TUNING_SEED + self.shift + self.tuning_seeds))


_LEVELS = (0.0, 1 / 3, 2 / 3, 1.0, 1.5, 2.0)
_DIGITS = Setting("digits", "digits", 20, 0.3, rounds=20, last=5)
_IMAGES = Setting("images of CIFAR-10", "cifar10", 10, 0.5, rounds=20, last=5, train=80, test=80)
SCALES = {
    "smoke": Scale(
        (Setting("digits", "digits", 6, 0.3, rounds=1, last=1, epochs=2, lora_epochs=1, batch=100),), (0.0, 1 / 3, 1.0),
        seeds=2, tuning_seeds=1, rates=(0.1,), dataset="digits", shift=SECOND_LOOK,
    ),
    "quick": Scale(
        (Setting("digits", "digits", 20, 0.3, rounds=4, last=1),), (0.0, 1 / 3, 1.0),
        seeds=5, tuning_seeds=1, rates=(0.1,), dataset="digits", shift=SECOND_LOOK,
    ),
    "desk": Scale(
        (_DIGITS, _IMAGES), _LEVELS, seeds=5, tuning_seeds=3, rates=(0.01, 0.03, 0.1),
        dataset="digits, cifar10 (9,085 images)",
    ),
    "paper": Scale(
        (Setting("CIFAR-10", "cifar10", 40, 0.5, rounds=300, last=10, epochs=5, batch=100, train=500, test=100,
                 network="resnet8"),),
        _LEVELS, seeds=3, tuning_seeds=3, rates=(0.1,), dataset="cifar10",
    ),
}  # fmt: skip


def responses(scale: Scale) -> list[Arm]:
    """Return FedDecomp's arms at the paper's rate: both arrangements by the start, and the code's by its output."""
    by_start = [Arm(reading=reading, level=level) for reading in ("code", "text") for level in scale.levels]
    return by_start + [Arm(route="output", level=level) for level in scale.levels if level]


def rate(arm: Arm, nominal: float) -> float:
    """Return the rate that stands for one of the common grid: a smaller one where the dose is large."""
    factor = {1.0: 3.0, 1.5: 10.0, 2.0: 30.0}.get(arm.level, 1.0)
    return float(f"{nominal / factor:.1g}") if factor > 1 else nominal


def _part(scale: Scale, setting: Setting, arm: Arm, lr: float) -> Part:
    job = Job(setting, arm, lr, scale.momentum, scale.result_seeds, False, scale.device)
    slug = "".join(c if c.isalnum() else "_" for c in f"{setting.name}-{arm.label}")
    return Part(f"low_rank_start-{slug}-{lr:g}", job, partial(measure, job))


def tune(scale: Scale, out: Path) -> pd.DataFrame:
    """Tune the controls and the code's arrangement at every level; mark as `best` the level that did best."""
    tuned = (*(Arm(control) for control in CONTROLS), *(Arm(level=level) for level in scale.levels))
    tables, levels = [], {arm.label: arm.level for arm in tuned}
    for setting in scale.settings:
        every = {arm.label: partial(tune_arm, scale, setting, arm) for arm in tuned}
        found = tune_arms(f"low-rank start, {setting.name}", every, replace(scale, seeds=0), out)
        tables.append(found.assign(setting=setting.name, level=found["arm"].map(levels)))
    table = pd.concat(tables, ignore_index=True)
    doses_only = table[table["chosen"] & ~table["arm"].isin(CONTROLS)]
    mean = doses_only.groupby(["setting", "arm"])["accuracy"].agg(lambda a: a.mean(skipna=False))
    best = [mean[setting].idxmax() for setting in table["setting"]]
    return table.assign(best=table["arm"] == best)


def tune_arm(scale: Scale, setting: Setting, arm: Arm) -> Tables:
    """Choose an arm's rate, or measure it at the only one; return the table ``tuning``."""
    rates, seeds = [rate(arm, nominal) for nominal in scale.rates], scale.seeds_for_tuning
    if len(rates) == 1:
        runs = measure(Job(setting, arm, scale.rates[0], scale.momentum, seeds, True, scale.device))["runs"]
        return {"tuning": runs[["arm", "lr", "seed", "accuracy"]].assign(chosen=True, end=True)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # outputs that are no numbers: never chosen
        tuning = fs.tune(
            method(setting, arm), {"lr": rates}, network(setting), partial(draw, setting, False),
            training(setting, rates[0], scale.momentum), rounds=setting.rounds, last=setting.last, seed=seeds,
            device=scale.device, progress=False,
        )  # fmt: skip
    return tried(tuning, arm.label)


def jobs(scale: Scale, tuning: pd.DataFrame) -> list[tuple[Arm, float]]:
    """Return the arms and rates of a setting's comparisons, each once.

    Controls have their tuned rate, doses the paper's and their own: that of the same dose in the code's arrangement.
    """
    lr = tuning[tuning["chosen"]].groupby("arm")["lr"].first()
    wanted = [(Arm(control), float(lr[control])) for control in CONTROLS]
    for arm in responses(scale):
        wanted.append((arm, scale.lr))
        if arm.route == "start":
            wanted.append((arm, float(lr[Arm(level=arm.level).label])))
    return list(dict.fromkeys(wanted))


def run(scale: Scale, out: Path) -> Tables:
    """Tune, then run every arm under fresh seeds."""
    tuning = tune(scale, out)
    parts = [
        _part(scale, setting, arm, lr)
        for setting in scale.settings
        for arm, lr in jobs(scale, tuning[tuning["setting"] == setting.name])
    ]
    return {
        **run_parts(parts, out, "low-rank start: doses"),
        "tuning": tuning,
        "doses": pd.concat([doses(setting, scale.levels) for setting in scale.settings], ignore_index=True),
    }


def evidence(tables: Tables) -> Tables:
    """Return all tables, rounded."""
    return {name: table.round(6) for name, table in tables.items()}
