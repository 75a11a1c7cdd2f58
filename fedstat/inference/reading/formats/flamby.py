"""FLamby's results, the CSV file of ``fed_benchmark.py``.

Source: https://github.com/owkin/FLamby at edacf54d5211520583b0133d55ac39b6fda8324b (19 June 2024).

- ``flamby/benchmarks/fed_benchmark.py``: a row for each method, seed and test set. Columns in any order are Test,
  Method, Metric (the value), seed, and the methods' hyper-parameters. The number behind a method's name counts
  its updates.
  "Local k" is the model that centre k trained alone, "Pooled Training" the one of all data together.
- ``flamby/benchmarks/benchmark_utils.py``: `evaluate_model_on_local_and_pooled_tests` tests one model on the test
  set of each centre, ``client_test_k``, and on the union of these, ``Pooled Test``.
- ``flamby/datasets/fed_*/metric.py``: what is measured depends on the data set, which only the file's place names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedstat.inference.reading.formats.runs import text_table, whole
from fedstat.inference.reading.formats.tidy import RUN, Content, rows

_COLUMNS = ("Method", "Test", "Metric")
_METRICS = {
    "camelyon16": "auc", "heart": "accuracy", "isic": "balanced_accuracy", "ixi": "dice", "kits19": "dice",
    "lidc": "dice", "tcga": "concordance",
}  # fmt: skip
_NOTES = (
    "FLamby tests one model at every centre (split test) and on the union of their test sets, client -1 (split common)",
    "one evaluation of each run, called round 0",
)
_MEASURED = "the {model} on each centre's {split} samples, mean over centres and {when}"


def wrote(names: Sequence[str]) -> bool:
    """Tell whether a table's columns are those of FLamby."""
    return {*_COLUMNS} <= {*names}


def read(path: Path, given: Mapping[str, Any]) -> Content:
    """Read one file; `given` may hold the metric, if the file's place does not tell the data set."""
    table = text_table(path, "FLamby")
    if not {*_COLUMNS, "seed"} <= {*table}:
        raise ValueError(f"{path} must have the columns {', '.join(_COLUMNS)} and seed, got {', '.join(table)}.")
    try:
        values = table["Metric"].replace("", "nan").astype(float)
    except ValueError as error:
        raise ValueError(f"{path} has no number in column Metric: {error}.") from error
    if "method" in given:
        raise ValueError(f"{path} has a column for the method; give it without the label {given['method']!r}.")
    place = f"{path.resolve().parent.name} {path.name}".lower()
    metric = given.get("metric") or next((name for part, name in _METRICS.items() if part in place), None)
    if metric is None:
        raise ValueError(f"{path} does not tell its data set; give metric='accuracy' or the like.")
    pooled = table["Test"] == "Pooled Test"
    if (repeated := table.duplicated(["Method", "seed", "Test"])).any():
        method, seed = table.loc[repeated.idxmax(), ["Method", "seed"]]
        same = table[(table["Method"] == method) & (table["seed"] == seed)]
        differ = [name for name in table if name not in (*_COLUMNS, "seed") and same[name].nunique() > 1]
        raise ValueError(
            f"{path} measures {method} under seed {seed} twice; {', '.join(differ) or 'no column'} tells the rows "
            "apart. Leave some out, or give them another name in the column Method."
        )
    seeds, rounds, split = whole(table["seed"], path), np.zeros(len(table)), np.where(pooled, "common", "test")
    history = rows(table["Method"], seeds, rounds, metric, values, split=split, estimand="tested")
    history = history.assign(client=table["Test"].mask(pooled, str(RUN)))
    return Content([history], _NOTES, _MEASURED)
