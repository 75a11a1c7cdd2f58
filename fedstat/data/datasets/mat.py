"""Read numeric arrays from MATLAB's files of version 5, plain or compressed.

`scipy.io.loadmat` reads the same files, but some damaged ones make it crash the interpreter.
Format: The MathWorks, "MAT-File Format".
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator

import numpy as np

_HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # stored as
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}  # meant as


def read_mat(raw: bytes, name: str, limit: int) -> dict[str, np.ndarray]:
    """Return the numeric arrays of a file by name; refuse a file whose arrays unpack to more than `limit` bytes in all.

    A file that is damaged, of another kind or holds anything but plain numbers is a ValueError that blames the file
    `name`.
    """
    order = {b"IM": "<", b"MI": ">"}.get(raw[126:_HEADER])
    if order is None:
        raise ValueError(f"{name} is no MATLAB file of version 5.")
    found: dict[str, np.ndarray] = {}
    try:
        for content in _matrices(raw, order, limit):
            variable, values, meant = _parts(content, order)
            limit -= max(len(content), values.size * np.dtype(meant).itemsize)
            if limit < 0:
                raise ValueError("its variables are too large")
            found[variable] = values.astype(meant)
    except (ValueError, TypeError, IndexError, zlib.error) as error:
        raise ValueError(f"{name} is no MATLAB file of arrays of numbers: {error}.") from None
    return found


def _matrices(raw: bytes, order: str, limit: int) -> Iterator[memoryview]:
    """Yield the file's variables, unpacking one at a time."""
    for kind, content in _elements(memoryview(raw)[_HEADER:], order, pad=1):
        if kind == _COMPRESSED:
            inflater = zlib.decompressobj()
            content = memoryview(inflater.decompress(content, limit))
            if not inflater.eof:
                raise ValueError(f"a variable is cut short or has more than {limit:,} bytes")
            ((kind, content),) = _elements(content, order, pad=1)
        if kind != _MATRIX:
            raise ValueError(f"it holds an element of kind {kind}")
        yield content


def _elements(raw: memoryview, order: str, pad: int = 8) -> Iterator[tuple[int, memoryview]]:
    """Yield the kind and the bytes of every tagged element; up to four bytes stand within the tag itself."""
    position = 0
    while position < len(raw):
        if len(raw) < position + 8:
            raise ValueError("a tag is cut short")
        kind, size = np.frombuffer(raw, f"{order}u4", 2, position).tolist()
        start, end = position + 8, position + 8 + -(-size // pad) * pad
        if kind > 0xFFFF:
            kind, size, start, end = kind & 0xFFFF, kind >> 16, position + 4, position + 8
        if start + size > min(end, len(raw)):
            raise ValueError("an element is cut short")
        yield kind, raw[start : start + size]
        position = end


def _parts(content: memoryview, order: str) -> tuple[str, np.ndarray, str]:
    """Return a variable's name, its values as stored, and the type that they are meant to have."""
    flags, dimensions, name, values = _elements(content, order)  # a fifth part would be imaginary
    meant = _CLASSES.get(np.frombuffer(flags[1], f"{order}u4")[0] & 0xFF)
    stored = _NUMBERS.get(values[0])
    if meant is None or stored is None or not np.can_cast(stored, meant):
        raise ValueError("a variable holds no plain numbers")
    if len(dimensions[1]) > 32:
        raise ValueError("a variable has more than 8 dimensions")
    shape = np.frombuffer(dimensions[1], f"{order}i4").tolist()
    array = np.frombuffer(values[1], order + stored)
    if min(shape) < 0 or math.prod(shape) != array.size:
        raise ValueError(f"a variable has {array.size:,} values that do not fill its shape")
    return bytes(name[1]).decode("ascii"), array.reshape(shape, order="F"), meant
