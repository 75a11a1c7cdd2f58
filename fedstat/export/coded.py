"""Compressed uploads in packets: bytes in place of numbers.

``coded:NAME`` holds the bytes that a compression made of the array NAME. Both sides know the shape of a leaf; that of
any other entry stands among the numbers, which are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedstat.export.packet import Packet, Refused, check, number, pack
from fedstat.federated.client.network import Params
from fedstat.federated.codec import Coded, Message, Sent
from fedstat.federated.compression import decompressed
from fedstat.federated.method import Method

_CODED, _SELECTED = "coded:", "selected:"


def pack_coded(sent: Sent, message: Message, known: Params, method: Method) -> Packet:
    """Return what one client sends of its message under a compression, in which `known` are the leaves it received."""
    arrays, numbers = pack(message, 0, method), dict[str, int | float]()
    for key in list(arrays):
        name = key.removeprefix(_SELECTED)
        if isinstance(entry := sent[name], Coded):
            array = arrays.pop(key)
            arrays[_CODED + key] = np.frombuffer(entry.data[0], np.uint8)
            if name not in known:
                numbers |= {f"shape {axis} {name}": length for axis, length in enumerate(array.shape)}
    return Packet(arrays, numbers)


def unpack_coded(
    packet: Packet, method: Method, known: Params, masks: Params, dtype: torch.dtype
) -> Mapping[str, np.ndarray]:
    """Return the arrays of the message that a client sent, from its bytes, which may have come from anybody.

    `known` are the leaves that the client received, (1, ...) each; `masks`, broadcastable to them, are the elements
    that are shared, where not all of a leaf is. Bytes that cannot be decoded, or are not of a leaf's part that is
    shared, are `Refused`.
    """
    if method.compression is None:
        return packet.arrays
    arrays = dict(packet.arrays)
    for key in [key for key in arrays if key.startswith(_CODED)]:
        check(key, data := arrays.pop(key), None, np.dtype(np.uint8))
        own = key.removeprefix(_CODED)
        name = own.removeprefix(_SELECTED)
        if own != name and (name not in known or name not in masks):
            raise Refused(f"array {key!r} came, but no part of {name!r} is shared by itself.")
        try:
            start: Tensor = known[name][0] if name in known else torch.zeros(_shape(packet, name), dtype=dtype)
            start = start if own == name else start[masks[name].cpu().expand(known[name].shape)[0]]
            came = torch.from_numpy(decompressed(method.compression, data.tobytes(), start.numel()))
        except Exception as error:  # any bytes may have come
            raise Refused(f"array {key!r} cannot be decoded: {error}") from None
        array = (start + came.to(dtype).view(start.shape)).numpy()
        arrays[own] = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return arrays


def _shape(packet: Packet, name: str) -> tuple[int, ...]:
    """Return the shape of an entry that is no leaf, as its sender says it."""
    shape: list[int] = []
    while (axis := f"shape {len(shape)} {name}") in packet.numbers:
        shape.append(number(packet, axis, 0))
    if math.prod(shape) > 2**31:
        raise Refused(f"the shape of {name!r} must be one of an array, got {tuple(shape)}.")
    return tuple(shape)
