"""Partitions: which client holds which samples."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np

from fedstat._checks import unmasked
from fedstat._files import atomic_file
from fedstat.data.npz import read_npz


@dataclass(frozen=True, eq=False, repr=False)
class Partition(Sequence[np.ndarray]):
    """Which samples each client holds.

    It is also the sequence of the clients' training samples; a slice of it is the partition of those clients.

    Attributes
    ----------
    train : tuple of ndarray of int
        Numbers of each client's samples.
    test : tuple of ndarray of int, optional
        Numbers of each client's test samples; without them the test samples are taken from `train` later.
    names : tuple of str
        The clients' names.
    labels : ndarray of int, shape (K, Q), optional
        Each client's permutation of the classes: code ``q`` becomes ``labels[k, q]``.

    Raises
    ------
    ValueError
        If the attributes do not belong together, or hold anything but sample numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> part = fs.data.Partition((np.array([0, 2]), np.array([1, 3, 4])), names=("Aachen", "Bonn"))
    >>> len(part), part.names[1], part.train[1].tolist()
    (2, 'Bonn', [1, 3, 4])
    """

    train: tuple[np.ndarray, ...]
    test: tuple[np.ndarray, ...] | None = None
    names: tuple[str, ...] = ()
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        if len(self.train) == 0:
            raise ValueError("a partition must hold at least one client.")
        object.__setattr__(self, "train", _numbers("train", self.train))
        if self.test is not None:
            object.__setattr__(self, "test", _numbers("test", self.test))
        object.__setattr__(self, "names", tuple(self.names) or tuple(str(k) for k in range(len(self.train))))
        for name, part in (("test", self.test), ("names", self.names), ("labels", self.labels)):
            if part is not None and len(part) != len(self.train):
                raise ValueError(f"{name} has entries for {len(part)} clients, train for {len(self.train)}.")
        if self.labels is not None:
            table = np.asarray(self.labels)
            if table.ndim != 2 or table.dtype.kind not in "iu" or (np.sort(table) != np.arange(table.shape[1])).any():
                raise ValueError(
                    f"labels must hold a permutation of the classes in each row, got {table[:1].tolist()}."
                )
            object.__setattr__(self, "labels", table.astype(np.int64))

    def __len__(self) -> int:
        return len(self.train)

    @overload
    def __getitem__(self, k: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, k: slice) -> Partition: ...
    def __getitem__(self, k: int | slice) -> np.ndarray | Partition:
        return self.of(range(len(self))[k]) if isinstance(k, slice) else self.train[operator.index(k)]

    def of(self, clients: Sequence[int] | np.ndarray) -> Partition:
        """Return the partition of some clients, by number."""
        test = None if self.test is None else tuple(self.test[k] for k in clients)
        labels = None if self.labels is None else self.labels[list(clients)]
        return Partition(tuple(self.train[k] for k in clients), test, tuple(self.names[k] for k in clients), labels)

    def __repr__(self) -> str:
        sizes = [len(part) for part in self.train]
        return f"<Partition: {len(self)} clients with {min(sizes)} to {max(sizes)} samples>"

    @property
    def fingerprint(self) -> str:
        """Short hash of the content: two partitions are equal exactly if their fingerprints are."""
        digest = hashlib.sha256()
        for name, array in sorted(self._arrays().items()):
            digest.update(f"{name} {array.shape} {array.dtype.str} ".encode() + array.tobytes())
        return digest.hexdigest()[:16]

    def within(self, pool: np.ndarray) -> Partition:
        """Return the same partition, made for the samples ``y[pool]``, in the sample numbers of the whole data set."""
        pool = np.asarray(pool)
        test = None if self.test is None else tuple(pool[part] for part in self.test)
        return replace(self, train=tuple(pool[part] for part in self.train), test=test)

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` file of plain arrays, whole or not at all."""
        with atomic_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, fingerprint=np.array(self.fingerprint), **self._arrays())

    @classmethod
    def load(cls, path: str | Path) -> Partition:
        """Read what `save` wrote.

        Raises
        ------
        ValueError
            If the file is damaged or holds something else.
        """
        wanted = {"train": "i", "train_sizes": "i", "names": "U", "fingerprint": "U"}
        arrays = read_npz(path, wanted, optional={"test": "i", "test_sizes": "i", "labels": "i"})
        try:
            parts = {}
            for name in ("train", "test"):
                flat, sizes = arrays.get(name), arrays.get(f"{name}_sizes")
                if (flat is None) != (sizes is None):
                    raise ValueError(f"{name} and {name}_sizes go together.")
                if flat is not None and sizes is not None:
                    if flat.ndim != 1 or sizes.ndim != 1 or (sizes < 0).any() or sum(sizes.tolist()) != len(flat):
                        raise ValueError(f"{name}_sizes do not add up to the {len(flat)} numbers of {name}.")
                    parts[name] = tuple(np.split(flat, np.cumsum(sizes)[:-1]))
            if arrays["names"].ndim != 1:
                raise ValueError("names must be a list.")
            partition = cls(parts["train"], parts.get("test"), tuple(arrays["names"].tolist()), arrays.get("labels"))
            if partition.fingerprint != arrays["fingerprint"].item():
                raise ValueError("its fingerprint is that of another partition.")
            return partition
        except ValueError as error:
            raise ValueError(f"{path} holds no partition: {error}") from None

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"names": np.array(self.names)}
        for name, parts in (("train", self.train), ("test", self.test)):
            if parts is not None:
                arrays |= {name: np.concatenate(parts), f"{name}_sizes": np.array([len(part) for part in parts])}
        return arrays if self.labels is None else arrays | {"labels": self.labels}


def _numbers(name: str, parts: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    arrays = [part if type(part) is np.ndarray else unmasked(name, part) for part in parts]
    if all(part.ndim == 1 and part.dtype == np.int64 for part in arrays):  # one look at all of them
        flat = np.concatenate(arrays)
        if flat.min(initial=0) >= 0:
            ends = np.cumsum([len(part) for part in arrays]).tolist()
            return tuple(flat[first:last] for first, last in zip([0, *ends], ends, strict=False))
    for k, part in enumerate(arrays):
        if part.ndim != 1 or (part.size and (part.dtype.kind not in "iu" or part.min() < 0)):
            raise ValueError(f"client {k} must hold sample numbers in {name}, got {part.ravel()[:5].tolist()}.")
    return tuple(part.astype(np.int64) for part in arrays)
