"""JSON lines (https://jsonlines.org): an object in each line, whose keys are the columns of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

LINES = (".jsonl", ".ndjson")


def objects(path: Path) -> list[dict[str, Any]]:
    """Read the objects of all lines that are not blank; refuse a file without any."""
    found = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}, is no JSON: {error}") from error
            if not isinstance(entry, dict):
                raise ValueError(f"{path}, line {number}, must hold an object such as {{...}}, got {line[:40]!r}.")
            found.append(entry)
    if not found:
        raise ValueError(f"{path} is empty: it has no rows.")
    return found


def first_keys(path: Path) -> list[str]:
    """Return the keys of the first line; none if it is no object."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline())
    except (ValueError, RecursionError):
        return []
    return list(first) if isinstance(first, dict) else []


def frame(path: Path) -> pa.Table:
    """Read the lines as a table; a key that a line lacks is missing there, and values of several kinds are refused."""
    entries = objects(path)
    names = dict.fromkeys(name for entry in entries for name in entry)
    found = {}
    for name in names:
        try:
            found[name] = pa.array([entry.get(name) for entry in entries])
        except (pa.ArrowException, OverflowError) as error:
            raise ValueError(f"{path} has values of several kinds under {name!r}: {error}.") from error
    return pa.table(found)
