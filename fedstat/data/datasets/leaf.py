"""Read LEAF's json files (Caldas and others 2018): each user's samples, in a training and a test part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedstat.data.datasets.archive import content


def find_leaf(folder: Path) -> list[Path]:
    """Return the json files in data/train and data/test, in train and test, or in the folder itself."""
    for base in (folder / "data", folder):
        found = [path for part in ("train", "test") for path in sorted((base / part).glob("*.json"))]
        if found:
            return found
    return sorted(folder.glob("*.json"))


def read_leaf(
    folder: Path, arrays: Callable[[Path, str, list[Any], list[Any]], tuple[np.ndarray, np.ndarray]]
) -> tuple[Sequence[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Read the samples of all users of the files that `find_leaf` finds.

    Return the inputs, user by user, and of each sample the label, the user and whether it is for testing.
    ``arrays(path, user, x, y)`` makes arrays of a user's inputs and labels, two lists of one length. A file that is not
    of LEAF's form, or no sample at all, is a ValueError.
    """
    found = [
        (*arrays(path, user, inputs, labels), user, path.parent.name == "test")
        for path in find_leaf(folder)
        for user, inputs, labels in _users(path)
        if inputs
    ]
    if not found:
        raise ValueError(f"{folder} holds files of LEAF without a single sample.")
    x, y, users, test = zip(*found, strict=True)
    sizes = [len(labels) for labels in y]
    # each entry points to a name; names in full would take as much memory as windows of text
    return x, np.concatenate(y), np.repeat(np.array(users, dtype=object), sizes), np.repeat(test, sizes)


def _users(path: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Yield the name, the inputs and the labels of every user of one file; a user has as many inputs as labels."""
    try:
        table = json.loads(content(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no json file: {error}.") from None
    users = table.get("user_data") if isinstance(table, dict) else None
    if not isinstance(users, dict):
        raise ValueError(f"{path} is no file of LEAF: it has no table 'user_data'.")
    for user, samples in users.items():
        x, y = (samples.get(key) if isinstance(samples, dict) else None for key in "xy")
        if not (isinstance(x, list) and isinstance(y, list) and len(x) == len(y) and user.isprintable()):
            raise ValueError(f"{path}: user {user!r} should have lists 'x' and 'y' of one length.")
        yield user, x, y
