"""The primary summary of a tidy history: one number per seed and method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedstat.inference.choosing import SPLITS, usual_model
from fedstat.inference.missing import complete_mean

if TYPE_CHECKING:
    import pandas as pd


def primary_summary(history: pd.DataFrame, metric: str, *, last: int = 10, split: str | None = None) -> pd.DataFrame:
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

    Returns
    -------
    DataFrame
        Indexed by seed, one column per method, in the order of the history. Of a method with several estimands the one
        that `compare` takes. NaN if a value is missing, as in `complete_mean`.

    Examples
    --------
    It is what `agrees` takes, and its differences are what `looks` and `plan` take:

    >>> table = primary_summary(result.history, "accuracy")  # doctest: +SKIP
    >>> print(looks(table["FedPer"] - table["FedAvg"]))  # doctest: +SKIP
    """
    rows = primary_rows(history, metric, last=last, split=split)
    return complete_mean(rows, ["seed", "method"]).unstack("method")[list(dict.fromkeys(rows["method"]))]


def primary_rows(history: pd.DataFrame, metric: str, *, last: int = 10, split: str | None = None) -> pd.DataFrame:
    """Return those rows of a history that `primary_summary` averages: of all rounds if `last` is their number."""
    there = set(history["split"].unique())
    split = split or next((one for one in SPLITS if one in there), None)
    of_split = history[history["split"] == split]
    rows = of_split[of_split["metric"] == metric]
    if last < 1:
        raise ValueError(f"last must be at least 1 round, got {last}.")
    if rows.empty:
        known = ", ".join(map(str, of_split["metric"].unique())) or "nothing"
        raise ValueError(f"metric {metric!r} is not in the history of split {split!r}; it has {known}.")
    rows = rows[rows["kept"]] if "kept" in rows else rows[rows["round"] > rows["round"].max() - last]
    estimands = rows.groupby("method", observed=True)["estimand"].unique()
    models = {label: usual_model([str(name) for name in names]) for label, names in estimands.items()}
    return rows[rows["estimand"].astype(object) == rows["method"].astype(object).map(models)]
