"""What a run had cost by each evaluated round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from fedstat.inference.reading.scores import Scores


def with_bytes(scores: Scores, traffic: Iterable[pd.DataFrame | None]) -> Scores:
    """Add the bytes that rounds cost, as far as the tables of runs tell and the scores do not."""
    known = [table.astype({"method": object}) for table in traffic if table is not None]
    if not known or scores.spent is not None:
        return scores
    spent = bytes_spent(pd.concat(known, ignore_index=True), scores)
    return replace(scores, spent=spent) if (spent > 0).any() else scores


def bytes_spent(traffic: pd.DataFrame, scores: Scores) -> np.ndarray:
    """Return the bytes sent up and down by all clients until each evaluated round, for `Scores.spent`.

    The table has the columns method, seed, round, bytes_up and bytes_down. Methods have NaN under seeds of which it has
    no row.
    """
    sent = traffic["bytes_up"] + traffic["bytes_down"]
    by_run = sent.groupby([traffic["method"].astype(object), traffic["seed"], traffic["round"]]).sum()
    so_far = by_run.unstack("round", fill_value=0).cumsum(axis=1).reindex(columns=scores.rounds, method="ffill")
    runs = pd.MultiIndex.from_product([scores.methods, scores.seeds])
    return so_far.fillna(0).reindex(runs).to_numpy(float).reshape(len(scores.methods), len(scores.seeds), -1)
