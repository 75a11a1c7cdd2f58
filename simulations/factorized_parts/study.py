"""Ask what the parts of Factorized-FL contribute (its Figure 7), and under what conditions it works as it says.

Three settings. Twenty clients of five domains with permuted labels (Figure 7a to i, k): what u and v of layer L-1 have
in common between clients, who is matched with whom, and ablations. One client with a regular and with factorised
models (Figure 7j). Twenty clients of scikit-learn's digits in four cells: the authors' code and the text, and each part
of the reading switched alone. All arms of a setting train for the same rounds and epochs. Learning rates are tuned by
one rule for the arms that others take their rate from; ablations run at the rate of the method that they ask about.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import fedstat as fs
from fedstat._tables import Tables
from fedstat.federated.slots import without_slots
from simulations.contract import About, Shown
from simulations.factorized_parts.arms import (
    CELLS,
    CLIENTS,
    OF_A_DOMAIN,
    Arm,
    cell_arms,
    digit_clients,
    domain_arms,
    domain_clients,
    grouped,
    network,
    reading_arms,
    single_arms,
    single_client,
)
from simulations.images import images
from simulations.parts import SECOND_LOOK, Part, complete, run_parts
from simulations.rates import chosen, tried, tune_arms, validating

_DATA = "five groups of four of Tiny-ImageNet's classes, 80 images a client, and a network of two convolutions"
ABOUT = About(
    "What the parts of Factorized-FL contribute",
    "Factorized-FL",
    "",
    order=73,
    shows=(
        Shown("Figure 7a", "panels a to e: similarity of u and of v of all clients, by round", "in part", _DATA),
        Shown("Figure 7f", "how often clients are matched", "in part", _DATA),
        Shown("Figure 7g", "component analysis", "in part", _DATA),
        Shown("Figure 7h", "accuracy by rank", "in part", _DATA),
        Shown("Figure 7i", "accuracy by least similarity of neighbours", "in part", f"{_DATA}; other thresholds"),
        Shown(
            "Figure 7j", "accuracy and size of one client's factorised and regular model", "in part",
            "500 of CIFAR-10's images, and a network of two convolutions",
        ),
        Shown("Figure 7k", "accuracy by factors of a kernel, and by network", "in part", f"{_DATA}; other networks"),
    ),
    data=("tiny-imagenet", "cifar10"),
    times={
        "smoke": "half a minute",
        "quick": "a minute on two cores",
        "desk": "twenty minutes of processor time",
        "paper": "a day on one GPU, an estimate (78 runs of 22 PFLOP at 20 TFLOP/s)",
    },
)  # fmt: skip
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: Smaller seeds served to design the study.
FIRST_SEED = 100
#: Learning rates are tuned on seeds of their own.
FIRST_TUNING_SEED = 10_000
DOMAIN_SETTING, SINGLE_SETTING = "domains", "one client"


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    The first cell of digits runs with `reading_seeds`, the others with `seeds`.
    `samples` are training samples of a client, all of them if None; the `last` evaluated rounds are averaged; where
    `rates` has one value nothing is tuned; `arms` names the arms that run on domains, all if None; `cells` those of
    digits and `mixed` which of their arms run in the first; `shift` is added to all seeds.
    """

    dataset: str
    network: str
    samples: int | None
    batch_size: int
    local_epochs: int
    rounds: int
    last: int
    seeds: int
    rates: tuple[float, ...]
    tuning_seeds: int
    single_dataset: str
    single_samples: int
    single_epochs: int
    reading_rounds: int
    reading_seeds: int
    reading_rates: tuple[float, ...] = (0.01, 0.03, 0.1)
    weight_decay: float = 0.0
    arms: tuple[str, ...] | None = None
    cells: tuple[str, ...] = tuple(CELLS)
    mixed: tuple[str, ...] | None = None
    shift: int = 0
    device: str = "cpu"

    def every_seed(self, count: int) -> range:
        """Return the master seeds of the comparisons."""
        return range(FIRST_SEED + self.shift, FIRST_SEED + self.shift + count)

    @property
    def every_tuning_seed(self) -> range:
        """The master seeds on which learning rates are tuned."""
        return range(FIRST_TUNING_SEED + self.shift, FIRST_TUNING_SEED + self.shift + self.tuning_seeds)


#: What runs below desk scale: the methods, and one part of the reading.
_FEW = ("Local", "FedAvg", "alpha", "beta")
_MIXED = ("Local", "FedAvg", "FedPer", "alpha", "beta", "alpha: fill", "beta: fill")
SCALES = {
    "smoke": Scale(
        "digits", "small", 20, 10, 1, rounds=2, last=1, seeds=2, rates=(0.03,), tuning_seeds=1,
        single_dataset="digits", single_samples=40, single_epochs=2, reading_rounds=1, reading_seeds=2,
        reading_rates=(0.03,), arms=_FEW, cells=("non-iid",), mixed=_MIXED, shift=SECOND_LOOK,
    ),
    "quick": Scale(
        "tiny-imagenet", "small", 80, 20, 2, rounds=6, last=2, seeds=3, rates=(0.03,), tuning_seeds=1,
        single_dataset="cifar10", single_samples=200, single_epochs=10, reading_rounds=6, reading_seeds=3,
        reading_rates=(0.03,), arms=_FEW, cells=("non-iid",), mixed=_MIXED, shift=SECOND_LOOK,
    ),
    "desk": Scale(
        "tiny-imagenet", "small", 80, 20, 2, rounds=10, last=5, seeds=4, rates=(0.01, 0.03, 0.1), tuning_seeds=3,
        single_dataset="cifar10", single_samples=500, single_epochs=20, reading_rounds=8, reading_seeds=5,
    ),
    "paper": Scale(
        "cifar100", "resnet9", None, 256, 5, rounds=100, last=10, seeds=3, rates=(1e-3,), tuning_seeds=1,
        single_dataset="cifar10", single_samples=2400, single_epochs=20, reading_rounds=50, reading_seeds=6,
        weight_decay=1e-6,
    ),
}  # fmt: skip


# --- one arm in one setting ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """One arm of a setting, with all that a run of it needs."""

    arm: Arm
    clients: Callable[..., fs.data.Clients]
    model: Callable[[], torch.nn.Module]
    batch_size: int
    local_epochs: int
    rounds: int
    last: int


def work(scale: Scale, setting: str, label: str) -> Work:
    """Return one arm of domains, of one client, or of a cell of digits."""
    if setting == DOMAIN_SETTING:
        arm = domain_arms()[label]
        clients = partial(domain_clients, scale.dataset, scale.samples)
        x, y, _, _ = grouped(scale.dataset)
        model = network(scale.network, x, int(y.max()) + 1, arm.network)
        return Work(arm, clients, model, scale.batch_size, scale.local_epochs, scale.rounds, scale.last)
    if setting == SINGLE_SETTING:
        x, y, _ = images(scale.single_dataset)
        model = network(scale.network, x, int(y.max()) + 1)
        clients = partial(single_client, scale.single_dataset, scale.single_samples)
        return Work(single_arms()[label], clients, model, min(scale.batch_size, 20), scale.single_epochs, 1, 1)
    arm, last = reading_arms()[label], min(5, scale.reading_rounds)
    cnn = fs.models.cnn(8, 10, norm=True)
    return Work(arm, partial(digit_clients, setting), cnn, 10, 2, scale.reading_rounds, last)


def training(scale: Scale, w: Work, lr: float) -> fs.Training:
    """Return what a client does in a round."""
    return fs.Training(
        lr=lr, momentum=0.9, weight_decay=scale.weight_decay, batch_size=w.batch_size, local_epochs=w.local_epochs
    )


def federate(scale: Scale, setting: str, label: str, lr: float, seeds: Iterable[int]) -> fs.Result:
    """Run one arm at one learning rate, evaluated in the last rounds only."""
    w = work(scale, setting, label)
    with warnings.catch_warnings():  # skewed labels are the point of some partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        result = fs.federate(
            {label: w.arm.method}, w.model, w.clients, training(scale, w, lr), rounds=w.rounds, seed=seeds,
            evaluate_at=range(w.rounds - w.last + 1, w.rounds + 1), device=scale.device, progress=False,
        )  # fmt: skip
    return complete(result)


def tune(scale: Scale, setting: str, label: str, grid: tuple[float, ...]) -> Tables:
    """Choose one arm's rate on validation samples; return the table ``tuning``."""
    w = work(scale, setting, label)
    with warnings.catch_warnings():  # skewed labels are the point of some partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        tuning = fs.tune(
            w.arm.method, {"lr": grid}, w.model, lambda seed: validating(w.clients(seed, validation=True)),
            training(scale, w, grid[0]), rounds=w.rounds, last=w.last, seed=scale.every_tuning_seed,
            device=scale.device, progress=False,
        )  # fmt: skip
    return tried(tuning, label)


def measure(scale: Scale, setting: str, label: str, lr: float, count: int) -> Tables:
    """Return one arm's metrics by seed, means over clients and evaluated rounds, with its bytes and what it records.

    Where training diverges under a seed the arm runs at a third of its rate under all; `lr` in the table is what it ran
    at.
    """
    try:
        result = federate(scale, setting, label, lr, scale.every_seed(count))
    except FloatingPointError:
        if lr < min(scale.rates) / 10:
            raise
        return measure(scale, setting, label, float(f"{lr / 3:.1g}"), count)
    history = result.history[result.history["metric"].isin(METRICS)]
    values = history.groupby(["seed", "metric"], observed=True)["value"].mean().reset_index()
    sent = result.traffic.groupby("seed")[["bytes_up", "bytes_down"]].mean()
    long = sent.reset_index().melt("seed", var_name="metric", value_name="value")
    runs = pd.concat([values, long], ignore_index=True).assign(setting=setting, arm=label, lr=lr)
    tables = {"runs": runs}
    if setting == SINGLE_SETTING:
        tables["sizes"] = sizes(result, label)
    if any("weights" in record for record in result.records.values()):
        tables |= {"similarity": similarity(result, label), "heat": heat(result, label)}
    return tables


def sizes(result: fs.Result, label: str) -> pd.DataFrame:
    """Return the numbers that are not zero in one client's model by seed, of all it has, and the share of mu at zero.

    Entries of mu below the sparsity count as zero, as where the model is evaluated. Running statistics are left out.
    """
    rows = []
    for (name, seed), state in result.states.items():
        method, found = result.methods[name], result.federations[name, seed].network
        leaves = method.models(state, torch.zeros(1, dtype=torch.int64))["personal"].params
        leaves = {n: leaf[0] for n, leaf in without_slots(leaves).items() if n not in found.statistics}
        mu = [leaf for n, leaf in leaves.items() if n.endswith(".mu")]
        entries = sum(leaf.numel() for leaf in mu)
        rows.append(
            {
                "arm": label,
                "seed": seed,
                "numbers": sum(leaf.numel() for leaf in leaves.values()),
                "not_zero": sum(int(leaf.count_nonzero()) for leaf in leaves.values()),
                "mu_zero": 1 - sum(int(m.count_nonzero()) for m in mu) / entries if entries else float("nan"),
            }
        )
    return pd.DataFrame(rows)


# --- what clients have in common -------------------------------------------------------------------------------


def same_domain() -> np.ndarray:
    """Return which two different clients belong to one domain, (K, K)."""
    domain = np.arange(CLIENTS) // OF_A_DOMAIN
    return (domain[:, None] == domain) & ~np.eye(CLIENTS, dtype=bool)


def nearest(v: np.ndarray) -> np.ndarray:
    """Return which three others are most similar to each client by cosines v (..., K, K)."""
    others = np.where(np.eye(CLIENTS, dtype=bool), -np.inf, v)
    return others.argsort(-1).argsort(-1) >= CLIENTS - OF_A_DOMAIN + 1


def similarity(result: fs.Result, label: str) -> pd.DataFrame:
    """Return by seed and round the mean cosines of u and v within and between domains, and what matching makes of them.

    ``matched`` is the share of a client's neighbours (weight above zero) that are of its domain, NaN without any;
    ``nearest`` that of its three most similar; ``neighbours`` their number; ``own`` the client's own weight in its
    mean and ``domain`` that of its domain's other clients.
    """
    within, between = same_domain(), ~same_domain() & ~np.eye(CLIENTS, dtype=bool)
    rows = []
    for (_, seed), record in result.records.items():
        for number in range(len(record["v"])):
            u, v, weights = (np.asarray(record[name][number], dtype=float) for name in ("u", "v", "weights"))
            near = (weights > 0) & ~np.eye(CLIENTS, dtype=bool)
            rows.append(
                {
                    "arm": label, "seed": seed, "round": number + 1,
                    "u_within": u[within].mean(), "u_between": u[between].mean(),
                    "v_within": v[within].mean(), "v_between": v[between].mean(),
                    "neighbours": near.sum(1).mean(),
                    "matched": near[within].sum() / near.sum() if near.any() else float("nan"),
                    "nearest": nearest(v)[within].sum() / nearest(v).sum(),
                    "own": np.diag(weights).mean(), "domain": weights[within].sum() / CLIENTS,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def heat(result: fs.Result, label: str) -> pd.DataFrame:
    """Return cosines of u and v of all pairs of clients under the first seed at five rounds, and who was nearest.

    ``frequency`` is the share of all rounds and seeds in which the second client is among the three most similar to
    the first; it is repeated for every round.
    """
    first = next(iter(result.records.values()))
    frequency = np.mean([nearest(np.asarray(r["v"], dtype=float)).mean(0) for r in result.records.values()], axis=0)
    rounds = np.unique(np.linspace(1, len(first["v"]), 5).round().astype(int))
    i, j = np.indices((CLIENTS, CLIENTS)).reshape(2, -1)
    tables = [
        pd.DataFrame(
            {
                "arm": label, "round": r, "client": i, "other": j,
                "u": np.asarray(first["u"][r - 1], dtype=np.float32).ravel(),
                "v": np.asarray(first["v"][r - 1], dtype=np.float32).ravel(),
                "frequency": frequency.ravel().astype(np.float32),
            }
        )
        for r in rounds
    ]  # fmt: skip
    return pd.concat(tables, ignore_index=True)


# --- all of it -------------------------------------------------------------------------------------------------


def run(scale: Scale, out: Path) -> Tables:
    """Tune the arms that others take their rate from, and run all arms of every setting."""
    first = scale.cells[0]
    asked = {
        first: tuple(label for label in cell_arms(first) if scale.mixed is None or label in scale.mixed),
        DOMAIN_SETTING: tuple(label for label in domain_arms() if scale.arms is None or label in scale.arms),
        SINGLE_SETTING: tuple(single_arms()),
    }
    grids = dict.fromkeys(asked, scale.rates) | {first: scale.reading_rates}
    tuned = {setting: rates(scale, setting, labels, grids[setting], out) for setting, labels in asked.items()}
    parts = parts_of(scale, first, asked[first], tuned[first][0], scale.reading_seeds)
    for cell in scale.cells[1:]:
        parts += parts_of(scale, cell, cell_arms(cell), tuned[first][0], scale.seeds)
    for setting in (DOMAIN_SETTING, SINGLE_SETTING):
        parts += parts_of(scale, setting, asked[setting], tuned[setting][0], scale.seeds)
    tables = run_parts(parts, out, "factorized_parts: arms")
    tuning = [table for _, table in tuned.values() if len(table)]
    return tables | ({"tuning": pd.concat(tuning, ignore_index=True)} if tuning else {})


def evidence(tables: Tables) -> Tables:
    """Return the tables, with means of the tuning over its seeds, and of cosines one arm's to four digits."""
    heat = tables["heat"]
    shown = heat[heat["arm"] == heat["arm"].iloc[0]].reset_index(drop=True).astype({"u": float, "v": float}).round(4)
    small = tables | {"heat": shown.astype({"frequency": float}).round(4)}
    if "tuning" not in tables or "seeds" in tables["tuning"]:
        return small
    keys = ["setting", "arm", "lr", "chosen", "end"]
    means = tables["tuning"].groupby(keys, sort=False)["accuracy"].agg(["mean", "size"]).reset_index()
    return small | {"tuning": means.rename(columns={"mean": "accuracy", "size": "seeds"})}


def arms_of(setting: str) -> dict[str, Arm]:
    """Return the arms of a setting."""
    return {DOMAIN_SETTING: domain_arms, SINGLE_SETTING: single_arms}.get(setting, reading_arms)()


def rates(
    scale: Scale, setting: str, labels: tuple[str, ...], grid: tuple[float, ...], out: Path
) -> tuple[dict[str, float], pd.DataFrame]:
    """Return each arm's learning rate, and the table of the tuning; nothing is tuned if the grid has one rate."""
    every = arms_of(setting)
    owners = [label for label in labels if every[label].rate == label]
    if len(grid) == 1:
        found = dict.fromkeys((arm.rate for arm in every.values()), grid[0])
        return {label: found[every[label].rate] for label in labels}, pd.DataFrame()
    asked = {arm: partial(tune, scale, setting, arm, grid) for arm in owners}
    table = tune_arms(f"factorized_parts, {setting}", asked, scale, out).assign(setting=setting)
    best = chosen(table)
    return {label: best[every[label].rate] for label in labels}, table


def parts_of(scale: Scale, setting: str, labels: tuple[str, ...], found: dict[str, float], count: int) -> list[Part]:
    """Return the parts that run some arms of one setting."""
    return [
        Part(
            f"factorized_parts-{_slug(setting)}-{_slug(label)}-{found[label]:g}",
            scale,
            partial(measure, scale, setting, label, found[label], count),
        )
        for label in labels
    ]


def _slug(label: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in label)
