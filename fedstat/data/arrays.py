"""One's own data: arrays with a client column, index lists of a partition, or a CSV file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedstat._random import stream
from fedstat.data.clients import Clients, pad


def from_arrays(
    x: np.ndarray,
    y: np.ndarray,
    client: np.ndarray,
    *,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Clients:
    """Make clients from samples and a client label for each.

    Parameters
    ----------
    x : array_like, shape (N, ...)
        Inputs, numeric and finite.
    y : array_like, shape (N,)
        Integer, boolean or text labels make a classification task, floating values a regression.
    client : array_like, shape (N,)
        Which client holds the sample. Clients are ordered by sorted label.
    test, validation : float
        Share of each client's samples held out, in [0, 1). Every client keeps at least one training sample
        and, where a share is positive, at least one held-out sample.
    seed : int
        Decides which samples are held out.

    Raises
    ------
    ValueError
        If lengths differ, values are not finite, or a client has too few samples for the requested splits.
    """
    client = np.asarray(client)
    if client.ndim != 1 or len(client) == 0:
        raise ValueError(f"client must be a non-empty vector with one label per sample, got shape {client.shape}.")
    _check_labels("client", client)
    names, code = np.unique(client, return_inverse=True)
    indices = [np.flatnonzero(code == k) for k in range(len(names))]
    _check_labels("client", client)
    if np.shape(y) != client.shape:
        raise ValueError(f"y and client must have one entry per sample, got shapes {np.shape(y)} and {client.shape}.")
    return from_indices(x, y, indices, test=test, validation=validation, seed=seed, names=[str(v) for v in names])


def from_indices(
    x: np.ndarray,
    y: np.ndarray,
    indices: Sequence[np.ndarray],
    *,
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
    names: Sequence[str] | None = None,
) -> Clients:
    """Make clients from samples and one index array per client, as the partitions return them.

    Parameters and errors are those of `from_arrays`; `indices` may overlap between clients, and ``print``
    then says so.
    """
    x, y = np.asarray(x), np.asarray(y)
    if y.ndim != 1 or x.ndim < 1 or len(x) != len(y):
        raise ValueError(f"x and y must have one entry per sample, got shapes {x.shape} and {y.shape}.")
    if x.dtype.kind not in "biuf":
        raise ValueError(f"x must be numeric, got dtype {x.dtype}. Encode categories as numbers first.")
    if not (test >= 0 and validation >= 0 and test + validation < 1):
        raise ValueError(f"test and validation must be shares with test + validation < 1, got {test}, {validation}.")
    if not np.issubdtype(x.dtype, np.floating):
        x = x.astype(np.float32)

    classes = None
    if np.issubdtype(y.dtype, np.floating):
        if not np.isfinite(y).all():
            raise ValueError(f"y must be finite; sample {np.flatnonzero(~np.isfinite(y))[0]} is not.")
    else:
        _check_labels("y", y)
        labels, y = np.unique(y, return_inverse=True)
        classes = tuple(labels.tolist())

    if len(indices) == 0:
        raise ValueError("indices must hold at least one client.")
    parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"train": [], "validation": [], "test": []}
    for k, index in enumerate(indices):
        index = np.asarray(index)
        if index.size and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= len(y)):
            raise ValueError(f"indices[{k}] must hold sample numbers 0..{len(y) - 1}, got {index[:5].tolist()}...")
        shuffled = stream(seed, "holdout", k).permutation(index.astype(np.int64))
        held = {name: int(np.ceil(share * len(index))) for name, share in (("test", test), ("validation", validation))}
        if len(index) - sum(held.values()) < 1:
            raise ValueError(
                f"client {names[k] if names else k} has {len(index)} samples: too few for a training sample "
                f"beside test={test} and validation={validation}. Merge or drop such clients, or lower the shares."
            )
        cuts = np.cumsum([held["test"], held["validation"]])
        for name, rows in zip(("test", "validation", "train"), np.split(shuffled, cuts), strict=True):
            parts[name].append((x[rows], y[rows]))
    return Clients(
        train=pad(parts["train"]),
        test=pad(parts["test"]) if test > 0 else None,
        validation=pad(parts["validation"]) if validation > 0 else None,
        classes=classes,
        names=tuple(names) if names is not None else (),
    )


def _check_labels(name: str, labels: np.ndarray) -> None:
    """Refuse labels that are missing, which would otherwise make a class or a client of their own."""
    missing = [i for i, v in enumerate(labels.tolist()) if v is None or v != v]
    if missing:
        raise ValueError(f"{name} has no value at sample {missing[0]}. Drop such samples or name them.")


def from_csv(
    path: str | Path,
    *,
    client: str = "client",
    target: str = "y",
    test: float = 0.2,
    validation: float = 0.0,
    seed: int = 0,
) -> Clients:
    """Read clients from a CSV file with a header, a client column, a target column and numeric inputs.

    Parameters
    ----------
    path : path
        The file.
    client, target : str
        Names of the client and of the target column; all other columns are inputs.
    test, validation, seed
        As in `from_arrays`.

    Raises
    ------
    ValueError
        For ragged lines, missing columns, text or missing values in input columns; the message names the
        line or the column.
    """
    import pandas as pd

    if client == target:
        raise ValueError(f"client and target must be different columns, got {client!r} for both.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more fields than the header in every line
            table = pd.read_csv(
                path,
                index_col=False,
                on_bad_lines="error",
                keep_default_na=False,
                na_values=[""],
                skip_blank_lines=False,
            )
        header = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].tolist()
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
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(map(repr, table.columns))}.")
    if table.empty:
        raise ValueError(f"{path} has a header but no samples.")
    if table.isna().any(axis=None):
        row, column = np.argwhere(table.isna().to_numpy())[0]
        raise ValueError(
            f"{path}, line {row + 2}: no value in column {table.columns[column]!r} (a short line or a missing "
            "value). Complete or drop such lines."
        )
    inputs = table.drop(columns=[client, target])
    text = [name for name in inputs.columns if not pd.api.types.is_numeric_dtype(inputs[name])]
    if text:
        raise ValueError(f"{path}: input column {text[0]!r} is not numeric. Encode or drop it.")
    if inputs.shape[1] == 0:
        raise ValueError(f"{path} has no input columns beside {client!r} and {target!r}.")
    y = table[target].to_numpy()
    return from_arrays(
        inputs.to_numpy(dtype=np.float32),
        y if y.dtype.kind in "biuf" else y.astype(str),
        table[client].to_numpy(),
        test=test,
        validation=validation,
        seed=seed,
    )
