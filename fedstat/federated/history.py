"""The tidy tables of a run, to which every round adds rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from fedstat.data import Clients
from fedstat.inference import count_missing

TEXT = ("method", "estimand", "split", "metric")
COLUMNS = ("method", "seed", "round", "client", "estimand", "split", "metric", "value")
DTYPES = {name: "category" if name in TEXT else np.float64 if name == "value" else np.int64 for name in COLUMNS}
TRAFFIC_DTYPES = {
    "method": "category",
    **dict.fromkeys(("seed", "round", "client", "bytes_up", "bytes_down"), np.int64),
}

CLIENT_DTYPES = {
    **dict.fromkeys(("seed", "client"), np.int64),
    "name": "str",
    **dict.fromkeys(("train", "validation", "test"), np.int64),
}


@dataclass(frozen=True, eq=False)
class Traffic:
    """The bytes that travelled in one round of one run: up from and down to clients `ids`, each (m,) or one for all."""

    key: tuple[str, int]
    round: int
    ids: np.ndarray
    up: np.ndarray
    down: np.ndarray


def appended(before: pd.DataFrame | None, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Append later rounds to a tidy table; columns of text become categories.

    It costs the conversion of the new rounds, and a copy of the table.
    """
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS)).astype(DTYPES) if before is None else before
    columns = list(parts[0].columns if before is None else before.columns)
    text = [name for name in columns if name in TEXT]
    joined = pd.concat([part.astype(dict.fromkeys(text, "object")) for part in parts], ignore_index=True)
    new = joined[columns].astype(dict.fromkeys(text, "category"))
    if before is None or before.empty:
        return new
    return pd.DataFrame(
        {
            name: union_categoricals([before[name], new[name]], sort_categories=True)
            if name in text
            else np.concatenate([before[name], new[name]])
            for name in columns
        }
    )


def traffic_table(records: Sequence[Traffic]) -> pd.DataFrame:
    """Tabulate bytes, a row for each participant of each round and run."""
    counts = np.array([len(r.ids) for r in records], dtype=int)

    def joined(values: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.int64), *values]).astype(np.int64)

    return pd.DataFrame(
        {
            "method": pd.Categorical(np.repeat(np.array([r.key[0] for r in records], dtype=object), counts)),
            "seed": np.repeat(np.array([r.key[1] for r in records], dtype=np.int64), counts),
            "round": np.repeat(np.array([r.round for r in records], dtype=np.int64), counts),
            "client": joined([r.ids for r in records]),
            "bytes_up": joined([np.broadcast_to(r.up, len(r.ids)) for r in records]),
            "bytes_down": joined([np.broadcast_to(r.down, len(r.ids)) for r in records]),
        }
    )


def clients_table(clients: Mapping[int, Clients]) -> pd.DataFrame:
    """Tabulate who took part under each seed: a row per client, with its name and the number of samples by split."""
    tables = []
    for seed, held in clients.items():
        everyone = np.arange(len(held))
        counts = {
            split: held.splits[split].n if split in held.splits else 0 for split in ("train", "validation", "test")
        }
        tables.append(pd.DataFrame({"seed": seed, "client": everyone, "name": list(held.names), **counts}))
    return pd.concat(tables, ignore_index=True).astype(CLIENT_DTYPES)


def warn_of_missing(parts: Iterable[pd.DataFrame]) -> None:
    """Warn of methods whose outputs were not all finite: a mean by pandas would leave the missing values out."""
    for method, words in count_missing(part[part["metric"].isin(("log_loss", "mse"))] for part in parts).items():
        warnings.warn(f"{method}: {words}. fs.compare counts them; a mean by pandas does not.", RuntimeWarning, 3)
