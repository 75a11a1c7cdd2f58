"""Tidy tables of a study on disk, as its checksums tell; `simulations.tables` writes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

Tables = dict[str, pd.DataFrame]
#: The file that holds the checksums of a folder's other files, so that damage is noticed.
MANIFEST = "manifest.json"


def read_tables(folder: Path) -> Tables:
    """Read the tables that the manifest lists, and no others; a missing or damaged file is an OSError or ValueError."""
    sums = checksums(folder)
    names = sorted(name for name in sums if name.endswith(".csv"))
    return {Path(name).stem: pd.read_csv(BytesIO(checked(folder, name, sums))) for name in names}


def checksums(folder: Path) -> dict[str, Any]:
    """Read a manifest; ValueError if it is damaged."""
    try:
        return dict(json.loads((folder / MANIFEST).read_bytes()).items())
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{folder / MANIFEST} is damaged: {error}") from error


def checked(folder: Path, name: str, sums: Mapping[str, Any]) -> bytes:
    """Return the content of a file; ValueError if its checksum is not the manifest's."""
    if not (folder / name).is_file():
        raise FileNotFoundError(f"{folder / name} is missing, and {folder / MANIFEST} lists it")
    content = (folder / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != sums.get(name):
        raise ValueError(f"{folder / name} is damaged: its content is not what {MANIFEST} promises")
    return content
