"""Partitions: who holds which sample. Each returns one index array per client, disjoint and complete."""

from __future__ import annotations

import numpy as np

from fedstat._random import stream


def iid(samples: int, clients: int, *, seed: int = 0) -> list[np.ndarray]:
    """Deal `samples` indices to `clients` at random, as evenly as possible."""
    _check(samples, clients)
    return [np.sort(part) for part in np.array_split(stream(seed, "partition").permutation(samples), clients)]


def one_label_shards(y: np.ndarray, clients: int, *, seed: int = 0) -> list[np.ndarray]:
    """Give every client samples of one class only; classes get equally many clients.

    Parameters
    ----------
    y : ndarray of int, shape (N,)
        Class labels.
    clients : int
        A multiple of the number of classes (the FedFac paper's Figure 1 has 10 clients for each of 10 digits).
    seed : int
        Decides which client of a class holds which samples.

    Raises
    ------
    ValueError
        If `clients` is no multiple of the number of classes, or a class has fewer samples than clients.
    """
    y = np.asarray(y)
    _check(len(y), clients)
    labels, counts = np.unique(y, return_counts=True)
    each, rest = divmod(clients, len(labels))
    if rest:
        raise ValueError(f"clients must be a multiple of the {len(labels)} classes, got {clients}.")
    if counts.min() < each:
        rare = labels[counts.argmin()]
        raise ValueError(f"class {rare} has {counts.min()} samples, fewer than its {each} clients.")
    rng = stream(seed, "partition")
    return [
        np.sort(part) for label in labels for part in np.array_split(rng.permutation(np.flatnonzero(y == label)), each)
    ]


def dirichlet(
    y: np.ndarray, clients: int, alpha: float, *, min_size: int = 1, tries: int = 100, seed: int = 0
) -> list[np.ndarray]:
    """Split each class over the clients in proportions drawn from Dirichlet(alpha, ..., alpha).

    Parameters
    ----------
    y : ndarray of int, shape (N,)
        Class labels.
    clients : int
        Number of clients.
    alpha : float
        Concentration: near 0 a class sits at one client, large values give every client all classes alike.
    min_size : int
        Smallest acceptable client; draws that violate it are repeated.
    tries : int
        Draws before giving up.
    seed : int
        Seed of the draws.

    Raises
    ------
    ValueError
        If no draw out of `tries` gives every client `min_size` samples.
    """
    y = np.asarray(y)
    _check(len(y), clients)
    if not alpha > 0:
        raise ValueError(f"alpha must be positive, got {alpha}.")
    smallest = 0
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError(f"y has no label at sample {np.flatnonzero(np.isnan(y))[0]}.")
    for attempt in range(tries):
        rng = stream(seed, "partition", attempt)
        parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for label in np.unique(y):
            index = rng.permutation(np.flatnonzero(y == label))
            cuts = np.floor(np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(index)).astype(int)
            for k, part in enumerate(np.split(index, cuts)):
                parts[k].append(part)
        sizes = [sum(map(len, part)) for part in parts]
        if min(sizes) >= min_size:
            return [np.sort(np.concatenate(part)) for part in parts]
        smallest = max(smallest, min(sizes))
    raise ValueError(
        f"no Dirichlet({alpha}) partition of {len(y)} samples over {clients} clients had min_size={min_size} "
        f"in {tries} tries (the best had {smallest}). Raise alpha, or lower min_size or clients."
    )


def _check(samples: int, clients: int) -> None:
    if not 1 <= clients <= samples:
        raise ValueError(f"clients must be between 1 and the number of samples, {samples}; got {clients}.")
