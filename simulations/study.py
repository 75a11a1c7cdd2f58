"""What all simulations share: scales, a cache of finished parts, tidy tables on disk."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pandas as pd

import fedstat
from fedstat._files import atomic_file, atomic_folder

Tables = dict[str, pd.DataFrame]
Scale = Literal["smoke", "quick", "paper"]

#: Parts of the library that cannot change a number.
_SILENT = ("report", "claims", "cli.py", "demo.py", "testing.py", "py.typed")


def cached(out: Path, name: str, config: object, compute: Callable[[], Tables]) -> Tables:
    """Return the tables of a finished part, computing and storing them if they are not there.

    A part is identified by its configuration and by the source of the library and the simulations: after an
    interruption finished parts are read, and after a change of code they are computed anew.

    Parameters
    ----------
    out : Path
        The user's output folder.
    name : str
        Name of the part, e.g. ``"split-p0.5-alpha0.4"``.
    config : dataclass
        Everything that decides the numbers.
    compute : callable
        Returns the part's tables.
    """
    text = json.dumps({"part": name, **asdict(config), "source": _source()}, sort_keys=True, default=str)  # type: ignore[call-overload]
    folder = out / "cache" / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        tables = compute()
        with atomic_folder(folder) as temporary:
            for key, table in tables.items():
                table.to_parquet(temporary / f"{key}.parquet", index=False)
    return {path.stem: pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}


def simulate(name: str, scale: Scale, out: Path) -> Tables:
    """Run a simulation (or read its cache), write its tables and its figures to ``out/NAME``.

    Raises
    ------
    ValueError
        If the scale is unknown.
    """
    module = importlib.import_module(f"simulations.{name}")
    if scale not in module.SCALES:
        raise ValueError(f"scale must be one of {', '.join(module.SCALES)}, got {scale!r}.")
    tables: Tables = module.run(module.SCALES[scale], out)
    folder = out / name
    write_tables(folder, tables, {"simulation": name, "scale": scale, **asdict(module.SCALES[scale])})
    for stem, figure in module.figures(tables).items():
        with atomic_file(folder / f"{stem}.svg") as path:
            figure.savefig(path, format="svg", metadata={"Date": None})
    return tables


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame], config: Mapping[str, Any]) -> None:
    """Write tidy tables as CSV, and beside them config.json with scale and versions."""
    from fedstat.federated.result import environment

    for key, table in tables.items():
        with atomic_file(folder / f"{key}.csv") as path:
            table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    with atomic_file(folder / "config.json") as path:
        path.write_text(json.dumps({**config, "environment": environment()}, indent=2, default=str) + "\n")


def read_tables(folder: Path) -> Tables:
    """Read the tables that `write_tables` wrote."""
    return {path.stem: pd.read_csv(path) for path in sorted(folder.glob("*.csv"))}


def read_config(folder: Path) -> dict[str, Any]:
    """Read the configuration that `write_tables` wrote."""
    return json.loads((folder / "config.json").read_text())  # type: ignore[no-any-return]


def _source() -> str:
    """Hash of all code that decides numbers."""
    package = Path(fedstat.__file__).parent
    files = [p for p in package.rglob("*.py") if p.relative_to(package).parts[0] not in _SILENT]
    files += Path(__file__).parent.glob("*.py")
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
