"""What travels between the ends: named arrays and numbers, in exactly the bytes that the codec counts.

An array stands under the name of its entry. ``selected:NAME`` holds the selected elements of an entry, in order, and
``bits:NAME`` truth values, eight to a byte; `fedstat.export.coded` adds compressed entries. Numbers are not counted, as
in the codec. Every question holds ``ask`` and ``round``, and every reply repeats them, beside the number of training
samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.network import Params
from fedstat.federated.codec import Bits, Message, Selected, Sparse, encode

_SELECTED, _BITS = "selected:", "bits:"
#: What arrays may hold whose leaves the receiver does not know.
_FLOATS = np.dtype("<f4"), np.dtype("<f8")


class Refused(ValueError):
    """Raised where a method cannot run with real clients, or a message is not what it must be.

    Examples
    --------
    >>> import fedstat as fs
    >>> server = fs.export.Server(fs.FedAvg(), fs.models.mlp(4, 3, 2), fs.Training(lr=0.1), clients=3)
    >>> try:
    ...     next(server.opening({}))
    ... except fs.export.Refused as error:
    ...     print(error)
    all 3 clients must answer before the first round; [0, 1, 2] did not.
    """


class Unfit(Refused):
    """Raised where it is the method that cannot run with real clients, and not a message that is at fault."""


def refusal(method: object, why: str) -> Unfit:
    """Return the error that names a method, and says why it stays in the simulation."""
    return Unfit(f"{type(method).__name__} cannot run with real clients: {why}.")


class Ask(IntEnum):
    """What the server asks of a client."""

    HELLO = 0  #: who it is; whatever it kept of an earlier run is forgotten
    WARM_UP = 1  #: local training from the common start, before the first round
    MASKS = 2  #: to remember who shares what, as the warm-up decided it
    TRAIN = 3  #: a round's local training
    EVALUATE = 4  #: how good its models are
    RETURN = 5  #: who it is, after its connection broke; it forgets nothing


@dataclass(frozen=True, eq=False)
class Packet:
    """One message.

    Attributes
    ----------
    arrays : dict of ndarray
        Numbers and bytes by name; their bytes are those that the method's message counts.
    numbers : dict of int or float
        Scalars by name.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> packet = fs.export.Packet({"hidden.weight": np.zeros((2, 3), np.float32)}, {"samples": 12})
    >>> packet.numbers["samples"], packet.arrays["hidden.weight"].nbytes
    (12, 24)
    """

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)


def question(ask: Ask, round: int, arrays: Mapping[str, np.ndarray] | None = None) -> Packet:
    """Return what the server asks of a client in a round, with what it sends along."""
    return Packet(arrays or {}, {"ask": int(ask), "round": round})


def pack(message: Message, row: int, method: object) -> dict[str, np.ndarray]:
    """Return what one client's row of a message is as arrays; refuse an entry whose length only its sender knows."""
    arrays = {}
    for name, entry in message.items():
        if isinstance(entry, Sparse):
            raise refusal(
                method,
                f"how many elements of {name!r} are not zero is known to the sender alone, and the arrays that travel "
                "have lengths that both sides know",
            )
        data = encode({name: entry}, row)
        if isinstance(entry, Bits):
            arrays[_BITS + name] = np.frombuffer(data, np.uint8)
        elif isinstance(entry, Selected):
            arrays[_SELECTED + name] = np.frombuffer(data, _little(entry.values))
        else:
            arrays[name] = np.frombuffer(data, _little(entry)).reshape(entry.shape[1:])
    return arrays


def unpack(arrays: Mapping[str, np.ndarray], known: Params, masks: Params) -> tuple[Params, Params]:
    """Return what arrays say, as rows of one client, (1, ...) each, and masks that are true where they say it.

    Arrays may come from anybody: another type or shape than an array must have, or numbers that are not finite, are
    `Refused`. `known` are the leaves that the receiver knows, (1, ...) each, which give shapes and types; `masks`,
    broadcastable to them, are the elements that are shared, where not all of a leaf is. Bits are left out: both sides
    know what they say.
    """
    values, said = dict[str, Tensor](), dict[str, Tensor]()
    for key, array in arrays.items():
        if key.startswith(_BITS):
            check(key, array, None, np.dtype(np.uint8))
            continue
        name = key.removeprefix(_SELECTED)
        like = known.get(name)
        if key == name:
            check(key, array, None if like is None else tuple(like.shape[1:]), None if like is None else _little(like))
            values[name] = torch.from_numpy(array.copy())[None]
            said[name] = torch.ones((1,) * values[name].dim(), dtype=torch.bool)
            continue
        if like is None or name not in masks:
            raise Refused(f"array {key!r} came, but no part of {name!r} is shared by itself.")
        mask = masks[name].cpu().expand(like.shape)
        check(key, array, (int(mask.sum()),), _little(like))
        values[name] = torch.zeros(like.shape, dtype=like.dtype).masked_scatter(mask, torch.from_numpy(array.copy()))
        said[name] = mask
    return values, said


def combine(known: Params, values: Params, said: Params) -> Params:
    """Put what was said into what is known, (1, ...) each; what is not known at all is taken as it came."""
    told = {name: torch.where(said[name], values[name], leaf) for name, leaf in known.items() if name in values}
    return known | values | told


def pack_masks(masks: Params, row: int) -> Packet:
    """Return masks of one client as bits, equal ones once: `numbers` say under which name each leaf's mask came."""
    arrays, numbers, seen = dict[str, np.ndarray](), dict[str, int | float](), dict[bytes, int]()
    for name, mask in masks.items():
        own = mask[row % len(mask)].cpu().numpy()
        bits = np.packbits(own, axis=None, bitorder="little")
        which = seen.setdefault(bits.tobytes() + bytes([own.size % 8]), len(seen))
        arrays.setdefault(f"{_BITS}{which}", bits)
        numbers[f"mask {name}"] = which
        numbers |= {f"shape {axis} {name}": length for axis, length in enumerate(own.shape)}
    return Packet(arrays, {**numbers, **question(Ask.MASKS, 0).numbers})


def unpack_masks(packet: Packet, shapes: Mapping[str, torch.Size]) -> Params:
    """Return the masks, (1, ...) each, that `pack_masks` made; `shapes` are those of the leaves.

    A mask that belongs to no leaf, does not fit its leaf, or is missing, is `Refused`.
    """
    masks = {}
    for key, which in packet.numbers.items():
        if not key.startswith("mask "):
            continue
        name = key.removeprefix("mask ")
        if name not in shapes:
            raise Refused(f"a mask of {name!r} came, but there is no such leaf.")
        full = tuple(shapes[name])
        shape = tuple(int(packet.numbers.get(f"shape {axis} {name}", -1)) for axis in range(len(full)))
        if any(length not in (1, size) for length, size in zip(shape, full, strict=True)):
            raise Refused(f"the mask of {name!r} must broadcast to {full}, got {shape}.")
        bits, count = packet.arrays.get(f"{_BITS}{int(which)}"), int(np.prod(shape))
        if bits is None:
            raise Refused(f"the mask of {name!r} did not come.")
        check(f"{_BITS}{int(which)}", bits, (-(-count // 8),), np.dtype(np.uint8))
        flat = np.unpackbits(bits, count=count, bitorder="little").astype(bool)
        masks[name] = torch.from_numpy(flat.reshape(1, *shape))
    return masks


def sends_bits(arrays: Mapping[str, np.ndarray]) -> str | None:
    """Return the name of the first truth values among arrays, if there are any."""
    return next((key.removeprefix(_BITS) for key in arrays if key.startswith(_BITS)), None)


def check(key: str, array: np.ndarray, shape: tuple[int, ...] | None, dtype: np.dtype | None) -> None:
    """Refuse an array that is not what the receiver expects; None expects floats of any shape."""
    if not isinstance(array, np.ndarray) or array.dtype not in (_FLOATS if dtype is None else (dtype,)):
        held = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise Refused(f"array {key!r} must hold {'numbers' if dtype is None else dtype}, got {held}.")
    if shape is not None and array.shape != shape:
        raise Refused(f"array {key!r} must have shape {shape}, got {array.shape}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise Refused(f"array {key!r} must hold finite numbers; some are not.")


def number(packet: Packet, name: str, least: int, most: int = 2**31 - 1) -> int:
    """Return a whole number of a packet, checked."""
    value = packet.numbers.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Refused(f"the number {name!r} must be a whole number in {least}..{most}, got {value!r}.")
    return value


def _little(tensor: Tensor) -> np.dtype:
    """Return the type in which a tensor's numbers travel."""
    return torch.empty(0, dtype=tensor.dtype).numpy().dtype.newbyteorder("<")
