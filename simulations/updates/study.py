"""Ask how far apart updates go on other labels and other images (Factorized-FL paper, Figures 1b, 1c and 4).

Models with the same initial weights train on a reference partition of MNIST, on another partition, on that one with
permuted labels, and on CIFAR-10. After every epoch the study measures how far the update of each lies from that of the
reference: for whole weights, and for the basis u, the coefficients v and the sparse mu of factorised ones. The paper
does not say what "normalized" means, nor whether an update is that of an epoch or the way from the start: each is an
arm. A fifth model trains on the reference partition once more, in batches of another order: no distance can be
expected to lie below its own.

For Figure 1c the reference's model is averaged every third epoch with that of one other data set, but for the
classifier; and for Figure 4, which speaks of federated learning, u is averaged in every epoch beside the case in which
nothing is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat import data
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.data import Clients, Partition
from fedstat.federated.client.network import Params
from simulations.contract import About, Shown
from simulations.images import images, small_cnn
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.rates import chosen, tried, tune_arms, validating

Network = Literal["plain", "text", "code"]

ABOUT = About(
    "How far updates part on other labels and other images",
    "Factorized-FL",
    "",
    order=71,
    shows=(
        Shown(
            "Figure 1b",
            "normalised distance of updates from those on a reference partition of MNIST, over epochs",
            "in part",
            "a small network, a thousand images of each data set, all readings of normalised and of update",
        ),
        Shown(
            "Figure 1c",
            "accuracy on the reference partition if its model is averaged every third epoch with one of other data",
            "in part",
            "a small network, a thousand images of each data set",
        ),
        Shown(
            "Figure 4",
            "normalised distance of the updates of u and of v, over epochs",
            "in part",
            "a small network, a thousand images of each data set, apart and with u averaged in every epoch",
        ),
    ),
    data=("mnist", "cifar10"),
    times={
        "smoke": "half a minute",
        "quick": "half a minute on two cores",
        "desk": "five minutes of one core",
        "paper": "8 hours on one GPU (an estimate: 3e17 operations at 10 TFLOP/s)",
    },
)
NETWORKS: dict[Network, str] = {
    "plain": "whole weights",
    "text": "factorised, as the text has it",
    "code": "factorised, as the authors' code has it",
}
#: The data sets; the first is the reference.
REFERENCE = "reference"
OTHERS = {
    "same": "the reference partition, in other batches",
    "other": "another partition",
    "permuted": "that partition, labels permuted",
    "domain": "other images",
}
#: Of whose updates the distance is measured, below the classifier but for "all".
PARTS: dict[Network, tuple[str, ...]] = {"plain": ("all", "body"), "text": ("u", "v", "mu"), "code": ("u", "v", "mu")}
#: What an update is.
SINCE = {"epoch": "the change of one epoch", "start": "the change since the start"}
#: What its distance from the reference's is divided by.
NORMS = {
    "sum": "the sum of both lengths",
    "reference": "the length of the reference's update",
    "unit": "each update by its own length, before the difference",
}
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
ALONE = "alone"


@dataclass(frozen=True)
class Scale:
    """Size of the study: images per data set, the first of them for training; `shift` is added to all seeds."""

    train: int
    test: int
    epochs: int
    seeds: int
    rates: tuple[float, ...]
    tuning_seeds: int = 3
    every: int = 3
    batch_size: int = 32
    network: Literal["small_cnn", "resnet9"] = "small_cnn"
    dataset: Literal["digits", "MNIST and CIFAR-10"] = "MNIST and CIFAR-10"
    device: str = "cpu"
    shift: int = 0


_PRESENT = {"mnist", "cifar10"} <= set(data.datasets.present())
_FOUND: Literal["digits", "MNIST and CIFAR-10"] = "MNIST and CIFAR-10" if _PRESENT else "digits"
SCALES = {
    "smoke": Scale(
        train=60, test=40, epochs=3, every=2, seeds=2, rates=(0.1, 0.3, 1.0), tuning_seeds=1, dataset="digits",
        shift=SECOND_LOOK,
    ),
    "quick": Scale(
        train=300, test=200, epochs=6, seeds=4, rates=(0.03, 0.1), tuning_seeds=1, dataset=_FOUND, shift=SECOND_LOOK
    ),
    "desk": Scale(train=1000, test=500, epochs=12, seeds=6, rates=(0.01, 0.03, 0.1)),
    "paper": Scale(
        train=25_000, test=5_000, epochs=30, seeds=6, rates=(0.003, 0.01, 0.03), batch_size=100, network="resnet9",
    ),
}  # fmt: skip
#: Seeds from here on tune the learning rates.
FIRST_TUNING_SEED = 500


# --- data ------------------------------------------------------------------------------------------------------


@functools.cache
def domains(dataset: str) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return images (N, channels, side, side) and labels of the reference's domain, and those of the other domain.

    In place of CIFAR-10 the digits of scikit-learn are turned by a quarter, with dark and light exchanged.
    """
    if dataset == "digits":
        x, y = data.digits()
        x = x.reshape(len(x), 1, 8, 8).astype(np.float32)
        x = (x - x.mean()) / x.std()
        return (x, y), (-np.rot90(x, axes=(2, 3)).copy(), y)
    return images("mnist")[:2], images("cifar10")[:2]


def alike(grey: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return grey images with as many pixels and (equal) channels as the others, padded by their darkest value."""
    _, channels, side, _ = other.shape
    more = (side - grey.shape[2]) // 2
    padded = np.pad(grey, ((0, 0), (0, 0), (more, more), (more, more)), constant_values=grey.min())
    return np.repeat(padded, channels // grey.shape[1], axis=1)


def deal(scale: Scale, which: Sequence[str], seed: int, *, tuning: bool = False) -> Clients:
    """Deal data sets to clients, one each: training and test images are the same whoever the other clients are.

    With `tuning` the test images are the last fifth of the training images, so that no test image is seen.
    """
    (grey, y), (other, labels) = domains(scale.dataset)
    n, rng = scale.train + scale.test, stream(seed, "partitions")
    if len(grey) < 2 * n or len(other) < n:
        raise ValueError(
            f"train and test ask for {2 * n} images of the reference's domain and {n} of the other, but there are "
            f"{len(grey)} and {len(other)}; fetch the full data sets or take fewer."
        )
    ours, others = rng.permutation(len(grey))[: 2 * n], rng.permutation(len(other))[:n]
    x = np.concatenate([alike(grey[ours], other), other[others]])
    permutation = rng.permutation(10)
    first = {REFERENCE: 0, "same": 0, "other": n, "permuted": n, "domain": 2 * n}
    train = scale.train - scale.train // 5 if tuning else scale.train
    ends = scale.train if tuning else n
    partition = Partition(
        train=tuple(first[name] + np.arange(train) for name in which),
        test=tuple(first[name] + np.arange(train, ends) for name in which),
        names=tuple(which),
        labels=np.stack([permutation if name == "permuted" else np.arange(10) for name in which]),
    )
    return fs.data.from_indices(x, np.concatenate([y[ours], labels[others]]), partition, classes=range(10), seed=seed)


# --- methods ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EveryThird(fs.Local):
    """Local training, after every so many rounds of which the mean of all leaves but the head's replaces them.

    Parameters
    ----------
    every : int
        Rounds from one mean to the next.
    """

    every: int = 3

    def aggregate(self, state: fs.State, update: fs.federated.Update) -> fs.State:
        """Keep what the clients trained; where a mean is due, put it in the place of all below the head."""
        after = super().aggregate(state, update)
        if after.round % self.every:
            return after
        import torch

        below = update.end.keys() - set(update.network.head_leaves)
        mean = {
            name: torch.tensordot(update.weight, update.end[name], dims=1).expand_as(update.end[name])
            if name in below
            else update.end[name]
            for name in after.clients
        }
        return replace(after, clients=after.clients.write(update.ids, mean))


def method(scale: Scale, network: Network, averaged: bool) -> fs.Method:
    """Return training apart, or what is averaged: all but the head every third epoch, or u in every epoch."""
    if network == "plain":
        return EveryThird(every=scale.every) if averaged else fs.Local()
    alone = float("inf")  # nobody is similar enough but the client itself
    return fs.methods.FactorizedFL(reading=network, tau=-1.0 if averaged else alone, epsilon=0.0)


def model(scale: Scale) -> fs.models.Factory:
    """Return the network, which has norm layers: factorised weights start far below the usual size."""
    if scale.network == "resnet9":
        return fs.models.resnet9(10)
    return small_cnn(domains(scale.dataset)[1][0], norm=True)


def training(scale: Scale, lr: float) -> fs.Training:
    """Return one epoch a round of SGD without momentum, so that rounds change nothing."""
    return fs.Training(lr=lr, batch_size=scale.batch_size, local_epochs=1)


# --- what is measured ------------------------------------------------------------------------------------------


def distances(ours: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Return the distance of two updates, (P,) each, normalised in every way; NaN where an update is zero."""
    a, b = float(np.linalg.norm(ours)), float(np.linalg.norm(reference))
    if a == 0 or b == 0:
        return dict.fromkeys(NORMS, float("nan"))
    apart = float(np.linalg.norm(ours - reference))
    return {"sum": apart / (a + b), "reference": apart / b, "unit": float(np.linalg.norm(ours / a - reference / b))}


def leaves_of(network: fs.federated.Network, part: str) -> list[str]:
    """Return the trained leaves that belong to a part, as in `PARTS`."""
    head = set(network.head_leaves)
    if part == "all":
        return list(network.trainable)
    below = [name for name in network.trainable if name not in head]
    return below if part == "body" else [name for name in below if name.endswith(f".{part}")]


def flat(params: Params, base: Params, leaves: Sequence[str]) -> np.ndarray:
    """Return the changes of all clients from `base`, (m, P), in float64."""
    change = [(params[n] - base[n]).flatten(1).double().cpu().numpy() for n in leaves]
    return np.concatenate(change, axis=1)


def follow(
    scale: Scale, network: Network, which: Sequence[str], averaged: bool, lr: float, seed: int
) -> Iterator[tuple[str, dict[str, object]]]:
    """Train on the data sets `which`, the reference first; yield rows of distances and of the reference's accuracy."""
    rounds = fs.rounds(
        {"it": method(scale, network, averaged)},
        model(scale),
        partial(_deal, scale, tuple(which)),
        training(scale, lr),
        seed=seed,
        device=scale.device,
    )
    about = {"network": network, "averaged": averaged, "seed": seed}
    start: Params = {}
    for r in rounds:
        update = r.updates["it", seed]
        start = start or update.start
        for part in PARTS[network]:
            leaves = leaves_of(update.network, part)
            for since, base in {"epoch": update.start, "start": start}.items():
                moved = flat(update.end, base, leaves)
                for name, ours in zip(which[1:], moved[1:], strict=True):
                    where = {"part": part, "since": since, "data": name, "epoch": r.number}
                    yield "distance", {**about, **where, **distances(ours, moved[0])}
        last = r.number == scale.epochs
        if network == "plain" or last:
            partner = which[1] if averaged else ALONE
            yield from _accuracies(r, {**about, "arm": partner, "epoch": r.number})
        if last:
            return


def _deal(scale: Scale, which: Sequence[str], seed: int) -> Clients:
    return deal(scale, which, seed)


def _accuracies(r: fs.federated.Round, about: Mapping[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the reference client's metrics, of its model after the round and of what it trained before any mean."""
    for when, trained in (("after", False), ("before", True)):
        table = r.evaluate(trained=trained)
        rows = table[(table["client"] == 0) & table["metric"].isin(METRICS)]
        values = rows.set_index("metric")["value"]
        if not values.index.is_unique or not np.isfinite(values[list(METRICS)].astype(float)).all():
            raise FloatingPointError(f"training gave no finite metrics for {about}; lower the learning rate.")
        yield "accuracy", {**about, "when": when, **{metric: float(values[metric]) for metric in METRICS}}


def one_seed(scale: Scale, network: Network, lr: float, seed: int) -> Tables:
    """Train apart on all data sets, then in pairs of the reference and one other."""
    rows: dict[str, list[dict[str, object]]] = {"distance": [], "accuracy": []}
    pairs = [(REFERENCE, name) for name in OTHERS if name != "same"]
    for which, averaged in [((REFERENCE, *OTHERS), False), *((pair, True) for pair in pairs)]:
        for table, row in follow(scale, network, which, averaged, lr, seed):
            rows[table].append(row)
    found = {name: pd.DataFrame(part) for name, part in rows.items()}
    distance = found["distance"]
    kept = ~distance["averaged"] | ((distance["since"] == "epoch") & distance["part"].isin(["u", "v"]))
    return {**found, "distance": distance[kept]}


def tuned(scale: Scale, network: Network) -> Tables:
    """Choose a network's rate by the reference's validation accuracy, trained alone; return the table ``tuning``."""
    first = FIRST_TUNING_SEED + scale.shift
    tuning = fs.tune(
        method(scale, network, averaged=False),
        {"lr": scale.rates},
        model(scale),
        lambda seed: validating(deal(scale, [REFERENCE], seed, tuning=True)),
        training(scale, scale.rates[0]),
        rounds=scale.epochs,
        last=1,
        seed=range(first, first + scale.tuning_seeds),
        device=scale.device,
        progress=False,
    )
    return tried(tuning, network)


def run(scale: Scale, out: Path) -> Tables:
    """Tune each network's rate, then run all seeds."""
    tuning = tune_arms("updates", {network: partial(tuned, scale, network) for network in NETWORKS}, scale, out)
    rates = chosen(tuning)
    seeds = range(scale.shift, scale.shift + scale.seeds)
    parts = [
        Part(
            f"updates-{network}-{rates[network]:g}-{seed}",
            scale,
            partial(one_seed, scale, network, rates[network], seed),
        )
        for network in NETWORKS
        for seed in seeds
    ]
    return {"tuning": tuning, **run_parts(parts, out, "updates: seeds")}


def evidence(tables: Tables) -> Tables:
    """Return all tables, numbers to four digits."""
    shown = {}
    for name, table in tables.items():
        columns = table.select_dtypes("float").columns.difference(["lr"])
        shown[name] = table.assign(**table[columns].map(lambda value: float(f"{value:.4g}")))
    return shown
