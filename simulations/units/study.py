"""Ask whether hidden units behave alike at all clients, and where their entropies lie (FedFac paper, Figures 1 and 2).

Every client trains a network alone on real handwritten digits, dealt to the clients at random or one label each. Each
unit's outputs at all clients have a Kozachenko-Leonenko entropy. The paper leaves open from which weights clients
start, on which images outputs are taken, and whether outputs are averaged over images first: every reading is an arm.
The authors' public script decides all of this, and is an arm of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch

import fedstat as fs
from fedstat import data
from fedstat._random import stream
from fedstat._tables import Tables
from simulations.contract import About, Shown
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.units.entropy import entropy_nearest_neighbour

_HOW = "the authors' script, and each reading of the text as an arm; the neighbour is not stated and ours"
ABOUT = About(
    "Hidden units over clients",
    "FedSplit/FedFac",
    "",
    order=45,
    shows=(
        Shown(
            "Figure 1",
            "outputs of every hidden unit at every client, iid and one label each",
            "measured",
            _HOW,
            "units vary more over clients with one label each than over iid clients, as printed",
        ),
        Shown(
            "Figure 2",
            "histograms of the entropy of a unit's outputs over clients",
            "measured",
            _HOW,
            "the second peak is in none of 12 readings of the text; by the script no entropy is finite with one label",
        ),
    ),
    times={
        "smoke": "half a minute",
        "quick": "under a minute on two cores, on MNIST where it is present and else on scikit-learn's digits",
        "paper": "seven minutes on one core, and needs MNIST",
    },
)
LAYER, HEAD = "hidden", "head"
PARTITIONS = {"iid": "iid clients", "one label": "one-label clients"}
#: The readings: where clients start, on which images outputs are taken, and of what the entropy is.
STARTS = {"common": "all clients from one start", "own": "each client from its own weights"}
#: The authors' script: one start, Adam, softmax before the cross-entropy, and a unit's mean output over the client's
#: own images while the last epoch trains.
SCRIPT = "script"
SCRIPT_RATE, SCRIPT_BATCH = 1e-3, 16
IMAGES = {"probe": "a probe set that no client holds", "own": "the client's own images"}
VALUES = {
    "mean": "mean output over the images",
    "mean, far": "mean output over the images, a farther neighbour",
    "single": "outputs for single images, before the ReLU",
    "single, rectified": "outputs for single images, after the ReLU",
}
#: The paper's words as numbers (nats): 'near or below zero', and 'near two'.
NEAR_ZERO, NEAR_TWO = 0.5, (1.5, 2.5)
#: A local maximum of the density counts as a mode if it is at least this share of the highest one.
VISIBLE = 0.1
_READING = ["start", "images", "value", "epochs"]
_FEW = 10  # fewer finite entropies have no density


@dataclass(frozen=True)
class Scale:
    """Size of the study; `shift` is added to all seeds.

    `epochs` are the numbers of passes after which outputs are taken, ascending, `singles` the images of a client whose
    outputs are taken one by one, and `far` the neighbour of the arm "mean, far".
    """

    clients: int
    units: int
    epochs: tuple[int, ...]
    probe: int
    seeds: int
    lr: float
    batch_size: int
    dataset: Literal["digits", "MNIST"]
    singles: int = 20
    neighbour: int = 3
    far: int = 20
    shift: int = 0
    device: str = "cpu"


_MNIST = "mnist" in data.datasets.present()
SCALES = {
    "smoke": Scale(
        clients=20, units=50, epochs=(1, 5), probe=100, seeds=2, lr=0.1, batch_size=10, dataset="digits", far=8,
        shift=SECOND_LOOK,
    ),
    "quick": Scale(
        clients=100, units=200, epochs=(1, 3), probe=1000, seeds=3, lr=0.3, batch_size=50, dataset="MNIST",
        shift=SECOND_LOOK,
    ) if _MNIST else Scale(
        clients=100, units=200, epochs=(1, 20), probe=297, seeds=3, lr=0.1, batch_size=10, dataset="digits",
        shift=SECOND_LOOK,
    ),
    "paper": Scale(
        clients=100, units=200, epochs=(1, 5), probe=1000, seeds=5, lr=0.3, batch_size=50, dataset="MNIST"
    ),
}  # fmt: skip


# --- training ----------------------------------------------------------------------------------------------------


def images(scale: Scale, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images (N, pixels) in [0, 1] and labels for the clients, and probe images that no client holds."""
    rng = np.random.default_rng(seed)
    if scale.dataset == "MNIST":
        mnist = data.datasets.read("mnist")
        x = (mnist.x / np.float32(255)).astype(np.float32).reshape(len(mnist.x), -1)
        return x[~mnist.test], mnist.y[~mnist.test], rng.permutation(x[mnist.test])[: scale.probe]
    x, y = data.digits()
    x = x.reshape(len(x), -1)
    order = rng.permutation(len(x))
    held, used = order[: scale.probe], order[scale.probe :]
    return x[used], y[used], x[held]


def deal(scale: Scale, partition: str, y: np.ndarray, seed: int) -> Sequence[np.ndarray]:
    """Return each client's samples."""
    if partition == "iid":
        return data.iid(len(y), scale.clients, seed=seed)
    return data.one_label_shards(y, scale.clients, seed=seed)


def trained(
    scale: Scale, start: str, x: np.ndarray, y: np.ndarray, parts: Sequence[np.ndarray], seed: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield the epochs done and all clients' hidden weights (K, units, pixels) and biases (K, units)."""
    clients = data.from_indices(x, y, parts, test=0.0)
    nobody = {LAYER: np.zeros(scale.units, dtype=bool), HEAD: np.zeros(10, dtype=bool)}
    method = fs.FedSplit(shared_units=nobody, independent=start == "own")  # shares nothing: clients train alone
    model = fs.models.mlp(x.shape[1], scale.units, 10)
    training = fs.Training(lr=scale.lr, batch_size=scale.batch_size, local_epochs=1)
    result = None
    for epochs in scale.epochs:  # a round is an epoch
        result = fs.federate(
            {"alone": method}, model, clients, training, rounds=epochs, seed=seed, evaluate_at=(), progress=False,
            resume=result, device=scale.device,
        )  # fmt: skip
        weights = result.states["alone", seed].clients
        yield epochs, weights[f"{LAYER}.weight"].cpu().numpy(), weights[f"{LAYER}.bias"].cpu().numpy()


def scripted(
    scale: Scale, x: np.ndarray, y: np.ndarray, parts: Sequence[np.ndarray], seed: int
) -> dict[int, np.ndarray]:
    """Train clients as the authors' script does; return by epoch each unit's mean output at each client, (units, K).

    Outputs are those of the batches as they are trained on. The loss is the sum of a batch's cross-entropies, taken of
    the softmax's outputs as if these were logits.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        start = fs.models.mlp(x.shape[1], scale.units, 10)()
    found = {epoch: np.empty((scale.units, len(parts))) for epoch in scale.epochs}
    for k, part in enumerate(parts):
        network, rng = copy.deepcopy(start), stream(seed, "script", k)
        adam = torch.optim.Adam(network.parameters(), lr=SCRIPT_RATE)
        images, labels = torch.from_numpy(x[part]), torch.from_numpy(y[part])
        for epoch in range(1, scale.epochs[-1] + 1):
            outputs = torch.zeros(scale.units)
            for batch in torch.from_numpy(rng.permutation(len(part))).split(SCRIPT_BATCH):
                hidden = torch.relu(network.get_submodule(LAYER)(images[batch]))
                shares = torch.softmax(network.get_submodule(HEAD)(hidden), dim=1)
                adam.zero_grad()
                torch.nn.functional.cross_entropy(shares, labels[batch], reduction="sum").backward()
                adam.step()
                outputs += hidden.detach().sum(dim=0)
            if epoch in found:
                found[epoch][:, k] = (outputs / len(part)).numpy()
    return found


# --- outputs and their entropy -----------------------------------------------------------------------------------


def unit_outputs(
    weights: np.ndarray, biases: np.ndarray, seen: Sequence[np.ndarray], singles: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what units put out at each client.

    Parameters
    ----------
    weights, biases : ndarray, shapes (K, units, pixels) and (K, units)
        Of all clients.
    seen : sequence of ndarray, each (images, pixels)
        The images that each client's network is shown.
    singles : int
        Of so many images the outputs are returned one by one.

    Returns
    -------
    means : ndarray, shape (units, K)
        The mean over images, after the ReLU.
    single : ndarray, shape (units, K * singles)
        Outputs before the ReLU.
    """
    means, single = [], []
    for w, b, x in zip(weights, biases, seen, strict=True):
        before = x @ w.T + b
        means.append(np.maximum(before, 0).mean(axis=0))
        single.append(before[:singles].T)
    return np.stack(means, axis=1), np.concatenate(single, axis=1)


def entropies(scale: Scale, means: np.ndarray, single: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for every value the outputs (units, n) and their entropies (units,), minus infinity at an atom."""
    rectified = np.maximum(single, 0)
    return {
        "mean": (means, entropy_nearest_neighbour(means, k=scale.neighbour)),
        "mean, far": (means, entropy_nearest_neighbour(means, k=scale.far)),
        "single": (single, entropy_nearest_neighbour(single, k=scale.neighbour)),
        "single, rectified": (rectified, entropy_nearest_neighbour(rectified, k=scale.neighbour)),
    }


def one_seed(scale: Scale, seed: int) -> Tables:
    """Train under one seed, with the same images and, from one start, the same weights in both partitions."""
    x, y, probe = images(scale, seed)
    units, heat = [], []
    for partition, start in product(PARTITIONS, STARTS):
        parts = deal(scale, partition, y, seed)
        for epochs, w, b in trained(scale, start, x, y, parts, seed):
            for shown in IMAGES:
                seen = [probe] * len(parts) if shown == "probe" else [x[part] for part in parts]
                means, single = unit_outputs(w, b, seen, scale.singles)
                where = {"partition": partition, "seed": seed, "start": start, "images": shown, "epochs": epochs}
                for value, (outputs, entropy) in entropies(scale, means, single).items():
                    if value == "mean" or epochs == scale.epochs[-1]:
                        units.append(unit_table(outputs, entropy).assign(value=value, **where))
                if (start, shown) == ("common", "probe") and epochs == scale.epochs[-1]:
                    heat.append(_outputs(means, where))
    for partition in PARTITIONS:
        for epochs, means in scripted(scale, x, y, deal(scale, partition, y, seed), seed).items():
            where = {"partition": partition, "seed": seed, "start": SCRIPT, "images": "own", "epochs": epochs}
            for value, k in (("mean", scale.neighbour), ("mean, far", scale.far)):
                if value == "mean" or epochs == scale.epochs[-1]:
                    table = unit_table(means, entropy_nearest_neighbour(means, k=k))
                    units.append(table.assign(value=value, **where))
            if epochs == scale.epochs[-1]:
                heat.append(_outputs(means, where))
    return {"units": pd.concat(units, ignore_index=True), "outputs": pd.concat(heat, ignore_index=True)}


def _outputs(means: np.ndarray, where: Mapping[str, Any]) -> pd.DataFrame:
    """Return a row for each unit, a column for each client, of mean outputs (units, K)."""
    table = pd.DataFrame(means, columns=[f"client {k}" for k in range(means.shape[1])])
    return table.assign(unit=np.arange(len(means)), **where)


def unit_table(outputs: np.ndarray, entropy: np.ndarray) -> pd.DataFrame:
    """Return each unit's entropy, NaN at an atom, and its standard deviation and share of zeros over all outputs."""
    return pd.DataFrame(
        {
            "unit": np.arange(len(outputs)),
            "entropy": np.where(np.isfinite(entropy), entropy, np.nan),
            "sd": outputs.std(axis=1, ddof=1),
            "dead": (outputs == 0).mean(axis=1),
        }
    )


def run(scale: Scale, out: Path) -> Tables:
    """Run all seeds; the heat maps keep the first one, the summary all of them."""
    seeds = range(scale.shift, scale.shift + scale.seeds)
    tables = run_parts([Part(f"units-{s}", scale, partial(one_seed, scale, s)) for s in seeds], out, "units: seeds")
    first = tables["outputs"][tables["outputs"]["seed"] == seeds[0]].drop(columns=["seed", "start", "epochs"])
    return {"outputs": first, "summary": summary(tables["units"]), "histogram": histogram(tables["units"])}


def evidence(tables: Tables) -> Tables:
    """Return what the chapter shows: the heat maps as whole numbers, 100 for the 99.5% quantile of their images.

    Larger outputs are 100, too: the scale of grey ends there.
    """
    outputs = tables["outputs"]
    clients = [column for column in outputs if column.startswith("client")]
    if "top" in outputs:  # as committed
        return tables
    grey = outputs.copy()
    for _, rows in outputs.groupby("images"):
        top = np.quantile(rows[clients].to_numpy(), 0.995)
        grey.loc[rows.index, clients] = np.rint(100 * np.clip(rows[clients] / top, 0, 1))
        grey.loc[rows.index, "top"] = float(f"{top:.3g}")
    rest = {name: tables[name].round(5) for name in ("summary", "histogram")}
    whole = [client for client in clients if grey[client].notna().all()]
    return {"outputs": grey.astype(dict.fromkeys(whole, int)), **rest}


# --- summaries ---------------------------------------------------------------------------------------------------


def histogram(units: pd.DataFrame) -> pd.DataFrame:
    """Count the units of all seeds by entropy, in bins that all readings share, for the last epochs.

    What lies outside the bins is counted in the outermost ones.
    """
    edges = np.linspace(-5, 3, 65)
    last = units[units["epochs"] == units["epochs"].max()].dropna(subset=["entropy"])
    rows = []
    for (partition, start, shown, value), found in last.groupby(["partition", "start", "images", "value"]):
        if value in ("mean", "single"):
            counts = np.histogram(found["entropy"].clip(edges[0], edges[-1]), edges)[0]
            bins = pd.DataFrame({"left": edges[:-1], "right": edges[1:], "units": counts})
            rows.append(bins.assign(partition=partition, start=start, images=shown, value=value))
    return pd.concat(rows, ignore_index=True)


def summary(units: pd.DataFrame) -> pd.DataFrame:
    """Return for every reading, partition and seed where entropies lie, and whether they have one mode.

    Quantiles are taken over units that have a finite entropy under both partitions of the seed: leaving out each
    partition's own dead units would compare different survivors. Shares are of all units, and a unit without a finite
    entropy lies below zero. Modes and the dip test are those of a partition's finite entropies.
    """
    both = units.groupby([*_READING, "seed", "unit"])["entropy"].transform("count") == len(PARTITIONS)
    rows = []
    for key, found in units.assign(both=both).groupby([*_READING, "partition", "seed"]):
        entropy, common = found["entropy"], found.loc[found["both"], "entropy"]
        rows.append(
            {
                **dict(zip([*_READING, "partition", "seed"], key, strict=True)),
                **{f"q{q}": common.quantile(q / 100) for q in (5, 25, 50, 75, 95)},
                "near_zero": float(1 - (entropy > NEAR_ZERO).mean()),
                "near_two": float(entropy.between(*NEAR_TWO).mean()),
                "with_atom": float(entropy.isna().mean()),
                "mean_sd": found["sd"].mean(),
                "median_sd": found["sd"].median(),
                "high_sd": found["sd"].quantile(0.9),
                "max_sd": found["sd"].max(),
                "dead_everywhere": float((found["dead"] == 1).mean()),
                **unimodality(entropy.dropna().to_numpy()),
            }
        )
    return pd.DataFrame(rows)


def unimodality(values: np.ndarray) -> dict[str, float]:
    """Return the modes of a kernel density, and the dip test of unimodality, NaN for fewer than ten values.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Entropies of one network's units.

    Returns
    -------
    dict
        ``modes``, their number, ``lowest``, ``highest`` and ``main``, the places of the lowest, the uppermost and the
        highest peak, ``dip``, the distance to the nearest unimodal law, and ``dip_p``, the p-value (Hartigan and
        Hartigan, Annals of Statistics 13, 1985).
    """
    from diptest import diptest

    names = ("modes", "lowest", "highest", "main", "dip", "dip_p")
    if len(values) < _FEW:
        return dict.fromkeys(names, np.nan)
    places, heights = modes(values)
    statistic, p = diptest(values)
    found = (len(places), places.min(), places.max(), places[heights.argmax()], statistic, p)
    return {name: float(value) for name, value in zip(names, found, strict=True)}


def modes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places and heights of the visible modes of a Gaussian kernel density.

    The bandwidth is Silverman's rule of thumb, 0.9 min(sd, interquartile range / 1.34) n^(-1/5).
    """
    quartiles = np.quantile(values, [0.25, 0.75])
    width = 0.9 * min(values.std(ddof=1), float(np.diff(quartiles)[0]) / 1.34) * len(values) ** -0.2
    width = max(width, 1e-9)
    # the peaks of a Gaussian mixture of one width lie between the smallest and the largest centre
    grid = np.linspace(values.min() - width, values.max() + width, 2000)
    density = np.exp(-(((grid[:, None] - values) / width) ** 2) / 2).mean(axis=1)
    peak = (density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])
    seen = peak & (density[1:-1] >= VISIBLE * density.max())
    return grid[1:-1][seen], density[1:-1][seen]
