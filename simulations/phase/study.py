"""Ask when splitting pays: the split minus the better of Local and FedAvg, over the conditions of a federation.

On the FedFac paper's generator the study varies the samples per client, the share of shared units and the share of
shared inputs; on real images the samples per client at three strengths of label skew. Within a seed, and for the
same shares, fewer samples are the first of more: all runs along that axis have the same clients, test samples and
initial weights. Every client makes the same number of passes and of steps whatever its number of samples: its batches
are a fixed share of them.

On the generator the split is FedSplit told the true units. By the split study's theorem any fixed choice of as many
units, made without looking at the initial weights, has the same law: the diagram is that of all of them. Units that
are not named, the output's among them, are shared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.data import Clients, Samples
from fedstat.inference import primary_summary
from fedstat.models import Factory
from simulations.contract import About
from simulations.images import images as read
from simulations.images import small_cnn
from simulations.parts import SECOND_LOOK, Part, complete, run_parts
from simulations.rates import chosen, tried, tune_arms

ABOUT = About(
    "When splitting pays",
    "FedSplit/FedFac",
    "beyond the paper",
    order=27,
    data=("mnist",),
    times={
        "smoke": "half a minute",
        "quick": "under a minute on two cores",
        "desk": "ten minutes of processor time",
        "paper": "about eight hours on one GPU, a third of it drawing data (an estimate)",
    },
)
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
YARDSTICKS = ("Local", "FedAvg")
LAYER = "hidden"
#: The positive control of the split study, and the paper's own design: (samples, shared units, shared inputs).
CONTROL = (20, 0.9, 0.8)
DESIGN = (160, 0.5, 0.4)
#: Learning rates are tuned at this share of shared units, and on images at this strength of label skew.
TUNED_AT = 0.5
SKEW = 0.3
#: Smaller seeds served to design the study.
FIRST_SEED = 100
#: Learning rates are tuned on seeds of their own.
FIRST_TUNING_SEED = 10_000
#: Validation samples of each client, for tuning alone.
VALIDATION = 200


@dataclass(frozen=True)
class Images:
    """Size of the line on real images; every client holds half of the hidden layer's units for itself.

    `tuned` are the sample sizes at which learning rates are tuned; the others use the next smaller one's.
    """

    dataset: str
    clients: int
    samples: tuple[int, ...]
    tuned: tuple[int, ...]
    skews: tuple[float, ...]
    test: int
    validation: int
    widths: tuple[int, int]
    hidden: int
    rounds: int
    seeds: int


@dataclass(frozen=True)
class Scale:
    """Size of the study: the generator's grid, and the line on images; `shift` is added to all seeds.

    `tuned` are the sample sizes at which learning rates are tuned; the others use the next smaller one's. `batches` is
    the number of batches that a client's samples make; the last `last` rounds are averaged.
    """

    clients: int
    d: int
    units: int
    samples: tuple[int, ...]
    tuned: tuple[int, ...]
    shared_units: tuple[float, ...]
    shared_inputs: tuple[float, ...]
    test: int
    rounds: int
    seeds: int
    rates: tuple[float, ...]
    images: Images
    tuning_seeds: int = 3
    batches: int = 4
    local_epochs: int = 2
    last: int = 5
    shift: int = 0
    device: str = "cpu"

    @property
    def cells(self) -> list[tuple[int, float, float]]:
        """All cells of the grid: (samples, shared units, shared inputs)."""
        return list(product(self.samples, self.shared_units, self.shared_inputs))

    def seeds_of(self, count: int) -> range:
        """The master seeds of the comparisons."""
        return range(FIRST_SEED + self.shift, FIRST_SEED + self.shift + count)

    @property
    def every_tuning_seed(self) -> range:
        """The master seeds on which learning rates are tuned."""
        return range(FIRST_TUNING_SEED + self.shift, FIRST_TUNING_SEED + self.shift + self.tuning_seeds)


SCALES = {
    "smoke": Scale(
        clients=4, d=10, units=10, samples=(20, 160), tuned=(20,), shared_units=(0.5, 0.9), shared_inputs=(0.4, 0.8),
        test=50, rounds=3, seeds=3, rates=(1e-3, 3e-2, 0.9), tuning_seeds=1, last=1, shift=SECOND_LOOK,
        images=Images(
            dataset="digits", clients=3, samples=(10, 30), tuned=(10,), skews=(0.3, 1.0), test=20, validation=20,
            widths=(2, 4), hidden=8, rounds=2, seeds=3,
        ),
    ),
    "quick": Scale(
        clients=24, d=40, units=50, samples=(20, 80, 160), tuned=(20, 80), shared_units=(0.5, 0.9),
        shared_inputs=(0.4, 0.8), test=500, rounds=15, seeds=4, rates=(3e-3, 1e-2, 3e-2), tuning_seeds=1,
        shift=SECOND_LOOK,
        images=Images(
            dataset="mnist", clients=12, samples=(25, 100), tuned=(25,), skews=(0.1, 1.0), test=100, validation=100,
            widths=(4, 8), hidden=32, rounds=8, seeds=3,
        ),
    ),
    "desk": Scale(
        clients=24, d=40, units=50, samples=(10, 20, 40, 80, 160), shared_units=(0.1, 0.3, 0.5, 0.7, 0.9),
        tuned=(10, 40, 160), shared_inputs=(0.2, 0.4, 0.8), test=500, rounds=20, seeds=7, rates=(3e-3, 1e-2, 3e-2),
        images=Images(
            dataset="mnist", clients=12, samples=(25, 50, 100, 200), tuned=(25, 100), skews=(0.1, 0.3, 1.0), test=200,
            validation=100, widths=(4, 8), hidden=32, rounds=12, seeds=5,
        ),
    ),
    "paper": Scale(
        clients=100, d=100, units=200, samples=(10, 20, 40, 80, 160, 320, 640, 1280),
        tuned=(10, 20, 40, 80, 160, 320, 640, 1280),
        shared_units=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), shared_inputs=(0.2, 0.4, 0.6, 0.8), test=2000,
        rounds=100, seeds=10, rates=(1e-3, 3e-3, 1e-2), last=10,
        images=Images(
            dataset="mnist", clients=100, samples=(25, 50, 100, 200, 400), tuned=(25, 50, 100, 200, 400),
            skews=(0.1, 0.3, 1.0), test=400, validation=100, widths=(32, 64), hidden=200, rounds=100, seeds=10,
        ),
    ),
}  # fmt: skip


# --- both halves -----------------------------------------------------------------------------------------------


def training(scale: Scale, samples: int, lr: float) -> fs.Training:
    """Return what a client does in a round; every client's samples make as many batches."""
    return fs.Training(
        lr=lr, optimizer="adam", batch_size=-(-samples // scale.batches), local_epochs=scale.local_epochs
    )


def federate(
    scale: Scale,
    methods: Mapping[str, fs.Method],
    model: Factory,
    clients: Callable[[int], Clients],
    samples: int,
    lr: float,
    rounds: int,
    seeds: Sequence[int],
) -> fs.Result:
    """Run methods at one learning rate."""
    return fs.federate(
        methods, model, clients, training(scale, samples, lr), rounds=rounds, seed=seeds, progress=False,
        device=scale.device, evaluate_at=range(max(1, rounds - scale.last + 1), rounds + 1),
    )  # fmt: skip


def summary(scale: Scale, result: fs.Result) -> pd.DataFrame:
    """Return one row per seed and arm with the primary summary of every metric."""
    history = complete(result).history
    tables = [
        primary_summary(history, metric, last=scale.last)
        .reset_index()
        .melt("seed", var_name="arm", value_name=metric)
        .set_index(["seed", "arm"])
        for metric in METRICS
    ]
    return pd.concat(tables, axis=1).reset_index()


def family(arm: str) -> str:
    """Return the name of the arms that use one learning rate."""
    return arm if arm in YARDSTICKS else "split"


def measured(
    scale: Scale,
    methods: Mapping[str, fs.Method],
    model: Factory,
    clients: Callable[[int], Clients],
    samples: int,
    rates: Mapping[str, float],
    rounds: int,
    seeds: Sequence[int],
) -> pd.DataFrame:
    """Run every method at its family's learning rate; methods of one rate in one call."""
    tables = []
    for lr in dict.fromkeys(rates.values()):
        same = {label: method for label, method in methods.items() if rates[family(label)] == lr}
        result = federate(scale, same, model, clients, samples, lr, rounds, seeds)
        tables.append(summary(scale, result))
    return pd.concat(tables, ignore_index=True)


def tuned(
    scale: Scale,
    method: fs.Method,
    model: Factory,
    clients: Callable[[int], Clients],
    samples: int,
    rounds: int,
    label: str,
) -> Tables:
    """Choose a method's rate on validation samples; return the table ``tuning``."""
    tuning = fs.tune(
        method, {"lr": scale.rates}, model, clients, training(scale, samples, scale.rates[0]), rounds=rounds,
        last=scale.last, seed=scale.every_tuning_seed, device=scale.device, progress=False,
    )  # fmt: skip
    return tried(tuning, label)


# --- the generator ---------------------------------------------------------------------------------------------


def true_units(federation: fs.Federation) -> dict[str, np.ndarray]:
    """Return masks of the units that the generator shares."""
    return {LAYER: ~federation.clients.truth.personal_units}


def arms() -> dict[str, fs.Method]:
    """Return the arms on the generator."""
    return {"FedAvg": fs.FedAvg(), "Local": fs.Local(), "split": fs.FedSplit(shared_units=true_units)}


def draw(scale: Scale, p: float, alpha: float, samples: int, seed: int) -> Clients:
    """Draw the clients of one seed: the first samples of as many as the largest cell has."""
    with warnings.catch_warnings():  # the table of accuracies states the majority class
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        drawn = fs.data.relu_mixture(
            clients=scale.clients, d=scale.d, units=scale.units, shared_units=p, shared_inputs=alpha,
            samples=max(scale.samples), validation=VALIDATION, test=scale.test, balance="center", seed=seed,
        )  # fmt: skip
        return replace(drawn, train=drawn.train.of(most=samples))


def cell(scale: Scale, samples: int, p: float, alpha: float, rates: Mapping[str, float]) -> Tables:
    """Measure all arms in one cell of the grid."""
    drawn = {seed: draw(scale, p, alpha, samples, seed) for seed in scale.seeds_of(scale.seeds)}
    model = fs.models.mlp(scale.d, scale.units, 1)
    table = measured(scale, arms(), model, drawn.__getitem__, samples, rates, scale.rounds, list(drawn))
    return {"grid": table.assign(samples=samples, p=p, alpha=alpha)}


def tuning(scale: Scale, arm: str, samples: int, alpha: float, label: str) -> Tables:
    """Choose the rate of an arm."""
    model, clients = fs.models.mlp(scale.d, scale.units, 1), partial(draw, scale, TUNED_AT, alpha, samples)
    return tuned(scale, arms()[arm], model, clients, samples, scale.rounds, label)


# --- real images -----------------------------------------------------------------------------------------------


def image_arms(size: Images) -> dict[str, fs.Method]:
    """Return the arms on images: half of the hidden layer's units at random, and half by FedFac's communality."""
    return {
        "FedAvg": fs.FedAvg(),
        "Local": fs.Local(),
        "random split": fs.FedSplit(shared_units=partial(random_units, units=size.hidden)),
        "FedFac": fs.FedFac(layers=[LAYER], tau=fs.Count(size.hidden // 2)),
    }


def random_units(federation: fs.Federation, units: int) -> dict[str, np.ndarray]:
    """Share half of the hidden layer's units, drawn once."""
    return {LAYER: federation.rng.permutation(units) < units // 2}


def deal(scale: Scale, skew: float, samples: int, seed: int) -> Clients:
    """Deal images: each client's classes from Dirichlet(skew), its first samples, and test samples of the same shares.

    Test samples come from the official test part, if there is one, else from every fifth sample; those for validation
    from the training part.
    """
    size = scale.images
    x, y, test = read(size.dataset)
    if not test.any():
        test = np.arange(len(y)) % 5 == 0
    most = max(size.samples) + size.validation
    parts = fs.data.dirichlet_draws(y, test, size.clients, skew, train=most, held_out=size.test, seed=seed)
    order = [stream(seed, "data", k).permutation(index) for k, index in enumerate(parts.train)]
    train, held = np.stack(order), np.stack(parts.test or ())

    def of(index: np.ndarray) -> Samples:
        return Samples.from_rows(x[index], y[index])

    classes = tuple(range(int(y.max()) + 1))
    tail = of(train[:, max(size.samples) :])
    return Clients(of(train).of(most=samples), of(held), validation=tail, classes=classes)


def image_model(size: Images) -> Factory:
    """Build the small network."""
    x, y, _ = read(size.dataset)
    return small_cnn(x, int(y.max()) + 1, widths=size.widths, hidden=size.hidden)


def image_cell(scale: Scale, samples: int, skew: float, rates: Mapping[str, float]) -> Tables:
    """Measure all arms on images at one number of samples and one strength of label skew."""
    size = scale.images
    clients = partial(deal, scale, skew, samples)
    table = measured(
        scale, image_arms(size), image_model(size), clients, samples, rates, size.rounds, scale.seeds_of(size.seeds)
    )
    return {"images": table.assign(samples=samples, alpha=skew)}


def image_tuning(scale: Scale, arm: str, samples: int, label: str) -> Tables:
    """Choose the rate of an arm on images."""
    size = scale.images
    method = image_arms(size)["random split" if arm == "split" else arm]
    clients = partial(deal, scale, SKEW, samples)
    return tuned(scale, method, image_model(size), clients, samples, size.rounds, label)


# --- the study -------------------------------------------------------------------------------------------------


def tune(scale: Scale, out: Path) -> pd.DataFrame:
    """Tune all arms' rates by one rule.

    On the generator this is done at some numbers of samples and every share of shared inputs, at one share of shared
    units; on images at some numbers of samples and one strength of skew, where both splits have the random one's rate.
    """
    parts: dict[str, tuple[tuple[str, str, int, float], partial[Tables]]] = {}
    for n, alpha, arm in product(scale.tuned, scale.shared_inputs, arms()):
        label = f"{arm}-n{n}-alpha{alpha:g}"
        parts[label] = (("generator", arm, n, alpha), partial(tuning, scale, arm, n, alpha, label))
    for n, arm in product(scale.images.tuned, (*YARDSTICKS, "split")):
        label = f"images-{arm}-n{n}"
        parts[label] = (("images", arm, n, SKEW), partial(image_tuning, scale, arm, n, label))

    table = tune_arms("phase", {label: compute for label, (_, compute) in parts.items()}, scale, out)
    where = [parts[label][0] for label in table["arm"]]
    keys = pd.DataFrame(where, columns=["data", "family", "samples", "alpha"])
    return pd.concat([keys, table.drop(columns="arm")], axis=1)


def rates_at(table: pd.DataFrame, data: str, samples: int, alpha: float) -> Mapping[str, float]:
    """Return each arm's rate as tuned at alpha, at the largest number of samples that is not above `samples`."""
    rows = table[(table["data"] == data) & (table["alpha"] == alpha) & (table["samples"] <= samples)]
    return chosen(rows[rows["samples"] == rows["samples"].max()].rename(columns={"family": "arm"}))


def run(scale: Scale, out: Path) -> Tables:
    """Tune the learning rates, then run the grid and the line on images."""
    tuned = tune(scale, out)
    parts = [
        Part(f"phase-n{n}-p{p:g}-alpha{a:g}", scale, partial(cell, scale, n, p, a, rates_at(tuned, "generator", n, a)))
        for n, p, a in scale.cells
    ]
    for n, skew in product(scale.images.samples, scale.images.skews):
        rates = rates_at(tuned, "images", n, SKEW)
        parts.append(Part(f"phase-images-n{n}-skew{skew:g}", scale, partial(image_cell, scale, n, skew, rates)))
    return {**run_parts(parts, out, "phase: cells"), "tuning": tuned}


def evidence(tables: Tables) -> Tables:
    """Return all tables, values to five decimals."""
    return {name: table.round({metric: 5 for metric in METRICS}) for name, table in tables.items()}
