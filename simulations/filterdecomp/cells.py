"""The cells of the filter-decomposition paper: images, how they are dealt, and the network; the paper's and ours."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
from torch import nn

import fedstat as fs
from fedstat._random import stream
from fedstat.data import Clients, datasets
from fedstat.models import Factory
from simulations.images import images

#: This share of a client's images is for validation.
VALIDATION = 0.2


@dataclass(frozen=True)
class Cell:
    """Which images, dealt to whom.

    Attributes
    ----------
    name : str
        In the tables; never the paper's name where data or sizes are others.
    dataset : str
        As `fedstat.data.datasets` names it.
    clients : int
        Number of clients.
    classes : int
        Classes of a client; 0 deals the images at random, to equally many each.
    printed : str
        The cell's name in the paper's tables, whatever the sizes; empty if it has none.
    """

    name: str
    dataset: str
    clients: int
    classes: int
    printed: str = ""


@dataclass(frozen=True)
class Size:
    """How large the runs of all cells are.

    Attributes
    ----------
    network : {"small", "alexnet"}
        Three narrow convolutions, or the paper's network.
    held : int
        Images of a client, for training and validation; 0 deals all of the official training part.
    most : int
        Largest number of a client's own test images.
    participants : float
        Share of the clients in a round.
    epochs, batch : int
        A client's work in a round; a global model is fine-tuned for as many epochs.
    device : str
        Where networks train.
    """

    network: Literal["small", "alexnet"]
    held: int
    most: int
    participants: float
    epochs: int
    batch: int
    device: str = "cpu"


@functools.cache
def loaded(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images, labels, and which images are for testing: three tenths where there is no official test part."""
    x, y, test = images(name)
    return x, y, test if test.any() else np.random.default_rng(0).random(len(y)) < 0.3


class Small(nn.Sequential):
    """Three 3x3 convolutions with stride 2, two dense layers and the head, without norm layers.

    Weights start with He's variance, as the products of FilterDecomp's coefficients and atoms do.
    """

    def __init__(self, channels: int, side: int, classes: int, widths: Sequence[int], dense: Sequence[int]) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (c_in, c_out) in enumerate(pairwise((channels, *widths)), start=1):
            layers[f"conv{i}"] = nn.Conv2d(c_in, c_out, 3, stride=2, padding=1)
            layers[f"relu{i}"] = nn.ReLU()
            side = -(-side // 2)
        layers["flatten"] = nn.Flatten()
        for i, (fan_in, fan_out) in enumerate(pairwise((widths[-1] * side**2, *dense)), start=1):
            layers[f"hidden{i}"] = nn.Linear(fan_in, fan_out)
            layers[f"relu{len(widths) + i}"] = nn.ReLU()
        layers["head"] = nn.Linear(dense[-1], classes)
        super().__init__(layers)
        for layer in layers.values():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


def network(cell: Cell, size: Size) -> Factory:
    """Return what builds a cell's network."""
    x, y, _ = loaded(cell.dataset)
    return factory(size.network, x.shape[1], x.shape[2], int(y.max()) + 1)


def factory(kind: Literal["small", "alexnet"], channels: int, side: int, classes: int) -> Factory:
    """Return what builds a network for images of a shape."""
    if kind == "alexnet":
        return fs.models.alexnet(classes, channels=channels, side=side)
    return partial(Small, channels, side, classes, (8, 16, 16), (64, 32))


def population(cell: Cell, size: Size, seed: int) -> Clients:
    """Deal images of the official training part; clients test on official test images of their own classes.

    All official test images together are the common test set, on which global models are measured.

    Parameters
    ----------
    cell, size
        What is dealt.
    seed : int
        Decides which images are used, and who holds what.
    """
    x, y, test = loaded(cell.dataset)
    free = np.flatnonzero(~test)
    if size.held:
        free = np.sort(stream(seed, "images of this seed").permutation(free)[: cell.clients * size.held])
    if cell.classes:
        parts = fs.data.shards(y[free], cell.clients, cell.classes, seed=seed)
    else:
        parts = fs.data.iid(len(free), cell.clients, seed=seed)
    parts = fs.data.own_test(parts.within(free), y, test, most=size.most, seed=seed)
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return fs.data.from_indices(
            x, y, parts, validation=VALIDATION, seed=seed, classes=datasets.read(cell.dataset).classes or None,
            common=np.flatnonzero(test),
        )  # fmt: skip


def ours(dataset: str, clients: int, words: str) -> tuple[Cell, ...]:
    """Return the cells that two cores can run: 2 classes a client, 5, and clients that are alike."""
    names = ((2, "CIFAR10 (100,2)"), (5, "CIFAR10 (100,5)"), (0, ""))
    return tuple(
        Cell(f"{words}, {s} classes a client" if s else f"{words}, iid", dataset, clients, s, paper)
        for s, paper in names
    )


_TABLES = (
    ("cifar10", "CIFAR10", 100, 2), ("cifar10", "CIFAR10", 100, 5), ("cifar100", "CIFAR100", 100, 5),
    ("cifar100", "CIFAR100", 100, 20), ("cifar100", "CIFAR100", 1000, 5), ("cifar100", "CIFAR100", 1000, 20),
    ("tiny-imagenet", "Tiny-ImageNet", 1000, 20), ("tiny-imagenet", "Tiny-ImageNet", 1000, 50),
)  # fmt: skip
_IID = (("cifar10", 100), ("cifar100", 100), ("cifar100", 1000), ("tiny-imagenet", 1000))
#: The paper's eight cells (Figure 2 shows all, Table 1 six) and the four of Figure 5.
PAPER = (
    *(Cell(f"{name} ({k},{s})", data, k, s, f"{name} ({k},{s})") for data, name, k, s in _TABLES),
    *(Cell(f"{data} ({k} clients), iid", data, k, 0) for data, k in _IID),
)
