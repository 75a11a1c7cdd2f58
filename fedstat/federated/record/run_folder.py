"""A run's folder, which is written whole or not at all and read without trust in its content."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import tomli_w
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from fedstat._environment import environment
from fedstat._files import complete_folder, locked, recover, replaced, sha256
from fedstat._sealed import sealed, unsealed
from fedstat.federated.fingerprint import differences
from fedstat.federated.history import CLIENT_DTYPES, DTYPES, PREDICTION_COLUMNS, TRAFFIC_DTYPES
from fedstat.federated.method import device_of
from fedstat.federated.record.rows import Rows, Segment, named
from fedstat.federated.rounds import Key
from fedstat.federated.state import State
from fedstat.federated.store import ClientStore
from fedstat.inference.reading.formats.fedstat import check_files, kept_rounds, plan_of, segments

if TYPE_CHECKING:
    from fedstat.federated.record.result import Result

_GROUPS = ("server", "shared", "memory")
#: How often to read a folder anew that another process changes meanwhile.
_TRIES = 100
#: The tables that grow, which lie in folders; see `fedstat.federated.record.rows`.
_TABLES: dict[str, dict[str, Any]] = {"metrics": DTYPES, "traffic": TRAFFIC_DTYPES}
#: The table of predictions, a file for each method and seed, if the run was asked to keep them.
_PREDICTIONS = "predictions"
_CLIENTS = "clients.parquet"
_SUMMED = ("config.toml", "environment.json", _CLIENTS, *(named(name, 0) for name in _TABLES), "state.safetensors")
#: The file that lists every other file with its hash. Files of clients' rows have their hash as name, and an index.
_MANIFEST = "manifest.json"
_PLAN = "plan.toml"
#: What a run has in its folder.
_WRITTEN = {*_SUMMED, _MANIFEST, _PLAN, "clients", *_TABLES, _PREDICTIONS}
_INDEX = "clients/{}/index.json"
#: Where the rows of what clients have not sent lie, beside those of what they keep.
_UNSENT = "{}-unsent"
#: What else the manifest lists: indexes, and later files of the tables.
_FURTHER = rf"clients/[0-9]+(-kept)?(-unsent)?/index\.json|({'|'.join([*_TABLES, _PREDICTIONS])})/[0-9]{{5,}}\.parquet"
_CONFIG: dict[str, type | tuple[type, ...]] = {
    "methods": dict, "training": dict, "classes": dict, "clients": dict, "fingerprint": dict, "code": dict,
    "seeds": list, "vary": list, "model": (str, dict), "dtype": str, "device": str, "executor": str, "loss": str,
    "plan": str, "participation": (float, dict, str), "rounds": int, "rounds_asked": int, "finished": bool,
    "evaluated": list, "validate": bool,
}  # fmt: skip


@contextmanager
def sole_writer(folder: str | Path) -> Iterator[Path]:
    """Make this process the only writer of a run's folder while the block runs.

    It recovers what a killed writer left, refuses a folder that must not be replaced, and yields the folder's path
    without links. It raises the errors of `Result.save`.
    """
    path = Path(folder).resolve()
    if os.path.ismount(path) or Path.cwd().is_relative_to(path):
        raise ValueError(f"{folder} holds a disk or the working folder, and a run replaces its folder; choose another.")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
            recover(path)
            _remove_aside(path)
            files = (path / "config.toml", path / _MANIFEST)  # the first alone may be another program's
            if path.is_file() or (path.is_dir() and any(path.iterdir()) and not all(map(Path.exists, files))):
                raise ValueError(f"{folder} exists and is no fedstat run; choose another folder, nothing was written.")
            own = {place.name for place in path.iterdir()} - _WRITTEN if path.is_dir() else set()
            if own := {name for name in own if not name.startswith(".")}:
                raise ValueError(f"{path / min(own)} is no file of a run, which replaces its folder; move it away.")
            if path.exists() and not os.access(path, os.W_OK):
                raise PermissionError("it may not be changed")
        except BlockingIOError:
            raise BlockingIOError(f"{folder} is being written by another process; nothing was written.") from None
        except OSError as error:
            raise OSError(
                f"{folder} cannot be written: {error}; choose another folder, nothing was written."
            ) from error
        try:
            yield path
        finally:
            _remove_aside(path)


def aside(path: Path) -> Path:
    """Return the folder beside a run's, under a hidden name, for rows that no checkpoint holds yet."""
    return path.with_name(f".{path.name}.rows")


def _remove_aside(path: Path) -> None:
    if aside(path).exists():
        shutil.rmtree(aside(path))


def check_free(path: Path, continued: Mapping[str, Any] | None) -> None:
    """Refuse a folder with a run in it, unless that is the run to continue, whose configuration is `continued`."""
    saved = _saved_config(path)
    if saved is None:
        return
    if continued is None:
        raise ValueError(f"{path} holds a run already; continue it with resume=fs.load(...), or remove it.")
    if differing := differences(saved, continued) if saved else ["a damaged config.toml"]:
        raise ValueError(
            f"{path} holds another run than the one resumed, with {', '.join(differing)}; choose another folder."
        )


def write_run(
    run: Result, predictions: Mapping[Key, Segment | Callable[[], pd.DataFrame]], path: Path, who: Segment | None
) -> dict[str, tuple[Segment, ...]]:
    """Replace the content of `path` by a run, and return the files of its tables; the caller keeps others away.

    Predictions are files, or what makes a table when its turn comes to be written. `who` is the file of the clients, if
    they have been written before. The OSError of a run that cannot be written says what the folder then holds.
    """
    tables = {"metrics": run.rows("history"), "traffic": run.rows("traffic")}
    states = {str(i): state for i, state in enumerate(run.states.values())}
    states |= {f"{i}-kept": run.kept[key] for i, key in enumerate(run.states) if key in run.kept}
    tensors = {
        f"{place}/{group}/{name}": leaf.cpu().contiguous().numpy()
        for place, state in states.items()
        for group in _GROUPS
        for name, leaf in getattr(state, group).items()
    }
    for i, records in enumerate(run.records.values()):
        tensors |= {f"{i}/records/{name}": np.asarray(array, order="C") for name, array in records.items()}
    stores = {place: state.clients for place, state in states.items() if state.clients}
    stores |= {_UNSENT.format(place): state.unsent for place, state in states.items() if state.unsent}
    device = device_of(next(iter(states.values())))
    try:
        with replaced(path) as new:
            for hidden in path.glob(".*"):  # what file systems, desktops and version control leave stays
                (shutil.copytree if hidden.is_dir() else shutil.copy2)(hidden, new / hidden.name)
            for place, clients in stores.items():  # rows that have not changed are linked, not written again
                (new / "clients" / place).mkdir(parents=True)
                clients.fill(new / "clients" / place, path / "clients" / place)
            (new / "config.toml").write_text(tomli_w.dumps(run.config), encoding="utf-8")
            if run.plan is not None:
                run.plan.write(new / _PLAN)
            written = {name: rows.write(new, name) for name, rows in tables.items()}
            written[_PREDICTIONS] = tuple(
                of.put(new, name) if isinstance(of, Segment) else Segment.write(of(), new, name)
                for name, of in zip(_predictions_of(predictions), predictions.values(), strict=True)
            )
            known = who is not None and (who.folder / who.name).exists()
            written["clients"] = (who.put(new) if who and known else Segment.write(run.clients, new, _CLIENTS),)
            listed = {file.name: file.sha256 for files in written.values() for file in files}
            others = [name for name in (*_SUMMED, *map(_INDEX.format, stores)) if name not in listed]
            save_file(tensors, new / "state.safetensors")
            shutil.copymode(new / "config.toml", new / "state.safetensors")  # otherwise only its owner could read it
            origin = {**environment(device), "seeds": run.config["seeds"]}
            (new / "environment.json").write_text(json.dumps(origin, indent=2) + "\n")
            manifest = {
                # safetensors sorts; the order of leaves decides the rounding of sums over them
                "tensors": list(tensors),
                "rounds": {place: state.round for place, state in states.items()},
                "kept": None if (kept := tables["metrics"].kept) is None else [[*k, t] for k, t in kept.items()],
                "sha256": {name: sha256(new / name) for name in others} | listed,
            }
            (new / _MANIFEST).write_text(json.dumps(sealed(manifest)) + "\n")
    except (OSError, SafetensorError) as error:  # safetensors hides an OSError in its own error
        saved = _saved_config(path)
        remains = (
            "Nothing was saved there before; make room or choose another folder, and start again."
            if saved is None
            else f"What was saved there after round {saved.get('rounds')} is whole; make room or mend the folder, and "
            "continue from it with resume=fs.load(folder)."
        )
        raise OSError(f"round {run.config['rounds']} could not be saved in {path}: {error}. {remains}") from error
    return {name: tuple(replace(file, folder=path) for file in files) for name, files in written.items()}


def read_run(folder: str | Path) -> dict[str, Any]:
    """Read a run that `write_run` wrote, even while a process replaces it, as arguments of `Result`.

    It raises the errors of `fedstat.load`.
    """
    for _ in range(_TRIES):
        place = complete_folder(folder)
        before = _version(place)
        try:
            found = _read(place, Path(folder).resolve())
        except (ValueError, OSError):
            if (complete_folder(folder), _version(place)) == (place, before):
                raise
            continue  # a writer moved the folder away while it was read
        if (complete_folder(folder), _version(place)) == (place, before):
            return found  # otherwise it may be a mixture of two checkpoints
    raise OSError(f"{folder} is replaced faster than it can be read; try again, or save less often.")


def _read(folder: Path, home: Path) -> dict[str, Any]:
    """Read a run; `home` is where it lies whenever nobody replaces it."""
    manifest = _read_manifest(folder)
    sums: dict[str, str] = manifest["sha256"]
    with _blaming(folder / "config.toml") as file:
        config = tomllib.loads(file.read_text(encoding="utf-8"))
        if wrong := [name for name, kind in _CONFIG.items() if not isinstance(config.get(name), kind)]:
            raise TypeError(f"{wrong[0]} is {config.get(wrong[0])!r}")
        keys = [(label, int(seed)) for label in config["methods"] for seed in config["seeds"]]
        counts = {str(i): int(config["clients"][str(seed)]) for i, (_, seed) in enumerate(keys)}
    plan = plan_of(folder, config["plan"])
    with _blaming(folder / _CLIENTS) as file:
        who = pd.read_parquet(file)
        who = who[[*CLIENT_DTYPES, *(["attacker"] if "attack" in config else [])]].astype(CLIENT_DTYPES)
    with _blaming(folder / _MANIFEST):
        kept = kept_rounds(manifest)
    tables = {name: _read_rows(folder, home, name, sums, kept if name == "metrics" else None) for name in _TABLES}
    groups = _read_tensors(folder, manifest)
    with _blaming(folder / _MANIFEST):
        rounds = {str(place): int(done) for place, done in manifest["rounds"].items()}
        if not counts.keys() <= rounds.keys() <= {*counts, *(f"{i}-kept" for i in counts)}:
            raise ValueError("it lists other states than the run has")
    states, known = {}, {_MANIFEST, *sums, *([] if plan is None else [_PLAN])}
    for place, done in rounds.items():
        server, shared, memory = (
            {name: torch.from_numpy(array) for name, array in groups.get((place, group), {}).items()}
            for group in _GROUPS
        )
        stores = []
        for of in (place, _UNSENT.format(place)):
            clients, where = ClientStore.empty(), folder / "clients" / of
            if _INDEX.format(of) in sums:
                clients = ClientStore.load(where)
                if clients.clients != (expected := counts[place.removesuffix("-kept")]):
                    raise ValueError(f"{where} holds {clients.clients} clients, config.toml {expected}.")
                known |= {f"clients/{of}/{version}.safetensors" for version in clients.versions}
            stores.append(clients)
        states[place] = State(server, stores[0], shared, memory, done, stores[1])
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    # file systems and desktops leave hidden files there
    if extra := sorted(p for p in found if p.as_posix() not in known and not any(q.startswith(".") for q in p.parts)):
        raise ValueError(f"{folder / extra[0]} is not a file of this run; remove it, or put back what was there.")
    return {
        "history": tables["metrics"],
        "traffic": tables["traffic"],
        "clients": who,
        "states": {key: states[str(i)] for i, key in enumerate(keys)},
        "records": {key: groups.get((str(i), "records"), {}) for i, key in enumerate(keys)},
        "config": config,
        "kept": {key: states[f"{i}-kept"] for i, key in enumerate(keys) if f"{i}-kept" in states},
        "plan": plan,
        "predicted": _read_predictions(folder, home, sums, keys),
    }


def _predictions_of(keys: Iterable[Key]) -> list[str]:
    """Return the names of the files of predictions of a run's methods and seeds."""
    return [named(_PREDICTIONS, i) for i, _ in enumerate(keys)]


def _read_predictions(folder: Path, home: Path, sums: Mapping[str, str], keys: Sequence[Key]) -> dict[Key, Segment]:
    """Find the files of predictions, of all methods and seeds or none."""
    with _blaming(folder / _MANIFEST):
        if (names := segments(sums, _PREDICTIONS)) and names != _predictions_of(keys):
            raise ValueError("it lists predictions of other methods and seeds than the run has")
    files = [_segment(folder, home, name, sums, PREDICTION_COLUMNS) for name in names]
    return dict(zip(keys, files, strict=False))


def _read_rows(folder: Path, home: Path, table: str, sums: Mapping[str, str], kept: Mapping[Key, int] | None) -> Rows:
    """Find the files of a table, whose hashes are right, and read the last one if rows may be added to it."""
    files, dtypes = [], _TABLES[table]
    for i, name in enumerate(segments(sums, table)):
        with _blaming(folder / _MANIFEST):
            if name != named(table, i):
                raise ValueError(f"it lists {name} where {named(table, i)} should come")
        files.append(_segment(folder, home, name, sums, dtypes))
    with _blaming(folder / files[-1].name):
        return Rows.found(dtypes, files, kept)


def _segment(folder: Path, home: Path, name: str, sums: Mapping[str, str], wanted: Iterable[str]) -> Segment:
    """Find a file of rows, which has at least the wanted columns."""
    with _blaming(folder / name) as file:
        rows, columns = (meta := pq.read_metadata(file)).num_rows, meta.schema.to_arrow_schema().names
        if lacking := [column for column in wanted if column not in columns]:
            raise ValueError(f"it lacks the column {lacking[0]!r}")
        return Segment(home, name, sums[name], rows)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Read the list of files, and refuse a folder in which one of them is missing or has changed."""
    if (folder / "layout.json").is_file() or (folder / "metrics.parquet").is_file():
        raise ValueError(f"{folder} was saved by an earlier fedstat, in another form; run it again.")
    if not (folder / _MANIFEST).is_file():
        inner = f" The run lies in {folder / 'run'}." if (folder / "run" / _MANIFEST).is_file() else ""
        raise ValueError(f"{folder} is no fedstat run: {_MANIFEST} is missing.{inner}")
    with _blaming(folder / _MANIFEST) as file:
        manifest = unsealed(json.loads(file.read_text(encoding="utf-8")))
        sums = {name: str(manifest["sha256"][name]) for name in manifest["sha256"]}
        if not {"rounds", "kept"} <= manifest.keys():
            raise ValueError("it was saved by an earlier fedstat; run it again")
        further = sums.keys() - {*_SUMMED}
        if not sums.keys() >= {*_SUMMED} or not all(re.fullmatch(_FURTHER, name) for name in further):
            raise ValueError("it lists other files than a run has")
    check_files(folder, sums, sums)
    return manifest


def _read_tensors(folder: Path, manifest: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """Read all tensors, by state and group, in the order in which they were written."""
    with _blaming(folder / "state.safetensors") as file:
        arrays = load_file(file)
        if arrays.keys() != set(manifest["tensors"]):
            raise ValueError(f"it holds other tensors than {_MANIFEST} lists")
    groups: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    with _blaming(folder / _MANIFEST):
        for name in manifest["tensors"]:
            place, group, leaf = name.split("/", 2)
            groups.setdefault((place, group), {})[leaf] = arrays[name]
    return groups


@contextmanager
def _blaming(file: Path) -> Iterator[Path]:
    """Turn any error of the block, which reads a file, into a ValueError that names the file."""
    try:
        yield file
    except Exception as error:
        raise ValueError(f"{file} is damaged ({type(error).__name__}: {error}).") from error


def _version(folder: Path) -> tuple[int, int] | None:
    """Return what tells one checkpoint's folder from the next one's."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _saved_config(folder: Path) -> dict[str, Any] | None:
    """Return the configuration of the run in `folder`, empty if it cannot be read; None if there is no run."""
    try:
        return tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
