"""fedstat's own runs, read without torch: a run's folder, or the folder that ``fedstat run`` fills."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedstat._files import complete_folder, sha256
from fedstat._sealed import unseal, unsealed
from fedstat.inference.analysis_plan import AnalysisPlan
from fedstat.inference.reading.formats.tidy import COLUMNS, TEXT, typed, whole

#: What lies in every run's folder, and what lay in those of earlier fedstats.
_MANIFEST, _OLD = "manifest.json", "metrics.parquet"
#: Files in a folder of ``fedstat run``: predictions for clients that took no part in training, and what is noted of it.
NEW_CLIENTS, NOTED = "new-clients-predictions.parquet", "new-clients.json"


@dataclass(frozen=True)
class History:
    """The history of a run on disk, whose files are read one after the other, row by row.

    `kept` is the round that is kept under each (label, seed), where there is a rule for it; `metric` is the only one to
    read.
    """

    files: Sequence[Path]
    kept: Mapping[tuple[str, int], int] | None = None
    metric: str | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, a few hundred thousand at once."""
        return self.batches(COLUMNS)

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with some of the columns; no others are read."""
        coded, columns = pa.dictionary(pa.int32(), pa.string()), [name for name in COLUMNS if name in wanted]
        read = columns if self.metric is None else [name for name in COLUMNS if name in (*wanted, "metric")]
        for path in self.files:
            with pq.ParquetFile(path, read_dictionary=[n for n in read if n in TEXT], memory_map=True) as file:
                for batch in file.iter_batches(batch_size=1 << 19, columns=read):
                    rows = batch
                    if self.metric is not None:
                        rows = batch.filter(pc.equal(batch["metric"].cast(pa.string()), self.metric))
                    found = pa.record_batch({n: rows[n].cast(coded) if n in TEXT else rows[n] for n in columns})
                    if self.kept is not None and {*COLUMNS} <= {*wanted}:
                        found = found.append_column("kept", pa.array(marked(rows.to_pandas(), self.kept)["kept"]))
                    yield found


def marked(table: pd.DataFrame, kept: Mapping[tuple[str, int], int]) -> pd.DataFrame:
    """Return rows of a history with a column that says which of them are of the round that their run keeps."""
    found = np.zeros(len(table), dtype=bool)
    seed, rounds = table["seed"].to_numpy(), table["round"].to_numpy()
    for (label, of), number in kept.items():
        found |= (rounds == number) & (seed == of) & (table["method"] == label).to_numpy()
    return table.assign(kept=found)


def segments(sums: Mapping[str, Any], table: str) -> list[str]:
    """Return the names of a table's files in their order, out of all files that a manifest lists."""
    return sorted((name for name in sums if name.startswith(f"{table}/")), key=lambda name: (len(name), name))


def kept_rounds(manifest: Mapping[str, Any]) -> dict[tuple[str, int], int] | None:
    """Return the round that is kept of each run; None where no rule keeps one."""
    kept = manifest["kept"]
    return None if kept is None else {(str(label), int(seed)): int(number) for label, seed, number in kept}


def run_folder(path: Path) -> Path | None:
    """Return the folder of the run at `path`, which may lie in it under ``run``; None if there is no run.

    A run that lacks one of its files is one all the same, and is refused where that file is read.
    """
    for folder in map(complete_folder, (path, path / "run")):
        found = (folder / "config.toml").is_file(), (folder / "metrics").is_dir(), (folder / _MANIFEST).is_file()
        if sum(found) >= 2 or (folder / _OLD).is_file():
            return folder
    return None


def tuning_of(path: Path) -> str:
    """Return what was tuned before the run at `path`, in words; "" if ``fedstat run`` tuned nothing there."""
    file = (path.parent if path == run_folder(path) else path) / "tuning.txt"
    said = file.read_text(encoding="utf-8").partition("\n")[0] if file.is_file() else ""
    return said[:1].lower() + said[1:].removesuffix(".")


def evaluation_of(path: Path) -> dict[str, Any]:
    """Return the table ``evaluation`` of the experiment that ``fedstat run`` ran at `path`; empty for other runs."""
    file = path / "experiment.toml"
    return dict(tomllib.loads(unseal(file)).get("evaluation", {})) if file.is_file() else {}


def for_new_clients(path: Path) -> Path:
    """Return where predictions for new clients lie, if any, in the folder of ``fedstat run`` at `path`.

    A file with another checksum than is noted beside it is refused; fedstat 1.0.0 noted none.
    """
    file, noted = path / NEW_CLIENTS, path / NOTED
    if file.is_file() and noted.is_file():
        try:
            known = json.loads(noted.read_bytes()).get("predictions")
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{noted} is damaged: {error}. Put back what was there.") from None
        if known not in (None, sha256(file)):
            raise ValueError(f"{file} is damaged: it is not the file that {NOTED} lists.")
    return file


def facts(path: Path) -> tuple[History, dict[str, Any], pd.DataFrame | None, Path | None]:
    """Read all of a run but the rows of its history: the history to be read, configuration, clients and ``plan.toml``.

    `path` is the run's folder, or one that holds it under ``run``; the plan may be in either. Clients have the columns
    seed, client, name, train, validation and test; they are None if the run was saved without. A file that is not the
    one that the run's manifest lists is refused.
    """
    folder = checked(path, "config.toml", "metrics")
    sums, kept = _manifest(folder)
    history = History([folder / name for name in segments(sums, "metrics")], kept)
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    plan_of(folder, config.get("plan"))
    plans = (place / "plan.toml" for place in dict.fromkeys((folder, path)))
    return history, config, clients_of(path), next((plan for plan in plans if plan.is_file()), None)


def plan_of(folder: Path, digest: str | None) -> AnalysisPlan | None:
    """Read the plan that a run began with, whose hash its configuration holds; None if there is none."""
    if not digest:
        return None
    file = folder / "plan.toml"
    if not file.is_file() or (plan := AnalysisPlan.read(file)).digest != digest:
        raise ValueError(f"{file} is missing or has been changed since the run began; put back what was there.")
    return plan


def clients_of(path: Path) -> pd.DataFrame | None:
    """Read the table of clients of the run at `path`, None if it was saved without; it raises the errors of `facts`."""
    folder = checked(path)
    if "clients.parquet" not in _manifest(folder)[0] and not (folder / "clients.parquet").is_file():
        return None
    return pd.read_parquet(checked(path, "clients.parquet") / "clients.parquet")


def read(history: History) -> pd.DataFrame:
    """Read the history of a run whole; refuse one that lacks a column."""
    for file in history.files:
        if lacking := [name for name in COLUMNS if name not in pq.read_schema(file).names]:
            raise ValueError(f"{file} lacks the column {lacking[0]!r}.")
    return typed(whole(history))


def traffic(folder: Path) -> pd.DataFrame:
    """Read the bytes that travelled in a run, whose files have been `checked`."""
    files = [folder / name for name in segments(_manifest(folder)[0], "traffic")]
    tables = [pq.read_table(file, read_dictionary=["method"]) for file in files]
    return pa.concat_tables(tables).unify_dictionaries().to_pandas()


def checked(path: Path, *names: str) -> Path:
    """Return the folder of the run at `path` after the checksums of its files were found as its manifest says.

    The path is as in `facts`; `names` are files, and tables with all of their files.
    """
    folder = run_folder(path)
    if folder is None:
        raise ValueError(f"{path} is no fedstat run: config.toml or metrics is missing.")
    if (folder / _OLD).is_file():
        raise ValueError(f"{folder} was saved by an earlier fedstat, in another form; run it again.")
    sums = _manifest(folder)[0]
    listed = [[name] if "." in name else segments(sums, name) or [f"{name}/00000.parquet"] for name in names]
    check_files(folder, chain.from_iterable(listed), sums)
    return folder


def check_files(folder: Path, names: Iterable[str], sums: Mapping[str, str]) -> None:
    """Refuse a run of which a file is missing, or has another checksum than its manifest says."""
    names = list(names)
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise ValueError(f"{folder} is no complete fedstat run: {', '.join(missing)} is missing.")
    for name in names:
        if sha256(folder / name) != sums.get(name):
            raise ValueError(f"{folder / name} is damaged: it is not the file that {_MANIFEST} lists.")


def _manifest(folder: Path) -> tuple[dict[str, Any], dict[tuple[str, int], int] | None]:
    """Read the checksums of a run's files, and the rounds that it keeps."""
    try:
        found = unsealed(json.loads((folder / _MANIFEST).read_bytes()))
        return dict(found["sha256"]), kept_rounds(found)
    except FileNotFoundError:
        raise ValueError(f"{folder} is no complete fedstat run: {_MANIFEST} is missing.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / _MANIFEST} is damaged ({type(error).__name__}: {error}).") from error
