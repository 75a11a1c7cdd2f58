"""Reconstruct clients' images from what FedAvg, FedPer, FedRoD and FedDecomp send (FedDecomp paper, Table 7).

The attacker is the server (`fedstat.privacy`). It knows labels, and puts the common start in the place of personal
leaves. Controls: the same attack by one who knows the personal leaves; an untrained FedAvg network, which must give the
image away; random gradients of the same norm, which must not; and images that are guessed without a message.

All arms train at one learning rate, which is not tuned: what is compared are messages, not accuracies.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn

import fedstat as fs
from fedstat._random import stream
from fedstat._tables import Tables
from fedstat.data import Clients, datasets
from fedstat.models import Factory
from fedstat.privacy import Look, Observation, invert, match, observe, psnr
from simulations.contract import About, Shown
from simulations.images import dealt
from simulations.parts import SECOND_LOOK, Part, run_parts

ABOUT = About(
    "What messages give away",
    "FedDecomp",
    "",
    order=76,
    shows=(
        Shown(
            "Table 7", "PSNR of images that deep leakage recovers from four methods' messages", "in part",
            "600 images of CIFAR-10 as means of 2 by 2 pixels, 6 clients, a small network of sigmoids in place of "
            "ResNet-8, at most 10 rounds, labels known, one image a client after one step and four after four",
        ),
    ),
    data=("cifar10",),
    times={
        "smoke": "ten seconds",
        "quick": "under a minute on two cores",
        "desk": "nine minutes of one core",
        "paper": "a week on one H200 (an estimate: 22,500 attacks of 24,000 iterations at 60 MFLOP, and at 1 ms each "
        "for the starting of kernels)",
    },
)  # fmt: skip
FIRST_SEED = 100
#: The arms; of each the message is attacked by one who guesses personal leaves, and but for FedAvg by one who knows.
ARMS: Mapping[str, Any] = {
    "FedAvg": fs.FedAvg(),
    "FedPer": fs.methods.FedPer(),
    "FedRoD": fs.methods.FedRoD(),
    "FedDecomp code": fs.methods.FedDecomp(lora_epochs=1, reading="code"),
    "FedDecomp text": fs.methods.FedDecomp(lora_epochs=1, reading="text"),
}
#: Columns of what is measured of every image.
MEASURES = ("psnr", "printed", "ssim")


@dataclass(frozen=True)
class Scale:
    """Size of the study.

    Attributes
    ----------
    dataset, images, pool : str, int, int
        The images, how many of them (0 for all), and how many pixels a side are averaged into one.
    network : {"sigmoid", "resnet8"}
        The network.
    clients, alpha : int, float
        Clients, and Dirichlet's concentration of labels.
    stages : tuple of int
        Rounds after which messages are attacked.
    victims : int
        Clients under attack, the first ones.
    looks : tuple of (int, int)
        Images in a step, and steps before the message; at all stages but the last the first alone.
    iterations : int
        Of every attack.
    objective, optimizer, total_variation
        As `fedstat.privacy.invert`.
    simulated : int
        Of how many victims messages of several steps are attacked by one who repeats the steps one by one, too.
    knowing : bool
        Whether all messages are attacked by one who knows the personal leaves, too; else those after one step.
    seeds, lr, epochs, batch : int, float, int, int
        Of training.
    shift : int
        Added to all seeds.
    device : str
        Where networks train.
    """

    dataset: str
    images: int
    pool: int
    stages: tuple[int, ...]
    victims: int
    seeds: int
    iterations: int
    looks: tuple[tuple[int, int], ...] = ((1, 1), (1, 4))
    network: Literal["sigmoid", "resnet8"] = "sigmoid"
    clients: int = 6
    alpha: float = 0.5
    objective: Literal["squared", "cosine"] = "squared"
    optimizer: Literal["lbfgs", "adam"] = "lbfgs"
    total_variation: float = 0.0
    simulated: int = 1
    knowing: bool = False
    lr: float = 0.1
    epochs: int = 2
    batch: int = 20
    shift: int = 0
    device: str = "cpu"

    @property
    def every_seed(self) -> range:
        """The master seeds."""
        return range(FIRST_SEED + self.shift, FIRST_SEED + self.shift + self.seeds)


SCALES = {
    "smoke": Scale("digits", 200, 1, (1,), 1, 2, 5, ((1, 1), (1, 2)), clients=3, shift=SECOND_LOOK),
    "quick": Scale("digits", 600, 1, (2, 6), 2, 3, 80, shift=SECOND_LOOK),
    "desk": Scale("cifar10", 600, 2, (2, 10), 2, 6, 200),
    # the text names neither seeds nor iterations; 24,000 are those of Geiping et al.
    "paper": Scale(
        "cifar10", 0, 1, (10, 20, 30, 40, 50), 20, 3, 24_000, ((1, 1), (5, 1), (1, 5)), network="resnet8", clients=20,
        alpha=0.1, objective="cosine", optimizer="adam", total_variation=1e-4, knowing=True, epochs=5, batch=100,
    ),
}  # fmt: skip


class Smooth(nn.Sequential):
    """Three 5x5 convolutions of twelve channels with sigmoids, and a head; weights start uniform in (-.5, .5).

    The network and the start that Zhu et al. (2019) attack.
    """

    def __init__(self, channels: int, side: int, classes: int) -> None:
        rest = -(-side // 4)
        super().__init__(
            OrderedDict(
                conv1=nn.Conv2d(channels, 12, 5, stride=2, padding=2),
                smooth1=nn.Sigmoid(),
                conv2=nn.Conv2d(12, 12, 5, stride=2, padding=2),
                smooth2=nn.Sigmoid(),
                conv3=nn.Conv2d(12, 12, 5, padding=2),
                smooth3=nn.Sigmoid(),
                flatten=nn.Flatten(),
                head=nn.Linear(12 * rest**2, classes),
            )
        )
        for weight in self.parameters():
            nn.init.uniform_(weight, -0.5, 0.5)


def network(scale: Scale, x: np.ndarray, classes: int) -> Factory:
    """Return what builds the network for images of this shape."""
    if scale.network == "resnet8":
        return fs.models.resnet8(classes)
    return partial(Smooth, x.shape[1], x.shape[2], classes)


def pictures(scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Return images (N, channels, side, side) with values in [0, 1], and labels."""
    found = datasets.read(scale.dataset)
    some = slice(0, scale.images or len(found.y))
    x = found.x[some].astype(np.float32)
    x = x[:, None] if x.ndim == 3 else x
    n, c, side = x.shape[:3]
    x = x.reshape(n, c, side // scale.pool, scale.pool, side // scale.pool, scale.pool).mean((3, 5))
    return (x - x.min()) / (x.max() - x.min()), found.y[some]


def draw(scale: Scale, seed: int) -> Clients:
    """Deal the images of one seed."""
    x, y = pictures(scale)
    most = max(batch * steps for batch, steps in scale.looks)
    parts = fs.data.dirichlet(y, scale.clients, scale.alpha, min_size=2 * most + 4, tries=10_000, seed=seed)
    return dealt(x, y, parts, seed=seed)


def one_arm(scale: Scale, arm: str, seed: int) -> Tables:
    """Train an arm under one seed, and attack its messages."""
    clients = draw(scale, seed)
    model = network(scale, clients.train.client(0)[0], len(clients.classes or ()))
    training = fs.Training(lr=scale.lr, batch_size=scale.batch, local_epochs=scale.epochs)
    stages = (0, *scale.stages) if arm == "FedAvg" else scale.stages
    looks = [
        Look(client=k, round=stage, batch=batch, steps=steps)
        for stage in stages
        for batch, steps in (scale.looks if stage == max(stages) else scale.looks[:1])
        for k in range(scale.victims)
    ]
    seen = observe(ARMS[arm], model, clients, training, looks, seed=seed, device=scale.device)
    rows, images = list[dict[str, Any]](), list[dict[str, Any]]()
    for one in seen:
        for kind, found in _attacks(scale, arm, one, clients, seed):
            row = {
                "arm": arm,
                "attack": kind,
                "stage": one.look.round,
                "batch": one.look.batch,
                "steps": one.look.steps,
            }
            row |= {"seed": seed, "client": one.look.client}
            originals = one.secret.x.cpu().numpy()
            pairs = list(zip(originals, found.x[match(originals, found.x)], strict=True))
            rows += [
                row | {"image": i, "objective": found.objective} | _measured(x, y) for i, (x, y) in enumerate(pairs)
            ]
            if seed == scale.every_seed[0]:
                for i, (x, y) in enumerate(pairs):
                    shape = "x".join(map(str, x.shape))
                    images.append(row | {"image": i, "shape": shape, "original": _hex(x), "found": _hex(y)})
    accuracy = _accuracy(scale, arm, model, clients, training, seed)
    return {"images": pd.DataFrame(rows), "pictures": pd.DataFrame(images), "accuracy": accuracy}


@dataclass(frozen=True, eq=False)
class _Found:
    """Images, and what an attack minimised."""

    x: np.ndarray
    objective: float = float("nan")


def _attacks(scale: Scale, arm: str, seen: Observation, clients: Clients, seed: int) -> Iterator[tuple[str, _Found]]:
    """Make every attack on a message, and for FedAvg the guesses without one."""
    how: dict[str, Any] = {
        "objective": scale.objective, "optimizer": scale.optimizer, "total_variation": scale.total_variation,
        "iterations": scale.iterations, "seed": seed, "progress": False,
    }  # fmt: skip
    if not any(leaf.any() for leaf in seen.gradient.values()):  # FedRoD, where a client has a single class
        yield "guessing", _Found(np.full((seen.samples, *seen.shape), 0.5, np.float32))
        return
    yield "guessing", _found(invert(seen, **how))
    one, last = seen.look.steps * seen.look.batch == 1, seen.look.round == max(scale.stages)
    if seen.look.steps > 1 and seen.look.client < scale.simulated:
        yield "simulating", _found(invert(seen, simulate=True, **how))
        if arm != "FedAvg":
            yield "simulating, knowing", _found(invert(seen, simulate=True, personal="known", **how))
    if arm != "FedAvg":
        if one or scale.knowing:
            yield "knowing", _found(invert(seen, personal="known", **how))
        return
    if one and last:
        rng = stream(seed, "random gradient", seen.look.client, seen.look.round)
        yield "random gradient", _found(invert(replace(seen, gradient=_noise(seen, rng)), **how))
        other = how | {"objective": "cosine", "optimizer": "adam", "total_variation": 1e-3}
        yield "cosine", _found(invert(seen, **other))
    others = [k for k in range(len(clients)) if k != seen.look.client]
    pool = np.concatenate([clients.train.client(k)[0] for k in others])
    yield "mean image", _Found(np.repeat(pool.mean(0)[None], seen.samples, axis=0))
    rng = stream(seed, "other images", seen.look.client, seen.look.round)
    yield "another image", _Found(pool[rng.choice(len(pool), seen.samples, replace=False)])


def _found(reconstruction: fs.privacy.Reconstruction) -> _Found:
    return _Found(reconstruction.x, reconstruction.objective)


def _noise(seen: Observation, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """Draw a Gaussian gradient whose norm in every leaf is that of the one that was sent."""
    drawn = {n: torch.from_numpy(rng.normal(size=tuple(g.shape))).to(g) for n, g in seen.gradient.items()}
    return {n: drawn[n] * g.norm() / drawn[n].norm() for n, g in seen.gradient.items()}


def _measured(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return PSNR, the same as FedDecomp's section 4.6 prints it (claim DC-10), and structural similarity."""
    from skimage.metrics import structural_similarity

    x, y = x.astype(np.float64), y.astype(np.float64)
    ratio, similarity = psnr(x, y), structural_similarity(x, y, win_size=7, data_range=1.0, channel_axis=0)
    return {"psnr": ratio, "printed": ratio - 10 * math.log10(len(x)), "ssim": float(similarity)}


def _hex(x: np.ndarray) -> str:
    """Write an image as bytes in hexadecimal digits."""
    return np.clip(np.rint(255 * x), 0, 255).astype(np.uint8).tobytes().hex()


def _accuracy(
    scale: Scale, arm: str, model: Factory, clients: Clients, training: fs.Training, seed: int
) -> pd.DataFrame:
    """Measure how far training has come at the stages: means over clients."""
    result = fs.federate(
        {arm: ARMS[arm]}, model, clients, training, rounds=max(scale.stages), seed=seed, device=scale.device,
        evaluate_at=scale.stages, progress=False,
    )  # fmt: skip
    kept = ("accuracy", "balanced_accuracy", "log_loss", "majority_share")
    rows = result.history[result.history["metric"].isin(kept) & (result.history["estimand"] != "global")]
    rows = result.history[result.history["metric"].isin(kept)] if rows.empty else rows
    means = rows.groupby(["round", "metric"], observed=True)["value"].mean().rename("value").reset_index()
    return means.rename(columns={"round": "stage"}).assign(arm=arm, seed=seed)


def run(scale: Scale, out: Path) -> Tables:
    """Attack every arm under every seed."""
    parts = [
        Part(f"privacy-{arm.replace(' ', '-')}-{seed}", scale, partial(one_arm, scale, arm, seed))
        for seed in scale.every_seed
        for arm in ARMS
    ]
    return run_parts(parts, out, "privacy: arms and seeds")


def evidence(tables: Tables) -> Tables:
    """Return the tables with few digits, and the pictures of the first client alone."""
    shown = tables["pictures"]
    rounded = tables["images"].round({**dict.fromkeys(MEASURES, 3), "objective": 8})
    return {
        "images": rounded,
        "pictures": shown[(shown["client"] == 0) & (shown["image"] == 0)].reset_index(drop=True),
        "accuracy": tables["accuracy"].assign(value=tables["accuracy"]["value"].astype(float).round(4)),
    }
