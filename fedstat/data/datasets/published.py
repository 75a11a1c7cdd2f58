"""Tell whether a file is the published one, by its size and its SHA-256."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

from fedstat._files import sha256
from fedstat.data.datasets.base import Download, Source

#: Files that were found to be the published ones in this process, each by what tells it from what is there later.
_seen: set[tuple[str, int, int, int]] = set()


def check_file(download: Download, path: Path, remedy: str) -> None:
    """Refuse a file that is not the published one, by size and SHA-256; the message names it and ends with `remedy`.

    What was packed anew counts as published if its content is (`Download.unpacked`). Where no checksum is known, the
    one counts that `fetch` noted beside the file.
    """
    noted = _noted(path)
    wanted = download.sha256 or (noted.read_text().strip() if noted.is_file() else None)
    size = path.stat().st_size
    if download.size in (None, size):
        found = sha256(path)
        if wanted in (None, found):
            return
        reason = f"has the SHA-256 {found}, where {wanted} is {'published' if download.sha256 else f'in {noted}'}"
    else:
        reason = f"has {size:,} bytes, where {download.size:,} are published"
    if download.unpacked is None or _unpacked(path) != download.unpacked:
        raise ValueError(f"{path} {reason}. {remedy}")


def check_found(source: Source, folder: Path) -> None:
    """Refuse files of a data set that bear the name of a published one and are not it, once in a process.

    Files under other names, such as one's own subsets or what was unpacked, are known to nobody and are not checked.
    """
    published = {download.file: download for download in source.downloads}
    for path in source.find(folder):
        if (download := published.get(path.name)) is None or not path.is_file():
            continue
        found = path.stat()
        version = str(path.resolve()), found.st_ino, found.st_size, found.st_mtime_ns
        if version not in _seen:
            check_file(
                download,
                path,
                f"Remove it and fetch it anew by `fedstat data fetch {source.name}`; if it is meant to be another "
                "file, unpack it or give it another name.",
            )
            _seen.add(version)


def note(path: Path, of: Path) -> None:
    """Note beside `path` the SHA-256 of the file `of`, for which none is published, so that a change is noticed."""
    _noted(path).write_text(sha256(of) + "\n")


def _noted(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _unpacked(path: Path) -> str:
    """Return the SHA-256 of what a .gz file holds, empty if it is damaged."""
    try:
        with gzip.open(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error):
        return ""
