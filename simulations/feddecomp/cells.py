"""What the FedDecomp study trains on and with: images, clients, networks and arms."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

import fedstat as fs
from fedstat._random import stream
from fedstat.data import Clients
from fedstat.methods import FedAMP, FedBN, FedCAC, FedDecomp, FedPer, FedRep, FedRoD, PFedGate, PFedSD
from fedstat.models import Factory
from fedstat.models.conv_net import ConvNet
from simulations.images import halved, images, small_cnn

#: Shares of the images that are set aside once, for all seeds: for pre-training, for tuning, for tests.
ASIDE, VALIDATION, TEST = 0.15, 0.1, 0.22

#: The arms of Table 1, with what is personal in each.
ARMS = {
    "FedAvg": "nothing is personal",
    "Local": "everything is personal",
    "FedAMP": "everything is personal, and drawn to a mix of similar clients’ models",
    "FedRep": "the head is personal, and trained first",
    "FedPer": "the head is personal",
    "FedBN": "the batch norms are personal",
    "FedRoD": "a second head is personal",
    "pFedSD": "the model after local training, which is drawn to its predecessor",
    "pFedGate": "gates on the blocks of a shared model",
    "FedCAC": "the parameters that matter most to a client",
    "FedDecomp code": "low-rank parts, with the start and scale of the authors’ code",
    "FedDecomp text": "low-rank parts, with a start and scale by which they learn as fast as the shared part",
}
CODE, TEXT = "FedDecomp code", "FedDecomp text"
#: The arms of the question: does FedDecomp beat both of its extremes?
QUESTION = ("Local", "FedAvg", CODE, TEXT)


@dataclass(frozen=True)
class World:
    """Images and network.

    Attributes
    ----------
    name : str
        In the tables; never the paper's name where data are others.
    printed : str
        The data's name in the paper's tables.
    dataset : str
        As `fedstat.data.datasets` names it.
    network : {"small_cnn", "three_conv", "resnet8", "resnet10"}
        The network.
    conv_ratio, dense_ratio : float
        The paper's ranks for these data, R_c and R_l.
    halved : bool
        Whether each image is averaged over squares of 2 x 2 pixels.
    official : bool
        Whether clients' test samples come from the official test part, and not from a part of our own.
    apart : bool
        Whether every image belongs to one client at most.
    """

    name: str
    printed: str
    dataset: str
    network: Literal["small_cnn", "three_conv", "resnet8", "resnet10"]
    conv_ratio: float = 0.6
    dense_ratio: float = 0.6
    halved: bool = False
    official: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Setup:
    """Sizes that all arms have in common.

    Attributes
    ----------
    clients, train, held_out : int
        Number of clients, and the training and test samples of each.
    rounds, last : int
        Rounds, and how many of the last are averaged.
    batch, epochs, lora_epochs : int
        A client's work in a round, and how many of its epochs train the low-rank part.
    head_epochs, body_epochs : int
        FedRep's.
    momentum : float
        Of SGD.
    warm_epochs : int
        Epochs of the pre-training for Table 6.
    device : str
        Torch device.
    dtype : str
        How numbers round, as `fedstat.federate` takes it.
    """

    clients: int
    train: int
    held_out: int
    rounds: int
    last: int
    batch: int
    epochs: int = 5
    lora_epochs: int = 2
    head_epochs: int = 2
    body_epochs: int = 3
    momentum: float = 0.9
    warm_epochs: int = 15
    device: str = "cpu"
    dtype: str = "float32"


def samples(world: World) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images as float32 (N, channels, side, side), labels (N,), and which belong to the official test part."""
    return halved(world.dataset) if world.halved else images(world.dataset)


@functools.cache
def pools(world: World) -> dict[str, np.ndarray]:
    """Return the indices of the images for pre-training, validation, test and training: the same for all seeds."""
    _, y, official = samples(world)
    order = stream(0, "feddecomp pools").permutation(len(y))
    held = order[official[order]] if world.official else order[: round(TEST * len(y))]
    rest = order[~np.isin(order, held)]
    cuts = [round(ASIDE * len(y)), round((ASIDE + VALIDATION) * len(y))]
    aside, validation, training = np.split(rest, cuts)
    return {"aside": aside, "validation": validation, "test": held, "train": training}


def populate(world: World, setup: Setup, dirichlet: float, train: int, seed: int, *, validation: bool) -> Clients:
    """Draw each client's class proportions and samples (`fedstat.data.dirichlet_draws`).

    Parameters
    ----------
    world, setup
        What is dealt, and to how many.
    dirichlet : float
        Concentration.
    train : int
        Training samples of each client.
    seed : int
        Decides who holds what.
    validation : bool
        Whether clients' test samples are those for validation, so that tuning sees no test sample.
    """
    x, y, _ = samples(world)
    of = pools(world)
    held = of["validation" if validation else "test"]
    used = np.concatenate([of["train"], held])
    test = np.arange(len(used)) >= len(of["train"])
    parts = fs.data.dirichlet_draws(
        y[used], test, setup.clients, dirichlet, train=train, held_out=setup.held_out, apart=world.apart, seed=seed
    )
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return fs.data.from_indices(x[used], y[used], parts, seed=seed)


def network(world: World) -> Factory:
    """Return what builds the network; all have batch norm, which FedBN needs."""
    x, y, _ = samples(world)
    return factory(world, x.shape[1:], int(y.max()) + 1)


def factory(world: World, shape: tuple[int, ...], classes: int) -> Factory:
    """Return what builds the network for images of a shape (channels, side, side)."""
    match world.network:
        case "small_cnn":
            return small_cnn(np.empty((0, *shape)), classes, norm=True)
        case "three_conv":
            return partial(ConvNet, shape[0], ((16,), (32,), (64,)), 64 * (shape[1] // 8) ** 2, (), classes, norm=True)
        case "resnet8":
            return fs.models.resnet8(classes, channels=shape[0])
        case "resnet10":
            return fs.models.resnet10(classes, channels=shape[0])


def decomp(world: World, setup: Setup, **changes: object) -> FedDecomp:
    """Return FedDecomp with the world's ranks, as the authors' code has it, but for some changes."""
    usual = {"conv_ratio": world.conv_ratio, "dense_ratio": world.dense_ratio, "lora_epochs": setup.lora_epochs}
    return FedDecomp(**{**usual, **changes})  # type: ignore[arg-type]


def arms(world: World, setup: Setup) -> dict[str, fs.Method]:
    """Return the methods of Table 1, baselines with their originals' settings."""
    methods: dict[str, fs.Method] = {
        "FedAvg": fs.FedAvg(),
        "Local": fs.Local(),
        "FedAMP": FedAMP(),
        "FedRep": FedRep(head_epochs=setup.head_epochs, body_epochs=setup.body_epochs),
        "FedPer": FedPer(),
        "FedBN": FedBN(),
        "FedRoD": FedRoD(),
        "pFedSD": PFedSD(),
        "pFedGate": PFedGate(),
        "FedCAC": FedCAC(),
        CODE: decomp(world, setup),
        TEXT: decomp(world, setup, reading="text"),
    }
    return {arm: methods[arm] for arm in ARMS}
