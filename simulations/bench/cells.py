"""The three data sets of the bench: who holds what, the network, and how long it trains.

`digits` are scikit-learn's, dealt to clients by a Dirichlet share of each digit. `images` are images of CIFAR-10, of
which every client draws as many, by Dirichlet shares of the classes that are far less even; below the paper's size they
are the JPEG copies, halved to 16 x 16 pixels. In both a seed decides who the clients are: they are nested in seeds.

`roles` are the roles of Shakespeare's plays with the most lines. They are the same under every seed, crossed with
seeds: a seed draws which of a role's lines count, initial weights and batches. A sample is a few characters and the one
after them. Samples are cut from a role's text so that no character belongs to two.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

import fedstat as fs
from fedstat._random import stream
from fedstat.data import Clients, datasets
from fedstat.inference.intervals.design import overlap_ratio
from fedstat.models import Factory
from simulations.images import halved, images, small_cnn

TEST, VALIDATION = 0.25, 0.2


@dataclass(frozen=True)
class Cell:
    """A data set with its clients and its training.

    Attributes
    ----------
    name : {"digits", "images", "roles"}
        The data set.
    clients : int
        Number of clients.
    samples : int, optional
        Training images of a client, or samples of a role, which a seed draws; all if None.
    alpha : float
        The Dirichlet distribution's parameter; roles have none.
    batch_size, local_epochs, rounds, last : int
        The training; the last rounds are averaged.
    seeds : int
        Runs of every arm.
    rates : tuple of float
        The grid of learning rates to begin with; a single one means that nothing is tuned.
    length, width, layers : int
        Characters of a sample; hidden units of an LSTM layer and of the dense one; LSTM layers.
    """

    name: Literal["digits", "images", "roles"]
    clients: int
    samples: int | None
    alpha: float
    batch_size: int
    local_epochs: int
    rounds: int
    last: int
    seeds: int
    rates: tuple[float, ...]
    length: int = 0
    width: int = 0
    layers: int = 1


def digits(rounds: int, seeds: int, rates: tuple[float, ...], *, clients: int = 20) -> Cell:
    """Return the cell of scikit-learn's digits."""
    return Cell("digits", clients, None, 0.3, 20, 2, rounds, max(1, rounds // 3), seeds, rates)


def populate(cell: Cell, seed: int) -> Clients:
    """Draw one seed's clients: a quarter of a client's samples are for the test, and a fifth for validation."""
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return _roles(cell, seed) if cell.name == "roles" else _pictures(cell, seed)


def network(cell: Cell) -> Factory:
    """Return what builds a cell's network."""
    match cell.name:
        case "digits":
            return fs.models.cnn(8, 10, norm=True)
        case "images":
            side = 32 if cell.samples is None else 16
            return small_cnn(np.empty((0, 3, side, side)), norm=True)
        case "roles":
            _, _, _, characters = _texts(cell.length, cell.clients)
            sizes = {"embedding": 8, "hidden": cell.width, "layers": cell.layers, "dense": cell.width}
            return fs.models.lstm(len(characters), vocabulary=len(characters) + 1, **sizes)


def split_layers(cell: Cell) -> tuple[str, ...]:
    """Return the layers whose units FedFac can share or not."""
    return ("hidden",) if cell.name == "roles" else ("conv1", "conv2", "hidden")


def offered(cell: Cell) -> tuple[str, ...]:
    """Return what the cell's network and inputs have that some methods need."""
    return () if cell.name == "roles" else ("convolutions", "norm layers", "numbers")


def ratio(cell: Cell) -> float:
    """Return what corrects for the samples that two seeds have in common, as `fedstat.compare` counts them."""
    if cell.samples is None:
        common = 1.0
    elif cell.name == "roles":
        common = cell.samples / np.bincount(_texts(cell.length, cell.clients)[2]).mean()
    else:  # two seeds have at most that part of their test images in common
        common = cell.clients * _held_out(cell.samples) / halved("cifar10-jpeg")[2].sum()
    return overlap_ratio(TEST, 1 - TEST - VALIDATION, common)


def _pictures(cell: Cell, seed: int) -> Clients:
    """Deal all pictures to clients, ten at least for each, or let every client draw its own from parts of the data."""
    if cell.name == "images" and cell.samples is not None:
        x, y, test = halved("cifar10-jpeg")
        parts = fs.data.dirichlet_draws(
            y, test, cell.clients, cell.alpha, train=round(cell.samples / (1 - VALIDATION)),
            held_out=_held_out(cell.samples), apart=True, seed=seed,
        )  # fmt: skip
        return fs.data.from_indices(x, y, parts, validation=VALIDATION, seed=seed)
    x, y = fs.data.digits() if cell.name == "digits" else images("cifar10")[:2]
    dealt = fs.data.dirichlet(y, cell.clients, cell.alpha, min_size=10, seed=seed)
    return fs.data.from_indices(x, y, dealt, test=TEST, validation=VALIDATION, seed=seed)


def _held_out(trained: int) -> int:
    """Return how many test images a client draws beside so many training images."""
    return round(trained * TEST / (1 - TEST))


def _roles(cell: Cell, seed: int) -> Clients:
    """Draw samples of every role."""
    x, y, owners, characters = _texts(cell.length, cell.clients)
    parts = []
    for k in range(cell.clients):
        own = stream(seed, "bench roles", k).permutation(np.flatnonzero(owners == k))
        parts.append(np.sort(own[: cell.samples]))
    return fs.data.from_indices(
        x, y, parts, test=TEST, validation=VALIDATION, seed=seed, tokens=True, classes=characters
    )


@functools.cache
def _texts(length: int, roles: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the samples of the roles with the most lines.

    Returns
    -------
    x : ndarray of int, shape (N, length)
    y : ndarray of int, shape (N,)
    owners : ndarray of int, shape (N,)
        The role of each sample, from the one with the most text down.
    characters : tuple of str
        What the codes mean.
    """
    found = datasets.read("shakespeare")
    names, codes, counts = np.unique(found.groups["role"].astype(str), return_inverse=True, return_counts=True)
    most = np.lexsort((names, -counts))[:roles]
    # a row and the next are one character apart: whoever takes every (length + 1)-th uses no character twice
    rows = [np.flatnonzero(codes == role)[:: length + 1] for role in most]
    every = np.concatenate(rows)
    owners = np.repeat(np.arange(len(rows)), [len(some) for some in rows])
    return found.x[every][:, -length:].copy(), found.y[every], owners, tuple(map(str, found.classes))
