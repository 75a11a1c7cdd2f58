"""Ask two things of FedDecomp that the study beside this one left open, on the same images and network, on a GPU.

Does the order of the methods stay when training goes on for twice as many rounds? And what do the ranks and the epochs
of the low-rank part do on whole images? Every method has a rate of its own, which is tuned by the rule of that study
over as many rounds as are run; FedDecomp taken apart keeps the rate of FedDecomp as its authors ran it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from simulations.catalogue import DECOMP
from simulations.contract import About
from simulations.feddecomp.cells import CODE, Setup, World, arms
from simulations.feddecomp.runs import Job, one_job
from simulations.feddecomp.study import FIRST_SEED, Experiment, Scale, doses, tune
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tune_arms

ABOUT = About(
    "FedDecomp trained longer, and taken apart on whole images",
    DECOMP,
    "Tables 1 and 2, Figure 5",
    order=74,
    data=("cifar10",),
    times={
        "smoke": "ten seconds",
        "quick": "under a minute on two cores",
        "paper": "ten minutes of one H200 beside another study (an estimate: it took eight without four numbers of "
        "epochs); needs cifar10-jpeg",
    },
)
CONCENTRATIONS = (0.1, 0.5, 1.0)
METHODS = ("Local", "FedAvg", "FedPer", CODE)


def _scale(
    world: World,
    setup: Setup,
    rates: tuple[float, ...],
    seeds: int,
    shift: int = SECOND_LOOK,
    ratios: tuple[float, ...] = (0.2, 0.6),
    lora_epochs: tuple[int, ...] = (0, 2, 5),
) -> Scale:
    """Return both experiments: methods over all rounds, and FedDecomp taken apart over half as many."""
    half = replace(setup, rounds=setup.rounds // 2)
    long = Experiment(
        _lasting(world, setup), setup, CONCENTRATIONS, (), seeds=seeds, few=seeds, rates=rates,
        tuning_seeds=min(seeds, 3), tuning_rounds=setup.rounds, arms=METHODS,
    )  # fmt: skip
    taken_apart = replace(
        long, world=_lasting(world, half), setup=half, main=CONCENTRATIONS[:1], tuning_rounds=half.rounds,
        seeds=min(seeds, 3), few=min(seeds, 3), arms=(CODE,), ratios=ratios, lora_epochs=lora_epochs,
    )  # fmt: skip
    return Scale((long, taken_apart), shift)


def _lasting(world: World, setup: Setup) -> World:
    """Return a world whose name tells its rounds, so that no two settings have one name."""
    return replace(world, name=f"{world.name}, {setup.rounds} rounds")


_IMAGES = World("60,000 JPEG images of CIFAR-10", "CIFAR-10", "cifar10-jpeg", "three_conv", official=True, apart=True)
_HALVED = World("9,085 images of CIFAR-10, halved", "CIFAR-10", "cifar10", "small_cnn", halved=True)
SCALES = {
    "smoke": _scale(
        World("digits", "", "digits", "small_cnn"), Setup(4, 30, 20, rounds=4, last=1, batch=30), (0.03, 0.1), 2
    ),
    "quick": _scale(_HALVED, Setup(5, 40, 40, rounds=4, last=1, batch=20), (0.03, 0.1), 3),
    "paper": _scale(
        _IMAGES, Setup(10, 300, 100, rounds=40, last=5, batch=100), (0.01, 0.03, 0.1), 5, shift=0,
        ratios=(0.2, 0.6, 1.0), lora_epochs=(0, 1, 2, 3, 4, 5),
    ),
}  # fmt: skip


def jobs(scale: Scale, of: Experiment, rates: Mapping[str, float]) -> Iterator[Job]:
    """Return the runs of one experiment, of those arms whose rate is known."""
    setup, first = replace(of.setup, device=scale.device), FIRST_SEED + scale.shift
    methods, seeds = arms(of.world, setup), range(first, first + of.seeds)

    def job(arm: str, method: fs.Method, dirichlet: float, some: range = seeds) -> Job:
        lr = rates[arm if arm in rates else CODE]
        return Job(of.world, setup, arm, method, dirichlet, lr, tuple(some), setup.train, setup.rounds, setup.epochs)

    own = [arm for arm in of.arms if arm in rates]
    yield from (job(arm, methods[arm], alpha) for alpha in of.main for arm in own)
    if CODE in rates:
        yield from doses(of, setup, job, seeds)


def tuned(scale: Scale, of: Experiment, some: Collection[str], out: Path) -> pd.DataFrame:
    """Return the table of learning rates of some arms."""
    every = {arm: partial(tune, scale, of, arm) for arm in some}
    return tune_arms(f"longer, {of.world.name}", every, scale, out).assign(world=of.world.name)


def ran(scale: Scale, of: Experiment, rates: Mapping[str, float], out: Path) -> Tables:
    """Return the tables of the runs of those arms whose rate is known."""
    parts = [Part(job.name, job, partial(one_job, job)) for job in jobs(scale, of, rates)]
    return run_parts(parts, out, f"longer, {of.world.name}: arms and settings")


def run(scale: Scale, out: Path) -> Tables:
    """Tune the arms of both experiments, then run them."""
    tuning = [tuned(scale, of, of.arms, out) for of in scale.experiments]
    tables = [ran(scale, of, chosen(table), out) for of, table in zip(scale.experiments, tuning, strict=True)]
    found = {name: pd.concat([some[name] for some in tables], ignore_index=True) for name in ("accuracy", "curves")}
    return {**found, "tuning": pd.concat(tuning, ignore_index=True)}


def evidence(tables: Tables) -> Tables:
    """Return all tables with few digits, and curves of accuracy alone."""
    curves = tables["curves"][["seed", "round", "accuracy", "world", "arm", "dirichlet", "train"]]
    return {
        "accuracy": tables["accuracy"].assign(value=tables["accuracy"]["value"].round(4)),
        "curves": curves.assign(accuracy=curves["accuracy"].round(4)),
        "tuning": tables["tuning"].round(5),
    }
