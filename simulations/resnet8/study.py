"""Ask FedDecomp's Table 1 as its paper does: its network, clients, batches, epochs and learning rate, on a GPU.

Local, FedAvg, FedPer and FedDecomp as its authors ran it train ResNet-8 on CIFAR-10 at Dirichlet .5. All have the
paper's rate, which nobody tuned for the others: what another rate is worth to FedAvg is tried beside it. Fewer rounds
than the paper's, images as JPEG, and every image with one client are what differs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from fedstat._tables import Tables
from simulations.catalogue import DECOMP
from simulations.contract import About
from simulations.feddecomp.cells import CODE, Setup, World, arms
from simulations.feddecomp.runs import Job, one_job
from simulations.feddecomp.study import FIRST_SEED, PAPER_RATE, Experiment, Scale, tune
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import tune_arms

ABOUT = About(
    "FedDecomp with the paper’s network",
    DECOMP,
    "Table 1, CIFAR-10 at Dirichlet .5",
    order=73,
    data=("cifar10-jpeg",),
    times={
        "smoke": "a few seconds",
        "quick": "two minutes on two cores",
        "paper": "25 minutes on one H100 that ran three parts at a time",
    },
)
DIRICHLET = 0.5
ARMS = ("Local", "FedAvg", "FedPer", CODE)
#: The arm whose rate is tried as well.
TRIED = "FedAvg"


def _scale(world: World, setup: Setup, seeds: int, rates: tuple[float, ...], shift: int = SECOND_LOOK) -> Scale:
    of = Experiment(
        world, setup, (DIRICHLET,), (), seeds=seeds, few=seeds, rates=rates, tuning_seeds=1, tuning_rounds=setup.rounds,
        arms=ARMS, tuned_at=DIRICHLET,
    )  # fmt: skip
    return Scale((of,), shift)


_IMAGES = World("60,000 JPEG images of CIFAR-10", "CIFAR-10", "cifar10-jpeg", "resnet8", official=True, apart=True)
SCALES = {
    "smoke": _scale(
        World("digits", "", "digits", "small_cnn"), Setup(4, 30, 20, rounds=2, last=1, batch=30), 2, (0.03, 0.1)
    ),
    "quick": _scale(_IMAGES, Setup(4, 100, 100, rounds=3, last=1, batch=50), 3, (0.03, 0.1)),
    "paper": _scale(
        _IMAGES, Setup(40, 500, 100, rounds=100, last=10, batch=100, dtype="tf32"), 3, (0.01, 0.03, PAPER_RATE), shift=0
    ),
}  # fmt: skip


def run(scale: Scale, out: Path) -> Tables:
    """Run every arm at the paper's rate, and try FedAvg at others."""
    (of,) = scale.experiments
    setup, first = replace(of.setup, device=scale.device), FIRST_SEED + scale.shift
    sizes = setup.train, setup.rounds, setup.epochs
    methods, seeds = arms(of.world, setup), tuple(range(first, first + of.seeds))
    jobs = [Job(of.world, setup, arm, methods[arm], DIRICHLET, PAPER_RATE, seeds, *sizes) for arm in ARMS]
    parts = [Part(f"resnet8-{job.arm}", job, partial(one_job, job)) for job in jobs]
    tables = run_parts(parts, out, "resnet8: arms")
    tuning = tune_arms("resnet8", {TRIED: partial(tune, scale, of, TRIED)}, scale, out)
    return {"accuracy": tables["accuracy"], "curves": tables["curves"], "tuning": tuning}


def evidence(tables: Tables) -> Tables:
    """Return all tables, with few digits."""
    return {
        "accuracy": tables["accuracy"].assign(value=tables["accuracy"]["value"].round(4)),
        "curves": tables["curves"].round({"accuracy": 4, "spread": 5}),
        "tuning": tables["tuning"].round(5),
    }
