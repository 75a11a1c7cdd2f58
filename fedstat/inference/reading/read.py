"""Read anybody's results as a tidy history: fedstat's runs, tables, and what other frameworks and loggers write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedstat._checks import choice, local
from fedstat.inference.predictions.table import is_predictions
from fedstat.inference.reading.formats import (
    fedstat,
    fl_bench,
    flamby,
    flower,
    mlflow,
    pflib,
    predictions,
    tensorboard,
    wandb,
)
from fedstat.inference.reading.formats.json_lines import LINES, first_keys, frame, records
from fedstat.inference.reading.formats.runs import first_line
from fedstat.inference.reading.formats.tables import Table, header, in_memory, is_parquet, open_table
from fedstat.inference.reading.formats.tidy import RUN, Content, as_shares, refuse_repeats, typed, whole
from fedstat.inference.reading.reduction import survey

_READERS: dict[str, Callable[..., Content]] = {
    "predictions": predictions.read, "pflib": pflib.read, "fl-bench": fl_bench.read, "flower": flower.read,
    "flamby": flamby.read, "wandb": wandb.read, "tensorboard": tensorboard.read, "mlflow": mlflow.read,
}  # fmt: skip
_KINDS = ("fedstat", "table", *_READERS)
_TABLES = (".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".pq", *LINES)
_PICKLES = (".pt", ".pth", ".npy", ".npz", ".joblib")


@dataclass(frozen=True, eq=False)
class Measurements:
    """What `read_results` read.

    Attributes
    ----------
    history : DataFrame
        Columns method, seed, round, client, estimand, split, metric, value; besides samples, kept and setting where
        the files have them. Text is categorical. Client -1 is the number of a run as a whole.
    config : Mapping or None
        The configuration of a fedstat run, with the fingerprints of its data.
    clients : DataFrame or None
        Columns seed, client and name, and in a fedstat run the numbers of samples train, validation and test; None
        where the files do not name their clients.
    plan : Path or None
        The file ``plan.toml`` that was written before a fedstat run.
    source : str
        The files, in words.
    notes : tuple of str
        What was assumed because the files do not say it, and what was not read.
    measured : str or None
        What a value is, in words, where the format says it.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import read_results
    >>> table = pd.DataFrame({"method": ["A", "A", "B", "B"], "seed": [0, 1, 0, 1], "acc": [70, 72, 80, 81]})
    >>> found = read_results(table, columns={"acc": "accuracy %"})
    >>> found.history[["method", "seed", "metric", "value"]]
      method  seed    metric  value
    0      A     0  accuracy   0.70
    1      A     1  accuracy   0.72
    2      B     0  accuracy   0.80
    3      B     1  accuracy   0.81
    """

    history: pd.DataFrame
    config: Mapping[str, Any] | None
    clients: pd.DataFrame | None
    plan: Path | None
    source: str
    notes: tuple[str, ...] = ()
    measured: str | None = None

    def __str__(self) -> str:
        table = self.history
        counts = {name: table[name].nunique() for name in ("method", "seed", "round", "client", "metric")}
        shown = ", ".join(f"{n} {name}{'s' * (n != 1)}" for name, n in counts.items())
        return "\n".join([f"{self.source}: {len(table)} values, {shown}", *self.notes])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>{self.history._repr_html_()}"


def read_results(
    path: str | Path | Sequence[str | Path] | Mapping[str, Any] | pd.DataFrame,
    *,
    columns: Mapping[str, str | None] | None = None,
    metric: str | None = None,
    kind: str | None = None,
) -> Measurements:
    """Read results of any framework as a tidy history. Nothing is unpickled, and torch is not needed.

    Parameters
    ----------
    path : str, Path, a result of Flower's, a sequence of them, a mapping from label to them, or a DataFrame
        A table in memory, a file or a folder: a fedstat run, or what ``fedstat run`` wrote; CSV, parquet or JSON lines;
        predictions as `assess` takes them, which are reduced to scores by client and seed;
        what PFLlib (``results/*.h5``), FL-bench (``out/``), Flower (JSON, a pickled History, the FedNova baseline's
        CSV, or the Result in memory) and FLamby (CSV) write; a panel or a run's
        history out of wandb, TensorBoard's CSV, or MLflow's ``mlruns``. Several files are read as one table. Where
        files do not say their method, give a mapping such as ``{"FedAvg": ["a.json", "b.json"]}``: the label is the
        method, and files that name no seed have the seeds 0, 1, ... in that order. A logger's run says both if it is
        called ``FedAvg-seed0`` or the like.
    columns : mapping, optional
        From the file's columns to fedstat's, such as ``{"algo": "method", "run": "seed", "acc": "accuracy"}``; to
        None for a column to leave out. The columns method, seed and one of values must exist: one that is named as a
        metric (accuracy, log_loss, auc, mse, f1, ...), or mapped to one, or ``value``. Several columns of metrics
        become rows. ``"accuracy %"`` says that a column is in percent, as does a name of its own
        such as ``"accuracy (%)"``, unless all its values lie in [0, 1]. Without them it is assumed that there is one
        round (called 0), one number for each run (client -1), that the estimand is "not named", and the split "test".
    metric : str, optional
        The only metric to read; also the name of what a column ``value`` holds.
    kind : {"fedstat", "table", "predictions", "pflib", "fl-bench", "flower", "flamby", "wandb", "tensorboard", \
"mlflow"}, optional
        The format; by default what the name and the content of the file say.

    Returns
    -------
    Measurements

    Raises
    ------
    ValueError
        If a file is missing, empty, damaged or of no known format; if a column is missing or ambiguous; if a value is
        no number; if a measurement repeats; if shares and percent are mixed, or percent cannot be told from counts. The
        message names file, column, line and remedy.

    Examples
    --------
    Another program's table, with its own names and in percent:

    >>> import pandas as pd
    >>> from fedstat.inference import compare, read_results
    >>> table = pd.DataFrame({"algo": ["A"] * 3 + ["B"] * 3, "run": [0, 1, 2] * 2, "acc": [70, 72, 71, 80, 81, 82]})
    >>> found = read_results(table, columns={"algo": "method", "run": "seed", "acc": "accuracy %"})
    >>> print(*compare(found).conclusions)
    B (by 10.0 points [7.5, 12.5]) is better than A. None of any method's 3 runs collapsed; up to 63% may.
    """

    opened = open_results(path, columns=columns, metric=metric, kind=kind)
    if isinstance(run := opened.parts[0].batches, fedstat.History):
        history = _of_metric(fedstat.read(replace(run, metric=None)), metric, str(path))
        return Measurements(history, opened.config, opened.clients, opened.plan, str(path))
    more = len(opened.parts) - 1
    source = opened.source + f" and {more} more files" * (more > 0)
    tables = pd.concat([whole(part.batches) for part in opened.parts], ignore_index=True)
    history = _of_metric(tables, metric, source)
    if history.empty:
        raise ValueError(f"{source} has no rows.")
    clients = None
    if not pd.api.types.is_integer_dtype(history["client"]):
        names = history["client"].astype(str)
        names = names.where(names != str(RUN))
        history["client"] = pd.Categorical(names).codes  # -1 is a run as a whole here as well
        clients = history[["seed", "client"]].assign(name=names).dropna().drop_duplicates()
        clients = clients.sort_values(["seed", "client"], ignore_index=True)
    history, percent = as_shares(typed(history), source)
    refuse_repeats(history, source, list(dict.fromkeys(name for part in opened.parts for name in part.unread)))
    return Measurements(history, None, clients, None, source, (*opened.notes, *percent), opened.measured)


@dataclass(frozen=True, eq=False)
class Opened:
    """Results on disk that are read row by row: what `Measurements` has, but for the history."""

    parts: Sequence[Content]
    config: Mapping[str, Any] | None
    clients: pd.DataFrame | None
    plan: Path | None
    source: str
    evaluation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed because the files do not say it, and what was not read."""
        return tuple(dict.fromkeys(note for part in self.parts for note in part.notes))

    @property
    def measured(self) -> str | None:
        """What a value is, in words, where the format of all files says the same."""
        told = {part.measured for part in self.parts}
        return told.pop() if len(told) == 1 else None

    def survey(self) -> dict[tuple[str, str], np.ndarray]:
        """Return the evaluated rounds of every (metric, split), from the columns that say them."""
        keys = ("metric", "split", "round")
        tables = (part.batches for part in self.parts)
        return survey(batch for of in tables for batch in (of.batches(keys) if hasattr(of, "batches") else of))

    def repeated(self) -> str:
        """Name the first row of a table that repeats another one of it, and say what to do."""
        tables = (part.batches for part in self.parts if isinstance(part.batches, Table))
        return next(filter(None, (table.repeated() for table in tables)), "")

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows, in batches."""
        return (batch for part in self.parts for batch in part.batches)


def open_results(
    path: Any, *, columns: Mapping[str, str | None] | None = None, metric: str | None = None, kind: str | None = None
) -> Opened:
    """Open results without holding them in memory; arguments and errors are those of `read_results`."""
    files = _files(path, kind)
    if files[0].kind == "fedstat":
        if columns:
            raise ValueError(f"columns is for tables; {files[0].path} is a fedstat run, whose names are known.")
        history, config, clients, plan = fedstat.facts(files[0].path)
        tuned = fedstat.tuning_of(files[0].path)
        part = Content(replace(history, metric=metric), (tuned,) if tuned else ())
        return Opened([part], config, clients, plan, str(files[0].path), fedstat.evaluation_of(files[0].path))
    return Opened([_part(file, columns, metric) for file in files], None, None, None, str(files[0].path))


@dataclass(frozen=True)
class _File:
    """A file or a run's folder, its format, and what the caller or its place says about all of its rows."""

    path: Path
    kind: str
    given: Mapping[str, Any]
    frame: Any = None


def _files(path: Any, kind: str | None) -> list[_File]:
    """List the files that `path` names, with their formats; a fedstat run is the only one."""
    if kind is not None:
        choice("kind", kind, _KINDS)
    if hasattr(path, "columns"):
        if kind in (None, "predictions") and is_predictions(list(map(str, path.columns))):
            return [_File(Path("the table"), "predictions", {}, path)]
        return [_File(Path("the table"), "table", {}, in_memory(path))]
    if isinstance(path, Mapping):
        found = []
        for label, of in path.items():
            own = _files(of, kind)
            if own[0].kind == "fedstat":
                raise ValueError(f"{own[0].path} is a fedstat run, which names its methods; give it without a label.")
            found += [replace(file, given={"method": str(label), "seed": i}) for i, file in enumerate(own)]
    else:
        paths = [path] if isinstance(path, str | Path) or flower.content_of(path) else list(path)
        found = [file for one in paths for file in _listed(one, kind)]
    if not found:
        raise ValueError(f"path must name at least one file, got {path!r}.")
    runs = [file for file in found if file.kind == "fedstat"]
    if runs and len(found) > 1:
        raise ValueError(
            f"{runs[0].path} is a fedstat run and is read on its own: read each with fs.read_results, and give all of "
            "them to fs.compare in a list."
        )
    return found


def _listed(place: Any, kind: str | None) -> list[_File]:
    """List the files of results at one place."""
    if content := flower.content_of(place):
        return [_File(Path("Flower's result"), "flower", {}, content)]
    path = local("path", place)
    if kind in (None, "fedstat") and (fedstat.run_folder(path) or kind == "fedstat"):
        return [_File(path, "fedstat", {})]
    if path.is_file():
        if path.suffix.lower() in _PICKLES:
            raise ValueError(
                f"{path} may be a pickle, which can run any code when it is read; write the numbers as CSV or JSON."
            )
        return [_File(path, kind or _kind(path), {})]
    if not path.is_dir():
        raise ValueError(f"{path} {'is no file: save what it gives in one' if path.exists() else 'does not exist'}.")
    if kind in (None, "fl-bench") and (found := sorted(path.rglob("metrics.csv"))) and all(map(fl_bench.wrote, found)):
        # a run's number among those of its method and data set, whose folders are dates
        turns = [[of for of in found if of.parent.parent == one.parent.parent].index(one) for one in found]
        return [_File(one, "fl-bench", {"seed": turn}) for one, turn in zip(found, turns, strict=True)]
    if kind in (None, "mlflow") and (runs := mlflow.runs(path)):
        return [_File(run, "mlflow", {}) for run in runs]
    suffixes = {None: (".h5", ".json", *_TABLES), "pflib": (".h5",), "flower": (".json", ".csv")}.get(kind, _TABLES)
    found = sorted(one for one in path.iterdir() if one.is_file() and one.name.lower().endswith(suffixes))
    if not found:
        raise ValueError(
            f"{path} holds no results that can be read: no fedstat run, {', '.join(suffixes)}"
            f"{' or metrics.csv of FL-bench' * (kind in (None, 'fl-bench'))}."
        )
    kinds = {one: kind or _kind(one) for one in found}
    if len(set(kinds.values())) > 1:
        raise ValueError(f"{path} holds files of several formats; give kind, one of {', '.join(set(kinds.values()))}.")
    return [_File(one, of, {}) for one, of in kinds.items()]


def _kind(path: Path) -> str:
    """Return the format of a file."""
    name = path.name.lower()
    if name.endswith((".h5", ".hdf5")):
        return "pflib"
    if name.endswith(".json") and records(path):
        return "table"
    if name.endswith((".json", *flower.PICKLES)) or flower.wrote(path):
        return "flower"
    if name == "metrics.csv" and fl_bench.wrote(path):
        return "fl-bench"
    if not name.endswith(_TABLES):
        raise ValueError(f"{path} has no known format; give CSV ({', '.join(_TABLES)}), .h5 or .json, or say kind.")
    names = first_keys(path) if name.endswith(LINES) else first_line(path) if name.endswith(".csv") else []
    if is_parquet(path):
        names = header(path)[0]
    tools = {
        "flamby": flamby.wrote, "wandb": wandb.wrote, "tensorboard": tensorboard.wrote,
        "predictions": lambda names: is_predictions(names) and not name.endswith(LINES),
    }  # fmt: skip
    return next((kind for kind, wrote in tools.items() if wrote(names)), "table")


def _part(file: _File, columns: Mapping[str, str | None] | None, metric: str | None) -> Content:
    """Open one file."""
    if file.kind == "table":
        objects = file.frame is None and file.path.name.lower().endswith((".json", *LINES))
        table = open_table(file.path, columns, metric, file.given, frame(file.path) if objects else file.frame)
        return Content(table, table.notes, unread=table.unread)
    if columns:
        raise ValueError(f"columns is for tables; {file.path} is of {file.kind}, whose names are known.")
    given = file.given if metric is None else {"metric": metric, **file.given}
    held = () if file.frame is None else (file.frame,)  # in memory
    return _READERS[file.kind](file.path, given, *held)


def _of_metric(history: pd.DataFrame, metric: str | None, source: str) -> pd.DataFrame:
    if metric is None:
        return history
    if not (rows := history["metric"] == metric).any():
        known = ", ".join(map(str, history["metric"].unique()))
        raise ValueError(f"metric {metric!r} is not in {source}; it has {known or 'no metric'}.")
    return history[rows].reset_index(drop=True)
