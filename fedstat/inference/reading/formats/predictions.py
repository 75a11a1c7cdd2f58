"""A table of predictions, as `fedstat.assess` takes it, reduced to scores by client and seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedstat._checks import choice
from fedstat.inference.predictions.measuring import measure
from fedstat.inference.predictions.metrics import METRICS
from fedstat.inference.predictions.table import ALL, Predictions, arrange, predictions_of
from fedstat.inference.reading.formats.tidy import RUN, UNNAMED, Content

_CUT = 0.5


def read(path: Path, given: Mapping[str, Any], content: pd.DataFrame | None = None) -> Content:
    """Read one table, of which `content` is the table itself if it is in memory; `given` may hold the metric.

    A client at which a metric is undefined has no row of it, of no method; a note counts these. A label is refused,
    since rows name their method.
    """
    if "method" in given:
        raise ValueError(f"{path} has a column for the method; give it without the label {given['method']!r}.")
    table = predictions_of(path if content is None else content)[0]
    parts, left_out = [], dict[str, int]()
    for (estimand, split), rows in table.groupby(["estimand", "split"], sort=False):
        held = arrange(rows)
        metrics = [name for name, metric in METRICS.items() if held.kind in metric.kinds]
        if (wanted := given.get("metric")) is not None:
            choice("metric", wanted, metrics)
            metrics = [wanted]
        for metric in metrics:
            found, gone = _scores(held, metric)
            more = {"estimand": estimand or UNNAMED, "split": split or "test", "metric": metric}
            parts += [one.assign(**more) for one in found]
            left_out[metric] = left_out.get(metric, 0) + gone
    notes = [
        f"scores are made of predictions, by client and seed; of two classes the event is named from {_CUT} on; "
        "intervals are over seeds, and fedstat.assess has those over patients"
    ]
    if gaps := [f"{name.replace('_', ' ')} of {count}" for name, count in left_out.items() if count]:
        notes.append(
            "where a metric is undefined, as with too few events, a client is left out of a seed for all methods: "
            + ", ".join(gaps)
        )
    if not parts:
        raise ValueError(f"{path} has too few patients for {', '.join(left_out)}, at every client.")
    return Content([pd.concat(parts, ignore_index=True)], notes)


def _scores(held: Predictions, metric: str) -> tuple[list[pd.DataFrame], int]:
    """Return rows for each method, seed and client with a value, and how many clients under seeds have none."""
    rows, gone, clients = np.eye(len(held.methods)), 0, _clients(held)
    parts = []
    for i, block in enumerate(held.blocks):
        seeds = held.seeds if len(held.blocks) == 1 else held.seeds[i : i + 1]
        runs = pd.MultiIndex.from_product([held.methods, seeds], names=["method", "seed"]).to_frame(index=False)
        for client, own in zip(clients, block.by_client(len(clients)), strict=True):
            found = measure(held, block, own, metric, _CUT, rows)
            if found.undefined:
                gone += len(seeds) * (len(own) > 0)
                continue
            parts.append(runs.assign(value=found.values.ravel(), client=client, samples=len(own), round=0))
    return parts, gone


def _clients(held: Predictions) -> list[Any]:
    """Return clients as a history has them: numbers, or names that are told apart, or the run as a whole."""
    if held.clients == (ALL,):
        return [RUN]
    if all(isinstance(one, int) for one in held.clients) and held.names == tuple(map(str, held.clients)):
        return list(held.clients)
    twice = len({*held.names}) < len(held.names)
    return [f"{name} ({one})" if twice else name for name, one in zip(held.names, held.clients, strict=True)]
