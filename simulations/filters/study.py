"""Ask what the personal and the shared filters of a convolution see (FedFac paper, Figure 10).

Half of a layer's filters are shared, chosen by FedFac or at random. All methods start from the same weights, so that
filter j of FedFac has filter j of FedAvg as its counterpart. The paper shows the feature maps of one image; here the
roughness, sparsity and selectivity of the maps and their correlation with FedAvg's are measured on many images that no
client trained on, for all clients.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

import fedstat as fs
from fedstat import data
from fedstat._tables import Tables
from fedstat.factor.principal_axis import IdentificationWarning
from fedstat.models import Factory
from simulations.contract import About, Shown
from simulations.images import dealt, images, small_cnn
from simulations.parts import SECOND_LOOK, Part, complete, run_parts

ABOUT = About(
    "What personal and shared filters see",
    "FedSplit/FedFac",
    "",
    order=46,
    shows=(
        Shown(
            "Figure 10",
            "feature maps of one image by personal and shared filters, and by FedAvg's",
            "in part",
            "the first convolution of a small network on 9,085 images of CIFAR-10, and measures over many images "
            "beside the picture",
        ),
    ),
    data=("cifar10",),
    times={
        "smoke": "half a minute",
        "quick": "half a minute on two cores",
        "desk": "two minutes of one core",
        "paper": "35 hours on one GPU at 15 TFLOP/s, an estimate",
    },
)
#: The method whose filters are the counterparts of all others'.
CONTROL = "FedAvg"
ARMS = {
    CONTROL: "all filters shared",
    "static": "FedFac, Algorithm 1",
    "dynamic": "FedFac, Algorithm 2",
    "dynamic, code": "FedFac, as the authors’ code has it",
    "random": "as many filters shared, drawn at random once",
}
KINDS = ("personal", "shared")
METRICS = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
#: Of these arms the dynamic version of the text is left out where rounds are few: it costs as much as a seed.
_WITHOUT_TEXT = ("FedAvg", "static", "dynamic, code", "random")
#: Filters of each kind that the picture shows.
SHOWN = 8
_IMAGES_AT_ONCE = 100


@dataclass(frozen=True)
class Scale:
    """Size of the study; `layer` is the convolution that is split, `shift` is added to all seeds.

    `training` and `testing` are how many images of the data set's two official parts are used, 0 for all; `probe` is
    how many of the clients' test images the maps are measured on.
    """

    clients: int
    rounds: int
    participation: float
    seeds: int
    probe: int
    network: Literal["small", "resnet18"] = "small"
    layer: str = "conv1"
    dataset: Literal["digits", "cifar10"] = "cifar10"
    training: int = 8068
    testing: int = 1017
    alpha: float = 0.5
    arms: tuple[str, ...] = _WITHOUT_TEXT
    lr: float = 3e-3
    batch_size: int = 16
    local_epochs: int = 2
    weight_decay: float = 0.0
    last: int = 3
    shift: int = 0
    device: str = "cpu"


SCALES = {
    "smoke": Scale(
        clients=6, rounds=2, participation=0.5, seeds=2, probe=60, dataset="digits", training=0, local_epochs=1,
        shift=SECOND_LOOK,
    ),
    "quick": Scale(clients=30, rounds=3, participation=1 / 3, seeds=3, probe=200, shift=SECOND_LOOK),
    "desk": Scale(clients=30, rounds=12, participation=1 / 3, seeds=5, probe=200),
    # the fifth convolution, shortcuts left out; the rest as in configs/fedfac-cifar10-dirichlet.toml
    "paper": Scale(
        clients=100, rounds=500, participation=0.1, seeds=3, probe=1000, network="resnet18",
        layer="stage1.block2.conv2", training=0, testing=0, batch_size=32, local_epochs=20, weight_decay=3.125e-7,
        last=10, arms=tuple(ARMS), lr=1e-3,
    ),
}  # fmt: skip


# --- the arms ----------------------------------------------------------------------------------------------------


def random_statistic(stacked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a statistic that knows nothing of the filters."""
    return np.asarray(rng.random(stacked.shape[1]))


def arms(scale: Scale) -> dict[str, fs.Method]:
    """Return the arms; those that split cut at the median, as in the paper's figure."""
    fedfac = partial(fs.FedFac, layers=[scale.layer], tau=fs.Quantile(0.5))
    methods = {
        CONTROL: fs.FedAvg(),
        "static": fedfac(),
        "dynamic": fedfac(dynamic=True),
        "dynamic, code": fedfac(dynamic=True, reading="code"),
        "random": fedfac(statistic=random_statistic),
    }
    return {arm: methods[arm] for arm in scale.arms}


def network(scale: Scale, x: np.ndarray) -> Factory:
    """Return what builds the network."""
    if scale.network == "resnet18":
        return fs.models.resnet18(10, channels=x.shape[1])
    return small_cnn(x, widths=(2 * SHOWN, 16))


def pictures(scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Return images (N, channels, side, side), standardised by channel, and labels."""
    if scale.dataset == "digits":
        x, y = data.digits()
        return x.reshape(len(x), 1, 8, 8).astype(np.float32), y
    x, y, test = images(scale.dataset)
    parts = [np.flatnonzero(~test), np.flatnonzero(test)]
    wanted = (scale.training, scale.testing)
    kept = np.concatenate([part[: most or len(part)] for part, most in zip(parts, wanted, strict=True)])
    return x[kept], y[kept]


# --- feature maps ------------------------------------------------------------------------------------------------


def feature_maps(module: nn.Module, layer: str, x: np.ndarray, device: str) -> np.ndarray:
    """Return what a convolution puts out, before norm and ReLU, (images, filters, height, width)."""
    seen: list[torch.Tensor] = []
    hook = module.get_submodule(layer).register_forward_hook(lambda _, __, outputs: seen.append(outputs.cpu()))
    try:
        with torch.no_grad():
            for first in range(0, len(x), _IMAGES_AT_ONCE):
                module(torch.from_numpy(x[first : first + _IMAGES_AT_ONCE]).to(device))
    finally:
        hook.remove()
    return torch.cat(seen).numpy()


def standardised(maps: np.ndarray) -> np.ndarray:
    """Return maps with mean 0 and variance 1 over the pixels of each; NaN where a map is constant."""
    centred = maps - maps.mean(axis=(-2, -1), keepdims=True)
    sd = centred.std(axis=(-2, -1), keepdims=True)
    return centred / np.where(sd > 1e-6 * np.abs(maps).max(initial=1e-12), sd, np.nan)


def known_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean over the first axis of what is not NaN; NaN where nothing is known."""
    known = ~np.isnan(values)
    return np.where(known, values, 0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan)


def roughness(maps: np.ndarray) -> np.ndarray:
    """Return the total variation of each filter's standardised maps, mean over images, (filters,).

    It is the mean absolute difference of neighbouring pixels in units of the map's standard deviation, 2 / sqrt(pi) =
    1.13 for white noise.
    """
    z = standardised(maps)
    steps = [np.abs(np.diff(z, axis=axis)).mean(axis=(-2, -1)) for axis in (-2, -1)]
    return known_mean((steps[0] + steps[1]) / 2)


def sparsity(maps: np.ndarray) -> np.ndarray:
    """Return 1 - mean(r)^2 / mean(r^2) of each filter's rectified outputs r over images and pixels, (filters,).

    Treves and Rolls's measure (Network 2, 1991): 0 where all outputs are equal, near 1 where few are large.
    """
    r = np.maximum(maps, 0).astype(np.float64)
    square = (r**2).mean(axis=(0, 2, 3))
    return np.asarray(1 - r.mean(axis=(0, 2, 3)) ** 2 / np.where(square > 0, square, np.nan))


def selectivity(maps: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the share of variance over images of a filter's mean rectified output that classes explain, (filters,).

    It is adjusted for the number of classes: its mean is 0 for outputs that have nothing to do with classes.
    """
    r = np.maximum(maps, 0).mean(axis=(2, 3)).astype(np.float64)
    classes = np.unique(labels)
    within = sum(((r[labels == c] - r[labels == c].mean(axis=0)) ** 2).sum(axis=0) for c in classes)
    total = ((r - r.mean(axis=0)) ** 2).sum(axis=0)
    variance = np.where(total > 0, total, np.nan) / (len(r) - 1)
    return np.asarray(1 - within / (len(r) - len(classes)) / variance)


def similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the correlation over pixels of every map of `a` with every map of `b`, mean over images, (A, B)."""
    z = [standardised(maps).reshape(*maps.shape[:2], -1) for maps in (a, b)]
    return known_mean(z[0] @ z[1].transpose(0, 2, 1) / z[0].shape[2])


def strength(a: np.ndarray) -> np.ndarray:
    """Return the absolute correlations of the maps of one network, mean over images, (filters, filters)."""
    z = standardised(a).reshape(*a.shape[:2], -1)
    return known_mean(np.abs(z @ z.transpose(0, 2, 1) / z.shape[2]))


def measures(maps: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the measures of every filter."""
    return {"roughness": roughness(maps), "sparsity": sparsity(maps), "selectivity": selectivity(maps, labels)}


# --- the runs ----------------------------------------------------------------------------------------------------


def one_seed(scale: Scale, seed: int) -> Tables:
    """Train all arms under one seed, and measure the filters of all clients."""
    x, y = pictures(scale)
    clients = dealt(x, y, data.dirichlet(y, scale.clients, scale.alpha, min_size=10, seed=seed), seed=seed)
    training = fs.Training(
        lr=scale.lr, optimizer="adam", batch_size=scale.batch_size, local_epochs=scale.local_epochs,
        weight_decay=scale.weight_decay,
    )  # fmt: skip
    with warnings.catch_warnings():  # a layer of 16 filters identifies fewer factors than kappa = .85 asks for
        warnings.simplefilter("ignore", IdentificationWarning)
        result = fs.federate(
            arms(scale), network(scale, x), clients, training, rounds=scale.rounds, participation=scale.participation,
            seed=seed, evaluate_at=range(max(1, scale.rounds - scale.last + 1), scale.rounds + 1), progress=False,
            device=scale.device,
        )  # fmt: skip
    complete(result)
    shown, labels = probe(scale, clients, seed)
    tables = filters(scale, result, seed, shown, labels)
    return {**tables, "metrics": metrics(result).assign(seed=seed)}


def probe(scale: Scale, clients: fs.data.Clients, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels that are test samples of some client, so that no client has trained on them."""
    assert clients.test is not None
    x, y = np.asarray(clients.test.x), clients.test.y
    order = np.random.default_rng(seed).permutation(len(x))[: scale.probe]
    return x[order], y[order]


def metrics(result: fs.Result) -> pd.DataFrame:
    """Return each arm's metrics on its clients' test samples, means over clients and the last rounds."""
    rows = result.history[result.history["metric"].isin(METRICS) & (result.history["split"] == "test")]
    means = rows.groupby(["method", "metric"], observed=True)["value"].mean()
    return means.reset_index().rename(columns={"method": "arm"}).astype({"arm": str, "metric": str})


def filters(scale: Scale, result: fs.Result, seed: int, x: np.ndarray, labels: np.ndarray) -> Tables:
    """Measure the filters of all clients and arms on images, beside FedAvg's and the start's."""
    see = partial(feature_maps, layer=scale.layer, x=x, device=scale.device)
    common = see(result.personal(0, CONTROL, seed))
    start = see(_start(result, seed))
    known = measures(common, labels)
    before = {"roughness": roughness(start), "sparsity": sparsity(start), "selectivity": selectivity(start, labels)}
    drift = np.diag(similarity(common, start))
    rows, pairs, maps = [], [], []
    for arm in (name for name in scale.arms if name != CONTROL):
        shared = shared_filters(result, arm, seed, scale.layer)
        for k in range(scale.clients):
            seen = see(result.personal(k, arm, seed))
            found = measures(seen, labels) | {"correlation": np.diag(similarity(seen, common))}
            beside = {**known, "correlation": drift}
            for kind, of in zip(KINDS, (~shared, shared), strict=True):
                for name, values in found.items():
                    first = before[name][of].mean() if name in before else np.nan
                    row = {"kind": kind, "measure": name, "value": np.nanmean(values[of])}
                    rows.append({**row, "fedavg": np.nanmean(beside[name][of]), "start": first, "arm": arm})
            pairs.append({"arm": arm, **alike(seen, shared), **alike(common, shared, "fedavg ")})
            if k == 0:
                maps.append(pictured(seen[0], common[0], shared).assign(arm=arm))
    tables = {"filters": pd.DataFrame(rows).groupby(["arm", "kind", "measure"], sort=False).mean().reset_index(),
              "pairs": pd.DataFrame(pairs).groupby("arm", sort=False).mean().reset_index(),
              "maps": pd.concat(maps, ignore_index=True), "image": image_table(x[0])}  # fmt: skip
    return {name: table.assign(seed=seed) for name, table in tables.items()}


def _start(result: fs.Result, seed: int) -> nn.Module:
    """Return the network that all arms start from."""
    net = result.network((CONTROL, seed))
    module = result.personal(0, CONTROL, seed)
    module.load_state_dict(net.compose(net.initial()), strict=False)
    return module


def shared_filters(result: fs.Result, arm: str, seed: int, layer: str) -> np.ndarray:
    """Return which filters of the layer are shared at the end."""
    return np.asarray(result.records[arm, seed][f"shared {layer}"][-1]).reshape(-1).astype(bool)


def alike(maps: np.ndarray, shared: np.ndarray, prefix: str = "") -> Mapping[str, float]:
    """Return the mean absolute correlation of maps: of a personal and a shared filter, and of two of a kind."""
    found = strength(maps)
    across = found[np.ix_(~shared, shared)].mean() if shared.any() and not shared.all() else np.nan
    same = (shared[:, None] == shared) & ~np.eye(len(shared), dtype=bool)
    return {f"{prefix}across": float(across), f"{prefix}within": float(found[same].mean())}


def pictured(own: np.ndarray, fedavg: np.ndarray, shared: np.ndarray) -> pd.DataFrame:
    """Return the maps that the picture shows, a row for each line of pixels, from 0 (darkest) to 100 in each map."""
    tables = []
    for kind, of in zip(KINDS, (~shared, shared), strict=True):
        for j in np.flatnonzero(of)[:SHOWN]:
            for method, maps in (("FedFac", own), ("FedAvg", fedavg)):
                low, high = maps[j].min(), maps[j].max()
                grey = np.rint(100 * (maps[j] - low) / max(high - low, 1e-12)).astype(int)
                table = pd.DataFrame(grey, columns=[f"x{i}" for i in range(grey.shape[1])])
                table.insert(0, "y", np.arange(len(grey)))
                tables.append(table.assign(kind=kind, filter=j, method=method))
    return pd.concat(tables, ignore_index=True)


def image_table(image: np.ndarray) -> pd.DataFrame:
    """Return the pixels of an image, from 0 to 100, a row for each."""
    low, high = image.min(), image.max()
    grey = np.rint(100 * (image - low) / (high - low)).astype(int)
    y, x = np.indices(image.shape[1:])
    channels = {f"c{i}": channel.ravel() for i, channel in enumerate(grey)}
    return pd.DataFrame({"y": y.ravel(), "x": x.ravel(), **channels})


def run(scale: Scale, out: Path) -> Tables:
    """Run all seeds; the picture is the first one's."""
    seeds = range(scale.shift, scale.shift + scale.seeds)
    tables = run_parts([Part(f"filters-{s}", scale, partial(one_seed, scale, s)) for s in seeds], out, "filters: seeds")
    first = {name: tables[name][tables[name]["seed"] == seeds[0]] for name in ("maps", "image")}
    return {**tables, **first}


def evidence(tables: Tables) -> Tables:
    """Return what the chapter shows: of the picture the static arm alone, numbers to five decimals."""
    maps = tables["maps"][tables["maps"]["arm"] == "static"]
    return {**{name: tables[name].round(5) for name in ("filters", "pairs", "metrics")}, "maps": maps,
            "image": tables["image"]}  # fmt: skip
