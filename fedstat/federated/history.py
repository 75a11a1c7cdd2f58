"""The tidy table of a run, which grows by what every round brings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from fedstat.inference import count_missing

TEXT = ("method", "estimand", "split", "metric")
COLUMNS = ("method", "seed", "round", "client", "estimand", "split", "metric", "value")


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes that travelled in one round of one run: up from and down to clients `ids`, each (m,) or one for all."""

    key: tuple[str, int]
    round: int
    ids: np.ndarray
    up: np.ndarray
    down: np.ndarray


def tidy(before: pd.DataFrame | None, parts: Sequence[pd.DataFrame | Traffic]) -> pd.DataFrame:
    """Append later rounds to a tidy table, in each first what travelled and then what was measured.

    The cost is that of the new rounds, and of copying what was there.
    """
    if not parts:
        assert before is not None, "a run's history begins with its first record"
        return before
    tables = [part for part in parts if isinstance(part, pd.DataFrame)]
    records = [part for part in parts if isinstance(part, Traffic)]
    tables += [_traffic_table(records)] if records else []
    joined = pd.concat([part.astype(dict.fromkeys(TEXT, "object")) for part in tables], ignore_index=True)
    order = np.lexsort((joined["estimand"] != "traffic", joined["round"]))
    new = joined.iloc[order][list(COLUMNS)].reset_index(drop=True).astype(dict.fromkeys(TEXT, "category"))
    if before is None:
        return new
    return pd.DataFrame(
        {
            name: union_categoricals([before[name], new[name]], sort_categories=True)
            if name in TEXT
            else np.concatenate([before[name], new[name]])
            for name in COLUMNS
        }
    )


def warn_of_missing(history: pd.DataFrame) -> None:
    """Warn of methods whose outputs were not all finite: a mean by pandas would pass over what is missing."""
    for method, words in count_missing(history[history["metric"].isin(("log_loss", "mse"))]).items():
        warnings.warn(f"{method}: {words}. fs.compare counts them; a mean by pandas does not.", RuntimeWarning, 3)


def _traffic_table(records: Sequence[Traffic]) -> pd.DataFrame:
    """One row per record, client and direction."""
    counts = np.array([2 * len(r.ids) for r in records])
    sent = [np.concatenate([np.broadcast_to(v, len(r.ids)) for v in (r.up, r.down)]) for r in records]
    return pd.DataFrame(
        {
            "method": np.repeat(np.array([r.key[0] for r in records], dtype=object), counts),
            "seed": np.repeat([r.key[1] for r in records], counts),
            "round": np.repeat([r.round for r in records], counts),
            "client": np.concatenate([np.tile(r.ids, 2) for r in records]),
            "estimand": "traffic",
            "split": "train",
            "metric": np.concatenate([np.repeat(["bytes_up", "bytes_down"], len(r.ids)) for r in records]).astype(
                object
            ),
            "value": np.concatenate(sent).astype(float),
        }
    )
