"""Parts of a study: computed by worker processes, cached, resumed."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import fedstat
from fedstat._environment import environment
from fedstat._files import atomic_folder
from fedstat._tables import MANIFEST, Tables, checked, checksums
from fedstat._workers import run_jobs
from fedstat.inference import count_missing
from simulations.source import fingerprint
from simulations.tables import manifest

if TYPE_CHECKING:
    from fedstat.federated import Result

#: Added to the seeds of a scale whose runs are a second look at committed tables, which hold smaller ones.
SECOND_LOOK = 1000


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of a study that is computed, cached and resumed as a whole.

    Attributes
    ----------
    name : str
        The part's name, e.g. ``"split-p0.5-alpha0.4"``.
    config : dataclass
        Everything that decides the numbers.
    compute : callable
        Returns the part's tables; importable, since parts run in worker processes.
    """

    name: str
    config: Any
    compute: Callable[[], Tables]

    def folder(self, out: Path) -> Path:
        """Return where the part is cached, by its name and a hash of its configuration and of the code behind it."""
        text = json.dumps(
            {"part": self.name, **asdict(self.config), "source": _source(_function(self.compute).__module__)},
            sort_keys=True,
        )
        return out / "cache" / f"{self.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _function(compute: Callable[[], Tables]) -> Callable[..., Tables]:
    return compute.func if isinstance(compute, partial) else compute


def complete(result: Result) -> Result:
    """Return the result, or refuse it if some of its values are missing.

    Raises
    ------
    FloatingPointError
        If values are missing: then training diverged, and a mean over the others would mislead.
    """
    for _, rows in result.history.groupby("metric", observed=True):
        if missing := count_missing(rows):
            raise FloatingPointError("; ".join(f"{method}: {words}" for method, words in missing.items()))
    return result


def run_parts(parts: Sequence[Part], out: Path, what: str) -> Tables:
    """Return the parts' tables, joined; finished parts are read from the cache, the others computed.

    A part whose files are not what was written is computed again, and standard error says so.
    """
    folders = {part: part.folder(out) for part in parts}
    stored: dict[Part, Tables] = {}
    for part, folder in folders.items():
        if folder.exists():
            try:
                stored[part] = _read(folder)
            except (OSError, ValueError) as error:
                print(f"{error}; {part.name} is computed again", file=sys.stderr)
    missing = [part for part in parts if part not in stored]
    gpu = any(getattr(part.config, "device", "cpu") != "cpu" for part in parts)

    def keep(k: int, tables: Tables) -> None:
        _store(tables, folders[missing[k]])

    run_jobs(what, [part.compute for part in missing], done=len(parts) - len(missing), gpu=gpu, keep=keep)
    stored |= {part: _read(folders[part]) for part in missing}
    tables = [stored[part] for part in parts]
    names = sorted({name for some in tables for name in some})
    return {name: pd.concat([some[name] for some in tables if name in some], ignore_index=True) for name in names}


def _store(tables: Tables, folder: Path) -> None:
    """Store a part's tables in `folder`, all or none."""
    with atomic_folder(folder) as temporary:
        for name, table in tables.items():
            table.to_parquet(temporary / f"{name}.parquet", index=False)
        (temporary / MANIFEST).write_text(manifest(temporary, [f"{name}.parquet" for name in tables]))


def _read(folder: Path) -> Tables:
    """Read the tables that `_store` stored; OSError or ValueError if any file is not what it wrote."""
    sums = checksums(folder)
    if not sums:
        raise ValueError(f"{folder / MANIFEST} lists no table")
    if extra := sorted({path.name for path in folder.iterdir()} - {*sums, MANIFEST}):
        raise ValueError(f"{folder / extra[0]} is not listed in {MANIFEST}")
    return {Path(name).stem: pd.read_parquet(BytesIO(checked(folder, name, sums))) for name in sorted(sums)}


@functools.cache
def _source(module: str) -> str:
    """Hash the code behind a module's numbers: our own, and the versions of the packages that it uses."""
    file = sys.modules[module].__file__
    assert file is not None
    packages = {"fedstat": Path(fedstat.__file__).parent, "simulations": Path(__file__).parent}
    return json.dumps(environment()["packages"]) + fingerprint(module, Path(file), packages)
