"""Runs as loggers keep them: a name that people gave, and values by step in columns of their own.

What a name says is read here, for wandb, TensorBoard and MLflow alike: the seed behind the word "seed", the method in
the rest of a run's name, and the split and the metric in a name such as ``val/acc``.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedstat.inference.reading.formats.tables import variant
from fedstat.inference.reading.formats.tidy import METRICS, rows

Named = tuple[str, int]
#: Names under which people keep the method and the seed of a run.
METHOD = (
    "method", "algorithm", "algorithm-name", "algorithm_name", "strategy", "strategy-name", "strategy_name",
)  # fmt: skip
SEED = ("seed", "random-seed", "random_seed")
#: A seed in a run's name.
SEEDED = re.compile(r"(?i)(?<![a-z])(?:random[-_ ]?)?seed[-_ =:]*(\d+)")
_MARKS = "-_ /.,;"
#: The split that a word in a name means.
SPLIT_OF = {
    "train": "train", "training": "train", "val": "validation", "valid": "validation", "validation": "validation",
    "test": "test", "eval": "test",
}  # fmt: skip
NOTE = "the split is in the metric's name (train, val, test, eval); without such a word values are of test samples"
ONE = "a logger's numbers are of a run as a whole: client -1"


def first_line(path: Path) -> list[str]:
    """Return the cells of a CSV file's first line, none if it is no CSV."""
    with path.open("rb") as file:
        lines = file.readline(1 << 20).decode("utf-8-sig", "replace").splitlines()
    try:
        return next(csv.reader(lines), [])
    except csv.Error:
        return []


def text_table(path: Path, tool: str) -> pd.DataFrame:
    """Read a CSV file as text, cell by cell; errors name the tool that writes such files."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # more cells than the header in every line
            table = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise ValueError(f"{path} cannot be read as {tool}'s: {error}") from error
    if table.empty:
        raise ValueError(f"{path} is empty: it has no rows.")
    return table


def named(runs: Sequence[str], given: Mapping[str, Any], source: Path) -> list[Named]:
    """Return the method and the seed of each run of a file.

    The seed is the number behind the word "seed" in the run's name, the method the rest of it. `given` may hold the
    method of all runs; those without a seed are then numbered in their order.
    """
    found = []
    for turn, run in enumerate(runs):
        seed = SEEDED.search(run)
        rest = (run[: seed.start()].rstrip(_MARKS) + run[seed.end() :]).strip(_MARKS) if seed else ""
        method = str(given.get("method", rest))
        number = int(seed[1]) if seed else given.get("seed") if len(runs) == 1 else turn
        if not method or number is None or (not seed and len(runs) > 1 and given.get("seed")):
            raise ValueError(
                f"{source}: the run's name {run!r} does not tell its method and seed, as 'FedAvg-seed0' does. Rename "
                f"it, or give fs.read_results({{'FedAvg': {source.name!r}}}), a method's runs in the order of their "
                "seeds."
            )
        found.append((method, number))
    return found


def measured(name: str) -> tuple[str, str]:
    """Return the metric and the split that a name such as ``test/acc``, ``val_loss`` or ``accuracy`` means."""
    words = re.findall(r"[^-_ /.]+", name)
    split = next((SPLIT_OF[word.lower()] for word in words if word.lower() in SPLIT_OF), "test")
    rest = "_".join(word for word in words if word.lower() not in SPLIT_OF) or name
    known = variant(rest)
    return (known if known in METRICS else rest), split


def whole(cells: pd.Series, source: Path) -> list[int]:
    """Return the cells of a column as whole numbers."""
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(float)
    if (bad := ~((np.floor(numbers) == numbers) & (np.abs(numbers) < 2**53))).any():
        value = cells.iloc[int(bad.argmax())]
        raise ValueError(f"{source} has {value!r} in column {cells.name!r}, which must hold whole numbers.")
    return [int(number) for number in numbers]


def wide(
    table: pd.DataFrame, step: str, columns: Mapping[str, tuple[Named, str]], source: Path
) -> tuple[list[pd.DataFrame], tuple[str, ...]]:
    """Return the tidy rows of columns of values by step, and the names of those that hold no numbers.

    All cells are text: empty ones are steps in which a column was not logged, "NaN" is a value that is missing. `step`
    is the column that numbers the rounds; `columns` tells of each column of values its run and the name of what it
    holds. Steps that are not whole, and a column of a known metric without numbers, are refused.
    """
    tables, others = [], []
    for column, ((method, seed), name) in columns.items():
        own = table[table[column] != ""]
        metric, split = measured(name)
        try:
            values = own[column].astype(float)
        except ValueError as error:
            if metric in METRICS:
                raise ValueError(f"{source} has no numbers in column {column!r}: {error}.") from error
            others.append(column)
            continue
        tables.append(rows(method, seed, whole(own[step], source), metric, values, split=split))
    if not any(map(len, tables)):
        raise ValueError(f"{source} holds no numbers by step.")
    return tables, tuple(others)
