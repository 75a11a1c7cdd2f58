"""MLflow's folder ``mlruns``, as its file store writes it.

Source: ``mlflow/store/tracking/file_store.py`` of https://github.com/mlflow/mlflow at
c7bb896d349fdde745b24001bb546221912ab242. A run is a folder ``mlruns/EXPERIMENT/RUN`` with

- ``meta.yaml``: run_name, start_time, lifecycle_stage, and the status as a number, 3 for a run that finished;
- ``params/NAME`` and ``tags/NAME``: a text each;
- ``metrics/NAME``: a line ``timestamp value step`` for each value, in old versions without the step. A slash in
  the name makes a folder.

A database (``mlflow.db``) is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedstat.inference.reading.formats.runs import METHOD, NOTE, ONE, SEED, SEEDED, measured, named
from fedstat.inference.reading.formats.tidy import Content, rows

_FINISHED = "3"


def runs(path: Path) -> list[Path]:
    """Return the runs in a folder ``mlruns``, an experiment or a run, by their start; deleted ones are left out."""
    found = [meta.parent for depth in ("", "*/", "*/*/") for meta in path.glob(f"{depth}meta.yaml")]
    found = [run for run in found if (run / "metrics").is_dir() and _meta(run).get("lifecycle_stage") != "deleted"]
    return sorted(found, key=lambda run: (_meta(run).get("start_time", "").zfill(20), run))


def read(path: Path, given: Mapping[str, Any]) -> Content:
    """Read one run; `given` may hold the method, and the seed where no parameter tells it."""
    meta, tag = _meta(path), path / "tags" / "mlflow.runName"
    name = tag.read_text(encoding="utf-8") if tag.is_file() else meta.get("run_name", path.name)
    if (told := _parameter(path, METHOD)) is not None:
        given = {"method": told, **given}
    if (told := _parameter(path, SEED)) is not None and not SEEDED.search(name):
        name = f"{name}-seed{told}"
    method, seed = named([name], given, path)[0]
    tables = []
    for file in sorted(one for one in (path / "metrics").rglob("*") if one.is_file()):
        metric, split = measured(file.relative_to(path / "metrics").as_posix())
        try:
            lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
            steps = [int(line[2]) if len(line) > 2 else 0 for line in lines]
            tables.append(rows(method, seed, steps, metric, [float(line[1]) for line in lines], split=split))
        except (ValueError, IndexError) as error:
            raise ValueError(f"{file} is damaged: its lines must be 'timestamp value step' ({error}).") from error
    if not tables:
        raise ValueError(f"{path} holds no metrics.")
    unfinished = meta.get("status", _FINISHED) != _FINISHED
    notes = (ONE, NOTE, *[f"run {name} of MLflow did not finish"] * unfinished)
    return Content(tables, notes)


def _meta(run: Path) -> dict[str, str]:
    """Return the plain entries of ``meta.yaml``."""
    text = (run / "meta.yaml").read_text(encoding="utf-8", errors="replace")
    return {key: value.strip("'\"") for key, value in re.findall(r"^(\w+): *(.*?) *$", text, re.MULTILINE)}


def _parameter(run: Path, names: Sequence[str]) -> str | None:
    """Return the first of some parameters that the run has."""
    found = next((run / "params" / name for name in names if (run / "params" / name).is_file()), None)
    return None if found is None else found.read_text(encoding="utf-8").strip()
