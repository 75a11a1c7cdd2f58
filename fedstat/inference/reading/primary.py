"""The primary summary of a tidy history: one number per seed and method."""

from __future__ import annotations

import pandas as pd

from fedstat._checks import whole
from fedstat.inference.reading.choosing import Estimand, measured_models
from fedstat.inference.reading.missing import complete_mean
from fedstat.inference.reading.scores import usual_split


def primary_summary(
    history: pd.DataFrame, metric: str, *, last: int = 10, split: str | None = None, estimand: Estimand = None
) -> pd.DataFrame:
    """Return one number per seed and method: mean over clients (equally) and the last evaluated rounds.

    Parameters
    ----------
    history : DataFrame
        Tidy history with columns method, seed, round, client, estimand, split, metric, value.
    metric : str
        The metric to summarise.
    last : int
        How many rounds to average: all evaluated ones with ``round > rounds - last``.
    split : str, optional
        The samples measured on, "common" for the test set that all clients have in common; by default the clients' own.
    estimand : str or mapping of str to str, optional
        Which model of the methods is measured, for all or by label; by default the one that `compare` takes.

    Returns
    -------
    DataFrame
        Indexed by seed, one column per method, in the order of the history. NaN if a value is missing, as in
        `complete_mean`.

    Raises
    ------
    ValueError
        If the history has no such metric or model, or several models of a method of which none is known to be meant.

    Examples
    --------
    It is what `agrees` takes, and its differences are what `looks` and `plan` take:

    >>> import pandas as pd
    >>> from fedstat.inference import primary_summary, read_results
    >>> rows = [(m, s, c, 0.7 + 0.1 * (m == "FedPer") + 0.01 * s + 0.02 * c) for m in ("FedAvg", "FedPer")
    ...     for s in range(3) for c in range(2)]
    >>> table = pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])
    >>> primary_summary(read_results(table).history, "accuracy")
    method  FedAvg  FedPer
    seed
    0         0.71    0.81
    1         0.72    0.82
    2         0.73    0.83
    """
    rows = primary_rows(history, metric, last=last, split=split, estimand=estimand)
    return complete_mean(rows, ["seed", "method"]).unstack("method")[list(dict.fromkeys(rows["method"]))]


def primary_rows(
    history: pd.DataFrame, metric: str, *, last: int = 10, split: str | None = None, estimand: Estimand = None
) -> pd.DataFrame:
    """Return those rows of a history that `primary_summary` averages: of all rounds if `last` is their number.

    Examples
    --------
    >>> import pandas as pd
    >>> from fedstat.inference import primary_rows, read_results
    >>> values = {"round": range(4), "accuracy": [0.2, 0.5, 0.7, 0.8]}
    >>> table = pd.DataFrame({"method": "FedAvg", "seed": 0, "client": 0, **values})
    >>> primary_rows(read_results(table).history, "accuracy", last=2)[["round", "value"]]
       round  value
    2      2    0.7
    3      3    0.8
    """
    split = split or usual_split(set(history["split"].unique()))
    of_split = history[history["split"] == split]
    rows = of_split[of_split["metric"] == metric]
    whole("last", last, 1)
    if rows.empty:
        known = ", ".join(map(str, of_split["metric"].unique())) or "nothing"
        raise ValueError(f"metric {metric!r} is not in the history of split {split!r}; it has {known}.")
    rows = rows[rows["kept"]] if "kept" in rows else rows[rows["round"] > rows["round"].max() - last]
    estimands = rows.groupby("method", observed=True, sort=False)["estimand"].unique()
    found = {str(label): [str(name) for name in names] for label, names in estimands.items()}
    models = measured_models(found, estimand, "the history")
    return rows[rows["estimand"].astype(object) == rows["method"].astype(object).map(models)]
