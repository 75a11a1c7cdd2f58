"""Tables of an assessment: a metric at each client and over all, of each method and of differences to the control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fedstat.inference.intervals.family import satterthwaite
from fedstat.inference.intervals.paired import ROUNDING
from fedstat.inference.predictions.limits import Parts, critical, p_values, parts, sum_of, value_limits
from fedstat.inference.predictions.measuring import Measured, contrasts, measure
from fedstat.inference.predictions.metrics import METRICS, largest
from fedstat.inference.predictions.table import Predictions
from fedstat.inference.reading.scores import better

#: What a pooled row averages.
PATIENTS, CLIENTS = "all patients", "mean over clients"
_OVER = ("patients", "runs", "both")


def tabulate(
    predictions: Predictions, name: str, control: int, cut: float, level: float
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the rows of one metric in the tables `clients`, `pooled` and `differences` of an `Assessment`."""
    methods, count = predictions.methods, len(predictions.clients)
    rows, blocks = contrasts(len(methods), control), predictions.blocks
    own: list[list[Measured]] = [[] for _ in range(count)]
    whole = []
    for block in blocks:
        whole.append(measure(predictions, block, np.arange(len(block.client)), name, cut, rows))
        for of, places in zip(own, block.by_client(count), strict=True):
            of.append(measure(predictions, block, places, name, cut, rows))
    made = [_summed(cells, predictions) for cells in (*([of] for of in own), [whole], own)]
    # T rows: clients, all patients, mean over clients; R columns: methods, then differences
    by_seed, patients, df, between = (np.stack(of) for of in zip(*(sums for sums, _ in made), strict=True))
    found, compared = (
        parts(by_seed[:, r], patients[:, r], df[:, r], between[:, r], len(blocks) == 1, predictions.again)
        for r in (slice(len(methods)), slice(len(methods), None))
    )
    facts = pd.DataFrame([fact for _, fact in made])
    facts.loc[count, "clients"] = count
    facts.insert(0, "client", [*predictions.clients, None, None])
    facts.insert(1, "name", [*predictions.names, None, None])
    facts.insert(2, "over", [*["client"] * count, PATIENTS, CLIENTS])
    values = _values(predictions, name, found, facts, level)
    others = [i for i in range(len(methods)) if i != control]
    alike = _alike(predictions, control)[:, others]
    alike = np.concatenate([alike, np.tile(alike.all(axis=0), (2, 1))])
    size = np.abs(found.estimate).max(axis=1, keepdims=True)
    labels = [methods[i] for i in others]
    most = largest(name, predictions.kind)
    differences = _differences(name, labels, compared, facts, alike, size, most, level, len(predictions.seeds) > 1)
    differences.insert(1, "against", methods[control])
    single = values["over"] == "client"
    return (
        values[single].drop(columns=["over", "clients"]),
        values[~single].drop(columns=["client", "name"]),
        differences,
    )


def _summed(
    cells: Sequence[Sequence[Measured]], predictions: Predictions
) -> tuple[tuple[np.ndarray, ...], dict[str, Any]]:
    """Average over clients, equally, and over runs; the variance over patients is that of the same average.

    `cells` are by client and by block. The arrays are those with which `parts` begins.
    """
    flat = [one for of in cells for one in of]
    values = np.stack([np.concatenate([one.values for one in of], axis=1) for of in cells])
    defined = np.array([[not one.undefined for one in of] for of in cells])
    there = ~np.isnan(values)
    counts = there.sum(axis=0)
    by_seed = np.where(counts > 0, np.where(there, values, 0.0).sum(axis=0) / np.maximum(counts, 1), np.nan)
    beside = defined.sum(axis=0)
    weight = np.where(defined, 1 / np.maximum(beside * (beside > 0).sum(), 1), 0.0).ravel()[:, None]
    variance, df, between = (np.array([getattr(one, of) for one in flat]) for of in ("variance", "df", "between"))
    variance, between = (np.where(weight > 0, weight**2 * np.nan_to_num(of), 0.0) for of in (variance, between))
    known = defined.any()
    total = variance.sum(axis=0) if known else np.full(variance.shape[1], np.nan)
    freedom = satterthwaite(variance, np.where(weight > 0, df, np.inf)) if known else total
    lost = [one for one in flat if one.undefined]
    blocks = len(cells[0])
    fact = {
        "n": sum(one.n for one in flat) / blocks,  # of one seed: several seeds may test the same patient
        "events": sum(one.events for one in flat) / blocks,
        "counted": sum(one.counted for one in flat if not one.undefined),
        "cases": sum(one.events for one in flat if not one.undefined),
        "seeds": int((counts[0] > 0).sum()),
        "clients": int(defined.any(axis=1).sum()),
        "undefined": max(lost, key=lambda one: one.n).undefined if lost else "",
    }
    return (by_seed, total, freedom, between.sum(axis=0) * predictions.by_class), fact


def _sources(found: Parts, limits_over: dict[str, Any], facts: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the columns that values and differences have in common, of shape (T, R) or (T, 1)."""
    first = "both" if "both" in limits_over else "patients"
    columns = {"low": limits_over[first][0], "high": limits_over[first][1]}
    for over in _OVER:
        low, high = limits_over.get(over, (np.full_like(found.estimate, np.nan),) * 2)
        columns |= {f"low ({over})": low, f"high ({over})": high}
    columns |= {"variance (patients)": found.patients, "variance (runs)": found.runs}
    made = found.over(first)
    columns["df"] = satterthwaite(np.stack([of for of, _ in made]), np.stack([df for _, df in made]))
    return columns | {name: facts[[name]].to_numpy() for name in ("n", "events", "seeds", "clients", "undefined")}


def _frame(facts: pd.DataFrame, name: str, methods: Sequence[str], columns: dict[str, np.ndarray]) -> pd.DataFrame:
    places = {of: facts[[of]].to_numpy(object) for of in ("client", "name", "over")}
    cells = {"method": np.array(methods, object), **places, "metric": np.array(name), **columns}
    shape = len(facts), len(methods)
    return pd.DataFrame({of: np.broadcast_to(values, shape).ravel() for of, values in cells.items()})


def _values(predictions: Predictions, name: str, found: Parts, facts: pd.DataFrame, level: float) -> pd.DataFrame:
    metric, several, most = METRICS[name], len(predictions.seeds) > 1, largest(name, predictions.kind)
    n, events = (facts[of].to_numpy(float)[:, None] for of in ("counted", "cases"))
    mean = (facts["over"] == CLIENTS).to_numpy()[:, None]
    scale = "share" if metric.scale == "ranks" and predictions.kind == "classes" else metric.scale
    made = {}
    for over in _OVER if several else _OVER[:1]:
        ends = np.stack(value_limits(scale, found, over, level, n, events))
        if scale in ("ranks", "proportion"):  # a mean of such values is none
            ends = np.where(mean, value_limits("share", found, over, level, n, events), ends)
        low, high = np.where(np.isnan(found.estimate), np.nan, ends)
        made[over] = low, high.clip(max=most)
    columns = {"estimate": found.estimate, **_sources(found, made, facts)}
    return _frame(facts, name, predictions.methods, columns)


def _differences(
    name: str, methods: Sequence[str], found: Parts, facts: pd.DataFrame, alike: np.ndarray, size: np.ndarray,
    most: float, level: float, several: bool,
) -> pd.DataFrame:  # fmt: skip
    """Return differences to the control, with limits that hold together: over methods, and at clients over these.

    `size`, shape (T, 1), is that of the values whose differences these are; `most` is the largest that there can be.
    """
    n = facts["counted"].to_numpy(float)[:, None] * found.fresh
    centre = found.estimate
    if METRICS[name].scale == "proportion":
        # Bonett and Price: as if there were two more patients, one for each side
        single = (facts["over"] != CLIENTS).to_numpy()[:, None]
        more = np.where(single & ~alike, (2 + 2 * n * centre**2 / (n + 2)) / (n + 2) ** 2, 0.0)
        centre = np.where(single, centre * n / (n + 2), centre)
        found = replace(found, patients=found.patients + more)
    made: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    family = facts["over"].to_numpy()
    for over in _OVER if several else _OVER[:1]:
        sum_parts = found.over(over)
        se = np.sqrt(sum_of(sum_parts))
        se = np.where(se > ROUNDING * size, se, np.nan)
        low, high, p = (np.full(centre.shape, np.nan) for _ in range(3))
        for of in dict.fromkeys(family):
            inside = np.isfinite(centre) & (family == of)[:, None]
            if not inside.any():
                continue
            own, count = [(variance[inside], df[inside]) for variance, df in sum_parts], inside.sum()
            half, tie = critical((1 - level) / count, own) * se[inside], alike[inside]  # Bonferroni's limits
            low[inside] = np.where(tie, 0.0, centre[inside] - half)
            high[inside] = np.where(tie, 0.0, centre[inside] + half)
            p[inside] = np.where(tie, 1.0, np.minimum(count * p_values(centre[inside] / se[inside], own), 1.0))
        made[over] = low.clip(-most), high.clip(max=most)
    sources = _sources(found, made, facts)
    side = better(name)
    low, high = sources["low"], sources["high"]
    above, below = ("better", "worse") if side > 0 else ("worse", "better") if side < 0 else ("different", "different")
    outcome = np.select(
        [np.isnan(found.estimate), alike, np.isnan(low), low > 0, high < 0],
        ["undefined", "tie", "no spread", above, below],
        "undecided",
    )
    columns = {
        "difference": found.estimate,
        **sources,
        "p (adjusted)": p,  # over both sources, or the only one
        "outcome": outcome.astype(object),
    }
    return _frame(facts, name, methods, columns)


def _alike(predictions: Predictions, control: int) -> np.ndarray:
    """Tell which methods predict as the control does for every patient of a client, shape (clients, methods)."""
    found = np.ones((len(predictions.clients), len(predictions.methods)), bool)
    for block in predictions.blocks:
        same = (block.prediction == block.prediction[control]).swapaxes(1, 2)
        np.logical_and.at(found, block.client, same.reshape(*same.shape[:2], -1).all(axis=2).T)
    return found
