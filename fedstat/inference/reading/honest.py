"""Results under different attacks: those clients are compared that are honest in all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedstat.inference.reading.opening import Entry

#: Seeds and clients as one number: a seed lies this far from the next.
_FAR = 2**32


def honest_in_all(runs: Mapping[str, Entry]) -> tuple[Mapping[str, Entry], list[str]]:
    """Restrict runs, under every seed, to the clients that attack in none of them, and say so where that takes some.

    Where that leaves no client under some seed it refuses.
    """
    tables = {name: run.clients for name, run in runs.items() if run.config is not None and run.clients is not None}
    bad = {name: _pairs(of[of["attacker"]] if "attacker" in of else of.head(0)) for name, of in tables.items()}
    union = np.unique(np.concatenate([*bad.values(), np.empty(0, np.int64)]))
    every = {name: _pairs(of) for name, of in tables.items()}
    more = {name: np.intersect1d(np.setdiff1d(union, bad[name]), every[name]) for name in tables}
    if not any(map(len, more.values())):
        return runs, []
    everyone = np.unique(np.concatenate([*every.values()]))
    left = np.setdiff1d(everyone, union) // _FAR
    counts = [int((left == seed).sum()) for seed in np.unique(everyone // _FAR)]
    if not min(counts):
        raise ValueError(
            "attackers are not measured, and under some seed no client is honest in all of the results. Compare "
            "methods within one run."
        )
    least, most = min(counts), max(counts)
    said = (
        f"Attackers are not measured, and the results do not have the same ones: compared are the clients that are "
        f"honest in all of them, {least if least == most else f'{least} to {most}'} under each seed."
    )
    restricted = {
        name: replace(run, batches=_Without(run.batches, more[name])) if len(more.get(name, ())) else run
        for name, run in runs.items()
    }
    return restricted, [said]


def _pairs(table: Any) -> np.ndarray:
    """Return the seeds and clients of a table's rows as one number each."""
    return np.asarray(table["seed"]).astype(np.int64) * _FAR + np.asarray(table["client"]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Without:
    """The rows of a history but for those of some seeds and clients."""

    batches: Iterable[Any]
    out: np.ndarray

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            yield batch.take(np.flatnonzero(~np.isin(_pairs(batch), self.out)))  # pandas and pyarrow have the same name
