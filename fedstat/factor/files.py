"""Read data for a factor analysis: a table (CSV, npy), a correlation matrix, or a layer of a network (safetensors).

Files are read as numbers and as nothing else; nothing is unpickled. Errors name the options of ``fedstat factor``,
which are called as the parameters here.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from fedstat._checks import CASE_NUMBER, FEW, local, naming
from fedstat.factor.correlation import broken_rule, check_correlation
from fedstat.factor.kept import check_listed, check_row
from fedstat.factor.units import units_as_columns
from fedstat.inference.formatting import first_of

_MISSING = {"", ".", "na", "n/a", "#n/a", "nan", "null", "none"}
#: What questionnaires write in place of an answer that is missing, with either sign.
_CODES = (7, 8, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 9999)
_ROW_NAMES = {"", "rownames", "row.names"}
_PICKLED = {".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle", ".joblib", ".npz"}


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose columns' correlations are analysed.

    Values, (rows, columns), are finite, and NaN for gaps that were kept; float32 if the file holds float32 or less,
    else float64. Columns without a name in the file are V1, V2, ..., or unit0, unit1, ... for weights. With `weights`,
    columns are units of a network and rows coordinates of their weights, which are no independent observations; those
    of all `clients` are stacked below one another. Of a table from which rows with a missing value were left out,
    `numbers` are those of the other rows in the file, counted from 1.
    """

    values: np.ndarray
    names: tuple[str, ...]
    row_names: tuple[str, ...] | None = None
    weights: bool = False
    clients: int = 1
    left_out: int = 0
    numbers: np.ndarray | None = None


def read_table(
    path: str | Path,
    *,
    layer: str | None = None,
    clients: bool = False,
    without: Sequence[str] = (),
    missing: Literal["refuse", "drop", "keep"] = "refuse",
) -> Table:
    """Read the table or the weights in a .csv, .tsv, .txt, .npy or .safetensors file.

    Text has one row a line, separated by commas, tabs or semicolons, which allow for decimal commas. Its first line is
    a header unless it holds numbers only and these are not 0, 1, 2, ... or 1, 2, 3, ...; a warning says how such a line
    was taken. Its first column holds row names if the header calls it rownames or leaves it nameless (as R and pandas
    write), or if it is made of distinct texts. An .npy array of two axes is a table too. Weights have the units on
    their first axis, as PyTorch's linear and convolutional layers do, or on the second after the `clients`. The
    personal weights of all clients of a saved run of fedstat are read by their index, ``run/clients/0/index.json``.

    For safetensors, `layer` is a tensor, or a layer whose weight it is ("conv1" for "conv1.weight"). Columns to leave
    out, `without`, may hold anything. Where rows with missing values are kept, gaps are NaN. At least two rows must
    remain. Warnings tell of columns of a table that seem to hold case numbers, and of numbers that seem to stand for
    missing answers; both are kept. Each ValueError names the place and the remedy.
    """
    table, lines = _read(path, layer, clients, without)
    kept = _kept(path, table.names, without)
    table = replace(table, values=table.values[:, kept], names=tuple(table.names[j] for j in kept))
    if missing == "drop":
        complete = ~np.isnan(table.values).any(axis=1)
        kept_rows = np.flatnonzero(complete)
        table, lines = _take_rows(table, lines, kept_rows)
        table = replace(table, left_out=int((~complete).sum()), numbers=kept_rows + 1)
    remedy = "--missing says what becomes of such rows, --without leaves out a column"
    _refuse_gaps(path, table, lines, None if missing == "keep" and not table.weights else remedy)
    if len(table.values) < 2:
        out = f" after {table.left_out} with missing values were left out" if table.left_out else ""
        raise ValueError(
            f"{path}: {len(table.values)} row(s) of numbers{out}; correlations need at least two, and many more rows "
            "than columns to be worth much."
        )
    if not table.weights:
        _warn_of_doubtful(path, table)
    return table


def read_correlation(path: str | Path, *, without: Sequence[str] = ()) -> Table:
    """Read a square matrix, with both its triangles, from a .csv, .tsv, .txt or .npy file.

    The row of a variable in `without` is left out with its column. A matrix that is not positive semidefinite with unit
    diagonal, or names its rows and columns in different orders, is a ValueError, which names the place and the remedy.
    """
    table, lines = _read(path, None, False, without)
    kept, n = _kept(path, table.names, without), len(table.values)
    surplus = [table.names[j] for j in kept if j >= n]
    if 0 < len(surplus) < n:
        raise ValueError(
            f"{path}: {n} rows, but {len(kept)} columns; to leave out those after the square, add {_options(surplus)}."
        )
    if surplus or n > len(table.names):
        raise ValueError(
            f"{path}: {n} row(s) and {len(kept)} column(s) are no correlation matrix; leave out --correlation for a "
            "table of observations."
        )
    rows, columns = table.row_names or table.names[:n], table.names[:n]
    if rows != columns and sorted(rows) == sorted(columns):
        i = next(i for i in range(n) if rows[i] != columns[i])
        raise ValueError(
            f"{path}: rows and columns are in different orders: row {i + 1} is {rows[i]!r}, but column {i + 1} is "
            f"{columns[i]!r}; put both in one order."
        )
    table, lines = _take_rows(table, lines, kept)
    table = replace(table, values=table.values[:, kept], names=tuple(table.names[j] for j in kept))
    _refuse_gaps(path, table, lines, "a correlation matrix needs both its triangles")
    r = table.values
    if broken := broken_rule(r):
        i, j, what = broken
        mirrored = f", but {r[j, i]:g} for {table.names[i]!r} with {table.names[j]!r}" if r[i, j] != r[j, i] else ""
        raise ValueError(f"{_place(path, table, lines, i, j)}: {r[i, j]:g}{mirrored}; the matrix {what}.")
    with naming(path):
        check_correlation(r)
    return table


def _read(path: str | Path, layer: str | None, clients: bool, without: Sequence[str]) -> tuple[Table, list[int] | None]:
    """Return the whole table of a file, NaN for missing values, and the line of each row if the file has lines."""
    path = local("path", path)
    suffix = path.suffix.lower()
    with path.open("rb") as file:
        start = file.read(2)
    if suffix in _PICKLED or (suffix in (".npy", ".safetensors") and start in (b"PK", b"\x80\x02", b"\x80\x04")):
        raise ValueError(
            f"{path} is a pickle or an archive of them, which could run code and is never opened; save tensors with "
            'safetensors.torch.save_file(model.state_dict(), "model.safetensors") or one array with numpy.save.'
        )
    if suffix == ".json":
        check_listed(path)
        return _weights(f"{path}, layer {layer!r}", _kept_by_clients(path, layer), True), None
    if layer is not None and suffix != ".safetensors":
        raise ValueError(f"{path} has no layers; leave out --layer {layer}, which is for .safetensors files.")
    if suffix == ".safetensors":
        check_listed(path)
        name, array = _tensor(path, layer)
        return _weights(f"{path}, tensor {name!r}", array, clients), None
    if suffix == ".npy":
        array = _array(path)
        if clients:
            return _weights(str(path), array, True), None
        if array.ndim != 2:
            raise ValueError(
                f"{path} has shape {array.shape}, but a table has two axes, rows and columns. Weights stacked over "
                "clients, of shape (clients, units, ...), need --clients."
            )
        return Table(_floats(str(path), array), tuple(f"V{j + 1}" for j in range(array.shape[1]))), None
    if suffix not in (".csv", ".tsv", ".txt"):
        raise ValueError(
            f"{path}: files {suffix or 'without a suffix'} are not read, but .csv, .tsv and .txt tables, .npy arrays "
            "and .safetensors checkpoints are; spreadsheets and statistics packages export CSV."
        )
    if clients:
        raise ValueError(f"{path} is a table; leave out --clients, which is for .npy and .safetensors files.")
    return _text(path, without)


def _text(path: Path, without: Sequence[str]) -> tuple[Table, list[int]]:
    """Read delimited text; columns in `without` are ignored."""
    records = _records(path)
    first, top = records[0]
    for line, cells in records:
        if len(cells) != len(top):
            raise ValueError(
                f"{path}, line {line}: {len(cells)} value(s), but line {first} has {len(top)}. Quote text that holds "
                "a separator, and leave a field empty where a value is missing."
            )
    named, numbered = _is_header(records), _numbers_columns(top)
    header = named or numbered
    if not named:
        taken = "has no header: its first line was taken as data. If it holds names, begin them with a letter."
        if numbered:
            taken = f"numbers its columns up to {top[-1].strip()} in the first line, so that it was taken as a header. "
            taken += "If it is data, put a line of names above it."
        warnings.warn(f"{path} {taken}", stacklevel=4)
    records = records[header:]
    columns: Sequence[Sequence[str]] = list(zip(*(cells for _, cells in records), strict=True)) or [()] * len(top)
    names = [cell.strip() if header else f"V{j + 1}" for j, cell in enumerate(top)]
    _refuse_names(f"{path}, line {first}", names)
    row_names: tuple[str, ...] | None = None
    if len(top) > 1 and _are_row_names(names[0], columns[0]):
        row_names, columns = tuple(columns[0]), columns[1:]
        names = names[1:] if header else names[:-1]
    lines = [line for line, _ in records]
    values = np.full((len(records), len(names)), np.nan)
    texts = []
    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        if name not in without:
            numbers = [_number(cell) for cell in column]
            if None in numbers:
                i = numbers.index(None)
                texts.append((name, lines[i], column[i]))
            else:
                values[:, j] = numbers
    if texts:
        name, line, cell = texts[0]
        if _is_decimal_comma(cell):
            remedy = "write decimal points, and no separators of thousands"
        elif len(names) == 1:
            remedy = "separate the values of a line by commas, semicolons or tabs"
        else:
            remedy = f"code it as a number, or leave out text with {_options([name for name, *_ in texts])}"
        raise ValueError(f"{path}, line {line}, column {name!r}: {cell!r} is no number; {remedy}.")
    return Table(values, tuple(names), row_names), lines


def _records(path: Path) -> list[tuple[int, list[str]]]:
    """Split text into (line where it starts, cells), leaving out blank lines.

    Between semicolons decimal commas become points, unless the file has points too: either mark may group thousands.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: no UTF-8 text; save it as CSV with encoding UTF-8.") from None
    top = re.sub('"[^"]*"', "", next((line for line in io.StringIO(text) if line.strip()), ""))
    separator = next((mark for mark in "\t;" if mark in top), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    records, line = [], 1
    try:
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                records.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}, line {line}: {error}; check the quotation marks.") from None
    if separator == ";":
        numbers = {
            cell for _, cells in records for cell in cells if _number(cell) is not None or _is_decimal_comma(cell)
        }
        if not any("." in cell for cell in numbers if cell.strip() != "."):
            commas = {cell: cell.replace(",", ".") for cell in numbers}
            records = [(line, [commas.get(cell, cell) for cell in cells]) for line, cells in records]
    if not records:
        raise ValueError(f"{path} is empty; a table has a line of names and a line of numbers for every row.")
    return records


def _is_header(records: list[tuple[int, list[str]]]) -> bool:
    corner, *others = records[0][1]
    if any(_number(cell) is None for cell in others):
        return True
    if others and corner.strip().casefold() in _ROW_NAMES:
        return True
    # text above numbers is a column's name; text above text is the header of row names
    return _number(corner) is None and (not others or len(records) < 2 or _number(records[1][1][0]) is not None)


def _numbers_columns(cells: Sequence[str]) -> bool:
    """Whether a line numbers two or more columns from 0 or 1, as pandas names those of an array."""
    numbers = [cell.strip() for cell in cells if _number(cell) is not None]
    return len(numbers) > 1 and any(numbers == [str(start + j) for j in range(len(numbers))] for start in (0, 1))


def _are_row_names(name: str, cells: Sequence[str]) -> bool:
    if name.casefold() in _ROW_NAMES:
        return True
    texts = [cell for cell in cells if _number(cell) is None and not _is_decimal_comma(cell)]
    return len(texts) > 0 and len(set(texts)) == len(cells)


def _number(cell: str) -> float | None:
    """Return the number in a cell, NaN if it is missing, None if it is text."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return math.nan if cell.strip().casefold() in _MISSING else None


def _is_decimal_comma(cell: str) -> bool:
    return "," in cell and _number(cell.replace(".", "").replace(",", ".")) is not None


def _refuse_names(where: str, names: Sequence[str]) -> None:
    for j, name in enumerate(names):
        if not name and j:  # only the first column may be nameless: it holds row names
            raise ValueError(f"{where}: column {j + 1} has no name; name it, or remove it with its separators.")
        if name in names[:j]:
            raise ValueError(
                f"{where}: columns {names.index(name) + 1} and {j + 1} are both called {name!r}; rename one."
            )


def _kept(path: str | Path, names: Sequence[str], without: Sequence[str]) -> list[int]:
    """Return the positions of the columns that are not left out."""
    unknown = [name for name in without if name not in names]
    if unknown:
        raise ValueError(f"{path} has no column {unknown[0]!r} to leave out; its columns are {', '.join(names)}.")
    kept = [j for j, name in enumerate(names) if name not in without]
    if not kept:
        raise ValueError(f"{path}: no columns of numbers are left.")
    return kept


def _take_rows(
    table: Table, lines: list[int] | None, rows: Sequence[int] | np.ndarray
) -> tuple[Table, list[int] | None]:
    labels = None if table.row_names is None else tuple(table.row_names[i] for i in rows)
    return replace(table, values=table.values[rows], row_names=labels), lines and [lines[i] for i in rows]


def _place(path: str | Path, table: Table, lines: list[int] | None, i: int, j: int) -> str:
    row = f"line {lines[i]}" if lines else f"row {i + 1} (counted from 1)"
    return f"{path}, {row}, column {table.names[j]!r}"


def _refuse_gaps(path: str | Path, table: Table, lines: list[int] | None, remedy: str | None) -> None:
    """Refuse infinite numbers, and missing values where there is a remedy."""
    gaps = np.isinf(table.values) if remedy is None else ~np.isfinite(table.values)
    if not gaps.any():
        return
    i, j = np.argwhere(gaps)[0]
    where = _place(path, table, lines, i, j)
    if np.isinf(table.values[i, j]):
        raise ValueError(f"{where}: {table.values[i, j]} is not finite; correct it, or leave the row out.")
    missing = np.isnan(table.values)
    most = int(missing.sum(axis=0).argmax())
    raise ValueError(
        f"{where}: no value. {missing.any(axis=1).sum()} of {len(missing)} rows lack one, "
        f"{missing[:, most].sum()} of them in {table.names[most]!r}; {remedy}."
    )


def _warn_of_doubtful(path: str | Path, table: Table) -> None:
    """Warn of columns that seem to hold case numbers, and of numbers that seem to stand for missing answers."""
    numbered: list[str] = []
    coded: dict[float, dict[str, int]] = {}
    for name, column in zip(table.names, table.values.T, strict=True):
        x = column[~np.isnan(column)]
        whole = x[x == np.floor(x)]
        if len(x) <= FEW or len(whole) == 0:
            continue
        different, times = np.unique(whole, return_counts=True)
        named = CASE_NUMBER.search(name) and len(different) > max(len(x) / 3, FEW)
        if len(whole) == len(x) and (named or (x[1:] > x[:-1]).all()):
            numbered.append(name)
        others = x[~np.isin(np.abs(x), _CODES)]
        for code, count in zip(different, times, strict=True):
            if count > 1 and abs(code) in _CODES and len(others):
                low, high = others.min(), others.max()
                if max(low - code, code - high) > high - low:
                    coded.setdefault(code, {})[name] = count
    if numbered:
        warnings.warn(
            f"{path}: whole numbers in {first_of(numbered, 3)} tell rows apart, as case numbers do, and are analysed. "
            f"If they are case numbers, leave them out: {_options(numbered)}.",
            stacklevel=3,
        )
    for code, found in coded.items():
        warnings.warn(
            f"{path}: {code:g} stands {sum(found.values())} times in {first_of(found, 3)}, far from all other values, "
            "as a code for a missing answer would, and was taken as a number. If it is such a code, empty these cells; "
            "--missing says what becomes of their rows.",
            stacklevel=3,
        )


def _array(path: Path) -> np.ndarray:
    """Map an .npy file, so that a header that lies about the size allocates nothing."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception as error:  # numpy parses the header as Python, so that a damaged one may raise any error
        raise ValueError(f"{path} is no whole .npy file of numbers ({error}); write it with numpy.save.") from None


def _tensor(path: Path, layer: str | None) -> tuple[str, np.ndarray]:
    """Read one tensor of a safetensors file; no other is loaded."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            name = next((name for name in (layer, f"{layer}.weight") if name in shapes), None)
            if name is None:
                raise ValueError(f"{path} {_choices(layer, shapes)}")
            kind = file.get_slice(name).get_dtype()
            if not kind.startswith(("BF", "F8")):
                return name, file.get_tensor(name)
        with safe_open(path, framework="pt") as file:  # numpy knows neither bfloat16 nor eight bits
            return name, file.get_tensor(name).float().numpy()
    except (SafetensorError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is no whole .safetensors file of numbers ({error}); save it anew.") from None


def _kept_by_clients(index: Path, layer: str | None) -> np.ndarray:
    """Stack one tensor of all clients of a saved run, (clients, ...); its index names every client's file."""
    try:
        versions = json.loads(index.read_text())["clients"]
        for version in set(versions):
            check_row(index, version)
        rows = {version: _tensor(index.with_name(f"{version}.safetensors"), layer)[1] for version in set(versions)}
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{index} is no index of the clients of a saved run (run/clients/0/index.json): {error!r}."
        ) from None
    return np.stack([rows[version] for version in versions])


def _choices(layer: str | None, shapes: dict[str, tuple[int, ...]]) -> str:
    matrices = [f"  {name}  {shape}" for name, shape in shapes.items() if len(shape) > 1]
    asked = "holds several tensors" if layer is None else f"has no tensor {layer!r}"
    others = len(shapes) - len(matrices)
    rest = [f"  and {others} with fewer than two axes"] if others else []
    return "\n".join([f"{asked}; choose one with --layer NAME:", *matrices, *rest])


def _weights(where: str, array: np.ndarray, stacked: bool) -> Table:
    if array.ndim < 2 + stacked:
        layout = "(clients, units, ...)" if stacked else "(units, ...)"
        raise ValueError(f"{where} has shape {array.shape}, but weights need {layout}; biases are not analysed.")
    array = array if stacked else array[None]
    values = units_as_columns(_floats(where, array))
    return Table(values, tuple(f"unit{j}" for j in range(values.shape[1])), weights=True, clients=len(array))


def _floats(where: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where} holds {array.dtype}, but real numbers are needed.")
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    return array.astype(np.float32 if single else np.float64)


def _options(names: Sequence[str]) -> str:
    return " ".join(f"--without {shlex.quote(name)}" for name in names)
