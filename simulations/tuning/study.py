"""Tune FedFac's layer, then its cut, then its contribution (FedFac paper, Tables 4 to 6), by `fedstat.tune`.

Images of few classes a client; the dynamic version, in the text's reading and in the code's. The choices are made on
validation samples of the tuning seeds. What the paper's tables hold are test accuracies: test samples are measured
beside, to say what a choice by them would have been worth on fresh seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import fedstat as fs
from fedstat._tables import Tables
from fedstat.data import Clients
from fedstat.factor import IdentificationWarning
from fedstat.models import Factory
from simulations.contract import About, Shown
from simulations.images import dealt, images, small_cnn
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tried, tune_arms

_HOW = (
    "the first 9,085 images of CIFAR-10 in place of CIFAR-100, 2 and 5 classes a client, 30 clients, a network of two "
    "convolutions and two dense layers instead of VGG-16, 12 rounds; choices on validation samples, three seeds"
)
ABOUT = About(
    "Tuning FedFac: the layer, the cut, the contribution",
    "FedSplit/FedFac",
    "",
    order=36,
    shows=(
        Shown("Table 4", "test accuracy by the layer whose units may be personal", "in part", _HOW),
        Shown("Table 5", "test accuracy by the quantile at which units are cut", "in part", _HOW),
        Shown("Table 6", "test accuracy by the contribution that decides the number of factors", "in part", _HOW),
    ),
    data=("cifar10",),
    times={
        "smoke": "half a minute",
        "quick": "a minute on two cores",
        "desk": "ten minutes of one core",
        "paper": "50 hours on a GPU at 10 TFLOP a second (an estimate: 490 runs of 3,600 TFLOP); needs CIFAR-100",
    },
)
Reading = Literal["text", "code"]
#: The values that the paper holds before their own step.
START: Mapping[str, Any] = {"tau": fs.Quantile(0.5), "kappa": 0.85}
ORDER = ("layers", "tau", "kappa")
MEASURES = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: Fresh seeds, and those by which the learning rate is chosen; tuning seeds are below.
FRESH, RATES = 100, 200


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Attributes
    ----------
    dataset, network : str
        The images (of which the first `images`, 0 for all), and "small_cnn" or "vgg16".
    clients : int
        Number of clients; `participation` is the share of them in a round.
    settings : tuple of (int, str)
        Classes per client, and the reading of the method.
    layers, taus, kappas : tuple
        The three grids: single layers, quantiles, contributions.
    rounds, last, epochs, batch : int
        Rounds, how many of the last are averaged, and a client's work.
    rates : tuple of float
        The grid of learning rates; a single one is taken as it is.
    seeds, fresh : int
        Tuning seeds and fresh seeds.
    weight_decay : float
        As `fedstat.Training`.
    shift : int
        Added to all seeds.
    device : str
        Where networks train.
    """

    dataset: str
    clients: int
    settings: tuple[tuple[int, Reading], ...]
    layers: tuple[str, ...]
    taus: tuple[float, ...]
    kappas: tuple[float, ...]
    rounds: int
    last: int
    rates: tuple[float, ...]
    seeds: int
    fresh: int
    images: int = 0
    participation: float = 1 / 3
    network: str = "small_cnn"
    epochs: int = 1
    batch: int = 20
    weight_decay: float = 0.0
    shift: int = 0
    device: str = "cpu"


_SMALL = ("conv1", "conv2", "hidden")
_TAUS, _KAPPAS = (0.25, 0.5, 0.75, 0.9, 0.95), (0.5, 0.75, 0.85, 0.9, 0.95)
SCALES = {
    "smoke": Scale(
        "digits", 6, ((2, "text"),), ("conv1", "hidden"), (0.5, 0.95), (0.5, 0.85), rounds=2, last=1,
        rates=(3e-3,), seeds=2, fresh=2, images=300, shift=SECOND_LOOK, batch=40,
    ),
    "quick": Scale(
        "cifar10", 15, ((2, "text"), (5, "text")), _SMALL, (0.25, 0.5, 0.95), (0.5, 0.85), rounds=10, last=4,
        rates=(2e-3,), seeds=2, fresh=3, images=3000, shift=SECOND_LOOK,
    ),
    "desk": Scale(
        "cifar10", 30, ((2, "text"), (5, "text"), (2, "code")), _SMALL, _TAUS, _KAPPAS, rounds=12, last=6,
        rates=(1e-3, 2e-3, 4e-3), seeds=3, fresh=5,
    ),
    "paper": Scale(
        "cifar100", 100, ((5, "text"), (10, "text"), (30, "text"), (5, "code"), (10, "code"), (30, "code")),
        ("conv1", *(f"conv{i}" for i in range(3, 14)), "hidden1", "hidden2"), _TAUS, _KAPPAS, rounds=500, last=10,
        rates=(1e-3,), seeds=3, fresh=5, participation=0.1, network="vgg16", batch=64, weight_decay=7.8125e-6,
    ),
}  # fmt: skip


def network(scale: Scale) -> Factory:
    """Return what builds the network."""
    x, y, _ = images(scale.dataset)
    classes = int(y.max()) + 1
    return fs.models.vgg16(classes) if scale.network == "vgg16" else small_cnn(x, classes)


def draw(scale: Scale, classes: int, seed: int) -> Clients:
    """Deal shards of so many classes a client; see `simulations.images.dealt`."""
    x, y, _ = images(scale.dataset)
    some = slice(0, scale.images or len(y))
    parts = fs.data.shards(y[some], scale.clients, classes, seed=seed)
    return dealt(x[some], y[some], parts, seed=seed)


def training(scale: Scale, lr: float) -> fs.Training:
    """Return a client's work in a round: Adam, as in the paper."""
    return fs.Training(
        lr=lr, optimizer="adam", batch_size=scale.batch, local_epochs=scale.epochs, weight_decay=scale.weight_decay
    )


def grid(scale: Scale) -> dict[str, list[Any]]:
    """Return the three grids, in the paper's order."""
    return {
        "layers": [(layer,) for layer in scale.layers],
        "tau": [fs.Quantile(q) for q in scale.taus],
        "kappa": list(scale.kappas),
    }


def method(reading: Reading) -> partial[fs.FedFac]:
    """Return what makes the tuned method of the grid's values."""
    return partial(fs.FedFac, dynamic=True, reading=reading)


def rate(scale: Scale, arm: str) -> Tables:
    """Choose the learning rate of FedFac at the start values on the deepest layer; return the table ``tuning``."""
    first = RATES + scale.shift
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)  # that the text's analysis is not identified is known
        tuning = fs.tune(
            fs.FedFac(layers=[scale.layers[-1]], dynamic=True, **START),
            {"lr": scale.rates},
            network(scale),
            partial(draw, scale, int(arm.removeprefix("S"))),
            training(scale, scale.rates[0]),
            rounds=scale.rounds,
            last=scale.last,
            seed=range(first, first + scale.seeds),
            participation=scale.participation,
            device=scale.device,
            progress=False,
        )
    return tried(tuning, arm)


def one_setting(scale: Scale, classes: int, reading: Reading, lr: float) -> Tables:
    """Tune at one setting; return its trials, all that was measured, the checks and the budget."""
    shift = scale.shift
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        tuning = fs.tune(
            method(reading),
            grid(scale),
            network(scale),
            partial(draw, scale, classes),
            training(scale, lr),
            rounds=scale.rounds,
            last=scale.last,
            seed=range(shift, shift + scale.seeds),
            fresh=range(FRESH + shift, FRESH + shift + scale.fresh),
            order=ORDER,
            start=START,
            growths=0,
            also_test=True,
            participation=scale.participation,
            device=scale.device,
            progress=False,
        )
    tables = tabulated(tuning)
    return {name: table.assign(classes=classes, reading=reading) for name, table in tables.items()}


def tabulated(tuning: fs.Tuning) -> Tables:
    """Return a tuning's tables in plain values."""
    table = tuning.table.rename(columns={"ran before": "before"})
    trials = table.assign(layers=table["layers"].map(lambda layers: layers[0]), tau=table["tau"].map(lambda cut: cut.q))
    check = tuning.check
    assert check is not None
    scores = pd.concat([tuning.scores.assign(seeds="tuning"), check.scores.assign(seeds="fresh")], ignore_index=True)
    roles = {"chosen": check.chosen, "runner-up": check.runner_up, "by test": check.by_test}
    return {
        "trials": trials,
        "scores": scores[scores["metric"].isin(MEASURES)],
        "roles": pd.DataFrame({"role": list(roles), "trial": list(roles.values())}),
        "budget": tuning.budget.rename_axis("of").reset_index(),
    }


def run(scale: Scale, out: Path) -> Tables:
    """Choose the learning rate by setting of the data, then tune."""
    arms = [f"S{classes}" for classes in dict.fromkeys(classes for classes, _ in scale.settings)]
    if len(scale.rates) > 1:
        rates = tune_arms("tuning", {arm: partial(rate, scale, arm) for arm in arms}, scale, out)
    else:
        rates = pd.DataFrame({"arm": arms, "lr": scale.rates[0], "chosen": True, "end": False})
    lr = chosen(rates)
    parts = [
        Part(f"tuning-S{classes}-{reading}", scale, partial(one_setting, scale, classes, reading, lr[f"S{classes}"]))
        for classes, reading in scale.settings
    ]
    return {**run_parts(parts, out, "tuning: settings"), "rates": rates}
