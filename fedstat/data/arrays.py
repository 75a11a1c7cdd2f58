"""Make clients of a user's own data: arrays with a client column, a partition of them, or a CSV or npz file."""

from __future__ import annotations

import re
import reprlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat._checks import local, meant, naming, number
from fedstat._checks import names as check_names
from fedstat._mapped import Mapped, in_blocks, is_mapped
from fedstat._random import streams
from fedstat.data.clients import Clients, Samples
from fedstat.data.dealing import by_group
from fedstat.data.masked import unmasked
from fedstat.data.npz import read_npz
from fedstat.data.partition import Partition
from fedstat.data.prepare import FitOn, prepared, text_columns

if TYPE_CHECKING:
    import pandas as pd


#: What stands for a missing value in a CSV file; only the first, nothing at all, where nothing will be imputed.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null")


def from_arrays(
    x: np.ndarray,
    y: np.ndarray,
    client: np.ndarray,
    *,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    stratify: bool = False,
    tokens: bool = False,
    prepare: Any = None,
    fit_on: FitOn = "pooled",
) -> Clients:
    """Make clients from samples and a client label for each.

    Parameters
    ----------
    x : array_like, shape (N, ...)
        Inputs, numeric and finite. A memory-mapped array, as ``np.load(path, mmap_mode="r")`` opens it, stays in its
        file: training reads the rows of a batch as it needs them, so that data may be larger than memory.
    y : array_like, shape (N,)
        Integer, boolean or text labels make a classification task, floating values a regression.
    client : array_like, shape (N,)
        The client that holds each sample. Clients are ordered by sorted label.
    test, validation : float
        Share of each client's samples held out, in [0, 1). Every client keeps at least one training sample
        and, where a share is positive, at least one held-out sample.
    seed : int
        Decides which samples are held out.
    stratify : bool
        Hold out of each class of a client as near its share as whole numbers allow, as files are read, rather than of
        the client's samples at random. A client's only sample of a class trains. Of a regression there are no classes.
    tokens : bool
        Whether `x` holds whole numbers 0, 1, ... for an embedding, which then stay whole.
    prepare : "standard" or transformer, optional
        How inputs are brought into shape: "standard" fills missing values with medians, standardises columns and makes
        a column for each word of a data frame's text; or any transformer of scikit-learn's, or a pipeline of them. It
        is fitted on training samples alone, on a copy.
    fit_on : {"pooled", "client", "fitted"}
        Fit it on all clients' training samples together, as if they had shared what it learns; on each client's own; or
        take it as it is, fitted before, such as ``clients.transformer`` for clients that come later.

    Raises
    ------
    ValueError
        If lengths differ, values are masked or not finite, or a client has too few samples for the requested splits.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> rng = np.random.default_rng(0)
    >>> x, y, site = rng.normal(size=(60, 3)), rng.integers(0, 2, 60), np.repeat(["Aachen", "Bonn"], 30)
    >>> clients = fs.data.from_arrays(x, y, site)
    >>> clients.names, clients.train.n.tolist(), clients.test.n.tolist()
    (('Aachen', 'Bonn'), [24, 24], [6, 6])
    """
    client = unmasked("client", client)
    if client.ndim != 1 or len(client) == 0:
        raise ValueError(f"client must be a non-empty vector with one label per sample, got shape {client.shape}.")
    _check_labels("client", client)
    if np.shape(y) != client.shape:
        raise ValueError(f"y and client must have one entry per sample, got shapes {np.shape(y)} and {client.shape}.")
    how: dict[str, Any] = {"stratify": stratify, "tokens": tokens, "prepare": prepare, "fit_on": fit_on}
    return from_indices(x, y, by_group(client), test=test, validation=validation, seed=seed, **how)


def from_indices(
    x: np.ndarray,
    y: np.ndarray,
    indices: Partition | Sequence[np.ndarray],
    *,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    stratify: bool = False,
    names: Sequence[str] | None = None,
    tokens: bool = False,
    classes: Sequence[Any] | None = None,
    common: np.ndarray | None = None,
    prepare: Any = None,
    fit_on: FitOn = "pooled",
) -> Clients:
    """Make clients from samples and a partition, or one index array per client.

    Parameters
    ----------
    x : array_like, shape (N, ...)
        Inputs, numeric and finite. Unsigned bytes with two axes or more per sample are images and stay bytes (the
        engine reads them as shares of 255); other whole numbers become floating ones, unless they are tokens. A
        memory-mapped array stays in its file.
    y : array_like, shape (N,)
        Integer, boolean or text labels make a classification task, floating values a regression.
    indices : Partition or sequence of arrays of int
        Samples of each client. Clients may hold the same samples; ``print`` then says so.
    test, validation : float
        Share of each client's samples held out, in [0, 1), as in `from_arrays`. If the partition names test samples,
        those are used, and `test` is not.
    seed : int
        Decides which samples are held out.
    stratify : bool
        As in `from_arrays`.
    names : sequence of str, optional
        The clients' names, if the partition does not give them.
    tokens : bool
        Whether `x` holds whole numbers for an embedding, which then stay whole.
    classes : sequence, optional
        The classes that the codes ``0..Q-1`` mean, if `y` holds such codes; classes that do not occur count as well.
    common : array of int, optional
        Samples of a test set that belongs to no client; they are kept once.
    prepare, fit_on
        As in `from_arrays`.

    Raises
    ------
    ValueError
        As `from_arrays` does; also if an index or a label is out of range, a client has no test samples, or there is a
        `common` test set for clients that name the classes differently.

    Examples
    --------
    >>> import fedstat as fs
    >>> x, y = fs.data.digits()
    >>> clients = fs.data.from_indices(x, y, fs.data.dirichlet(y, 5, 0.3, min_size=20, seed=0), validation=0.1)
    >>> len(clients), clients.train.x.shape[1:], clients.classes[:3]
    (5, (8, 8), (0, 1, 2))
    """
    y = unmasked("y", y)
    if prepare is None:
        x = unmasked("x", x)
    elif not hasattr(x, "iloc"):
        x = np.asanyarray(x)
    if y.ndim != 1 or x.ndim < 1 or len(x) != len(y):
        raise ValueError(f"x and y must have one entry per sample, got shapes {x.shape} and {y.shape}.")
    y, meanings = coded(y, classes)
    if len(indices) == 0:
        raise ValueError("indices must hold at least one client.")
    partition = indices if isinstance(indices, Partition) else Partition(tuple(indices))
    if names is not None:
        partition = replace(partition, names=tuple(names))
    test, validation = number("test", test), number("validation", validation)
    if not (test >= 0 and validation >= 0 and test + validation < 1):
        raise ValueError(f"test and validation must be shares with test + validation < 1, got {test}, {validation}.")
    strata = y if stratify and meanings is not None else None
    rows = _hold_out(partition, len(y), 0.0 if partition.test is not None else test, validation, seed, strata)
    transformer, told, given = None, "", dict[str, np.ndarray]()
    if prepare is not None:
        if tokens or common is not None:
            raise ValueError("prepare is for columns of numbers, not for tokens, nor for a common test set.")
        x, y, rows, transformer, told, given = prepared(x, y, rows, prepare, fit_on)
    if x.dtype.kind not in "biuf":
        raise ValueError(
            f"x must be numeric, got dtype {x.dtype}. Encode categories as numbers first, or give a data frame and "
            'prepare="standard", or a ColumnTransformer with a OneHotEncoder.'
        )
    low, high = _range(x) if x.dtype.kind in "iu" else (0, 0)
    if tokens and (x.dtype.kind not in "iu" or low < 0):
        raise ValueError(f"x must hold tokens 0, 1, ..., got {x.dtype} from {low}.")
    table = partition.labels
    if table is not None and (meanings is None or table.shape[1] != len(meanings)):
        raise ValueError(
            f"the partition permutes {table.shape[1]} classes, and y has "
            f"{'none' if meanings is None else len(meanings)}."
        )
    if table is not None and common is not None:
        raise ValueError("clients that permute labels share no common test set; give own_test to each of them.")
    if tokens:  # signed, since unsigned bytes are pixels
        dtype = np.min_scalar_type(-1 - high)
    elif x.dtype.kind == "f" or (x.dtype == np.uint8 and x.ndim >= 3):
        dtype = x.dtype
    else:  # float32 holds whole numbers up to here
        dtype = np.dtype(np.float32 if max(-low, high) <= 2**24 else np.float64)

    def gathered(parts: Sequence[np.ndarray]) -> Samples:
        n, index = np.array([len(part) for part in parts]), np.concatenate(parts)
        labels = y[index] if table is None else table[np.repeat(np.arange(len(n)), n), y[index]]
        return Samples(_gathered(x, index, dtype), labels, n)

    if common is not None:
        common = unmasked("common", common)
        if common.dtype.kind not in "iu" or common.size == 0 or common.min() < 0 or common.max() >= len(y):
            raise ValueError(f"common must hold sample numbers 0..{len(y) - 1}, got {common[:5].tolist()}.")
    return Clients(
        **{name: gathered(parts) for name, parts in rows.items()},
        classes=meanings,
        names=partition.names,
        common=None if common is None else gathered([common]),
        labels=table,
        prepared=told,
        transformer=transformer,
        given=given,
    )


def _range(x: np.ndarray) -> tuple[int, int]:
    """Return the smallest and the largest of whole numbers and of zero."""
    ends = [(int(block.min(initial=0)), int(block.max(initial=0))) for _, block in in_blocks(x)]
    return min((low for low, _ in ends), default=0), max((high for _, high in ends), default=0)


def _gathered(x: np.ndarray, index: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | Mapped:
    """Return the rows at `index` in a type; those of a file stay there."""
    mapped = Mapped(x, index, dtype)
    if is_mapped(x):
        return mapped
    room = np.empty(mapped.nbytes + 64, np.uint8)  # products round by where numbers lie: always at a multiple of 64
    room = room[-room.ctypes.data % 64 :][: mapped.nbytes]
    held = room.view(dtype).reshape(mapped.shape)
    for first, block in in_blocks(mapped):
        held[first : first + len(block)] = block
    return held


def coded(y: np.ndarray, classes: Sequence[Any] | None = None) -> tuple[np.ndarray, tuple[Any, ...] | None]:
    """Return the targets as codes, with the classes that the codes mean; a regression's targets stay as they are."""
    import pandas as pd

    if classes is not None:
        if y.dtype.kind not in "iu":
            raise ValueError(f"y must hold codes 0..{len(classes) - 1} of the classes, got dtype {y.dtype}.")
        outside = np.flatnonzero((y < 0) | (y >= len(classes)))
        if len(outside):
            i = outside[0]
            raise ValueError(f"y must hold codes 0..{len(classes) - 1} of the classes; sample {i} has {y[i]}.")
        return y.astype(np.int64), tuple(classes)
    if np.issubdtype(y.dtype, np.floating):
        if not np.isfinite(y).all():
            raise ValueError(f"y must be finite; sample {np.flatnonzero(~np.isfinite(y))[0]} is not.")
        if len(values := np.unique(y[:1000])) == 2 and (values % 1 == 0).all() and np.isin(y, values).all():
            warnings.warn(
                f"y holds two floating numbers, {values[0]} and {values[1]}, which makes a regression. If they are "
                "classes, give them as whole numbers, y.astype(int), or as text.",
                stacklevel=3,
            )
        return y, None
    _check_labels("y", y)
    native = y.astype(y.dtype.newbyteorder("="), copy=False)  # pandas reads no other order of bytes
    codes, labels = pd.factorize(native, sort=True)
    return codes.astype(np.int64, copy=False), tuple(labels.tolist())


def _hold_out(
    partition: Partition, samples: int, test: float, validation: float, seed: int, strata: np.ndarray | None
) -> dict[str, list[np.ndarray]]:
    """Return each client's sample numbers by split; of each of its strata, where there are some, in proportion."""
    n = np.array([len(index) for index in partition.train])
    tested = [0] * len(n) if partition.test is None else [len(index) for index in partition.test]
    for part in (partition.train, partition.test or ()):
        if part and np.concatenate(part).max(initial=0) >= samples:
            k, most = next((k, int(i.max())) for k, i in enumerate(part) if i.max(initial=0) >= samples)
            raise ValueError(f"client {partition.names[k]} must hold sample numbers 0..{samples - 1}, got {most}.")
    if partition.test is not None and 0 in tested:
        raise ValueError(
            f"client {partition.names[tested.index(0)]} has no test samples. Give it some, or leave it out."
        )
    held = [np.ceil(share * n).astype(np.int64) for share in (test, validation)]
    if (short := n - held[0] - held[1] < 1).any():
        k = int(short.argmax())
        raise ValueError(
            f"client {partition.names[k]} has {n[k]} samples: too few for a training sample "
            f"beside test={test} and validation={validation}. Merge or drop such clients, or lower the shares."
        )
    splits: dict[str, list[np.ndarray]] = {"test": [], "validation": [], "train": []}
    ends = zip(held[0].tolist(), (held[0] + held[1]).tolist(), strict=True)
    for index, rng, (first, second) in zip(partition.train, streams(seed, "holdout", len(n)), ends, strict=True):
        shuffled = rng.permutation(index)
        if strata is not None:
            shuffled = shuffled[_dealt(strata[shuffled], first, second)]
        splits["test"].append(shuffled[:first])
        splits["validation"].append(shuffled[first:second])
        splits["train"].append(shuffled[second:])
    if partition.test is not None:
        splits["test"] = list(partition.test)
    wanted = {"test": test > 0 or partition.test is not None, "validation": validation > 0, "train": True}
    return {split: parts for split, parts in splits.items() if wanted[split]}


def _dealt(labels: np.ndarray, first: int, second: int) -> np.ndarray:
    """Return an order of samples whose pieces, to `first`, to `second` and beyond, hold each class in proportion.

    Samples are laid evenly from 0 to 1, class by class, the i-th of n at (i - 1/2) / n: Webster's apportionment
    (Balinski and Young, Fair Representation, 1982). A class's only sample is laid last. Within a piece the order stays.
    """
    _, code, count = np.unique(labels, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    place = np.empty(len(labels))
    place[order] = (np.arange(len(labels)) - np.repeat(np.cumsum(count) - count, count) + 0.5) / np.repeat(count, count)
    place[count[code] == 1] = 1
    return np.concatenate([np.sort(part) for part in np.split(np.argsort(place, kind="stable"), [first, second])])


def _check_labels(name: str, labels: np.ndarray) -> None:
    """Refuse labels without an order, and missing ones, which would become a class or a client of their own."""
    if labels.dtype.kind not in "biufUSO":
        raise ValueError(f"{name} must hold labels, text or numbers, got dtype {labels.dtype}.")
    if labels.dtype.kind == "O" and 0 < sum(isinstance(v, str) for v in labels.tolist()) < len(labels):
        raise ValueError(f"{name} holds both text and other labels. Make all of them text, or none.")
    if labels.dtype.kind == "O":
        missing = np.array([v is None or v != v for v in labels.tolist()], dtype=bool)
    else:
        missing = labels != labels
    if missing.any():
        raise ValueError(f"{name} has no value at sample {missing.argmax()}. Drop such samples or name them.")


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

    A column of whole numbers that differs in every row and is named like a case number, such as patient_id, is warned
    of, unless `inputs` names it.

    Parameters
    ----------
    path : path
        The file, on this machine: addresses are refused.
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
        For ragged lines, missing columns, text or missing values in input columns; with "standard" also for a column of
        text that tells nearly every row apart, unless `inputs` names it. The message names the line or the column.

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

    path = local("path", path)
    raw = prepare is not None
    if client == target:
        raise ValueError(f"client and target must be different columns, got {client!r} for both.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more fields than the header in every line
            warnings.simplefilter(
                "ignore", pd.errors.DtypeWarning
            )  # a mixed column of numbers and text is refused below
            header = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].tolist()
            empty = {name: list(_MISSING if raw and name not in (client, target) else _MISSING[:1]) for name in header}
            table = pd.read_csv(
                path,
                index_col=False,
                on_bad_lines="error",
                keep_default_na=False,
                na_values=empty,
                skip_blank_lines=False,
                dtype={client: str, target: str},
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
    x = table[_input_columns(path, table, {"client": client, "target": target}, inputs, drop)]
    needed = table[[client, target]] if raw else table[[client, target, *x.columns]]
    if needed.isna().any(axis=None):
        row, column = np.argwhere(needed.isna().to_numpy())[0]
        name = needed.columns[column]
        impute = "" if name in (client, target) else ', or impute by prepare="standard"'
        raise ValueError(
            f"{path}, line {row + 2}: no value in column {name!r} (a short line or a missing value). Complete or drop "
            f"such lines{impute}."
        )
    text = text_columns(x)
    if text and not raw:
        raise ValueError(
            f'{path}: input column {text[0]!r} is not numeric. Leave it out, drop = ["{text[0]}"], or encode it: '
            'prepare="standard" makes a column for each of its words, a transformer of scikit-learn\'s what you like.'
        )
    if inputs is None:
        _check_case_numbers(path, x, text if isinstance(prepare, str) else [])
    held = x if raw else _narrowed(x.to_numpy(dtype=np.float64))
    return held, _targets(table[target]), *_owners(table[client])


def _known(name: str, table: pd.DataFrame) -> str:
    return f"{meant(name, table.columns)}; it has {reprlib.repr(list(table.columns))[1:-1]}."


def _input_columns(
    path: Path,
    table: pd.DataFrame,
    taken: Mapping[str, str],
    inputs: Sequence[str] | None,
    drop: Sequence[str] | None,
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


#: Tables of so few rows are not searched for case numbers.
_FEW = 10
#: How a column of case numbers is named.
_CASE = re.compile(
    r"(?i:(^|[\W_])(id|nr|no|num|number|key|mrn|case|record|patient|subject|person|row|rownames|index|unnamed: \d+))$"
    r"|[a-z]I[Dd]$"
)


def _check_case_numbers(path: Path, x: pd.DataFrame, encoded: Sequence[str]) -> None:
    """Refuse columns of text that will be encoded and tell nearly every row apart; warn of numbers that seem to."""
    from pandas.api.types import is_integer_dtype

    for name in encoded:
        rows, values = int(x[name].count()), x[name].nunique()
        if values > max(rows / 2, _FEW):
            raise ValueError(
                f"{path}: column {name!r} holds text with {values} different values in {rows} rows, as a case number "
                f'or a remark would, and each value would become an input. Leave it out, drop = ["{name}"], or name it '
                "in inputs if it is meant."
            )
    for name in x.columns if len(x) > _FEW else ():
        if is_integer_dtype(x[name]) and x[name].is_unique and _CASE.search(name):
            warnings.warn(
                f"{path}: column {name!r} holds another whole number in each of {len(x)} rows, as a case number would, "
                f'and is an input. If it is a case number, leave it out, drop = ["{name}"]; if not, name it in inputs.',
                stacklevel=4,
            )


def _narrowed(x: np.ndarray) -> np.ndarray:
    """Return numbers as float32 if it holds all of them exactly; else as they are."""
    with np.errstate(over="ignore"):
        narrow = x.astype(np.float32)
    return narrow if np.array_equal(narrow, x) else x


def _owners(column: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Return the client of each sample, and all clients in order: as numbers if all of them are numbers."""
    import pandas as pd

    known = pd.Series(column.unique())
    if (numbers := pd.to_numeric(known, errors="coerce")).notna().all():
        column, known = column.str.strip(), known.str.strip()
    else:
        numbers = numbers * 0
    names = list(dict.fromkeys(name for _, name in sorted(zip(numbers.fillna(0), known, strict=True))))
    return column.to_numpy(dtype=str), names


def _targets(column: pd.Series) -> np.ndarray:
    """Return the targets as numbers if all are numbers and no two texts mean the same whole number; else as text."""
    import pandas as pd

    try:
        numbers = pd.to_numeric(column).to_numpy()
    except (ValueError, TypeError):
        return column.to_numpy(dtype=str)
    merged = numbers.dtype.kind != "f" and column.str.strip().nunique() > len(np.unique(numbers))
    return column.str.strip().to_numpy(dtype=str) if merged else numbers


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
