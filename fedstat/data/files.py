"""Make clients of a user's own file: a CSV or npz with a column for the client."""

from __future__ import annotations

import csv
import reprlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat._checks import CASE_NUMBER, FEW, local, meant, naming
from fedstat._checks import names as check_names
from fedstat.data.arrays import from_indices
from fedstat.data.clients import Clients
from fedstat.data.dealing import by_group
from fedstat.data.npz import read_npz
from fedstat.data.prepare import FitOn, text_columns

if TYPE_CHECKING:
    import pandas as pd

#: What stands for a missing value in a CSV file; only the first, nothing at all, where nothing will be imputed.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null")


def from_csv(
    path: str | Path,
    *,
    client: str = "client",
    target: str = "y",
    inputs: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    prepare: Any = None,
    fit_on: FitOn = "pooled",
) -> Clients:
    """Read clients from a CSV file with a header, a client column, a target column and numeric inputs.

    A case number is no input. Unless `inputs` names it, a warning tells of a column with more different values than a
    third of its rows, and more than 10, if it holds whole numbers and is named like a case number (patient_id, case_no,
    MRN), or text of which "standard" makes inputs. Years, ages and postal codes are not named so.

    Parameters
    ----------
    path : path
        The file, on this machine: addresses are refused. Columns are separated by commas, tabs or semicolons; between
        semicolons numbers may have decimal commas. Blanks around words count for nothing.
    client, target : str
        Names of the client and of the target column. Clients are told apart by the text in the file, so that 01 and 1
        are two clients; they are ordered as numbers if all of them are numbers. Targets that are all numbers make a
        regression, or a classification if they are whole; otherwise, or if both 01 and 1 occur, they are text and make
        a classification.
    inputs, drop : sequence of str, optional
        Either the columns that are inputs, or those that are not; by default all other columns are.
    test, validation, seed, fit_on
        As in `from_arrays`. What is held out is stratified, each class of a client in proportion.
    prepare : "standard" or transformer, optional
        As in `from_arrays`. It is given a data frame, whose columns may hold text, and missing values where a cell is
        empty or says NA, NaN or null.

    Raises
    ------
    ValueError
        For ragged lines, missing columns, text or missing values in input columns, and targets that are missing, as NA,
        NaN and null are, or numbers with some text; with "standard" also for a column of text with more different
        values than half of its rows, or numbers with some text, unless `inputs` names it. The message names the place.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedstat as fs
    >>> file = Path(tempfile.mkdtemp(), "patients.csv")
    >>> rows = ["site,age,ill", "Bonn,61,no", "Bonn,70,yes", "Aachen,55,no", "Aachen,58,yes"]
    >>> _ = file.write_text(chr(10).join(rows))
    >>> clients = fs.data.from_csv(file, client="site", target="ill", test=0.5)
    >>> clients.names, clients.classes
    (('Aachen', 'Bonn'), ('no', 'yes'))
    """
    x, y, owner, names = read_csv(path, client=client, target=target, inputs=inputs, drop=drop, prepare=prepare)
    how: dict[str, Any] = {"stratify": True, "prepare": prepare, "fit_on": fit_on}
    with naming(path):
        return from_indices(x, y, by_group(owner, order=names), test=test, validation=validation, seed=seed, **how)


def read_csv(
    path: str | Path,
    *,
    client: str,
    target: str,
    inputs: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    prepare: Any = None,
) -> tuple[Any, np.ndarray, np.ndarray, list[str]]:
    """Read samples as `from_csv` does: inputs (N, d), targets (N,), the client of each (N,), and clients in order.

    Where they are to be prepared, inputs are a data frame, in which text and missing values may stand.
    """
    import pandas as pd

    from fedstat.inference.reading.formats.tables import separator

    path = local("path", path)
    raw = prepare is not None
    if client == target:
        raise ValueError(f"client and target must be different columns, got {client!r} for both.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more fields than the header in every line
            first = partial(pd.read_csv, path, header=None, nrows=1, dtype=str, keep_default_na=False)
            header, delimiter = first().iloc[0].tolist(), ","
            if not {client, target} <= {*header}:
                delimiter = separator(",".join(header))
                header = first(sep=delimiter).iloc[0].tolist()
            named = [name or f"Unnamed: {i}" for i, name in enumerate(header)]
            empty = {name: list(_MISSING if raw and name not in (client, target) else _MISSING[:1]) for name in named}
            table = pd.read_csv(
                path,
                sep=delimiter,
                index_col=False,
                on_bad_lines="error",
                keep_default_na=False,
                na_values=empty,
                skip_blank_lines=False,
                dtype={client: str, target: str},
                low_memory=False,  # else a column of codes is read block by block, here as numbers and there as text
            )
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} is empty; a header line and at least one sample are needed.") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise ValueError(f"{path} is ragged: {error}. Every line needs as many fields as the header.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from None
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"{path} has two columns named {twice!r}. Rename or drop one.")
    for name in (client, target):
        if name not in table.columns:
            raise ValueError(f"{path} has no column {name!r}{_known(name, table)}")
    if table.empty:
        raise ValueError(f"{path} has a header but no samples.")
    for name in table.columns[table.dtypes == "str"]:
        table[name] = table[name].str.strip().replace("", np.nan)
    table[target] = table[target].mask(table[target].isin(_MISSING))
    x = table[_input_columns(path, table, {"client": client, "target": target}, inputs, drop)]
    if delimiter == ";":
        table[target] = table[target].str.replace(r"^([-+]?\d+),(\d+)$", r"\1.\2", regex=True)
        for name in x.columns[x.dtypes == "str"]:
            numbers = pd.to_numeric(x[name].str.replace(",", "."), errors="coerce")
            if numbers.notna().equals(x[name].notna()):
                x = x.assign(**{name: numbers})
    needed = table[[client, target]] if raw else table[[client, target, *x.columns]]
    if needed.isna().any(axis=None):
        row, column = np.argwhere(needed.isna().to_numpy())[0]
        name = needed.columns[column]
        stands = ", which NA, NaN and null are as well" if name == target else ""
        impute = "" if name in (client, target) else ', or impute by prepare="standard"'
        with open(path, newline="", encoding="utf-8") as file:
            lines = csv.reader(file, delimiter=delimiter)  # fields in quotes may go over several lines
            line = [lines.line_num for _ in lines][row] + 1
        raise ValueError(
            f"{path}, line {line}: no value in column {name!r} (a short line or a missing value{stands}). Complete or "
            f"drop such lines{impute}."
        )
    text = text_columns(x)
    if text and not raw:
        raise ValueError(
            f'{path}: input column {text[0]!r} is not numeric. Leave it out, drop = ["{text[0]}"], or encode it: '
            'prepare="standard" makes a column for each of its words, a transformer of scikit-learn\'s what you like.'
        )
    if inputs is None:
        _check_columns(path, x, text if isinstance(prepare, str) else [])
    held: Any = x
    if not raw:
        held = x.to_numpy(dtype=np.float64)
        with np.errstate(over="ignore"):
            narrow = held.astype(np.float32)
        held = narrow if np.array_equal(narrow, held) else held  # as float32 if it holds all exactly
    names = sorted(table[client].unique())
    if not np.isnan(numbers := pd.to_numeric(np.array(names, dtype=object), errors="coerce")).any():
        names = [names[k] for k in np.argsort(numbers, kind="stable")]
    return held, _targets(path, table[target]), table[client].to_numpy(dtype=str), names


def _known(name: str, table: pd.DataFrame) -> str:
    return f"{meant(name, table.columns)}; it has {reprlib.repr(list(table.columns))[1:-1]}."


def _input_columns(
    path: Path, table: pd.DataFrame, taken: Mapping[str, str], inputs: Sequence[str] | None, drop: Sequence[str] | None
) -> list[str]:
    """Return the columns that are inputs, in the order of the file; `taken` are those that are not, by their role."""
    if inputs is not None and drop is not None:
        raise ValueError("inputs names the columns to use and drop those to leave out: give one of them, not both.")
    for key, listed in (("inputs", inputs), ("drop", drop)):
        if listed is None:
            continue
        check_names(key, listed)
        for name in listed:
            if name not in table.columns:
                raise ValueError(f"{path} has no column {name!r}, which {key} names{_known(name, table)}")
            if (role := next((role for role, column in taken.items() if column == name), None)) is not None:
                why = "which is never an input" if key == "inputs" else "which is needed"
                raise ValueError(f"{path}: {key} names {name!r}, the {role} column, {why}. Take it out of {key}.")
    chosen = [name for name in table.columns if name not in taken.values()]
    chosen = [name for name in chosen if name not in (drop or ()) and (inputs is None or name in inputs)]
    if not chosen:
        left = "" if inputs is None and drop is None else " are left"
        listed = " and ".join(map(repr, taken.values()))
        raise ValueError(f"{path}: no input columns{left} beside {listed}.")
    return chosen


def _check_columns(path: Path, x: pd.DataFrame, encoded: Sequence[str]) -> None:
    """Warn of columns that seem to hold case numbers; refuse text to be encoded that tells most rows apart."""
    from pandas.api.types import is_numeric_dtype

    for name in x.columns:
        rows, values = int(x[name].count()), x[name].nunique()
        if text := name in encoded:
            remedy = "Write numbers, with points, or nothing there, or name the column in inputs if words are meant."
            _check_numbers(path, x[name].dropna(), "an input", remedy)
        numbers = is_numeric_dtype(x[name]) and CASE_NUMBER.search(name) is not None
        if values <= max(rows / 3, FEW) or not (text or (numbers and (x[name].dropna() % 1 == 0).all())):
            continue
        holds = f"{path}: column {name!r} holds {'text' if text else 'whole numbers'} with {values} different values in"
        holds += f" {rows} rows, as a case number{' or a remark' if text else ''} would, and"
        if text and values > rows / 2:
            raise ValueError(
                f'{holds} each value would become an input. Leave it out, drop = ["{name}"], or name it in inputs if '
                "it is meant."
            )
        warnings.warn(
            f'{holds} is an input. If it is a case number, leave it out, drop = ["{name}"]; if not, name it in inputs.',
            stacklevel=4,
        )


def _check_numbers(path: Path, column: pd.Series, become: str, remedy: str) -> None:
    """Refuse text that is numbers for the most part, with decimal commas or some words among them."""
    import pandas as pd

    stray = column[pd.to_numeric(column, errors="coerce").isna()]
    words = pd.to_numeric(stray.astype(str).str.replace(",", "."), errors="coerce").isna()  # no decimal commas
    if column.nunique() > FEW and 2 * words.sum() < len(column):
        raise ValueError(
            f"{path}: column {column.name!r} holds numbers and in {len(stray)} of {len(column)} rows text, such as "
            f"{stray.iloc[0]!r}, so that each value would become {become}. {remedy}"
        )


def _targets(path: Path, column: pd.Series) -> np.ndarray:
    """Return the targets as numbers if all are numbers and no two texts mean the same whole number; else as text."""
    import pandas as pd

    try:
        numbers = pd.to_numeric(column).to_numpy()
    except (ValueError, TypeError):
        _check_numbers(path, column, "a class", "Write numbers, with points, or words where classes are meant.")
        return column.to_numpy(dtype=str)
    merged = numbers.dtype.kind != "f" and column.nunique() > len(np.unique(numbers))
    return column.to_numpy(dtype=str) if merged else numbers


def from_npz(
    path: str | Path, *, test: float = 0.2, validation: float = 0.0, seed: int = 0, tokens: bool = False
) -> Clients:
    """Read clients from an ``.npz`` file with arrays ``x``, ``y`` and ``client``, never unpickling.

    Parameters
    ----------
    path : path
        The file. Beside ``x`` (N, ...), ``y`` (N,) and ``client`` (N,), which are as in `from_arrays`, it may hold
        ``test`` (N,), true for the clients' test samples; without it the share `test` is held out.
    test, validation, seed, tokens
        As in `from_indices`. What is held out is stratified, each class of a client in proportion.

    Raises
    ------
    ValueError
        If the file is corrupt, an array is missing or of another kind, or they do not belong together.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import fedstat as fs
    >>> file = Path(tempfile.mkdtemp(), "mine.npz")
    >>> np.savez(file, x=np.eye(6), y=np.arange(6) % 2, client=np.arange(6) // 3)
    >>> fs.data.from_npz(file).train.n.tolist()
    [2, 2]
    """
    x, y, client, held = read_arrays(path)
    partition = by_group(client)
    if held.any():
        trained = tuple(index[~held[index]] for index in partition)
        partition = replace(partition, train=trained, test=tuple(index[held[index]] for index in partition))
    with naming(path):
        how: dict[str, Any] = {"seed": seed, "stratify": True, "tokens": tokens}
        return from_indices(x, y, partition, test=test, validation=validation, **how)


def read_arrays(
    path: str | Path, *, client: str = "client", target: str = "y"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Read inputs (N, ...), targets, clients, and which samples are for testing, (N,) each, as `from_npz` does."""
    arrays = read_npz(path, {"x": "biuf", target: "biufU", client: "biuU"}, optional={"test": "b"})
    x, y, owner = arrays["x"], arrays[target], arrays[client]
    held = arrays.get("test", np.zeros(owner.shape, dtype=bool))
    for name, array in ((target, y), (client, owner), ("test", held)):
        if array.ndim != 1 or x.shape[:1] != array.shape or not len(array):
            raise ValueError(
                f"{path}: {name} has shape {array.shape}; x, of shape {x.shape}, needs one entry per sample."
            )
    return x, y, owner, held
