"""Read Shakespeare's plays by role, for next-character prediction, by LEAF's rules (Caldas and others 2018).

The source is the text itself (Project Gutenberg's eBook 100, the edition of 1994) or the json files that LEAF makes of
it. Applied to the text, these rules give LEAF's published 1,129 clients and 4,226,158 samples.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fedstat.data.datasets.archive import content, members
from fedstat.data.datasets.base import Dataset, Source
from fedstat.data.datasets.leaf import find_leaf, read_leaf
from fedstat.data.datasets.text import ALPHABET, TEXT_BYTES, WINDOW, decode_text, encode, windows

_ARCHIVE = "1994-01-100.zip"
_TEXTS = ("pg100.txt", "100.txt", "raw_data.txt")
_FEWEST_LINES = 3
# how a speech begins, and how it goes on
_INDENTED = re.compile(r"  ([a-zA-Z][a-zA-Z ]*)\. (?P<words>.*)"), re.compile(r"    (?P<words>.*)")
_FLUSH = re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (?P<words>.*)"), re.compile(r"(?P<words>.*)")
_FLUSH_PLAY = "THE COMEDY OF ERRORS"


def plays(text: str) -> dict[str, dict[str, list[str]]]:
    """Return the lines of each role of each play.

    Works in which at most one name speaks, such as the sonnets, are no plays.
    """
    found: dict[str, dict[str, list[str]]] = {}
    roles: dict[str, list[str]] = {}
    lines: list[str] | None = None
    title = above = ""
    for line in text.split("\n"):
        if "by William Shakespeare" in line:
            title, lines = above.strip(), None
            roles = found.setdefault(title, {})
        flush = title == _FLUSH_PLAY
        begins, goes_on = _FLUSH if flush else _INDENTED
        if spoken := begins.match(line):
            role = spoken[1].upper()
            lines = None if flush and role.startswith("ACT ") else roles.setdefault(role, [])
        elif flush and line.startswith("<"):
            lines = None
        else:
            spoken = goes_on.match(line)
        if spoken and lines is not None:
            lines.append(spoken["words"])
        above = line if line.strip() else above
    return {title: roles for title, roles in found.items() if len(roles) > 1}


def _find(folder: Path) -> list[Path]:
    return [folder / name for name in (*_TEXTS, _ARCHIVE) if (folder / name).is_file()] + find_leaf(folder)


def _read(folder: Path) -> Dataset:
    """Read the text if there is one, else LEAF's files; a client is a role of a play, under LEAF's name for it."""
    path = _find(folder)[0]
    if path.suffix == ".json":
        x, y, role, test = read_leaf(folder, _arrays)
        return Dataset(
            "shakespeare", np.concatenate(x), y, tuple(ALPHABET), test, {"role": role}, vocabulary=len(ALPHABET)
        )
    raw = _packed(path) if path.name == _ARCHIVE else content(path, TEXT_BYTES)
    spoken = {
        re.sub(r"\W+", "_", f"{play}_{role}"): lines
        for play, roles in plays(decode_text(raw, path)).items()
        for role, lines in roles.items()
        if len(lines) >= _FEWEST_LINES
    }
    return windows("shakespeare", path, spoken)


def _packed(path: Path) -> bytes:
    for member, size, read_member in members(path):
        if PurePosixPath(member).suffix.lower() == ".txt" and size <= TEXT_BYTES:
            return read_member()
    raise ValueError(f"{path} holds no text.")


def _arrays(path: Path, role: str, x: list[Any], y: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    for texts, length in ((x, WINDOW), (y, 1)):
        if any(type(text) is not str or len(text) != length for text in texts):
            raise ValueError(f"{path}: role {role!r} should have texts of {WINDOW} characters and the next one.")
    return encode("".join(x)).reshape(-1, WINDOW), encode("".join(y)).astype(np.int64)


SOURCE = Source(
    name="shakespeare",
    about="4,226,158 windows of 80 characters from 36 plays, the next character as class, 1,129 roles",
    folder="shakespeare",
    find=_find,
    read=_read,
    note="Project Gutenberg's eBook 100 of January 1994: free copying for non-commercial use with its header. It has "
    "moved more than once; t8.shakespeare.txt of MIT's course 6.006, named raw_data.txt, is the same edition.",
)
