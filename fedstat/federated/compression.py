"""Compression of what clients upload: codecs to bytes and back, with or without a memory of what they lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedstat._checks import check_fields
from fedstat._random import share_of
from fedstat.federated.codec import Bits, Coded, Entry, Message, Reader, Selected, Sparse, bitmap, elements, placed
from fedstat.federated.slots import is_statistic
from fedstat.federated.state import State, Update
from fedstat.federated.store import ClientStore

_FLOAT, _HALF = np.dtype("<f4"), np.dtype("<f2")
#: The largest number that travels.
_MOST = float(np.finfo(_FLOAT).max)
#: Levels are numbered in two bytes.
_LEVELS = 2**15 - 1


@runtime_checkable
class Compression(Protocol):
    """The contract of a codec: a vector becomes bytes at the client, and a vector again at the server.

    A codec sees the entries of a client's upload one by one, each as a vector of its own: of a leaf its change since
    the client received it, of anything else the entry itself. Scales and shares therefore belong to a leaf, and a
    small entry is never crowded out by a large one. The server works with what it decodes, in aggregators and
    optimisers as well; what clients keep for themselves stays as they trained it. What is too large for float32 becomes
    its largest number. Running statistics of batch norm travel whole, since a variance must not turn negative, and so
    does all that is downloaded.

    What a codec declares beside the two functions holds by law (`fedstat.testing.check_compression`); every one of the
    three is optional. Of the decoded vector C(x):

    ==================  ===========================================================================================
    ``feedback``        an attribute; if true, a client keeps what the codec lost of an entry, and adds it to the entry
                        when it sends that the next time (Seide et al. 2014; Karimireddy et al. 2019, Algorithm 1)
    ``variance(d)``     unbiased, ``E C(x) = x``, and ``E |C(x) - x|^2 <= variance(d) |x|^2``
    ``contraction(d)``  ``E |C(x) - x|^2 <= (1 - contraction(d)) |x|^2``
    ==================  ===========================================================================================

    A generator is a function of seed, round and client. Codecs that are frozen dataclasses are saved with a run's
    configuration whole, others by their names.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import fedstat as fs
    >>> @dataclass(frozen=True)
    ... class Thousandths:
    ...     feedback = True
    ...     def encode(self, x, rng):
    ...         return (1000 * x).round().clip(-127, 127).astype(np.int8).tobytes()
    ...     def decode(self, data, d):
    ...         return np.frombuffer(data, np.int8) / np.float32(1000)
    >>> fs.testing.check_compression(Thousandths())
    >>> found = fs.describe(fs.FedAvg(compression=Thousandths()), fs.models.mlp(4, 3, 2))
    >>> found.table[["up", "down"]].sum().to_dict()
    {'up': 23, 'down': 92}
    """

    def encode(self, x: np.ndarray, rng: np.random.Generator) -> bytes:
        """Return the bytes of a vector (d,) of float32; a vector of zeros must come back as one."""
        ...

    def decode(self, data: bytes, d: int) -> np.ndarray:
        """Return the vector (d,) of floats that bytes stand for; bytes that come from elsewhere may be wrong."""
        ...


@dataclass(frozen=True)
class Half:
    """Half precision, two bytes for each number; what is too large for it becomes the largest number.

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> codec, x = fs.compression.Half(), np.array([0.1, -2.0, 1e6], np.float32)
    >>> data = codec.encode(x, np.random.default_rng(0))
    >>> len(data), codec.decode(data, 3).tolist()
    (6, [0.0999755859375, -2.0, 65504.0])
    """

    def encode(self, x: np.ndarray, rng: np.random.Generator) -> bytes:
        """Round to the nearest number."""
        most = float(np.finfo(_HALF).max)
        # where numbers underflow, NumPy is twenty times slower
        return torch.from_numpy(x.clip(-most, most)).half().numpy().astype(_HALF, copy=False).tobytes()

    def decode(self, data: bytes, d: int) -> np.ndarray:
        """Read the numbers."""
        return np.frombuffer(_of_length(data, d * _HALF.itemsize), _HALF).astype(np.float32)


@dataclass(frozen=True)
class QSGD:
    """Random rounding to levels of a vector's norm, without bias (Alistarh et al. 2017, section 3.1).

    ``C(x)_i = |x| sign(x_i) l_i / s``, where ``l_i`` is one of the two whole numbers around ``s |x_i| / |x|``, drawn so
    that its mean is that. The norm takes four bytes, and a number ``ceil(log2(2 s + 1))`` bits: levels have a fixed
    width, and not the paper's Elias code, which is shorter where most of them are zero.

    Parameters
    ----------
    levels : int
        The number s of levels above zero, 1 to 32767: 1 takes two bits for each number, 7 four, 127 eight.

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> codec, x = fs.compression.QSGD(levels=7), np.array([3.0, -4.0, 0.0], np.float32)
    >>> data = codec.encode(x, np.random.default_rng(0))
    >>> len(data), codec.decode(data, 3).round(2).tolist()
    (6, [2.859999895095825, -3.569999933242798, 0.0])
    """

    levels: int

    def __post_init__(self) -> None:
        check_fields(self, levels=1)
        if self.levels > _LEVELS:
            raise ValueError(f"levels must be at most {_LEVELS}, got {self.levels}.")

    @property
    def _bits(self) -> int:
        return (2 * self.levels).bit_length()

    def variance(self, d: int) -> float:
        """Return Lemma 3.1's bound, ``min(d / s^2, sqrt(d) / s)``."""
        return min(d / self.levels**2, d**0.5 / self.levels)

    def encode(self, x: np.ndarray, rng: np.random.Generator) -> bytes:
        """Draw the levels."""
        norm = np.linalg.norm(x.astype(np.float64)).clip(max=_MOST).astype(_FLOAT)
        place = self.levels * (np.abs(x, dtype=np.float64) / norm) if norm else np.zeros(len(x))
        level = np.floor(place + rng.random(len(x))).clip(max=self.levels)  # the norm is rounded
        return _packed(norm, self.levels + np.copysign(level, x), self._bits)

    def decode(self, data: bytes, d: int) -> np.ndarray:
        """Read norm and levels."""
        norm, codes = _unpacked(data, self._bits, d)
        return (np.float64(norm) / self.levels * (codes - self.levels)).astype(np.float32)


@dataclass(frozen=True)
class RandK:
    """A random few of a vector's numbers, scaled up so that there is no bias (Konečný et al. 2016, random masks).

    ``C(x)_i = d / k x_i`` for k of the d numbers, all choices being equally likely: d / k times the operator of Stich
    et al. (2018), which contracts. Values take four bytes each, and positions as in `fedstat.federated.Sparse`.

    Parameters
    ----------
    share : float
        The share k / d in (0, 1], rounded, of an entry; one number at least.

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> codec, x = fs.compression.RandK(0.5), np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    >>> data = codec.encode(x, np.random.default_rng(0))
    >>> len(data), codec.decode(data, 4).tolist()
    (9, [0.0, 0.0, 6.0, 8.0])
    """

    share: float

    def __post_init__(self) -> None:
        check_fields(self, share="(0, 1]")

    def variance(self, d: int) -> float:
        """Return the relative variance, ``d / k - 1``, which is exact."""
        return d / _count(self.share, d) - 1

    def encode(self, x: np.ndarray, rng: np.random.Generator) -> bytes:
        """Draw positions."""
        k = _count(self.share, len(x))
        where = np.sort(rng.choice(len(x), k, replace=False, shuffle=False))
        return placed(where, (x[where] * np.float64(len(x) / k)).clip(-_MOST, _MOST).astype(_FLOAT), len(x))

    def decode(self, data: bytes, d: int) -> np.ndarray:
        """Put values where they belong."""
        return _spread(data, _count(self.share, d), d)


@dataclass(frozen=True)
class TopK:
    """The largest few of a vector's numbers, as they are (Aji and Heafield 2017; Stich et al. 2018).

    Of equal numbers at the margin the first are sent. Values take four bytes each, and positions as in
    `fedstat.federated.Sparse`.

    Parameters
    ----------
    share : float
        The share k / d in (0, 1], rounded, of an entry; one number at least.
    feedback : bool
        Whether clients send later what was not among the largest, without which most of it would never be sent.

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> codec, x = fs.compression.TopK(0.5), np.array([1.0, -2.0, 0.5, 4.0], np.float32)
    >>> data = codec.encode(x, np.random.default_rng(0))
    >>> len(data), codec.decode(data, 4).tolist()
    (9, [0.0, -2.0, 0.0, 4.0])
    """

    share: float
    feedback: bool = True

    def __post_init__(self) -> None:
        check_fields(self, share="(0, 1]")

    def contraction(self, d: int) -> float:
        """Return ``k / d``, which a vector of equal numbers attains."""
        return _count(self.share, d) / d

    def encode(self, x: np.ndarray, rng: np.random.Generator) -> bytes:
        """Choose positions."""
        size, k = np.abs(x), _count(self.share, len(x))
        least = np.partition(size, -k)[-k]
        chosen = size > least
        chosen[np.flatnonzero(size == least)[: k - np.count_nonzero(chosen)]] = True
        where = np.flatnonzero(chosen)
        return placed(where, x[where].astype(_FLOAT), len(x))

    def decode(self, data: bytes, d: int) -> np.ndarray:
        """Put values where they belong."""
        return _spread(data, _count(self.share, d), d)


@dataclass(frozen=True)
class Sign:
    """The signs of a vector's numbers, times their mean size (Bernstein et al. 2018; Karimireddy et al. 2019).

    ``C(x)_i = |x|_1 / d sign(x_i)``, with +1 for zero. The mean size takes four bytes, and a sign one bit.

    Parameters
    ----------
    feedback : bool
        Whether clients send later what the signs lost, without which training may go astray (Karimireddy et al. 2019).

    Examples
    --------
    >>> import numpy as np, fedstat as fs
    >>> codec, x = fs.compression.Sign(), np.array([1.0, -2.0, 3.0], np.float32)
    >>> data = codec.encode(x, np.random.default_rng(0))
    >>> len(data), codec.decode(data, 3).tolist()
    (5, [2.0, -2.0, 2.0])
    """

    feedback: bool = True

    def __post_init__(self) -> None:
        check_fields(self)

    def contraction(self, d: int) -> float:
        """Return ``1 / d``, which a vector with one number that is not zero attains."""
        return 1 / d

    def encode(self, x: np.ndarray, rng: np.random.Generator) -> bytes:
        """Take mean size and signs."""
        return _packed(np.abs(x).mean(dtype=np.float64), x >= 0, 1)

    def decode(self, data: bytes, d: int) -> np.ndarray:
        """Read mean size and signs."""
        scale, codes = _unpacked(data, 1, d)
        return np.where(codes > 0, scale, -scale)


COMPRESSIONS: dict[str, type[Compression]] = {"half": Half, "qsgd": QSGD, "rand-k": RandK, "top-k": TopK, "sign": Sign}


def compressed(
    codec: Compression,
    of: str,
    state: State,
    update: Update,
    down: Message,
    up: Message,
    rngs: Sequence[np.random.Generator],
    clients: int,
) -> tuple[Update, dict[str, Entry | Coded], ClientStore]:
    """Compress uploads; return what the server has of the update, what travels, and what each client has not sent.

    `of` is the method's name, whose m participants receive `down` and upload `up`, with a generator each; `clients` is
    the number of all clients. Without feedback nothing is left unsent. A ValueError tells of a method that sends what
    cannot be compressed, and of a codec that decodes to something else than a finite vector.
    """
    coded, heard, lost = dict[str, Entry | Coded](up), dict(update.end), dict[str, Tensor]()
    feedback = bool(getattr(codec, "feedback", False))
    before = state.unsent.rows(update.ids) if feedback else {}
    compressible = _compressible(codec, of, state, update, down, up)
    for name, (values, mask) in compressible.items():
        zero = torch.zeros((), dtype=values.dtype, device=values.device)
        known, owed = update.start.get(name, zero), before.get(name, zero)
        change = values - known + owed
        coded[name], came = _through(codec, change, mask, rngs)
        heard[name] = known + came if mask is None else torch.where(mask, known + came, update.end[name])
        if feedback:
            lost[name] = change - came if mask is None else torch.where(mask, change - came, owed)
    update = replace(update, end=heard, own={name: update.end[name] for name in compressible})
    if not lost:
        return update, coded, state.unsent
    if state.unsent and (new := [name for name in lost if name not in state.unsent]):
        raise ValueError(f"{of} begins to send {new[0]!r} after its first round, for which {codec!r} has no place.")
    unsent = state.unsent or ClientStore.filled({n: torch.zeros_like(leaf[0]) for n, leaf in lost.items()}, clients)
    return update, coded, unsent.write(update.ids, lost)


def decompressed(codec: Compression, data: bytes, d: int) -> np.ndarray:
    """Return the vector (d,) of float32 that bytes stand for; ValueError if it is no finite vector of that length."""
    found = np.asarray(codec.decode(data, d) if d else np.frombuffer(_of_length(data, 0), np.float32))
    if found.shape != (d,) or found.dtype.kind != "f":
        raise ValueError(f"{codec!r} must decode to floats of shape ({d},), got {found.dtype} of shape {found.shape}.")
    if not np.isfinite(found).all():
        raise ValueError(f"{codec!r} decodes to numbers that are not finite.")
    return found.astype(np.float32, copy=False)


def _compressible(
    codec: Compression, of: str, state: State, update: Update, down: Message, up: Message
) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Return the entries of a message that are compressed: values (m, ...), and which travel if not all of them do."""
    found = {}
    for name, entry in up.items():
        if isinstance(entry, Sparse | Bits):
            what = "truth values" if isinstance(entry, Bits) else "nothing but what is not zero"
            raise ValueError(f"{of} sends {what} as {name!r}, which has no place for {codec!r}.")
        values, mask = elements(entry)
        if is_statistic(name) or not values.is_floating_point():
            continue
        end = update.end.get(name, torch.zeros(0))
        if end.shape != values.shape or not ((end == values) if mask is None else (end == values) | ~mask).all():
            raise ValueError(f"{of} sends as {name!r} what is no entry of update.end, and has no place for {codec!r}.")
        told = down.get(name)
        if name in update.start and not isinstance(told, Tensor):  # the server may know it without having told it
            unknown = update.start[name] != state.server.get(name, torch.nan)
            unknown = unknown & ~told.mask if isinstance(told, Selected) else unknown
            if (unknown if mask is None else unknown & mask).any():
                raise ValueError(
                    f"{of} uploads {name!r}, of which clients have values of their own to start from: the server could "
                    f"not add the change that {codec!r} sends."
                )
        found[name] = values, mask
    return found


def _through(
    codec: Compression, change: Tensor, mask: Tensor | None, rngs: Sequence[np.random.Generator]
) -> tuple[Coded, Tensor]:
    """Return the bytes of m changes, and what comes of them, zero where nothing travels."""
    # an attack may drive numbers to infinity
    flat, data = change.detach().reshape(len(change), -1).float().nan_to_num().cpu().numpy(), []
    where = [...] * len(flat) if mask is None else mask.reshape(flat.shape).cpu().numpy()
    came = np.zeros_like(flat)
    for row, chosen, rng in zip(range(len(flat)), where, rngs, strict=True):
        x = flat[row][chosen]
        data.append(codec.encode(x, rng) if len(x) else b"")
        came[row][chosen] = decompressed(codec, data[-1], len(x))
    return Coded(tuple(data)), torch.from_numpy(came).to(change).view(change.shape)


def _count(share: float, d: int) -> int:
    """Return how many of d numbers a share is."""
    return max(1, share_of(d, share))


def _packed(scale: ArrayLike, codes: np.ndarray, bits: int) -> bytes:
    """Return a number, and whole ones of some bits each, as bytes: first the lowest bits of all of them, and so on."""
    codes = codes.astype(np.min_scalar_type(2**bits - 1))
    planes = np.stack([codes >> place & 1 for place in range(bits)])
    return np.asarray(scale, _FLOAT).tobytes() + np.packbits(planes, bitorder="little").tobytes()


def _unpacked(data: bytes, bits: int, d: int) -> tuple[np.float32, np.ndarray]:
    """Return the number and the d whole ones from the bytes of `_packed`."""
    reader = Reader(_of_length(data, _FLOAT.itemsize + bitmap(bits * d)))
    scale, codes = np.float32(reader.array(_FLOAT, 1)[0]), np.zeros(d, np.min_scalar_type(2**bits - 1))
    for place, plane in enumerate(reader.bits(bits * d).reshape(bits, d)):
        codes |= plane.astype(codes.dtype) << place
    return scale, codes.astype(np.int32)


def _spread(data: bytes, k: int, d: int) -> np.ndarray:
    """Return d numbers, all zero but k, from the bytes of `placed`."""
    # four bytes for a value, and for a position that is listed
    reader = Reader(_of_length(data, min(4 * k, bitmap(d)) + 4 * k))
    where = reader.positions(k, d).astype(np.int64)
    if len(where) != k or where[-1] >= d or (np.diff(where) <= 0).any():
        raise ValueError(f"the positions of {k} numbers must ascend below {d}.")
    found = np.zeros(d, np.float32)
    found[where] = reader.array(_FLOAT, k)
    return found


def _of_length(data: bytes, length: int) -> bytes:
    """Return the bytes; refuse more or fewer than there should be."""
    if len(data) != length:
        raise ValueError(f"there must be {length} bytes, got {len(data)}.")
    return data
