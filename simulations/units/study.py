"""Ask whether hidden units behave alike at all clients (FedFac paper, Figures 1 and 2).

Every client trains a network, from one common start, on real handwritten digits that are dealt to the clients either
at random or one label each. Each unit's mean output on a common probe set makes one number per client; its
spread over clients is measured by the Kozachenko-Leonenko entropy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

import fedstat as fs
from fedstat import data
from fedstat._tables import Tables
from fedstat.inference import entropy_nearest_neighbour
from simulations.contract import About, Shown
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "Hidden units over clients",
    "FedSplit/FedFac",
    "",
    order=45,
    shows=(
        Shown("Figure 1", "outputs of every hidden unit at every client, iid and one label each", "in part"),
        Shown("Figure 2", "histograms of the entropy of a unit's outputs over clients", "in part"),
    ),
)
LAYER = "hidden"
PARTITIONS = {"iid": "iid clients", "one label": "one-label clients"}


@dataclass(frozen=True)
class Scale:
    """Size of the study; `dataset` is decided when it runs, and `shift` is added to all seeds."""

    clients: int
    units: int
    epochs: int
    probe: int
    seeds: int
    lr: float = 0.1
    batch_size: int = 10
    neighbour: int = 3
    dataset: Literal["digits", "MNIST"] = "digits"
    shift: int = 0


_FOUND: Literal["digits", "MNIST"] = "MNIST" if "mnist" in data.datasets.present() else "digits"
SCALES = {
    "smoke": Scale(clients=20, units=50, epochs=5, probe=100, seeds=2, shift=SECOND_LOOK),
    # MNIST has forty times as many images: two passes over them are as many steps as eighty over the digits
    "quick": Scale(
        clients=100, units=200, epochs=2 if _FOUND == "MNIST" else 20, probe=297, seeds=5, dataset=_FOUND,
        shift=SECOND_LOOK,
    ),
    "paper": Scale(
        clients=100, units=200, epochs=20, probe=1000 if _FOUND == "MNIST" else 297, seeds=10, dataset=_FOUND
    ),
}  # fmt: skip


def images(scale: Scale, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images and labels for the clients, and probe images that no client holds."""
    if scale.dataset == "MNIST":
        mnist = data.datasets.read("mnist")
        x = (mnist.x / 255).astype(np.float32)
        probe = np.random.default_rng(seed).permutation(x[mnist.test])[: scale.probe]
        return x[~mnist.test], mnist.y[~mnist.test], probe
    x, y = data.digits()
    order = np.random.default_rng(seed).permutation(len(x))
    held, used = order[: scale.probe], order[scale.probe :]
    return x[used], y[used], x[held]


def unit_outputs(scale: Scale, partition: str, seed: int) -> np.ndarray:
    """Return each unit's mean output at each client on the probe set, (units, clients)."""
    x, y, probe = images(scale, seed)
    if partition == "iid":
        parts = data.iid(len(x), scale.clients, seed=seed)
    else:
        parts = data.one_label_shards(y, scale.clients, seed=seed)
    clients = data.from_indices(x, y, parts, test=0.0)
    model = fs.models.mlp(x[0].size, scale.units, 10)
    training = fs.Training(lr=scale.lr, batch_size=scale.batch_size, local_epochs=scale.epochs)
    result = fs.federate(fs.Local(), model, clients, training, rounds=1, seed=seed, evaluate_at=(), progress=False)
    weights = result.states["Local", seed].clients
    assert weights is not None
    w, b = weights[f"{LAYER}.weight"].numpy(), weights[f"{LAYER}.bias"].numpy()
    flat = probe.reshape(len(probe), -1)
    return np.stack([np.maximum(flat @ wk.T + bk, 0).mean(axis=0) for wk, bk in zip(w, b, strict=True)], axis=1)


def one_seed(scale: Scale, seed: int) -> Tables:
    """Run both partitions under one seed, with the same start and the same images."""
    rows = []
    for partition in PARTITIONS:
        outputs = unit_outputs(scale, partition, seed)
        table = pd.DataFrame(outputs, columns=[f"client {k}" for k in range(scale.clients)])
        entropy = entropy_nearest_neighbour(outputs, k=scale.neighbour)
        table.insert(0, "sd", outputs.std(axis=1, ddof=1))
        table.insert(0, "entropy", np.where(np.isfinite(entropy), entropy, np.nan))
        table.insert(0, "dead_share", (outputs == 0).mean(axis=1))
        table.insert(0, "unit", np.arange(scale.units))
        table.insert(0, "seed", seed)
        table.insert(0, "partition", partition)
        rows.append(table)
    return {"outputs": pd.concat(rows, ignore_index=True)}


def run(scale: Scale, out: Path) -> Tables:
    """Run all seeds; the heat map keeps the first one, the summary all of them."""
    seeds = range(scale.shift, scale.shift + scale.seeds)
    parts = [Part(f"units-{seed}", scale, partial(one_seed, scale, seed)) for seed in seeds]
    outputs = run_parts(parts, out, "units: seeds")["outputs"]
    units = outputs[["partition", "seed", "unit", "dead_share", "entropy", "sd"]].copy()
    first = outputs[outputs["seed"] == seeds[0]].drop(columns=["seed", "dead_share", "entropy", "sd"])
    return {"units": units, "outputs": first, "summary": summary(units), "histogram": histogram(units)}


def evidence(tables: Tables) -> Tables:
    """Return what the chapter shows: the first seed's outputs to three digits, without each unit of every seed."""
    outputs = tables["outputs"]
    clients = [column for column in outputs if column.startswith("client")]
    rounded = outputs.assign(**outputs[clients].map(lambda value: float(f"{value:.3g}")))
    return {"outputs": rounded, "summary": tables["summary"], "histogram": tables["histogram"]}


def histogram(units: pd.DataFrame) -> pd.DataFrame:
    """Count the units of all seeds by entropy, in bins that both partitions share; the outermost 0.1% are left out."""
    known = units.dropna(subset=["entropy"])
    low, high = np.quantile(known["entropy"], [0.001, 0.999])
    edges = np.linspace(low, high, 40)
    return pd.concat(
        pd.DataFrame(
            {
                "partition": partition,
                "left": edges[:-1],
                "right": edges[1:],
                "units": np.histogram(known.loc[known["partition"] == partition, "entropy"], edges)[0],
            }
        )
        for partition in PARTITIONS
    )


def summary(units: pd.DataFrame) -> pd.DataFrame:
    """Return medians over units and shares of dead units, per partition and seed.

    Entropies are compared on the units that have a finite one under both partitions of the seed: leaving out
    each partition's own dead units would compare different survivors.
    """
    both = units.groupby(["seed", "unit"])["entropy"].transform("count") == len(PARTITIONS)
    grouped = units.groupby(["partition", "seed"])
    return pd.DataFrame(
        {
            "median_entropy": units[both].groupby(["partition", "seed"])["entropy"].median(),
            "lower_quartile": units[both].groupby(["partition", "seed"])["entropy"].quantile(0.25),
            "upper_quartile": units[both].groupby(["partition", "seed"])["entropy"].quantile(0.75),
            "mean_sd": grouped["sd"].mean(),
            "high_sd": grouped["sd"].quantile(0.9),
            "median_sd": grouped["sd"].median(),
            "dead_everywhere": grouped["dead_share"].agg(lambda s: float((s == 1).mean())),
            "with_atom": grouped["entropy"].agg(lambda s: float(s.isna().mean())),
        }
    ).reset_index()
