"""From runs in which one source of randomness varies at a time to the table that `components` splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedstat.inference.reading.choosing import Estimand
from fedstat.inference.reading.gathering import gather
from fedstat.inference.reading.opening import read_runs
from fedstat.inference.reading.sameness import settings_apart

_SOURCES = ("data", "partition", "initial weights", "participants", "batches")


def by_source(
    results: Any | Sequence[Any], *, metric: str | None = None, estimand: Estimand = None, last: int = 10
) -> pd.DataFrame:
    """Tabulate runs by the seed that each source of randomness came from.

    Parameters
    ----------
    results : Result, run folder, or a sequence of them
        Such as one run of ``fs.federate(..., vary=[source])`` for each source, under the same first seed.
    metric, estimand, last
        The primary summary, as in `fedstat.compare`.

    Returns
    -------
    DataFrame
        A row for each method and run: method, the seed of data, partition, initial weights, participants and batches,
        and value. Runs that share all of them are one row.

    Raises
    ------
    ValueError
        If a run does not say what varied, or runs differ in model or training.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=4, seed=0)
    >>> def run(source):
    ...     given = dict(rounds=2, seed=range(3), vary=[source])
    ...     return fs.federate(fs.methods.FedAvg(), fs.models.mlp(5, 4, 1), clients, fs.Training(lr=0.01), **given)
    >>> table = fs.inference.by_source([run(source) for source in ("initial weights", "batches")])
    >>> table[["initial weights", "batches"]].drop_duplicates().T  # what varied in the five runs, and what was held
                     0  1  2  3  4
    initial weights  0  1  2  0  0
    batches          0  0  0  1  2
    """
    rows, known = [], list[tuple[str, Any]]()
    for name, run in read_runs(results).items():
        if run.config is None or "vary" not in run.config:
            raise ValueError(
                f"{name} does not say which sources varied; give results of fs.federate, or their folders."
            )
        known.append((name, run.config))
        if words := settings_apart(known[0][1], run.config):
            raise ValueError(f"{known[0][0]} and {name} differ in {words}. Vary only the sources of randomness.")
        scores = gather({name: run}, metric, None, last, estimand, ()).scores
        varied, first = set(run.config["vary"]), run.config["seeds"][0]
        for label, values in zip(scores.methods, scores.by_seed(), strict=True):
            for seed, value in zip(scores.seeds, values, strict=True):
                seeds = {source: seed if source in varied else first for source in _SOURCES}
                rows.append({"method": label, **seeds, "value": value})
    return pd.DataFrame(rows).drop_duplicates(["method", *_SOURCES], ignore_index=True)
