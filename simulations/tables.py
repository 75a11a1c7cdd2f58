"""Write a study's tidy tables: CSV, beside them how they came about, and the checksums of all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from fedstat._environment import environment
from fedstat._files import atomic_file, sha256, write_text
from fedstat._tables import MANIFEST, checked, checksums


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> None:
    """Write tidy tables as CSV, beside them config.json with scale, date and versions, and the manifest of all.

    The device that is named in `config`, if any, is the one on which networks trained.
    Tables of an earlier writing that are not among `tables` are removed: nobody should take them for new ones.
    """
    before = _listed(folder)
    for key, table in tables.items():
        with atomic_file(folder / f"{key}.csv") as path:
            table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    stamped = {**config, "date": date.today().isoformat(), "environment": environment(config.get("device", "cpu"))}
    write_text(folder / "config.json", json.dumps(stamped, indent=2, default=str) + "\n")
    write_text(folder / MANIFEST, manifest(folder, ["config.json", *(f"{key}.csv" for key in sorted(tables))]))
    for name in before - {f"{key}.csv" for key in tables}:
        (folder / name).unlink(missing_ok=True)


def _listed(folder: Path) -> set[str]:
    """Return the names of the tables that lie in a folder, as far as its manifest knows of them."""
    try:
        return {name for name in checksums(folder) if name.endswith(".csv") and Path(name).name == name}
    except (OSError, ValueError):
        return set()


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration that `write_tables` wrote; it raises the errors of `fedstat._tables.read_tables`."""
    return dict(json.loads(checked(folder, "config.json", checksums(folder))))


def manifest(folder: Path, names: Sequence[str]) -> str:
    """Return the checksums of a folder's files as JSON."""
    return json.dumps({name: sha256(folder / name) for name in names}, indent=2) + "\n"
