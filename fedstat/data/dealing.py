"""Deal samples to clients: at random, by class, from a Dirichlet law, by a group that the samples have."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedstat._checks import number, whole
from fedstat._in_words import counted
from fedstat._random import stream
from fedstat.data.partition import Partition

#: Factorized-FL's five domains of CIFAR-100. The paper names the domains and not their classes; the pairs of
#: superclasses are ours.
CIFAR100_DOMAINS = {
    "household": ("household_electrical_devices", "household_furniture"),
    "fruits and foods": ("food_containers", "fruit_and_vegetables"),
    "trees and flowers": ("flowers", "trees"),
    "transport": ("vehicles_1", "vehicles_2"),
    "animals": ("large_carnivores", "large_omnivores_and_herbivores"),
}


def iid(samples: int, clients: int, *, seed: int = 0) -> Partition:
    """Deal `samples` indices to `clients` at random, as evenly as possible.

    Examples
    --------
    >>> import fedstat as fs
    >>> [len(part) for part in fs.data.iid(10, 3).train]
    [4, 3, 3]
    """
    _check(samples, clients)
    shuffled = stream(seed, "partition").permutation(samples)
    return Partition(tuple(np.sort(part) for part in np.array_split(shuffled, clients)))


def one_label_shards(y: np.ndarray, clients: int, *, seed: int = 0) -> Partition:
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

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> y = np.repeat([0, 1, 2], 20)
    >>> part = fs.data.one_label_shards(y, 6)
    >>> [sorted(set(y[i].tolist())) for i in part.train]
    [[0], [0], [1], [1], [2], [2]]
    """
    y = check_labels("y", y)
    _check(len(y), clients)
    labels, counts = np.unique(y, return_counts=True)
    each, rest = divmod(clients, len(labels))
    if rest:
        raise ValueError(f"clients must be a multiple of the {len(labels)} classes, got {clients}.")
    if counts.min() < each:
        rare = labels[counts.argmin()]
        raise ValueError(f"class {rare} has {counted(counts.min(), 'sample')}, fewer than its {each} clients.")
    rng = stream(seed, "partition")
    by_class = (np.array_split(rng.permutation(np.flatnonzero(y == label)), each) for label in labels)
    return Partition(tuple(np.sort(part) for parts in by_class for part in parts))


def shards(y: np.ndarray, clients: int, classes_per_client: int, *, seed: int = 0) -> Partition:
    """Cut the samples into one-class shards and give every client shards of different classes (FilterDecomp).

    A shard has about ``N / (clients * classes_per_client)`` samples: a class gets as many shards as come nearest to its
    share (Sainte-Laguë), at most one for each client, and cuts itself evenly, into sizes rounded up and down in turn.
    Where shards are fewer than classes, or a class is small, nothing may be dealt of a class; a warning tells.

    Parameters
    ----------
    y : ndarray of int, shape (N,)
        Class labels.
    clients : int
        Number of clients.
    classes_per_client : int
        Number of classes that every client holds.
    seed : int
        Decides which client holds which classes and samples.

    Raises
    ------
    ValueError
        If there are fewer classes than `classes_per_client`, or a class has fewer samples than shards.

    Examples
    --------
    Which classes each client holds:

    >>> import numpy as np
    >>> import fedstat as fs
    >>> y = np.repeat([0, 1, 2], 20)
    >>> part = fs.data.shards(y, 3, 2, seed=0)
    >>> [sorted(set(y[i].tolist())) for i in part.train]
    [[1, 2], [0, 1], [0, 2]]
    """
    y = check_labels("y", y)
    _check(len(y), clients)
    labels, counts = np.unique(y, return_counts=True)
    if not 1 <= whole("classes_per_client", classes_per_client) <= len(labels):
        raise ValueError(f"classes_per_client must lie between 1 and {len(labels)}, got {classes_per_client}.")
    claims = counts[:, None] / (2 * np.arange(clients) + 1)  # a client holds at most one shard of a class
    strongest = np.argsort(-claims, axis=None, kind="stable")[: clients * classes_per_client]
    left = np.bincount(strongest // clients, minlength=len(labels))  # shards that are left of each class
    if (counts < left).any():
        c = int((counts < left).argmax())
        raise ValueError(
            f"class {labels[c]} has {counted(counts[c], 'sample')}, fewer than its {left[c]} shards. "
            "Lower clients or classes_per_client."
        )
    if not left.all():
        warnings.warn(
            f"no sample is dealt of the classes {', '.join(map(str, labels[left == 0]))}: all {left.sum()} shards are "
            "of others. Raise clients or classes_per_client, or leave these classes out.",
            stacklevel=2,
        )
    rng = stream(seed, "partition")
    cuts = []
    for label, count, pieces in zip(labels, counts, left, strict=True):
        edges = np.arange(pieces + 1) * count // max(pieces, 1)  # sizes of 2 and 3 in turn, if 2.5 would be right
        cuts.append(np.split(rng.permutation(np.flatnonzero(y == label)), edges[1:-1]))
    parts = []
    for waiting in range(clients, 0, -1):
        forced = left == waiting  # every client that still waits must take a shard of these classes
        weights = np.where(forced, 0, left)
        free = classes_per_client - int(forced.sum())
        mine = np.flatnonzero(forced)
        if free:
            mine = np.append(mine, rng.choice(len(left), free, replace=False, p=weights / weights.sum()))
        left[mine] -= 1
        parts.append(np.sort(np.concatenate([cuts[c][left[c]] for c in mine])))
    return Partition(tuple(parts))


def dirichlet(
    y: np.ndarray, clients: int, alpha: float, *, min_size: int = 1, tries: int = 100, seed: int = 0
) -> Partition:
    """Split each class over the clients in proportions drawn from Dirichlet(alpha, ..., alpha).

    Bounds between neighbours are rounded down to whole samples: of each class the first client holds half a sample less
    than its proportion, on average, and the last half a sample more, at most one; this matters where clients hold few.

    Parameters
    ----------
    y : ndarray of int, shape (N,)
        Class labels.
    clients : int
        Number of clients.
    alpha : float
        Concentration: near 0 a class sits at one client, large values give every client all classes alike.
    min_size : int
        Smallest acceptable number of samples of a client; draws that violate it are repeated.
    tries : int
        Number of draws before an error.
    seed : int
        Seed of the draws.

    Raises
    ------
    ValueError
        If no draw out of `tries` gives every client `min_size` samples.

    Examples
    --------
    Samples of the three classes at each client:

    >>> import numpy as np
    >>> import fedstat as fs
    >>> y = np.repeat([0, 1, 2], 20)
    >>> part = fs.data.dirichlet(y, 4, 0.3, min_size=5, seed=0)
    >>> [np.bincount(y[i], minlength=3).tolist() for i in part.train]
    [[12, 2, 3], [7, 4, 0], [0, 13, 1], [1, 1, 16]]
    """
    y = check_labels("y", y)
    _check(len(y), clients)
    number("alpha", alpha, "(0, inf)")
    smallest = 0
    for attempt in range(whole("tries", tries, 1)):
        rng = stream(seed, "partition", attempt)
        shares = []
        for label in np.unique(y):
            index = rng.permutation(np.flatnonzero(y == label))
            cuts = np.floor(np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(index)).astype(int)
            shares.append(np.split(index, cuts))
        parts = list(zip(*shares, strict=True))
        least = min(sum(map(len, part)) for part in parts)
        if least >= min_size:
            return Partition(tuple(np.sort(np.concatenate(part)) for part in parts))
        smallest = max(smallest, least)
    raise ValueError(
        f"no Dirichlet({alpha}) partition of {len(y)} samples over {clients} clients had min_size={min_size} "
        f"in {tries} tries (the best had {smallest}). Raise alpha, or lower min_size or clients."
    )


def dirichlet_draws(
    y: np.ndarray,
    test: np.ndarray,
    clients: int,
    alpha: float,
    *,
    train: int = 500,
    held_out: int = 100,
    apart: bool = False,
    seed: int = 0,
) -> Partition:
    """Draw every client's class proportions from Dirichlet(alpha, ..., alpha), then its samples (FedDecomp).

    Clients draw independently of one another, so samples may repeat between them, unless they are to be `apart`. Within
    a client a sample comes twice only if more samples are drawn of its class than there are: then each of them comes
    equally often, up to one. `from_indices` refuses such clients: draw fewer samples, or raise `alpha`.

    Parameters
    ----------
    y : ndarray of int, shape (N,)
        Class labels.
    test : ndarray of bool, shape (N,)
        Which samples are for testing: clients' test samples are drawn from them, training samples from the others,
        with the same proportions.
    clients : int
        Number of clients.
    alpha : float
        Concentration: near 0 a client holds one class.
    train, held_out : int
        Training and test samples of each client.
    apart : bool
        Whether every sample belongs to one client at most.
    seed : int
        Seed of the draws.

    Raises
    ------
    ValueError
        If a class has no training or no test samples, or too few of them for clients that are apart.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> y = np.repeat([0, 1, 2], 20)
    >>> test = np.arange(60) % 4 == 0
    >>> part = fs.data.dirichlet_draws(y, test, 3, 0.3, train=10, held_out=4, seed=0)
    >>> [(len(a), len(b)) for a, b in zip(part.train, part.test)]
    [(10, 4), (10, 4), (10, 4)]
    """
    y, test = check_labels("y", y), _mask(test, len(y))
    number("alpha", alpha, "(0, inf)")
    for name, value in (("clients", clients), ("train", train), ("held_out", held_out)):
        whole(name, value, 1)
    labels = np.unique(y)
    pools = [[np.flatnonzero((y == label) & (test == held)) for label in labels] for held in (False, True)]
    for pool, kind in zip(pools, ("training", "test"), strict=True):
        for label, index in zip(labels, pool, strict=True):
            if len(index) == 0:
                raise ValueError(f"class {label} has no {kind} samples to draw from.")
    drawn: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for k in range(clients):
        rng = stream(seed, "partition", k)
        share = rng.dirichlet(np.full(len(labels), alpha))
        for pool, size, parts in zip(pools, (train, held_out), drawn, strict=True):
            counts = rng.multinomial(size, share)
            orders = [rng.permutation(index) for index in pool]
            if apart:
                for j in np.flatnonzero(counts > [len(order) for order in orders]):
                    raise ValueError(
                        f"class {labels[j]} has too few samples for clients that are apart: client {k} draws "
                        f"{counts[j]}, {len(orders[j])} are left; use fewer clients, fewer samples, or a larger alpha."
                    )
                pool[:] = [np.sort(order[n:]) for order, n in zip(orders, counts, strict=True)]
            chosen = [np.resize(order, n) for order, n in zip(orders, counts, strict=True)]
            parts.append(np.sort(np.concatenate(chosen)))
    return Partition(tuple(drawn[0]), tuple(drawn[1]))


def by_group(group: np.ndarray, *, min_size: int = 1, order: Sequence[str] | None = None) -> Partition:
    """Make one client of every natural group, such as a writer or a role; sorted and named by group.

    Parameters
    ----------
    group : ndarray of str or int, shape (N,)
        The group of each sample.
    min_size : int
        Groups with fewer samples are left out.
    order : sequence of str, optional
        All groups, in the order of the clients, where that is not the sorted one.

    Raises
    ------
    ValueError
        If a sample has no group, no group has `min_size` samples, or one is not in `order`.

    Examples
    --------
    >>> import fedstat as fs
    >>> part = fs.data.by_group(["Bonn", "Aachen", "Bonn"])
    >>> list(zip(part.names, [i.tolist() for i in part.train]))
    [('Aachen', [1]), ('Bonn', [0, 2])]
    """
    codes, names = factorized(check_labels("group", group))
    counts = np.bincount(codes, minlength=len(names))
    by_name = np.argsort(codes.astype(np.min_scalar_type(len(names))), kind="stable")  # by radix up to 65,535 groups
    parts = np.split(by_name, np.cumsum(counts)[:-1])
    ranks = np.arange(len(names))
    if order is not None:
        place = {name: i for i, name in enumerate(order)}
        if strange := [name for name in names.tolist() if name not in place]:
            raise ValueError(f"order must hold every group; {strange[0]!r} is missing.")
        ranks = np.argsort([place[name] for name in names.tolist()])
    kept = ranks[counts[ranks] >= min_size]
    if len(kept) == 0:
        raise ValueError(f"no group has min_size={min_size} samples; the largest has {counts.max(initial=0)}.")
    return Partition(tuple(parts[k] for k in kept.tolist()), names=tuple(map(str, names[kept].tolist())))


def factorized(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the code of each value and the sorted values that the codes mean."""
    import pandas as pd

    native = values.astype(values.dtype.newbyteorder("="), copy=False)  # pandas reads no other order of bytes
    return pd.factorize(native, sort=True, use_na_sentinel=False)


def domains(group: np.ndarray, domains: Mapping[str, Sequence[str]], clients: int, *, seed: int = 0) -> Partition:
    """Split clients over domains, and the samples of each domain over its clients at random (Factorized-FL).

    Parameters
    ----------
    group : ndarray of str, shape (N,)
        The group of each sample, such as its superclass.
    domains : mapping of str to sequence of str
        The groups of each domain, such as `CIFAR100_DOMAINS`. Samples of other groups are left out.
    clients : int
        Number of clients, a multiple of the number of domains. Clients of one domain are neighbours and named after
        it.
    seed : int
        Decides which client of a domain holds which samples.

    Raises
    ------
    ValueError
        If `clients` is no multiple of the number of domains, or a group is unknown or in two domains.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> group = np.array(["rose", "tulip", "bus", "tram"] * 5)
    >>> part = fs.data.domains(group, {"flowers": ["rose", "tulip"], "transport": ["bus", "tram"]}, 4)
    >>> [sorted(set(group[i].tolist())) for i in part.train]
    [['rose', 'tulip'], ['rose', 'tulip'], ['bus', 'tram'], ['bus', 'tram']]
    """
    group = np.asarray(group)
    listed = [name for names in domains.values() for name in names]
    for name in listed:
        if listed.count(name) > 1:
            raise ValueError(f"group {name!r} is listed twice in domains.")
        if not (group == name).any():
            raise ValueError(f"no sample belongs to group {name!r}; there are {', '.join(np.unique(group).tolist())}.")
    each, rest = divmod(whole("clients", clients, 1), len(domains))
    if rest:
        raise ValueError(f"clients must be a multiple of the {len(domains)} domains, got {clients}.")
    parts, titles = [], []
    for i, (title, names) in enumerate(domains.items()):
        index = np.flatnonzero(np.isin(group, names))
        _check(len(index), each)
        parts += np.array_split(stream(seed, "partition", i).permutation(index), each)
        titles += [f"{title} {k}" for k in range(1, each + 1)]
    return Partition(tuple(np.sort(part) for part in parts), names=tuple(titles))


def permute_labels(partition: Partition, classes: int, *, seed: int = 0) -> Partition:
    """Give every client its own random permutation of the codes ``0..classes-1`` (Factorized-FL).

    Examples
    --------
    Class q of the data set has the code ``labels[k, q]`` at client k:

    >>> import numpy as np
    >>> import fedstat as fs
    >>> y = np.repeat([0, 1, 2], 20)
    >>> fs.data.permute_labels(fs.data.iid(60, 2), 3, seed=0).labels
    array([[1, 0, 2],
           [0, 1, 2]])
    """
    tables = [stream(seed, "labels", k).permutation(classes) for k in range(len(partition))]
    return replace(partition, labels=np.stack(tables))


def own_test(
    partition: Partition, y: np.ndarray, test: np.ndarray, *, most: int | None = None, seed: int = 0
) -> Partition:
    """Give every client as test samples all those of the classes that it trains on (FilterDecomp).

    Parameters
    ----------
    partition : Partition
        Which client trains on which samples.
    y : ndarray of int, shape (N,)
        Class labels.
    test : ndarray of bool, shape (N,)
        Which samples are for testing.
    most : int, optional
        Largest number of test samples of a client, drawn at random. Clients hold copies: a thousand clients with two
        thousand colour images each take 6 GB.
    seed : int
        Decides which samples are drawn.

    Raises
    ------
    ValueError
        If a client has no test samples, or one of them is among its training samples.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> y = np.repeat([0, 1, 2], 20)
    >>> test = np.arange(60) % 4 == 0
    >>> part = fs.data.shards(y[~test], 3, 1).within(np.flatnonzero(~test))
    >>> [len(i) for i in fs.data.own_test(part, y, test).test]
    [5, 5, 5]
    """
    y, test = np.asarray(y), _mask(test, len(y))
    parts = []
    for k, (name, index) in enumerate(zip(partition.names, partition.train, strict=True)):
        if test[index].any():
            raise ValueError(
                f"client {name} trains on test sample {index[test[index]][0]}; partition the other samples only."
            )
        mine = np.flatnonzero(test & np.isin(y, y[index]))
        if len(mine) == 0:
            raise ValueError(f"client {name} has no test samples: none is of classes {np.unique(y[index]).tolist()}.")
        if most is not None and len(mine) > most:
            mine = np.sort(stream(seed, "own test", k).choice(mine, most, replace=False))
        parts.append(mine)
    return replace(partition, test=tuple(parts))


def check_labels(name: str, labels: np.ndarray) -> np.ndarray:
    """Return labels; refuse those without an order, and missing ones, which would become a class or a client."""
    import pandas as pd

    labels = np.asarray(labels)
    if labels.dtype.kind not in "biufUSO":
        raise ValueError(f"{name} must hold labels, text or numbers, got dtype {labels.dtype}.")
    if (missing := pd.isna(labels)).any():
        raise ValueError(f"{name} has no value at sample {missing.argmax()}. Drop such samples or name them.")
    if labels.dtype.kind == "O" and 0 < sum(isinstance(v, str) for v in labels.tolist()) < len(labels):
        raise ValueError(f"{name} holds both text and other labels. Make all of them text, or none.")
    return labels


def _check(samples: int, clients: int) -> None:
    if not 1 <= whole("clients", clients) <= whole("samples", samples):
        raise ValueError(f"clients must be between 1 and the number of samples, {samples}; got {clients}.")


def _mask(test: np.ndarray, samples: int) -> np.ndarray:
    test = np.asarray(test)
    if test.dtype != bool or test.shape != (samples,):
        raise ValueError(f"test must be true or false for each of {samples} samples, got {test.dtype} {test.shape}.")
    return test
