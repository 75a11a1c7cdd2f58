"""The cells of FedFac's tables: data, partition, network, layers and training of each, ours and the paper's."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

import fedstat as fs
from fedstat._random import stream
from fedstat.data import Clients, Partition, datasets
from fedstat.models import Factory
from simulations.images import images, small_cnn

#: Of its samples a client tests on this share, as in the paper; of the others this share is for validation.
TEST, VALIDATION = 0.2, 0.2


@dataclass(frozen=True)
class Cell:
    """A column of Table 2: which samples, dealt to whom, and how they are learnt.

    Attributes
    ----------
    name : str
        In the tables; never the paper's name where data or sizes are others.
    printed : str
        The setting's name in the paper's tables; empty if it has none.
    dataset : str
        As `fedstat.data.datasets` names it.
    deal : {"dirichlet", "shards", "group"}
        How samples are dealt.
    amount : float
        The Dirichlet concentration, or the classes of a client; a group's smallest size.
    clients : int
        Number of clients, those that come later included; 0 where groups decide.
    network : str
        The network.
    layers : tuple of str
        Layers whose units FedFac splits (the paper's Lambda).
    shared : int
        Shared units in each of these layers; it stands for the paper's cut tau, so that a random split has as many.
    kappa : float
        FedFac's contribution.
    code : (tuple of str, float or None, float)
        Layers, quantile of the cut (None for infinity: all units personal) and kappa of the authors' script.
    rounds, participation, batch_size, local_epochs, weight_decay
        Training.
    """

    name: str
    dataset: str
    deal: Literal["dirichlet", "shards", "group"]
    amount: float
    clients: int
    network: Literal["small_cnn", "resnet18", "vgg16", "two_conv", "lstm"]
    layers: tuple[str, ...]
    shared: int
    code: tuple[tuple[str, ...], float | None, float]
    rounds: int
    kappa: float = 0.85
    participation: float = 0.1
    batch_size: int = 32
    local_epochs: int = 20
    weight_decay: float = 0.0
    printed: str = ""
    by: str = ""


@functools.cache
def samples(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels of a data set, official training and test samples together, as the paper pools them."""
    found = datasets.read(name)
    return (found.x, found.y) if found.vocabulary is not None else images(name)[:2]


def network(cell: Cell) -> Factory:
    """Return what builds a cell's network for its data."""
    found = datasets.read(cell.dataset)
    x, _ = samples(cell.dataset)
    return factory(cell, x.shape[1:], len(found.classes), found.vocabulary)


def factory(cell: Cell, shape: tuple[int, ...], classes: int, vocabulary: int | None = None) -> Factory:
    """Return what builds a cell's network for inputs of a shape."""
    match cell.network:
        case "small_cnn":
            return small_cnn(np.empty((0, *shape)), classes)
        case "resnet18":
            return fs.models.resnet18(classes)
        case "vgg16":
            return fs.models.vgg16(classes)
        case "two_conv":
            return fs.models.two_conv(classes, padding=2, hidden=2048)
        case "lstm":
            if vocabulary is None:
                raise ValueError(
                    f"the cell {cell.name} needs tokens, and {cell.dataset} holds none; take another network."
                )
            return fs.models.lstm(classes, vocabulary=vocabulary)


def partition(cell: Cell, seed: int) -> Partition:
    """Deal a cell's samples to clients, ten at least for each."""
    found = datasets.read(cell.dataset)
    match cell.deal:
        case "dirichlet":
            return fs.data.dirichlet(found.y, cell.clients, cell.amount, min_size=10, seed=seed)
        case "shards":
            return fs.data.shards(found.y, cell.clients, int(cell.amount), seed=seed)
        case "group":
            return fs.data.by_group(found.groups[cell.by], min_size=int(cell.amount), order=found.order.get(cell.by))


def populate(cell: Cell, seed: int, new: float) -> tuple[Clients, Clients]:
    """Return the clients that train, and those that come later.

    Parameters
    ----------
    cell : Cell
        The cell.
    seed : int
        Decides who holds what, which samples are held out, and who comes later.
    new : float
        Share of the clients that come later, at least one.
    """
    found = datasets.read(cell.dataset)
    x, y = samples(cell.dataset)
    parts = partition(cell, seed)
    late = set(stream(seed, "new clients").choice(len(parts), max(1, round(new * len(parts))), replace=False).tolist())

    def some(ids: list[int]) -> Clients:
        with warnings.catch_warnings():  # skewed labels are the point of these partitions
            warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
            return fs.data.from_indices(
                x, y, [parts[k] for k in ids], test=TEST, validation=VALIDATION, seed=seed,
                tokens=found.vocabulary is not None, classes=found.classes or None,
            )  # fmt: skip

    return some([k for k in range(len(parts)) if k not in late]), some(sorted(late))


def _ours(dataset: str, words: str, alpha: float, clients: int, rounds: int) -> Cell:
    return Cell(
        f"{words}, Dirichlet {alpha:g}", dataset, "dirichlet", alpha, clients, "small_cnn", ("hidden",), 32,
        (("hidden",), 0.5, 0.85), rounds, participation=1 / 3, local_epochs=2,
        printed=f"CIFAR-10, Dirichlet {alpha:g}" if dataset == "cifar10" else "",
    )  # fmt: skip


def ours(rounds: int) -> tuple[Cell, ...]:
    """Return the cells that two cores can run, on the images of CIFAR-10 that are at hand."""
    return tuple(_ours("cifar10", "9,085 images of CIFAR-10", alpha, 30, rounds) for alpha in (0.1, 0.5, 1.0))


def digits(rounds: int, clients: int = 20) -> Cell:
    """Return the cell of scikit-learn's handwritten digits, which needs no download."""
    return _ours("digits", "digits", 0.1, clients, rounds)


def _cifar10(alpha: float, layers: tuple[str, ...], code: tuple[tuple[str, ...], float | None, float]) -> Cell:
    # the authors' weight decay, 1e-5, acts on the sum of a batch's losses
    return Cell(
        f"CIFAR-10, Dirichlet {alpha:g}", "cifar10", "dirichlet", alpha, 100, "resnet18", layers, 256, code, 500,
        weight_decay=1e-5 / 32, printed=f"CIFAR-10, Dirichlet {alpha:g}",
    )  # fmt: skip


def _cifar100(classes: int, shared: int, kappa: float, code: tuple[float | None, float]) -> Cell:
    return Cell(
        f"CIFAR-100, S = {classes}", "cifar100", "shards", classes, 100, "vgg16", ("hidden2",), shared,
        (("hidden2",), *code), 500, kappa, batch_size=64, local_epochs=1, weight_decay=5e-4 / 64,
        printed=f"CIFAR-100, S = {classes}",
    )  # fmt: skip


#: The paper's cells, as simulations/configs/fedfac-*.toml has them and says why.
PAPER = (
    _cifar10(0.1, ("stage4.block2.conv1", "stage4.block2.conv2"),
             (("stage4.block2.conv1", "stage4.block2.conv2"), None, 0.85)),
    _cifar10(0.5, ("stage4.block2.conv2",), (("stage4.block2.conv2",), 0.05, 0.85)),
    _cifar10(1.0, ("stage4.block2.conv2",), (("stage4.block2.conv2",), 0.05, 0.5)),
    _cifar100(5, 26, 0.9, (None, 0.85)),
    _cifar100(10, 26, 0.75, (None, 0.85)),
    _cifar100(30, 52, 0.75, (0.75, 0.95)),
    Cell("FEMNIST", "femnist", "group", 10, 0, "two_conv", ("conv2",), 32, (("conv2",), 0.9, 0.75), 500,
         batch_size=16, printed="FEMNIST", by="writer"),
    Cell("Shakespeare", "shakespeare", "group", 464, 0, "lstm", ("hidden",), 128, (("hidden",), 0.5, 0.85), 100,
         local_epochs=5, printed="Shakespeare", by="role"),
)  # fmt: skip
