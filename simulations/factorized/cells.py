"""The cells of Factorized-FL's Table 1: whose images, how they are dealt to clients, whether labels are permuted."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

import fedstat as fs
from fedstat._random import stream
from fedstat.data import datasets
from fedstat.data.dealing import CIFAR100_DOMAINS
from simulations.images import dealt, images

#: Five domains of four classes each of the twenty classes of Tiny-ImageNet that are at hand; the grouping is ours.
TINY_DOMAINS = {
    "beasts and birds": ("goldfish", "black stork", "tabby", "bison"),
    "clothes": ("academic gown", "Christmas stocking", "miniskirt", "sombrero"),
    "vessels and household": ("bucket", "pill bottle", "refrigerator", "teapot"),
    "insects and dishes": ("centipede", "walking stick", "ice lolly", "meat loaf"),
    "things made of metal and stone": ("beach wagon", "dumbbell", "iPod", "viaduct"),
}
DIGITS_DOMAINS = {f"digits {i} and {i + 1}": (str(i), str(i + 1)) for i in range(0, 10, 2)}
#: The concentration of the labels of non-IID clients, as the authors' code has it.
CONCENTRATION = 0.5


@dataclass(frozen=True)
class Cell:
    """A cell of the table.

    Attributes
    ----------
    data : str
        As `fedstat.data.datasets` names it.
    partition : {"IID", "non-IID", "domains"}
        Samples dealt at random, in Dirichlet proportions by class, or by five domains.
    labels : {"standard", "permuted"}
        Whether every client has its own permutation of the classes.
    """

    data: str
    partition: Literal["IID", "non-IID", "domains"]
    labels: Literal["standard", "permuted"]

    @property
    def domains(self) -> bool:
        """Whether the clients belong to five domains."""
        return self.partition == "domains"

    @property
    def permuted(self) -> bool:
        """Whether every client has its own permutation of the classes."""
        return self.labels == "permuted"

    @property
    def columns(self) -> dict[str, str]:
        """Return the cell as columns of a table."""
        return {"data": self.data, "partition": self.partition, "labels": self.labels}


@dataclass(frozen=True, eq=False)
class Images:
    """Images (N, channels, side, side), their labels, which are for testing, and each one's group for domains."""

    x: np.ndarray
    y: np.ndarray
    test: np.ndarray
    group: np.ndarray
    domains: Mapping[str, tuple[str, ...]]


@functools.cache
def loaded(name: str) -> Images:
    """Return a data set's images, standardised by channel; those of Tiny-ImageNet shrunk to half their side.

    A data set without an official test part gives three tenths of its samples, always the same ones.
    """
    found = datasets.read(name)
    if name == "tiny-imagenet":
        n, channels, side, _ = found.x.shape
        x = found.x.reshape(n, channels, side // 2, 2, side // 2, 2).mean(axis=(3, 5), dtype=np.float32)
        x = (x - x.mean(axis=(0, 2, 3), keepdims=True)) / x.std(axis=(0, 2, 3), keepdims=True)
    else:
        x = images(name)[0]
    test = found.test if found.test.any() else np.random.default_rng(0).random(len(x)) < 0.3
    if name == "cifar100":
        return Images(x, found.y, test, found.groups["superclass"].astype(str), CIFAR100_DOMAINS)
    group = np.array([str(one) for one in found.classes])[found.y]
    return Images(x, found.y, test, group, TINY_DOMAINS if name == "tiny-imagenet" else DIGITS_DOMAINS)


def classes_of(cell: Cell) -> int:
    """Return the classes that a client tells apart: all of the data set, or those of its domain."""
    found = loaded(cell.data)
    return int(_codes_in_domains(found).max() if cell.domains else found.y.max()) + 1


def population(cell: Cell, clients: int, samples: int, test: int, seed: int) -> fs.data.Clients:
    """Deal images to the clients of a cell.

    Standard and permuted cells deal alike under one seed. A fifth of a client's samples is for validation. On one data
    set all clients test on the same images of the official test part, also where their labels are not IID; in
    domains on those of their domain.

    Parameters
    ----------
    cell : Cell
        Which one.
    clients : int
        Number of clients, a multiple of five for domains.
    samples : int
        A client's training and validation samples, in the mean where clients are not IID.
    test : int
        The largest number of a client's test samples.
    seed : int
        Decides which client holds what.
    """
    found = loaded(cell.data)
    y = _codes_in_domains(found) if cell.domains else found.y
    deal = _by_domain if cell.domains else _of_one_data_set
    partition = deal(cell, found, clients, samples, test, seed)
    if cell.permuted:
        partition = fs.data.permute_labels(partition, int(y.max()) + 1, seed=seed)
    return dealt(found.x, y, partition, seed=seed)


def _of_one_data_set(cell: Cell, found: Images, clients: int, samples: int, test: int, seed: int) -> fs.data.Partition:
    rng = stream(seed, "images of this seed")
    held = np.sort(rng.permutation(np.flatnonzero(~found.test))[: clients * samples])
    official = np.sort(rng.permutation(np.flatnonzero(found.test))[:test])
    if cell.partition == "IID":
        partition = fs.data.iid(len(held), clients, seed=seed)
    else:
        partition = fs.data.dirichlet(found.y[held], clients, CONCENTRATION, min_size=samples // 10, seed=seed)
    return replace(partition.within(held), test=(official,) * clients)


def _by_domain(cell: Cell, found: Images, clients: int, samples: int, test: int, seed: int) -> fs.data.Partition:
    held = np.flatnonzero(~found.test)
    partition = fs.data.domains(found.group[held], found.domains, clients, seed=seed).within(held)
    parts = [np.sort(stream(seed, "of this seed", k).permutation(p)[:samples]) for k, p in enumerate(partition.train)]
    return fs.data.own_test(replace(partition, train=tuple(parts)), found.y, found.test, most=test, seed=seed)


def _codes_in_domains(found: Images) -> np.ndarray:
    """Number the classes of each domain from zero; samples of no domain get the code zero."""
    codes = np.zeros_like(found.y)
    for groups in found.domains.values():
        mine = np.isin(found.group, groups)
        codes[mine] = np.unique(found.y[mine], return_inverse=True)[1]
    return codes
