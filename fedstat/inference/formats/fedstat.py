"""fedstat's own runs, read without torch: a run's folder, or the folder that ``fedstat run`` fills."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pandas as pd

from fedstat._files import complete_folder
from fedstat.inference.analysis_plan import AnalysisPlan
from fedstat.inference.formats.tidy import COLUMNS, typed

_MANIFEST = "manifest.json"


def run_folder(path: Path) -> Path | None:
    """Return the folder of the run at `path`, which may lie in it under ``run``; None if there is no run.

    A run that lacks one of its files is one all the same, and is refused where that file is read.
    """
    for folder in map(complete_folder, (path, path / "run")):
        if sum((folder / name).is_file() for name in ("config.toml", "metrics.parquet", _MANIFEST)) >= 2:
            return folder
    return None


def facts(path: Path) -> tuple[Path, dict[str, Any], pd.DataFrame | None, Path | None]:
    """Read all of a run but its history.

    Parameters
    ----------
    path : Path
        The run's folder, or one that holds it under ``run``.

    Returns
    -------
    history : Path
        The parquet file of the history.
    config : dict
    clients : DataFrame or None
        Columns seed, client, name, train, validation, test; None if the run was saved without.
    plan : Path or None
        The file ``plan.toml`` of the run or of the folder around it.

    Raises
    ------
    ValueError
        If there is no run, or a file that is read is not the one that the run's manifest lists.
    """
    folder = checked(path, "config.toml", "metrics.parquet")
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    if digest := config.get("plan"):
        plan = folder / "plan.toml"
        if not plan.is_file() or AnalysisPlan.read(plan).digest != digest:
            raise ValueError(f"{plan} is missing or has been changed since the run began; put back what was there.")
    plans = (place / "plan.toml" for place in dict.fromkeys((folder, path)))
    return folder / "metrics.parquet", config, clients_of(path), next((plan for plan in plans if plan.is_file()), None)


def clients_of(path: Path) -> pd.DataFrame | None:
    """Read the table of clients of the run at `path`, None if it was saved without; it raises the errors of `facts`."""
    folder = checked(path)
    if "clients.parquet" not in _sums(folder) and not (folder / "clients.parquet").is_file():
        return None
    return pd.read_parquet(checked(path, "clients.parquet") / "clients.parquet")


def read(history: Path) -> pd.DataFrame:
    """Read the history of a run.

    Raises
    ------
    ValueError
        If a column is missing.
    """
    table = pd.read_parquet(history)
    if lacking := [name for name in COLUMNS if name not in table]:
        raise ValueError(f"{history} lacks the column {lacking[0]!r}.")
    return typed(table)


def checked(path: Path, *names: str) -> Path:
    """Return the folder of the run at `path` after the checksums of the files `names` were found as its manifest says.

    Raises
    ------
    ValueError
        If there is no run, or a file is missing or another one.
    """
    folder = run_folder(path)
    if folder is None:
        raise ValueError(f"{path} is no fedstat run: config.toml or metrics.parquet is missing.")
    sums = _sums(folder)
    for name in names:
        if not (folder / name).is_file():
            raise ValueError(f"{folder} is no complete fedstat run: {name} is missing.")
        with (folder / name).open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != sums.get(name):
                raise ValueError(f"{folder / name} is damaged: it is not the file that {_MANIFEST} lists.")
    return folder


def _sums(folder: Path) -> dict[str, Any]:
    """Read the checksums of a run's files."""
    try:
        return dict(json.loads((folder / _MANIFEST).read_bytes())["sha256"])
    except FileNotFoundError:
        raise ValueError(f"{folder} is no complete fedstat run: {_MANIFEST} is missing.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / _MANIFEST} is damaged ({type(error).__name__}: {error}).") from error
