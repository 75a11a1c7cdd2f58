"""Read the members of a tar or zip file in place; the rules of what is safe stand here and nowhere else."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

# name, size, whether it is a plain file (None for a folder), how to open it
_Member = tuple[str, int, bool | None, Callable[[], Any]]

MEMBER_BYTES = 1 << 30
TOTAL_BYTES = 1 << 31
MEMBERS = 300_000
_PIECE = 1 << 20
_HEADER = 1 << 13


def safe_members(path: str | Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield name, size and reader of the files of a .tar, .tar.gz or .zip archive in their order, without unpacking it.

    Names are relative, with forward slashes, and a file can be read until the next one is asked for. What could lie
    outside a folder, is no plain file, comes twice or is too much, and a truncated or corrupt archive, which may show
    only when a file is read, is a ValueError that names the archive.
    """
    path = Path(path)
    with path.open("rb") as file:
        magic = file.read(4)
    seen: set[str] = set()
    total = 0
    listed = (_zip_members if magic[:2] == b"PK" else _tar_members)(path)
    for number, (name, size, plain, opener) in enumerate(listed, start=1):
        if number > MEMBERS:
            raise ValueError(f"{path} holds more than {MEMBERS:,} files and folders.")
        if plain is None:
            continue
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or name[0] == "/" or any(c in name for c in "\\:") or not name.isprintable():
            raise ValueError(f"{path} holds a file named {name!r}, which could lie outside its folder.")
        name = "/".join(parts)
        total += size
        if not plain or size < 0:
            raise ValueError(f"{path} holds {name!r}, which is no plain file.")
        if name in seen:
            raise ValueError(f"{path} holds {name!r} twice.")
        if size > MEMBER_BYTES or total > TOTAL_BYTES:
            raise ValueError(f"{path} grows too large at {name!r}: at most {MEMBER_BYTES:,} bytes of a file and "
                             f"{TOTAL_BYTES:,} bytes in all are unpacked.")  # fmt: skip
        seen.add(name)
        yield name, size, partial(_read_member, path, opener, size)


def members(path: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield the files of a folder in the order of their names, or those of an archive as `safe_members` does."""
    if not path.is_dir():
        yield from safe_members(path)
        return
    for file in sorted(path.rglob("*")):
        if file.is_file():
            yield file.relative_to(path).as_posix(), file.stat().st_size, partial(content, file)


def content(path: Path, limit: int = MEMBER_BYTES) -> bytes:
    """Return a file's bytes; refuse a file that is too large for a data set, with a ValueError that names it."""
    size = path.stat().st_size
    if size > limit:
        raise ValueError(f"{path} has {size:,} bytes, more than the {limit:,} that it may have here.")
    return path.read_bytes()


@contextmanager
def blaming(path: str | Path) -> Iterator[None]:
    """Turn any error that a parser raises at a damaged file into a ValueError that names the file."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path} cannot be unpacked: {str(error)[:200] or type(error).__name__}.") from None


def _tar_members(path: Path) -> Iterator[_Member]:
    with blaming(path), path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=file) if packed else file)
        headers = _Headers(stream)
        tar = tarfile.TarFile(fileobj=cast(IO[bytes], headers))
        while (member := tar.next()) is not None:
            plain = None if member.isdir() else member.isreg() and not member.issparse()
            yield member.name, member.size, plain, partial(_at, stream, member.offset_data)
            tar.members.clear()  # type: ignore[attr-defined]  # it would remember every one
            headers.left = _HEADER
        stream.seek(tar.offset)  # tarfile takes a damaged header for the end of the archive
        rest = stream.read(_PIECE)  # reading on to the end makes gzip compare its checksum
        if not 512 <= len(rest) < _PIECE or any(rest):
            raise tarfile.ReadError("it does not end where its last file does")


def _zip_members(path: Path) -> Iterator[_Member]:
    with blaming(path), path.open("rb") as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            kind = member.external_attr >> 28  # the type of file in Unix, 0 if none is noted
            plain = kind in (0, 0o10) and member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            yield member.filename, member.file_size, None if member.is_dir() else plain, partial(archive.open, member)


class _Headers:
    """A stream for tarfile that limits headers: forged sizes would make tarfile read and remember without end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.left = stream, _HEADER
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        self.left -= size
        if size < 0 or self.left < 0:
            raise tarfile.ReadError(f"a file in it has headers of more than {_HEADER:,} bytes")
        return self.stream.read(size)


def _at(stream: IO[bytes], offset: int) -> IO[bytes]:
    stream.seek(offset)
    return stream


def _read_member(path: Path, opener: Callable[[], IO[bytes]], size: int) -> bytes:
    with blaming(path):
        found = read_at_most(opener().read, size)
        if len(found) < size:
            raise EOFError("a file in it is cut short")
        return bytes(found)


def read_at_most(read: Callable[[int], bytes], limit: int) -> bytearray:
    """Read `limit` bytes, or what there is, in pieces: a forged limit takes no memory of its own."""
    found = bytearray()
    while piece := read(min(_PIECE, limit - len(found))):
        found += piece
    return found
