"""What a run had cost by each evaluated round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedstat.inference.reading.scores import Scores

if TYPE_CHECKING:
    import pandas as pd


def bytes_spent(traffic: pd.DataFrame, scores: Scores) -> np.ndarray:
    """Return the bytes sent up and down by all clients until each evaluated round, for `Scores.spent`.

    Parameters
    ----------
    traffic : DataFrame
        Columns method, seed, round, bytes_up, bytes_down.
    scores : Scores
        The methods, seeds and rounds.

    Returns
    -------
    ndarray, shape (M, S, T)
        NaN where the table has no row of a method and seed.
    """
    found = np.full((len(scores.methods), len(scores.seeds), len(scores.rounds)), np.nan)
    sent = traffic["bytes_up"] + traffic["bytes_down"]
    by_run = sent.groupby([traffic["method"].astype(object), traffic["seed"], traffic["round"]]).sum()
    for label, seed in dict.fromkeys((label, seed) for label, seed, _ in by_run.index):
        if label in scores.methods and seed in scores.seeds:
            run = by_run.loc[label, seed].sort_index()
            total = np.concatenate([[0], run.to_numpy(float).cumsum()])
            places = np.searchsorted(run.index.to_numpy(), scores.rounds, side="right")
            found[scores.methods.index(label), scores.seeds.index(seed)] = total[places]
    return found
