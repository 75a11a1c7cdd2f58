"""Rows of an array that lies in a file, read as they are asked for: data larger than memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Bytes that are looked at at once.
BLOCK = 2**25


@dataclass(frozen=True, eq=False)
class Mapped:
    """Some rows of a memory-mapped array, in an order of their own.

    It has shape, dtype and length like an array, and its items are arrays in memory: ``mapped[3:5]`` reads two rows.
    ``np.asarray`` reads all of them.

    Attributes
    ----------
    file : ndarray, shape (M, ...)
        The array in the file, which several may share. It is never written to.
    rows : ndarray of int, shape (N,)
        Where the rows lie in it.
    dtype : dtype
        What they become as they are read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import fedstat as fs
    >>> file = Path(tempfile.mkdtemp(), "x.npy")
    >>> np.save(file, np.arange(12.0).reshape(6, 2))
    >>> clients = fs.data.from_arrays(np.load(file, mmap_mode="r"), [0, 1] * 3, [0] * 3 + [1] * 3)
    >>> type(clients.train.x).__name__, clients.train.x.shape
    ('Mapped', (4, 2))
    """

    file: np.ndarray
    rows: np.ndarray
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return (N, ...)."""
        return (len(self.rows), *self.file.shape[1:])

    @property
    def size(self) -> int:
        """Count the numbers of all rows."""
        return len(self.rows) * int(np.prod(self.file.shape[1:]))

    @property
    def nbytes(self) -> int:
        """Count the bytes that all rows would take in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: int | slice | np.ndarray) -> np.ndarray:
        """Read the rows at places 0 to N - 1, one, a slice or an array of them."""
        return np.asarray(self.file[self.rows[which]]).astype(self.dtype, copy=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read all rows."""
        if copy is False:
            raise ValueError("rows of a file cannot be had without a copy; leave copy=False out.")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def of(self, which: slice | np.ndarray) -> Mapped:
        """Return some of the rows, unread."""
        return Mapped(self.file, self.rows[which], self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as the name of the file, if it has one and holds all changes, and the rows."""
        base = _map(self.file)
        if base is None or base.filename is None or base.mode == "c" or not self.file.flags.c_contiguous:
            return Mapped, (np.array(self.file), self.rows, self.dtype)
        offset = base.offset + self.file.ctypes.data - base.ctypes.data
        return _opened, (str(base.filename), self.file.dtype, self.file.shape, offset, self.rows, self.dtype)


def _opened(
    path: str, kind: np.dtype[Any], shape: tuple[int, ...], offset: int, rows: np.ndarray, dtype: np.dtype[Any]
) -> Mapped:
    file = np.memmap(Path(path), kind, "r", offset, shape)
    return Mapped(file.view(np.ndarray), rows, dtype)


def is_mapped(values: Any) -> bool:
    """Tell whether an array lies in a file, such as one of ``np.load(path, mmap_mode="r")`` or a part of it."""
    return isinstance(values, np.ndarray) and _map(values) is not None


def _map(values: np.ndarray) -> np.memmap[Any, Any] | None:
    """Return the mapping behind an array, if there is one."""
    base: Any = values
    found: np.memmap[Any, Any] | None = None
    while isinstance(base, np.ndarray):
        found = base if isinstance(base, np.memmap) else found  # the last is the one that was opened
        base = base.base
    return found if isinstance(base, mmap.mmap) else None


def in_blocks(values: np.ndarray | Mapped) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the rows block after block, each with the place of its first row."""
    step = max(1, BLOCK * len(values) // max(1, values.nbytes))
    for first in range(0, len(values), step):
        yield first, values[first : first + step]


def joined(parts: Sequence[np.ndarray | Mapped]) -> np.ndarray | Mapped:
    """Lay rows end to end; those of one file stay there.

    Rows of several files, or of a file and of memory, are refused.
    """
    if len(parts) == 1:  # not copied, since it may be most of the process's memory
        return parts[0]
    mapped = [part for part in parts if isinstance(part, Mapped)]
    if not mapped:
        return np.concatenate([np.asarray(part) for part in parts])
    first = mapped[0]
    if len(mapped) < len(parts) or any(part.file is not first.file or part.dtype != first.dtype for part in mapped):
        raise ValueError(
            "the inputs of all seeds must lie in one memory-mapped array, or all in memory; map the file once, outside "
            "the function that makes the clients."
        )
    return Mapped(first.file, np.concatenate([part.rows for part in mapped]), first.dtype)
