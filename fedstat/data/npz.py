"""Read ``.npz`` files that anybody may have written: plain arrays, or an error that names the file and the array."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from fedstat._pickled import read_pickled

#: How many times larger than its compressed form an array may be, beyond the first gigabyte.
_RATIO, _FREE = 200, 2**30

_Header = tuple[tuple[int, ...], bool, np.dtype[Any]]


def read_npz(path: str | Path, wanted: Mapping[str, str], *, optional: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Read arrays of a ``.npz`` file, never unpickling.

    Arrays, `wanted` or `optional`, are named with the kinds of dtype that they may have, such as "biuf"; others are not
    read. A ValueError says which array is missing, of another kind, corrupt, or unpacks to far more than its size in
    the file explains.
    """
    path = Path(path)
    with path.open("rb") as file:
        archive = _opened(path, file)
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        arrays = {}
        for name, kinds in {**wanted, **optional}.items():
            if name in names:
                with _member(path, archive, name) as (stream, size, (shape, _, dtype)):
                    if dtype.kind not in kinds:
                        raise ValueError(f"it has dtype {dtype}, where one of kind {' or '.join(kinds)} is needed")
                    if any(side < 0 for side in shape) or stream.tell() + math.prod(shape) * dtype.itemsize != size:
                        raise ValueError(f"its shape {shape} does not fit its {size:,} bytes")
                    stream.seek(0)
                    array = npy.read_array(stream, allow_pickle=False)
                    arrays[name] = array.astype(dtype.newbyteorder("="), copy=False)
            elif name in wanted:
                raise ValueError(f"{path} has no array {name!r}; it has {', '.join(map(repr, names)) or 'none'}.")
        return arrays


def read_object(path: Path, name: str) -> Any:
    """Read an array of one object, as ``np.savez(path, NAME={...})`` writes it, as data: nothing is unpickled.

    An object that is more than arrays and plain values is a ValueError, as is a file that `read_npz` would not read.
    """
    if not path.is_file():
        raise ValueError(f"{path} is missing.")
    with path.open("rb") as file, _member(path, _opened(path, file), name) as (stream, _, (shape, _, dtype)):
        if dtype.kind != "O" or shape != ():
            raise ValueError(f"it has dtype {dtype} and shape {shape}, where one object is needed")
        return read_pickled(stream.read(), "it").item()


def _opened(path: Path, file: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except Exception as error:  # a hostile archive may fail in any way
        raise ValueError(f"{path} is no .npz file: {error}.") from None


@contextmanager
def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], int, _Header]]:
    """Yield an array's stream behind its header, its bytes with the header, and the header; errors name the array."""
    try:
        member = archive.getinfo(f"{name}.npy")
        if member.file_size > _FREE + _RATIO * member.compress_size:
            raise ValueError(f"it would unpack from {member.compress_size:,} to {member.file_size:,} bytes")
        with archive.open(member) as stream:
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(stream)]
            yield stream, member.file_size, read(stream)
    except Exception as error:
        raise ValueError(f"{path}: array {name!r} cannot be read: {error}.") from None
