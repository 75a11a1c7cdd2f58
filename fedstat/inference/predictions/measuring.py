"""What a metric comes to on some patients: a value for each run, the variance over patients, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat.inference.predictions.limits import over_patients
from fedstat.inference.predictions.metrics import METRICS
from fedstat.inference.predictions.table import Block, Predictions


@dataclass(frozen=True, eq=False)
class Measured:
    """A metric on some patients of one block; rows are those of `contrasts`.

    `values` has the shape (rows, runs), NaN where the metric is undefined; `undefined` then says why, and is "" else.
    `variance`, `df` and `between` are those of `over_patients`, for the mean over the block's runs. `n` counts
    patients, `events` those with the event (NaN where there are none by nature), `counted` those
    over whom a proportion is taken.
    """

    values: np.ndarray
    variance: np.ndarray
    df: np.ndarray
    between: np.ndarray
    n: float
    events: float
    counted: float
    undefined: str


def contrasts(methods: int, control: int) -> np.ndarray:
    """Return rows of weights of methods: each method, then each but the control minus the control."""
    each = np.eye(methods)
    return np.concatenate([each, np.delete(each - each[control], control, axis=0)])


def measure(
    predictions: Predictions, block: Block, patients: np.ndarray, name: str, cut: float, rows: np.ndarray
) -> Measured:
    """Measure a metric on some patients, given by their places in a block.

    It is undefined for all methods and runs if it is so for one of them.
    """
    metric, y, p = METRICS[name], block.outcome[patients], block.prediction[:, :, patients]
    label = np.zeros(len(y), int) if predictions.kind == "numbers" else block.label[patients]
    events = float(label.sum()) if predictions.kind in ("two classes", "times") else np.nan
    only = {"sensitivity": 1, "specificity": 0}.get(name)
    counted = float(len(y) if only is None else (label == only).sum())
    blank = np.full(len(rows), np.nan)
    reason = _too_few(predictions, label, metric.least, 1 if predictions.kind == "times" else only)
    if not reason:
        value, influence = metric.of(y, p.reshape(-1, *p.shape[2:]), cut)
        value, influence = value.reshape(p.shape[:2]), influence.reshape(*p.shape[:2], len(y))
        if np.isfinite(value).all():
            parts = over_patients(rows @ influence.mean(axis=1), block.client[patients], label, metric.by_class)
            return Measured(rows @ value, *parts, len(y), events, counted, "")
        first, run = np.argwhere(~np.isfinite(value))[0]
        method, given = predictions.methods[first], p[first, run]
        of_classes = f"probabilities of {method} are all equal or separate the outcomes"
        if ((given == 0) | (given == 1)).any():
            of_classes = f"some probabilities of {method} are 0 or 1"
        reason = {"times": "no two patients can be ordered by their times", "numbers": "all outcomes are equal"}.get(
            predictions.kind, of_classes
        )
    return Measured(np.tile(blank[:, None], p.shape[1]), blank, blank, blank, len(y), events, counted, reason)


def _too_few(predictions: Predictions, label: np.ndarray, least: int, only: int | None) -> str:
    """Say which class has too few patients, "" if none; `only` is the class that counts, None if all do."""
    if len(label) < 2:
        return f"{len(label)} patient{'s' * (len(label) != 1)}"
    names = ["patient{} without the event", "event{}"]
    if predictions.kind == "classes":
        names = [f"patient{{}} of class {name}" for name in predictions.classes]
    counts = np.bincount(label, minlength=len(names)).tolist()
    few = counts.index(min(counts)) if only is None else only
    if counts[few] >= least:
        return ""
    return f"{counts[few]} {names[few].replace('{}', 's' * (counts[few] != 1))}, fewer than {least}"
