"""Make clients of a user's own arrays: with a label of the client for each sample, or a partition."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedstat._checks import number, unmasked
from fedstat._in_words import counted
from fedstat._mapped import Mapped, in_blocks, is_mapped
from fedstat._random import streams
from fedstat.data.clients import Clients, Samples
from fedstat.data.dealing import by_group, check_labels, factorized
from fedstat.data.partition import Partition
from fedstat.data.prepare import FitOn, prepared


def from_arrays(
    x: np.ndarray,
    y: np.ndarray,
    client: np.ndarray,
    *,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    stratify: bool = False,
    tokens: bool = False,
    prepare: Any = None,
    fit_on: FitOn = "pooled",
) -> Clients:
    """Make clients from samples and a client label for each.

    Parameters
    ----------
    x : array_like, shape (N, ...)
        Inputs, numeric and finite. A memory-mapped array, as ``np.load(path, mmap_mode="r")`` opens it, stays in its
        file: training reads the rows of a batch as it needs them, so that data may be larger than memory.
    y : array_like, shape (N,)
        Integer, boolean or text labels make a classification task, floating values a regression.
    client : array_like, shape (N,)
        The client that holds each sample. Clients are ordered by sorted label.
    test, validation : float
        Share of each client's samples held out, in [0, 1), rounded up to whole samples. Every client keeps at least one
        training sample and, where a share is positive, at least one held-out sample.
    seed : int
        Decides which samples are held out.
    stratify : bool
        Hold out about its share of each class of a client, up to rounding, as files are read, rather than of the
        client's samples at random. A client's only sample of a class trains if there are enough others to hold out. Of
        a regression there are no classes.
    tokens : bool
        Whether `x` holds whole numbers 0, 1, ... for an embedding, which then stay whole.
    prepare : "standard" or transformer, optional
        How inputs are brought into shape: "standard" fills missing values with medians, standardises columns and makes
        a column for each word of a data frame's text; or any transformer of scikit-learn's, or a pipeline of them. It
        is fitted on training samples alone, on a copy.
    fit_on : {"pooled", "client", "fitted"}
        Fit it on all clients' training samples together, as if they had shared what it learns; on each client's own; or
        take it as it is, fitted before, such as ``clients.transformer`` for clients that come later.

    Raises
    ------
    ValueError
        If lengths differ, values are masked or not finite, or a client has too few samples for the requested splits.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> rng = np.random.default_rng(0)
    >>> x, y, site = rng.normal(size=(60, 3)), rng.integers(0, 2, 60), np.repeat(["Aachen", "Bonn"], 30)
    >>> clients = fs.data.from_arrays(x, y, site)
    >>> clients.names, clients.train.n.tolist(), clients.test.n.tolist()
    (('Aachen', 'Bonn'), [24, 24], [6, 6])
    """
    client = unmasked("client", client)
    if client.ndim != 1 or len(client) == 0:
        raise ValueError(f"client must be a non-empty vector with one label per sample, got shape {client.shape}.")
    check_labels("client", client)
    if np.shape(y) != client.shape:
        raise ValueError(f"y and client must have one entry per sample, got shapes {np.shape(y)} and {client.shape}.")
    how: dict[str, Any] = {"stratify": stratify, "tokens": tokens, "prepare": prepare, "fit_on": fit_on}
    return from_indices(x, y, by_group(client), test=test, validation=validation, seed=seed, **how)


def from_indices(
    x: np.ndarray,
    y: np.ndarray,
    indices: Partition | Sequence[np.ndarray],
    *,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    stratify: bool = False,
    names: Sequence[str] | None = None,
    tokens: bool = False,
    classes: Sequence[Any] | None = None,
    common: np.ndarray | None = None,
    prepare: Any = None,
    fit_on: FitOn = "pooled",
) -> Clients:
    """Make clients from samples and a partition, or one index array per client.

    Parameters
    ----------
    x : array_like, shape (N, ...)
        Inputs, numeric and finite. Unsigned bytes with two axes or more per sample are images and stay bytes (the
        engine reads them as shares of 255); other whole numbers become floating ones, unless they are tokens. A
        memory-mapped array stays in its file.
    y : array_like, shape (N,)
        Integer, boolean or text labels make a classification task, floating values a regression.
    indices : Partition or sequence of arrays of int
        Samples of each client, each once. Clients may hold the same samples; ``print`` then says so.
    test, validation : float
        Share of each client's samples held out, in [0, 1), as in `from_arrays`. If the partition names test samples,
        those are used, and `test` is not.
    seed : int
        Decides which samples are held out.
    names : sequence of str, optional
        The clients' names, if the partition does not give them.
    classes : sequence, optional
        The classes that the codes ``0..Q-1`` mean, if `y` holds such codes; classes that do not occur count as well.
    common : array of int, optional
        Samples of a test set that belongs to no client; they are kept once.
    stratify, tokens, prepare, fit_on
        As in `from_arrays`.

    Raises
    ------
    ValueError
        As `from_arrays` does; also if an index or a label is out of range, a client holds a sample twice or has no test
        samples, or there is a `common` test set for clients that name the classes differently.

    Examples
    --------
    >>> import fedstat as fs
    >>> x, y = fs.data.digits()
    >>> clients = fs.data.from_indices(x, y, fs.data.dirichlet(y, 5, 0.3, min_size=20, seed=0), validation=0.1)
    >>> len(clients), clients.train.x.shape[1:], clients.classes[:3]
    (5, (8, 8), (0, 1, 2))
    """
    y = unmasked("y", y)
    if hasattr(x, "infer_objects"):  # a data frame, in which numbers may be objects, as where some cells hold None
        x = x.infer_objects()
    if prepare is None or not (hasattr(x, "iloc") or isinstance(x, np.ndarray)):
        x = unmasked("x", x)
    if y.ndim != 1 or x.ndim < 1 or len(x) != len(y):
        raise ValueError(f"x and y must have one entry per sample, got shapes {x.shape} and {y.shape}.")
    y, meanings = coded(y, classes)
    if len(indices) == 0:
        raise ValueError("indices must hold at least one client.")
    partition = indices if isinstance(indices, Partition) else Partition(tuple(indices))
    if names is not None:
        partition = replace(partition, names=tuple(names))
    test, validation = number("test", test), number("validation", validation)
    if not (test >= 0 and validation >= 0 and test + validation < 1):
        raise ValueError(f"test and validation must be shares with test + validation < 1, got {test}, {validation}.")
    strata = y if stratify and meanings is not None else None
    rows = _hold_out(partition, len(y), 0.0 if partition.test is not None else test, validation, seed, strata)
    transformer, told, given, dealt = None, "", dict[str, np.ndarray](), rows
    if prepare is not None:
        if tokens or common is not None:
            raise ValueError("prepare is for columns of numbers, not for tokens, nor for a common test set.")
        x, y, rows, transformer, told, given = prepared(x, y, rows, prepare, fit_on)
    if x.dtype.kind not in "biuf":
        raise ValueError(
            f"x must be numeric, got dtype {x.dtype}. Encode categories as numbers first, or give a data frame and "
            'prepare="standard", or a ColumnTransformer with a OneHotEncoder.'
        )
    whole = in_blocks(x) if x.dtype.kind in "iu" else ()
    ends = [(int(block.min(initial=0)), int(block.max(initial=0))) for _, block in whole]
    low, high = min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)
    if tokens and (x.dtype.kind not in "iu" or low < 0):
        raise ValueError(f"x must hold tokens 0, 1, ..., got {x.dtype} from {low}.")
    table = partition.labels
    if table is not None and (meanings is None or table.shape[1] != len(meanings)):
        raise ValueError(
            f"the partition permutes {table.shape[1]} classes, and y has "
            f"{'none' if meanings is None else len(meanings)}."
        )
    if table is not None and common is not None:
        raise ValueError("clients that permute labels share no common test set; give own_test to each of them.")
    if tokens:  # signed, since unsigned bytes are pixels
        dtype = np.min_scalar_type(-1 - high)
    elif x.dtype.kind == "f" or (x.dtype == np.uint8 and x.ndim >= 3):
        dtype = x.dtype
    else:  # float32 holds whole numbers up to here
        dtype = np.dtype(np.float32 if max(-low, high) <= 2**24 else np.float64)

    def gathered(split: str, parts: Sequence[np.ndarray]) -> Samples:
        n, index = np.array([len(part) for part in parts]), np.concatenate(parts)
        labels = y[index] if table is None else table[np.repeat(np.arange(len(n)), n), y[index]]
        return Samples(_gathered(x, index, dtype), labels, n, np.concatenate(dealt[split]))

    if common is not None:
        common = unmasked("common", common)
        if common.dtype.kind not in "iu" or common.size == 0 or common.min() < 0 or common.max() >= len(y):
            raise ValueError(f"common must hold sample numbers 0..{len(y) - 1}, got {common[:5].tolist()}.")
        rows["common"] = dealt["common"] = [common]
    return Clients(
        **{name: gathered(name, parts) for name, parts in rows.items()},
        classes=meanings,
        names=partition.names,
        labels=table,
        prepared=told,
        fit_on=fit_on if prepare is not None else "",
        transformer=transformer,
        given=given,
    )


def _gathered(x: np.ndarray, index: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | Mapped:
    """Return the rows at `index` in a type; those of a file stay there."""
    mapped = Mapped(x, index, dtype)
    if is_mapped(x):
        return mapped
    room = np.empty(mapped.nbytes + 64, np.uint8)  # products round by where numbers lie: always at a multiple of 64
    room = room[-room.ctypes.data % 64 :][: mapped.nbytes]
    held = room.view(dtype).reshape(mapped.shape)
    for first, block in in_blocks(mapped):
        held[first : first + len(block)] = block
    return held


def coded(y: np.ndarray, classes: Sequence[Any] | None = None) -> tuple[np.ndarray, tuple[Any, ...] | None]:
    """Return the targets as codes, with the classes that the codes mean; a regression's targets stay as they are."""
    import pandas as pd

    if classes is not None:
        if y.dtype.kind not in "iu":
            raise ValueError(f"y must hold codes 0..{len(classes) - 1} of the classes, got dtype {y.dtype}.")
        outside = np.flatnonzero((y < 0) | (y >= len(classes)))
        if len(outside):
            i = outside[0]
            raise ValueError(f"y must hold codes 0..{len(classes) - 1} of the classes; sample {i} has {y[i]}.")
        return y.astype(np.int64), tuple(classes)
    if y.dtype == object:
        y = pd.Series(check_labels("y", y)).infer_objects().to_numpy()
    if np.issubdtype(y.dtype, np.floating):
        if not np.isfinite(y).all():
            raise ValueError(f"y must be finite; sample {np.flatnonzero(~np.isfinite(y))[0]} is not.")
        codes = (y[:1000] % 1 == 0).all() and np.abs(y).max() < 1e6
        if codes and 2 <= len(values := np.unique(y)) <= 20 and (values % 1 == 0).all():
            warnings.warn(
                f"y holds {len(values)} different floating numbers, whole ones from {values[0]} to {values[-1]}, which "
                "makes a regression. If they are classes, give them as whole numbers, y.astype(int), or as text.",
                stacklevel=3,
            )
        return y, None
    check_labels("y", y)
    codes, labels = factorized(y)
    return codes.astype(np.int64, copy=False), tuple(labels.tolist())


def _hold_out(
    partition: Partition, samples: int, test: float, validation: float, seed: int, strata: np.ndarray | None
) -> dict[str, list[np.ndarray]]:
    """Return each client's sample numbers by split; of each of its strata, where there are some, in proportion."""
    n = np.array([len(index) for index in partition.train])
    for part in (partition.train, partition.test or ()):
        if part and np.concatenate(part).max(initial=0) >= samples:
            k, most = next((k, int(i.max())) for k, i in enumerate(part) if i.max(initial=0) >= samples)
            raise ValueError(f"client {partition.names[k]} must hold sample numbers 0..{samples - 1}, got {most}.")
        for name, index in zip(partition.names, map(np.sort, part), strict=False):
            if len(twice := index[1:][index[1:] == index[:-1]]):
                raise ValueError(
                    f"client {name} must hold each sample once, but its indices name sample {twice[0]} several times. "
                    "Name it once; dirichlet_draws does where it draws fewer samples than a class has."
                )
    if partition.test is not None and 0 in (tested := [len(index) for index in partition.test]):
        raise ValueError(
            f"client {partition.names[tested.index(0)]} has no test samples. Give it some, or leave it out."
        )
    held = [np.maximum(np.ceil(np.round(share * n, 9)), share > 0).astype(np.int64) for share in (test, validation)]
    if (short := n - held[0] - held[1] < 1).any():
        k = int(short.argmax())
        raise ValueError(
            f"client {partition.names[k]} has {counted(n[k], 'sample')}: too few for a training sample "
            f"beside test={test} and validation={validation}. Merge or drop such clients, or lower the shares."
        )
    splits: dict[str, list[np.ndarray]] = {"test": [], "validation": [], "train": []}
    ends = zip(held[0].tolist(), (held[0] + held[1]).tolist(), strict=True)
    rngs = streams(seed, "holdout", last=range(len(n)))
    for index, rng, (first, second) in zip(partition.train, rngs, ends, strict=True):
        shuffled = rng.permutation(index)
        if strata is not None:
            shuffled = shuffled[_dealt(strata[shuffled], first, second)]
        splits["test"].append(shuffled[:first])
        splits["validation"].append(shuffled[first:second])
        splits["train"].append(shuffled[second:])
    if partition.test is not None:
        splits["test"] = list(partition.test)
    wanted = {"test": test > 0 or partition.test is not None, "validation": validation > 0, "train": True}
    return {split: parts for split, parts in splits.items() if wanted[split]}


def _dealt(labels: np.ndarray, first: int, second: int) -> np.ndarray:
    """Return an order of samples whose pieces, to `first`, to `second` and beyond, hold each class in proportion.

    Samples are laid evenly from 0 to 1, class by class, the i-th of n at (i - 1/2) / n: Webster's apportionment
    (Balinski and Young, Fair Representation, 1982). A class's only sample is laid last. Within a piece the order stays.
    """
    _, code, count = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    place = np.empty(len(labels))
    place[order] = (np.arange(len(labels)) - np.repeat(np.cumsum(count) - count, count) + 0.5) / np.repeat(count, count)
    place[count[code] == 1] = 1
    return np.concatenate([np.sort(part) for part in np.split(np.argsort(place, kind="stable"), [first, second])])
