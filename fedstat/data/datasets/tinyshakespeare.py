"""Tiny Shakespeare: 40,000 lines in one file, speeches between blank lines (Karpathy 2015)."""

from __future__ import annotations

from pathlib import Path

from fedstat.data.datasets.archive import content
from fedstat.data.datasets.base import Dataset, Source
from fedstat.data.datasets.text import TEXT_BYTES, decode_text, windows

_FILES = ("input.txt", "tinyshakespeare_input.txt")


def speeches(text: str) -> dict[str, list[list[str]]]:
    """Return the lines of each speech of each role; a speech begins with the line ``Role:``."""
    found: dict[str, list[list[str]]] = {}
    for speech in text.split("\n\n"):
        role, *lines = speech.strip("\n").split("\n")
        if role.endswith(":"):
            found.setdefault(role[:-1], []).append(lines)
    return found


def _find(folder: Path) -> list[Path]:
    return [folder / name for name in _FILES if (folder / name).is_file()]


def _read(folder: Path) -> Dataset:
    path = _find(folder)[0]
    spoken = speeches(decode_text(content(path, TEXT_BYTES), path))
    lines = {role: [line for speech in parts for line in speech] for role, parts in spoken.items()}
    return windows("tinyshakespeare", path, lines)


SOURCE = Source(
    name="tinyshakespeare",
    about="windows of 80 characters from 7,222 speeches, the next character as class, by role",
    folder="shakespeare",
    find=_find,
    read=_read,
)
