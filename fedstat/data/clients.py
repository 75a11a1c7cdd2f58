"""The clients' data: samples with a client axis, for training, validation and testing."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedstat._checks import unmasked
from fedstat._mapped import Mapped, in_blocks, is_mapped


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of all clients, laid end to end, client after client.

    ``samples.client(k)`` is one client's share. Clients may be of very unequal size; nothing is padded.

    Attributes
    ----------
    x : ndarray or Mapped, shape (N, ...)
        Inputs, those of client 0 first. A `fedstat.data.Mapped` reads them from a file as they are asked for.
    y : ndarray, shape (N,)
        Labels ``0..Q-1`` (integer) or regression targets (floating).
    n : ndarray of int, shape (K,)
        How many samples each client has; their sum is N.
    row : ndarray of int, shape (N,), optional
        Which sample of the data each one is, counted from 0, if they were dealt from data: the row of a table.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> samples = fs.data.Samples(np.arange(10.0).reshape(5, 2), np.array([0, 1, 0, 1, 1]), np.array([2, 3]))
    >>> samples.client(1)[1]
    array([0, 1, 1])
    """

    x: np.ndarray | Mapped
    y: np.ndarray
    n: np.ndarray
    row: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name, kinds in (("x", "iuf"), ("y", "iuf"), ("n", "iu")):
            values = getattr(self, name)
            if not isinstance(values, Mapped):
                values = unmasked(name, values)
            if name != "x" and (isinstance(values, Mapped) or is_mapped(values)):
                values = np.array(values)  # only inputs may be larger than memory
            if values.dtype.kind not in kinds:
                what = "whole numbers" if name == "n" else "real numbers"
                raise ValueError(f"{name} must hold {what}, got dtype {values.dtype}.")
            object.__setattr__(self, name, _as_torch_has_it(values))
        if self.n.ndim != 1 or self.y.ndim != 1 or self.x.shape[:1] != self.y.shape:
            raise ValueError(
                f"x, y and n must be (N, ...), (N,) and (K,); got {self.x.shape}, {self.y.shape} and {self.n.shape}. "
                "Samples.from_rows takes arrays with an axis of clients."
            )
        if len(self.n) == 0 or (self.n < 1).any():
            empty = np.flatnonzero(self.n < 1)[:5].tolist()
            raise ValueError(
                f"every client needs at least one sample; clients {empty} are empty. Drop them, or use a "
                "partition that gives every client data (dirichlet has min_size)."
            )
        if (total := sum(self.n.tolist())) != len(self.y):
            raise ValueError(f"n counts {total} samples in all, but x and y hold {len(self.y)}.")
        if self.row is not None and np.shape(self.row) != self.y.shape:
            raise ValueError(f"row must name each of the {len(self.y)} samples, got shape {np.shape(self.row)}.")
        self._check_values()

    def _check_values(self) -> None:
        """Refuse what is no number, and tokens below zero."""
        for name, values in (("x", self.x), ("y", self.y)):
            kind = values.dtype.kind
            if kind not in ("fi" if name == "x" else "f"):
                continue
            for first, block in in_blocks(values):
                if (kind == "f" and np.isfinite(block).all()) or (kind == "i" and block.min(initial=0) >= 0):
                    continue
                where = np.argwhere(~np.isfinite(block) if kind == "f" else block < 0)[0]
                k, i = self.whose(first + int(where[0]))
                if kind == "i":
                    raise ValueError(
                        f"x holds whole numbers, which are tokens 0, 1, ...; client {k}, sample {i} holds "
                        f"{block[tuple(where)]}. Give inputs that are no tokens a floating type."
                    )
                value, remedy = block[tuple(where)], "Drop such samples"
                if name == "x" and np.isnan(value):
                    remedy += (
                        ', or give fs.data.from_arrays or from_csv prepare="standard", which imputes by what training '
                        "samples teach"
                    )
                raise ValueError(f"{name} must be finite; client {k}, sample {i} holds {value}. {remedy}.")

    @classmethod
    def from_rows(cls, x: np.ndarray, y: np.ndarray, n: np.ndarray | None = None) -> Samples:
        """Make samples of arrays with an axis of clients.

        Parameters
        ----------
        x : array_like, shape (K, n_max, ...)
            Inputs.
        y : array_like, shape (K, n_max)
            Targets.
        n : array_like of int, shape (K,), optional
            How many samples of its row each client has; by default all. What lies beyond is dropped.
        """
        x, y = unmasked("x", x), unmasked("y", y)
        if y.ndim != 2 or x.shape[:2] != y.shape:
            raise ValueError(f"x and y must be (K, n_max, ...) and (K, n_max), got {x.shape} and {y.shape}.")
        k, most = y.shape
        n = np.full(k, most) if n is None else unmasked("n", n)
        if n.shape != (k,) or n.dtype.kind not in "iu":
            raise ValueError(f"n must hold {k} whole numbers, one for each client, got {n.dtype} {n.shape}.")
        if n.max(initial=0) > most:
            raise ValueError(f"n counts up to {n.max()} samples, but there are {most} columns.")
        flat = x.reshape(k * most, *x.shape[2:])
        if (n == most).all():
            return cls(flat, y.reshape(k * most), n)
        places = np.flatnonzero(np.arange(most) < n[:, None])
        return cls(Mapped(flat, places, flat.dtype) if is_mapped(x) else flat[places], y.reshape(k * most)[places], n)

    @cached_property
    def start(self) -> np.ndarray:
        """Where each client's samples begin, shape (K,)."""
        return np.cumsum(self.n, dtype=np.int64) - self.n

    @property
    def owners(self) -> np.ndarray:
        """The client of each sample, shape (N,)."""
        return np.repeat(np.arange(len(self.n)), self.n)

    def client(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return client `k`'s own inputs and targets."""
        first, n = int(self.start[k]), int(self.n[k])
        return self.x[first : first + n], self.y[first : first + n]

    def of(self, clients: np.ndarray | slice = slice(None), most: int | None = None) -> Samples:
        """Return the samples of some clients, in the order given, and of each client the first `most`."""
        chosen = np.arange(len(self.n))[clients]
        n = self.n[chosen] if most is None else np.minimum(self.n[chosen], most)
        return self.at(np.repeat(self.start[chosen] - (np.cumsum(n) - n), n) + np.arange(n.sum()), n)

    def at(self, places: np.ndarray, n: np.ndarray) -> Samples:
        """Return the samples at `places`, dealt in that order to clients of `n` samples each."""
        row = None if self.row is None else self.row[places]
        return Samples(self.x.of(places) if isinstance(self.x, Mapped) else self.x[places], self.y[places], n, row)

    def whose(self, place: int) -> tuple[int, int]:
        """Return the client of a sample, and its number among the client's own."""
        k = int(np.searchsorted(self.start, place, side="right")) - 1
        return k, place - int(self.start[k])

    def class_counts(self, classes: int) -> np.ndarray:
        """Count each client's samples of every class; shape (K, classes)."""
        return np.bincount(self.owners * classes + self.y, minlength=len(self.n) * classes).reshape(-1, classes)

    def row_hashes(self) -> np.ndarray:
        """Return a 64-bit hash of each sample's input, client after client; shape (N,).

        Equal inputs have equal hashes. Among three million different inputs the chance that any two have the same
        hash is about one in four million.
        """
        hashes = []
        for _, block in in_blocks(self.x):
            rows = np.ascontiguousarray(block).reshape(len(block), -1)
            held = rows.view(f"V{rows.shape[1] * rows.itemsize}").ravel().tolist()
            hashes.append(np.fromiter(map(hash, held), np.int64, len(block)))
        return np.concatenate(hashes)


def _as_torch_has_it(values: np.ndarray | Mapped) -> np.ndarray | Mapped:
    """Return the same numbers in this machine's order of bytes and in a type that torch computes with."""
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind == "f" and dtype.itemsize > 8:
        dtype = np.dtype(np.float64)
    elif dtype.kind == "u" and dtype.itemsize > 1:
        dtype = np.dtype(np.int64)
    if isinstance(values, Mapped):
        return replace(values, dtype=dtype)
    if is_mapped(values):
        return Mapped(values.view(np.ndarray), np.arange(len(values)), dtype)
    return values.astype(dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Clients:
    """The data of all clients; ``print`` them to see sizes, class balance and overlap.

    Attributes
    ----------
    train : Samples
        The samples that clients train on.
    test, validation : Samples or None
        Held-out samples of the same clients.
    classes : tuple or None
        The original class labels, in the order of the codes ``0..Q-1``; None for regression.
    names : tuple of str
        The clients' names.
    truth : object or None
        What a generator knows about its own data, e.g. `ReluTruth`.
    common : Samples or None
        A test set that belongs to no client, as if of one client (K = 1).
    labels : ndarray of int, shape (K, Q), or None
        If clients name the classes differently: the class ``q`` of the data set is ``labels[k, q]`` at client `k`.
    prepared : str
        How inputs were brought into shape, in words; empty if they were taken as they are.
    fit_on : str
        Whose training samples taught that: "pooled", "client" or "fitted", as `from_arrays` has them; empty as well.
    transformer : object or None
        The fitted transformer of all clients that did it, for samples that come later.
    given : mapping of str to ndarray of uint64
        By split, a hash of every input as it was before it was prepared, by which samples are known again that another
        seed deals, and therefore prepares, otherwise; empty if inputs were taken as they are.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.from_indices(*fs.data.digits(), fs.data.iid(100, 4))
    >>> len(clients), clients.train.n.tolist(), bool(clients.majority_share().max() < 0.5)
    (4, [20, 20, 20, 20], True)
    """

    train: Samples
    test: Samples | None = None
    validation: Samples | None = None
    classes: tuple[Any, ...] | None = None
    names: tuple[str, ...] = ()
    truth: Any = None
    common: Samples | None = None
    labels: np.ndarray | None = None
    prepared: str = ""
    fit_on: str = ""
    transformer: Any = None
    given: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(str(k) for k in range(len(self.train.n))))
        for name, samples in self.all_splits.items():
            rows = 1 if name == "common" else len(self.names)
            if len(samples.n) != rows:
                raise ValueError(f"{name} has samples of {len(samples.n)} clients, but there must be {rows}.")
            if self.classes is not None and not np.issubdtype(samples.y.dtype, np.integer):
                raise ValueError(f"{name}.y must hold integer class codes, got dtype {samples.y.dtype}.")
            if self.classes is not None and not 0 <= samples.y.min() <= samples.y.max() < len(self.classes):
                raise ValueError(
                    f"{name}.y must hold codes 0..{len(self.classes) - 1} of the {len(self.classes)} classes, got "
                    f"{samples.y.min()}..{samples.y.max()}."
                )
            if samples.x.shape[1:] != self.train.x.shape[1:]:
                raise ValueError(
                    f"{name} inputs have shape {samples.x.shape[1:]}, training inputs {self.train.x.shape[1:]}."
                )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def splits(self) -> dict[str, Samples]:
        """The clients' own splits by name: "train", and "validation" and "test" where they exist."""
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: samples for name, samples in named.items() if samples is not None}

    @property
    def all_splits(self) -> dict[str, Samples]:
        """The clients' own splits, and as "common" the test set that all clients have in common, if there is one."""
        return self.splits if self.common is None else {**self.splits, "common": self.common}

    def majority_share(self, split: str = "train") -> np.ndarray:
        """Return the share of a split's samples that have the client's most frequent class of training, shape (K,).

        It is the accuracy of always naming that class. On the common test set, shape (1,), it is the class that is most
        frequent in training over all clients.
        """
        if self.classes is None:
            raise ValueError("majority_share needs class labels, and these clients hold regression targets.")
        trained, counts = (of.class_counts(len(self.classes)) for of in (self.train, self.all_splits[split]))
        named = (trained.sum(axis=0, keepdims=True) if split == "common" else trained).argmax(axis=1)
        return counts[np.arange(len(counts)), named] / counts.sum(axis=1)

    def __str__(self) -> str:
        kind = "regression" if self.classes is None else f"classification, {len(self.classes)} classes"
        lines = [f"{len(self)} clients, {kind}, inputs of shape {self.train.x.shape[1:]}", ""]
        header = "split       samples   per client: min / median / max"
        if self.classes is not None:
            header += "   majority share: min / median / max   one-class clients"
        lines.append(header)
        for name, samples in self.all_splits.items():
            low, mid, high = samples.n.min(), int(np.median(samples.n)), samples.n.max()
            line = f"{name:<10} {samples.n.sum():>8}   {low:>15} / {mid:>6} / {high:>3}"
            if self.classes is not None:
                share = self.majority_share(name)
                line += f"   {share.min():>19.2f} / {np.median(share):>6.2f} / {share.max():.2f}"
                line += f"   {((samples.class_counts(len(self.classes)) > 0).sum(axis=1) == 1).sum():>17}"
            lines.append(line)
        told = f"inputs prepared by {self.prepared}" if self.prepared else ""
        lines += ["", *textwrap.wrap(told, 120, subsequent_indent="  "), self._overlap()]
        return "\n".join(lines)

    def _overlap(self) -> str:
        """Say how many inputs several clients train on, and how many held-out inputs somebody trains on."""
        splits = self.all_splits.items()
        hashes = {name: self.given[name] if name in self.given else of.row_hashes() for name, of in splits}
        inputs, train = np.unique(hashes["train"], return_inverse=True)
        trained = np.sort(train * len(self) + self.train.owners)  # (input, client) as one number
        trained = trained[np.append(True, trained[1:] != trained[:-1])]  # many times faster than np.unique
        holders = np.bincount(trained // len(self))
        parts = [f"{(holders > 1).sum()} training inputs are held by several clients"]
        for name, samples in [*splits][1:]:
            place, found = _find(hashes[name], inputs)
            somebody = np.where(found, holders[place], 0)
            line = f"{(somebody > 0).sum()} of {samples.n.sum()} {name} inputs also occur in training data"
            if name != "common":
                mine = place * len(self) + samples.owners
                by_owner = found & _find(mine, trained)[1]
                line += f" ({by_owner.sum()} in the client's own, {(somebody > by_owner).sum()} in that of others)"
            parts.append(line)
        return "overlap: " + "\n         ".join(parts)


def _find(values: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where values would stand in a sorted array, and whether they do."""
    place = np.searchsorted(inside, values).clip(max=len(inside) - 1)
    return place, inside[place] == values
