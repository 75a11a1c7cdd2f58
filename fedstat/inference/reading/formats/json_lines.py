"""Tables as JSON: an object in each line (https://jsonlines.org), or an array of objects; keys are the columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

LINES = (".jsonl", ".ndjson")


def records(path: Path) -> list[dict[str, Any]]:
    """Read an array of objects without inner ones, as pandas writes rows; none if the file holds anything else."""
    try:
        entries = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return []
    flat = isinstance(entries, list) and all(
        isinstance(entry, dict) and not any(isinstance(value, dict | list) for value in entry.values())
        for entry in entries
    )
    return entries if flat else []


def objects(path: Path) -> list[dict[str, Any]]:
    """Read the objects of an array, or of all lines that are not blank; refuse a file without any."""
    found = records(path) if path.suffix.lower() == ".json" else []
    if found:
        return found
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
    """Read the objects as a table; a key that one lacks is missing there, and values of several kinds are refused."""
    entries = objects(path)
    names = dict.fromkeys(name for entry in entries for name in entry)
    found = {}
    for name in names:
        try:
            found[name] = pa.array([entry.get(name) for entry in entries])
        except (pa.ArrowException, OverflowError) as error:
            raise ValueError(f"{path} has values of several kinds under {name!r}: {error}.") from error
    return pa.table(found)
