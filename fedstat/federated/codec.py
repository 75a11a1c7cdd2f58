"""Messages between server and clients, whose bytes are counted, and encoded in exactly as many.

A message maps names to entries, each for m clients at once (first axis m). Everything in a message is counted and
nothing else is: names, shapes and scalars such as sample counts are not, as in the literature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

POSITION = np.dtype("<u4")


@dataclass(frozen=True, eq=False)
class Selected:
    """Elements that a mask selects; both sides know the mask, so that only the selected values travel.

    Attributes
    ----------
    values : Tensor of floats, shape (m, ...)
        All elements, selected or not.
    mask : Tensor of bool, broadcastable to the shape of `values`
        True at the elements that travel.

    Examples
    --------
    Two of four values travel, and no mask:

    >>> import torch
    >>> from fedstat.federated import Selected
    >>> from fedstat.federated.codec import size
    >>> mask = torch.tensor([True, False, True, False])
    >>> size({"w": Selected(torch.ones(5, 4), mask)})
    array([8, 8, 8, 8, 8])
    """

    values: Tensor
    mask: Tensor

    def __post_init__(self) -> None:
        _check_floats("Selected", self.values)
        if self.mask.dtype != torch.bool:
            raise ValueError(f"Selected: mask must be bool, got {self.mask.dtype}.")
        try:
            self.mask.expand_as(self.values)
        except RuntimeError:
            raise ValueError(
                f"Selected: mask must broadcast to the shape of values, {tuple(self.values.shape)}, "
                f"got {tuple(self.mask.shape)}."
            ) from None


@dataclass(frozen=True, eq=False)
class Sparse:
    """Non-zero elements and their positions, which the other side does not know.

    Positions travel as 4 bytes each or as a bitmap of all elements, whichever is smaller, so that n of N elements
    cost ``min(4 n, ceil(N / 8))`` bytes beside their values. The number n itself is a scalar, which is not counted.

    Attributes
    ----------
    values : Tensor of floats, shape (m, ...)
        All elements, zero or not.

    Examples
    --------
    One value of 100 travels, with its position:

    >>> import torch
    >>> from fedstat.federated import Sparse
    >>> from fedstat.federated.codec import size
    >>> values = torch.zeros(2, 100)
    >>> values[:, 7] = 0.5
    >>> size({"w": Sparse(values)})
    array([8, 8])
    """

    values: Tensor

    def __post_init__(self) -> None:
        _check_floats("Sparse", self.values)


@dataclass(frozen=True, eq=False)
class Bits:
    """Truth values, eight to a byte.

    Attributes
    ----------
    mask : Tensor of bool, shape (m, ...)
        The values; all of them travel.

    Examples
    --------
    A hundred truth values take 13 bytes:

    >>> import torch
    >>> from fedstat.federated import Bits
    >>> from fedstat.federated.codec import size
    >>> size({"chosen": Bits(torch.ones(2, 100, dtype=torch.bool))})
    array([13, 13])
    """

    mask: Tensor

    def __post_init__(self) -> None:
        if self.mask.dtype != torch.bool:
            raise ValueError(f"Bits: mask must be bool, got {self.mask.dtype}.")


@dataclass(frozen=True, eq=False)
class Coded:
    """What a compression made of an entry: the bytes of each of m clients."""

    data: tuple[bytes, ...]


Entry = Tensor | Selected | Sparse | Bits
#: What travels in one direction, by name. An entry is a tensor (m, ...), sent whole; a `Selected`, the elements under a
#: mask; a `Sparse`, the elements that are not zero; or `Bits`, truth values. An entry under a leaf's name is that leaf:
#: what is something else, such as a correction of the same shape, needs a name of its own.
Message = Mapping[str, Entry]
#: A message after a compression.
Sent = Mapping[str, Entry | Coded]


def size(message: Sent) -> np.ndarray:
    """Count the bytes of a message per client, (m,) in int64; for an empty message it is a zero of shape ().

    Tensors count whole. Entries whose first axes differ raise a ValueError.
    """
    sizes = [_size(entry) for entry in message.values()]
    if len(shapes := {each.shape for each in sizes}) > 1 or () in shapes:
        told = {n: (len(e.data),) if isinstance(e, Coded) else tuple(_body(e).shape) for n, e in message.items()}
        raise ValueError(f"message must hold entries (m, ...) of the same m clients, got {told}.")
    return sum(sizes, start=np.zeros((), np.int64))


def nonzeros(message: Message, row: int) -> dict[str, int]:
    """Return how many elements client `row` sends of every `Sparse` entry."""
    return {name: int(torch.count_nonzero(e.values[row])) for name, e in message.items() if isinstance(e, Sparse)}


def encode(message: Sent, row: int) -> bytes:
    """Return the bytes that client `row` sends or receives, ``size(message)[row]`` of them, little-endian."""
    return b"".join(_encode(entry, row) for entry in message.values())


def decode(
    data: bytes, template: Message, row: int = 0, nonzeros: Mapping[str, int] | None = None
) -> dict[str, Tensor]:
    """Rebuild one client's tensors from the bytes that `encode` returned, as the receiver does.

    Of `template` only what the receiver knows is read: names, shapes, dtypes, and the masks of `Selected` entries at
    the client's `row`. `nonzeros` counts the elements of every `Sparse` entry. What was not sent is nan in a `Selected`
    entry, and 0 in a `Sparse` one. Bytes of another length, or a missing count, raise a ValueError.
    """
    reader = Reader(data)
    counts = nonzeros or {}
    for name in (k for k, entry in template.items() if isinstance(entry, Sparse) and k not in counts):
        raise ValueError(f"nonzeros must say how many elements of {name!r} travel, got {dict(counts)}.")
    found = {name: _decode(reader, entry, row, counts.get(name, 0)) for name, entry in template.items()}
    if reader.position != len(data):
        raise ValueError(f"data must have {reader.position} bytes by the template, got {len(data)}.")
    return found


def elements(entry: Tensor | Selected | Sparse) -> tuple[Tensor, Tensor | None]:
    """Return an entry's values (m, ...), and a mask of that shape of those that travel, None if all do."""
    if isinstance(entry, Tensor):
        return entry, None
    return entry.values, entry.values != 0 if isinstance(entry, Sparse) else entry.mask.expand_as(entry.values)


def placed(where: np.ndarray, values: np.ndarray, d: int) -> bytes:
    """Return some of d numbers as bytes: their positions, listed or as a bitmap, whichever is smaller, and values."""
    if len(where) * POSITION.itemsize < bitmap(d):
        positions = where.astype(POSITION).tobytes()
    else:
        chosen = np.zeros(d, bool)
        chosen[where] = True
        positions = np.packbits(chosen, bitorder="little").tobytes()
    return positions + values.tobytes()


def bitmap(bits: int) -> int:
    """Return how many bytes a bitmap takes."""
    return -(-bits // 8)


class Reader:
    """Read bytes from first to last."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def array(self, dtype: np.dtype, count: int) -> np.ndarray:
        """Return the next `count` elements."""
        end = self.position + count * dtype.itemsize
        if end > len(self.data):
            raise ValueError(f"data must have {end} bytes or more by the template, got {len(self.data)}.")
        array = np.frombuffer(self.data, dtype, count, self.position)
        self.position = end
        return array

    def bits(self, count: int) -> np.ndarray:
        """Return the next `count` truth values, read from a bitmap."""
        packed = self.array(np.dtype("u1"), bitmap(count))
        return np.unpackbits(packed, count=count, bitorder="little").view(bool)

    def positions(self, count: int, d: int) -> np.ndarray:
        """Return where `count` of d numbers are, as `placed` wrote it."""
        listed = count * POSITION.itemsize < bitmap(d)
        return self.array(POSITION, count) if listed else np.flatnonzero(self.bits(d))


def _size(entry: Entry | Coded) -> np.ndarray:
    if isinstance(entry, Tensor):
        return np.full(entry.shape[:1], math.prod(entry.shape[1:]) * entry.dtype.itemsize)
    if isinstance(entry, Coded):
        return np.array([*map(len, entry.data)])
    body = _body(entry)
    m, n, item = body.shape[0], math.prod(body.shape[1:]), body.dtype.itemsize
    if isinstance(entry, Selected):
        mask = entry.mask.reshape(*[1] * (body.dim() - entry.mask.dim()), *entry.mask.shape)
        elements = math.prod(mask.shape[1:])
        each = torch.count_nonzero(mask.reshape(len(mask), elements), dim=1) * (n // max(1, elements))
        return each.expand(m).cpu().numpy() * item
    if isinstance(entry, Sparse):
        count = torch.count_nonzero(entry.values.reshape(m, n), dim=1).cpu().numpy()
        return count * item + np.minimum(count * POSITION.itemsize, bitmap(n))
    return np.full(m, bitmap(n))


def _encode(entry: Entry | Coded, row: int) -> bytes:
    if isinstance(entry, Coded):
        return entry.data[row]
    values = _array(_body(entry)[row])
    if isinstance(entry, Selected):
        return values[_sent(entry, row)].tobytes()
    if isinstance(entry, Sparse):
        where = np.flatnonzero(values)
        return placed(where, values.ravel()[where], values.size)
    return np.packbits(values, axis=None, bitorder="little").tobytes() if isinstance(entry, Bits) else values.tobytes()


def _decode(reader: Reader, entry: Entry, row: int, nonzeros: int) -> Tensor:
    shape = _body(entry).shape[1:]
    if isinstance(entry, Bits):
        return torch.from_numpy(reader.bits(math.prod(shape)).reshape(shape))
    dtype = _array(_body(entry)[:0]).dtype
    found = np.full(shape, np.nan if isinstance(entry, Selected) else 0, dtype)
    if isinstance(entry, Selected):
        sent = _sent(entry, row)
        found[sent] = reader.array(dtype, int(np.count_nonzero(sent)))
    elif isinstance(entry, Sparse):
        where = reader.positions(nonzeros, found.size)
        found.flat[where] = reader.array(dtype, len(where))
    else:
        found[...] = reader.array(dtype, found.size).reshape(shape)
    return torch.from_numpy(found.astype(dtype.newbyteorder("=")))


def _body(entry: Entry) -> Tensor:
    if isinstance(entry, Tensor):
        return entry
    return entry.mask if isinstance(entry, Bits) else entry.values


def _sent(part: Selected, row: int) -> np.ndarray:
    return part.mask.expand_as(part.values)[row].cpu().numpy()


def _array(tensor: Tensor) -> np.ndarray:
    array = tensor.detach().cpu().numpy()
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _check_floats(kind: str, values: Tensor) -> None:
    if not values.is_floating_point():
        raise ValueError(f"{kind}: values must be floats, got {values.dtype}.")
