"""What a run had cost by each evaluated round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from fedstat.inference.reading.scores import Scores


def with_bytes(scores: Scores, traffic: Iterable[pd.DataFrame | None]) -> Scores:
    """Add the bytes that rounds cost, as far as the tables of runs tell and the scores do not.

    Methods have NaN under seeds of which no table has a row.
    """
    known = [table.astype({"method": object}) for table in traffic if table is not None]
    if not known or scores.spent is not None:
        return scores
    table = pd.concat(known, ignore_index=True)
    by_run = (table["bytes_up"] + table["bytes_down"]).groupby([table[of] for of in ("method", "seed", "round")]).sum()
    so_far = by_run.unstack("round", fill_value=0).cumsum(axis=1).reindex(columns=scores.rounds, method="ffill")
    runs = pd.MultiIndex.from_product([scores.methods, scores.seeds])
    spent = so_far.fillna(0).reindex(runs).to_numpy(float).reshape(len(scores.methods), len(scores.seeds), -1)
    return replace(scores, spent=spent) if (spent > 0).any() else scores
