"""Tables that anybody wrote: CSV and parquet, streamed, with columns that are named or mapped."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv as arrow

from fedstat.inference.reading.formats.tidy import BESIDE, COLUMNS, METRICS, RUN, TEXT, UNNAMED

#: Names of columns that other programs use, without case and marks, by ours. They are suggested, never guessed.
_VARIANTS = {
    "method": "algorithm algo strategy approach methods arm alg methodname algorithmname",
    "seed": "run trial repetition rep replicate randomseed runid seeds times repeat",
    "client": "clientid clientidx clients cid user userid node nodeid site party partitionid",
    "round": "rounds epoch globalepoch globalround communicationround commround serverround roundnum iteration step",
    "estimand": "modeltype whichmodel",
    "split": "subset partition evaluatedon",
    "accuracy": "acc testacc testaccuracy accuracytest top1 top1accuracy evalacc evalaccuracy",
    "balanced_accuracy": "balancedacc bacc balancedaccuracy",
    "auc": "rocauc auroc testauc",
    "log_loss": "logloss crossentropy nll",
    "loss": "testloss evalloss",
    "f1": "f1score",
    "mean_rank": "avgrank averagerank meanrank",
    "value": "score result",
}
_OURS = (*COLUMNS, *BESIDE)
_KNOWN = {ours.replace("_", ""): ours for ours in (*_OURS, *METRICS)}
_KNOWN |= {word: ours for ours, words in _VARIANTS.items() for word in words.split()}
_DEFAULTS: dict[str, Any] = {"round": 0, "client": RUN, "estimand": UNNAMED, "split": "test"}
_WORDS = {
    "seed": "the files of a method are its seeds 0, 1, ...",
    "round": "one evaluation of each run, called round 0",
    "client": f"one number for each run as a whole, called client {RUN}",
    "estimand": f"the model measured is {UNNAMED}",
    "split": "values are of test samples",
}
_PERCENT = re.compile(r"(?<=\S)\s*(?:%|\(%\))$")
_CODED = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Table:
    """A table on disk as batches of tidy rows; it can be passed over as often as one likes.

    `found` is the file's column of each of ours that it has, without ``value``, and `given` what holds for all rows
    where it has none, as the caller says or by default. `values` is the metric of each column of values, "" where the
    column ``metric`` says it; `only` is then the only metric to read. Columns of values in `percent` are in percent.
    `notes` say what was assumed and which columns are not read, `unread`. `names` are all columns of the file; `named`
    says that clients have names, and not numbers. `frame` is a table in memory, of which `path` is the name.
    """

    path: Path
    found: Mapping[str, str]
    values: Mapping[str, str]
    given: Mapping[str, Any]
    only: str | None
    percent: frozenset[str]
    notes: tuple[str, ...]
    unread: tuple[str, ...]
    delimiter: str
    names: tuple[str, ...]
    named: bool = False
    frame: pa.Table | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, a few hundred thousand at once."""
        return self.batches(_OURS)

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with some of the columns of a history; no others are read."""
        done, values = 0, self.values if "value" in wanted else {}
        keys = [name for ours, name in self.found.items() if ours in wanted or ours == "metric"]
        for batch in self._batches([*keys, *values]):
            yield from self._tidy(batch, done, wanted)
            done += batch.num_rows

    def repeated(self) -> str:
        """Name the first row that repeats another one, and say what to do; "" if none of the first rows does.

        What to do rests on the column not read that tells such rows apart, of several that of the fewest values.
        """
        keys = [*self.found.values()]
        rows = next(self._batches([*keys, *self.unread])).to_pandas()
        twice = rows.duplicated(keys).to_numpy()
        if not twice.any():
            return ""
        apart = [name for name in self.unread if not rows.duplicated([*keys, name]).any()]
        remedy = "leave repeated rows out"
        if apart:
            name = min(apart, key=lambda name: rows[name].nunique())
            remedy = f"keep one value of {name}"
            if "client" not in self.found:
                remedy = f"if {name} names the clients, say columns={ {name: 'client'} }, else {remedy}"
        first = ", ".join(f"{ours} {value}" for ours, value in zip(self.found, rows[keys][twice].iloc[0], strict=True))
        return f" (the first is {self._place(pa.array(twice), 0)} {first}); {remedy}"

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        columns = list(dict.fromkeys(columns))
        try:
            if self.frame is not None:
                yield from self.frame.select(columns).combine_chunks().to_batches(max_chunksize=1 << 19)
            elif is_parquet(self.path):
                text = [name for ours, name in self.found.items() if ours in TEXT]
                with pq.ParquetFile(self.path, read_dictionary=text, memory_map=True) as file:
                    yield from file.iter_batches(batch_size=1 << 19, columns=columns)
            else:
                yield from arrow.open_csv(
                    self.path,
                    arrow.ReadOptions(column_names=list(self.names), skip_rows=1, block_size=1 << 24),
                    arrow.ParseOptions(delimiter=self.delimiter),
                    arrow.ConvertOptions(column_types=dict.fromkeys(self.names, pa.string()), include_columns=columns),
                )
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.path} cannot be read: {error}") from error

    def _tidy(self, batch: pa.RecordBatch, done: int, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the tidy rows of one batch, one column of values after the other; `done` rows of the file are read."""
        common = {}
        for ours in [name for name in _OURS if name != "value" and (name in wanted or name == "metric")]:
            if ours in self.found:
                common[ours] = self._column(batch, ours, self.found[ours], done)
            elif ours in self.given:
                common[ours] = _repeated(self.given[ours], batch.num_rows)
        for name, metric in self.values.items():
            tidy = common | ({"metric": _repeated(metric, batch.num_rows)} if metric else {})
            if "value" in wanted:
                value = self._column(batch, "value", name, done)
                tidy["value"] = pc.divide(value, 100.0) if name in self.percent else value
            rows = pa.record_batch({ours: tidy[ours] for ours in _OURS if ours in tidy})
            yield rows if self.only is None else rows.filter(pc.equal(rows["metric"].cast(pa.string()), self.only))

    def _column(self, batch: pa.RecordBatch, ours: str, name: str, done: int) -> pa.Array:
        """Return a column of the file in the type of ours; a value that does not fit is shown with its line."""
        column = batch.column(name)
        kind, words = {
            "kept": (pa.bool_(), "true or false"),
            "value": (pa.float64(), "a number, or empty where it is missing"),
            **dict.fromkeys(("seed", "round", "samples"), (pa.int64(), "a whole number")),
            "client": (_CODED, "text") if self.named else (pa.int64(), "a whole number, as in the first rows"),
        }.get(ours, (_CODED, "text"))
        if column.type == kind and not (column.null_count and ours != "value"):
            return column
        if pa.types.is_dictionary(column.type) and kind != _CODED:
            column = column.cast(column.type.value_type)
        text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if text:
            column = pc.utf8_trim_whitespace(column)
        if text and kind != _CODED:
            if self.delimiter == ";":
                column = pc.replace_substring(column, ",", ".")
            if ours == "value":
                column = pc.if_else(pc.is_in(column, pa.array(["", "NA", "N/A", "None", "null"])), "nan", column)
            if ours in ("seed", "round", "client", "samples"):
                column = pc.replace_substring_regex(column, r"^([+-]?\d+)\.0*$", r"\1")
        if ours != "value" and (column.null_count or (text and pc.any(pc.equal(column, "")).as_py())):
            empty = pc.is_null(column) if column.null_count else pc.equal(column, "")
            raise ValueError(
                f"{self._place(empty, done)} has no {ours}: column {name!r} is empty there. Fill it, or leave the row "
                "out."
            )
        try:
            if kind == _CODED:
                coded = pa.types.is_dictionary(column.type)
                return column.cast(_CODED) if coded else column.cast(pa.string()).dictionary_encode()
            return column.cast(kind)
        except pa.ArrowException:
            bad = pa.array([not _fits(column.slice(i, 1), kind) for i in range(len(column))])
            value = column.filter(bad)[0].as_py() if pc.any(bad).as_py() else column.type
            raise ValueError(
                f"{self._place(bad, done)} has {value!r} in column {name!r}, where {ours} must be {words}"
                f"{'; number the runs from 0' * (ours == 'seed')}."
            ) from None

    def _place(self, rows: pa.Array, done: int) -> str:
        at = done + pc.index(rows, True).as_py()
        return f"{self.path}, line {at + 2}," if self.delimiter else f"{self.path}, row {at},"  # text has lines


def in_memory(frame: pd.DataFrame) -> pa.Table:
    """Return a DataFrame as a table, with the levels of its index that have names as columns.

    A column of values of several kinds becomes text, as it would in a file.
    """
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(named) if named else frame
    columns = []
    for _, column in frame.items():
        try:
            columns.append(pa.Array.from_pandas(column))
        except (pa.ArrowException, TypeError):
            columns.append(pa.Array.from_pandas(column.map(str, na_action="ignore")))
    return pa.table(columns, names=list(map(str, frame)))


def open_table(
    path: Path,
    columns: Mapping[str, str | None] | None,
    metric: str | None,
    given: Mapping[str, Any],
    frame: pa.Table | None = None,
) -> Table:
    """Read the names of a table's columns and decide what each of them is; `frame` is a table in memory.

    Where a column is missing, ambiguous or named otherwise, the error proposes `columns`.
    """
    names, delimiter = header(path) if frame is None else (frame.column_names, "")
    if frame is not None and not frame.num_rows:
        raise ValueError(f"{path} is empty: it has no rows.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{path} has two columns {twice[0]!r}; rename one.")
    mapping = _mapping(path, columns or {}, names)
    told = {name: of for name in names if (of := mapping.get(name, name)) is not None}
    ours = {name: _PERCENT.sub("", of) for name, of in told.items()}
    percent = {name for name, of in told.items() if ours[name] != of}
    for target in {*ours.values()}:
        same = [name for name, of in ours.items() if of == target]
        if len(same) > 1:
            raise ValueError(f"{path}: columns {same[0]!r} and {same[1]!r} are both {target!r}; map one to None.")
    found = {of: name for name, of in ours.items() if of in _OURS and of != "value"}
    if "method" in given and "method" in found:
        raise ValueError(f"{path} has a column for the method; give it without the label {given['method']!r}.")
    given = {name: one for name, one in given.items() if name not in found}
    value = next((name for name, of in ours.items() if of == "value"), None)
    wide = {
        name: of
        for name, of in ours.items()
        if of not in _OURS and (of in METRICS or name in mapping or metric in (of, name))
    }
    only = None
    if value is not None and "metric" in found:
        values, only = {value: ""}, metric
    elif value is not None:
        plain = variant(value)
        named = metric or (plain if plain in METRICS else None if plain == "value" else value)
        if named is None or wide:
            beside = f" beside {', '.join(wide)}" if wide else ""
            raise ValueError(
                f"{path} has a column 'value'{beside} but none that names the metric; "
                + ("map what is not wanted to None." if wide else "give metric='accuracy' or the like.")
            )
        values = {value: named}
    else:
        found.pop("metric", None)
        values = wide if metric is None else {name: of for name, of in wide.items() if metric in (of, name)}
    unread = tuple(name for name in names if name not in (*found.values(), *values) and name not in mapping)
    unread = tuple(name for name in unread if not re.fullmatch(r"|Unnamed: \d+|__index_level_\d+__", name))
    missing = [name for name in ("method", "seed") if name not in found and name not in given]
    if missing or not values:
        lacks = [f"column {name!r}" for name in missing] + ["column of values, such as 'accuracy'"] * (not values)
        raise ValueError(
            f"{path} has no {' and no '.join(lacks)}; its columns are {', '.join(names)}. "
            f"{_proposal(unread, found, values, missing)}"
        )
    assumed = [name for name in ("seed", *_DEFAULTS) if name not in found]
    if variants := {name: of for name, of in _proposals(unread).items() if of in assumed}:
        raise ValueError(
            f"{path} has no column {next(iter(variants.values()))!r}, but {', '.join(variants)}: did you mean "
            f"columns={variants}? Map a column to None to leave it out."
        )
    notes = [f"no column {name}: {_WORDS[name]}" for name in assumed]
    notes += [f"columns not read: {', '.join(unread)}"] if unread else []
    table = Table(
        path, found, values, _DEFAULTS | given, only, frozenset(percent), tuple(notes), unread, delimiter, tuple(names),
        frame=frame,
    )  # fmt: skip
    table = _with_percent(table, {name for name in values if mapping.get(name, name) != name})
    if "client" not in found:
        return table
    first = next(table._batches([found["client"]])).column(0).slice(0, 1000)
    if pa.types.is_dictionary(first.type):
        first = first.cast(first.type.value_type)
    return replace(table, named=not _fits(first, pa.float64()))


def _with_percent(table: Table, sure: set[str]) -> Table:
    """Note which columns are in percent; only `sure` ones may be so if all their values lie in [0, 1], as shares do."""
    notes, shares = [], set[str]()
    for name in [name for name in table.values if name in table.percent]:
        column = table._column(next(table._batches([name])), "value", name, 0)
        known = column.filter(pc.is_finite(column))
        if name not in sure and pc.all(pc.and_(pc.greater_equal(known, 0.0), pc.less_equal(known, 1.0))).as_py():
            shares.add(name)
        how = "lies in [0, 1] and is read as shares, not" if name in shares else "is divided by 100, being"
        notes.append(f"column {name!r} {how} in percent")
    return replace(table, percent=table.percent - shares, notes=(*table.notes, *notes))


def _mapping(path: Path, columns: Mapping[str, str | None], names: Sequence[str]) -> dict[str, str | None]:
    """Return `columns`, from the file's names to ours, if it makes sense."""
    for name, of in columns.items():
        if name in names:
            continue
        if of in names and name in (*_OURS, *METRICS):
            raise ValueError(
                f"columns maps the file's names to fedstat's, and {path} has no column {name!r}: write "
                f"columns={{{of!r}: {name!r}}}."
            )
        raise ValueError(f"columns names {name!r}, which {path} does not have; its columns are {', '.join(names)}.")
    return dict(columns)


def _proposal(
    unread: Sequence[str], found: Mapping[str, str], values: Mapping[str, str], missing: Sequence[str]
) -> str:
    proposals = {
        name: of for name, of in _proposals(unread).items() if of not in found and not (values and of in METRICS)
    }
    others = [name for name in unread if name not in proposals]
    of = next((name for name in missing if name not in proposals.values()), None) if missing else "client"
    turned = (
        f"If each of {', '.join(others)} is a {of}, write one row for each value: pandas.melt(table, "
        f"{[*found.values(), *proposals]}, var_name='{of}', value_name='accuracy')."
    ) * (len(others) > 1 and not values and of is not None)  # fmt: skip
    if not missing and not proposals and others:
        return f"If {others[0]!r} is the metric, give columns={{{others[0]!r}: {others[0]!r}}}. {turned}".rstrip()
    if turned:
        return turned
    if proposals:
        return f"Did you mean columns={proposals}?"
    return "Map them with columns={'name in the file': 'method'}, and likewise seed and accuracy."


def _proposals(names: Sequence[str]) -> dict[str, str]:
    return {name: of for name in names if (of := variant(name)) is not None}


def variant(name: str) -> str | None:
    """Return which of our names a column's name is a variant of."""
    return _KNOWN.get(re.sub(r"[^a-z0-9]", "", name.lower()))


def header(path: Path) -> tuple[list[str], str]:
    """Return the names of a table's columns, and what separates them; ValueError if the file is empty or no table."""
    if is_parquet(path):
        try:
            with pq.ParquetFile(path) as file:
                names, rows = file.schema_arrow.names, file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is no parquet file: {error}") from error
        if not rows:
            raise ValueError(f"{path} is empty: it has no rows.")
        return names, ""
    with pa.input_stream(str(path), compression="detect") as file:
        start = file.read(1 << 20)
    try:
        lines = start.decode("utf-8-sig", errors="strict" if len(start) < 1 << 20 else "ignore").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8; save it as CSV in UTF-8.") from None
    if "\0" in "".join(lines[:1]):
        raise ValueError(f"{path} is no text; give a CSV or parquet file.")
    if len([line for line in lines[:3] if line.strip()]) < 2:
        raise ValueError(f"{path} is empty: it has no rows.")
    delimiter = separator(lines[0])
    names = [name.strip() for name in next(csv.reader([lines[0]], delimiter=delimiter))]
    if all(re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?", name) for name in names):
        raise ValueError(f"{path} has no header: its first line is {lines[0]!r}. Add a line with the columns' names.")
    return names, delimiter


def separator(line: str) -> str:
    """Return what separates the columns of a table's head: the commonest of its marks, outside of quotes."""
    return max(",;\t|", key=re.sub(r'"[^"]*"', "", line).count)


def is_parquet(path: Path) -> bool:
    """Tell by its name whether a file is one of parquet."""
    return path.suffix.lower() in (".parquet", ".pq")


def _fits(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except pa.ArrowException:
        return False
    return True


def _repeated(value: Any, n: int) -> pa.Array:
    if isinstance(value, str):
        return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), n), pa.array([value]))
    return pa.repeat(pa.scalar(value, pa.int64()), n)
