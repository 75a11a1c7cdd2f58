"""Comparison of methods from their tidy history, paired on seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat.inference.formatting import p_value
from fedstat.inference.missing import complete_mean, count_missing
from fedstat.inference.paired import holm, paired_difference, sign_flip_test

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods compared with one control; ``print`` it for a table.

    Attributes
    ----------
    summary : DataFrame
        One row per method: mean over seeds, standard deviation over seeds, number of seeds. If values are infinite or
        NaN a column ``missing`` says in words how many; their method has no mean and no difference.
    differences : DataFrame
        One row per method but the control: difference to the control with t interval, correlation of the
        pairs, p-value of the sign-flip test and Holm-adjusted p-value of the paired t test. The correlation of two
        pairs is NaN, and so are interval and t test if all pairs differ by the same amount.
    estimand : str
        What the numbers measure, in words.
    """

    summary: pd.DataFrame
    differences: pd.DataFrame
    estimand: str

    @property
    def gaps(self) -> dict[str, str]:
        """The number of missing values in words, by method; methods without missing values are left out."""
        return {str(k): v for k, v in self.summary["missing"].items() if v} if "missing" in self.summary else {}

    def __str__(self) -> str:
        numbers = self.summary.drop(columns="missing", errors="ignore")
        shown = [self.estimand, "", numbers.to_string(float_format="%.4f", na_rep="-")]
        shown += [f"{label}: {gaps}; the method has no mean and no difference" for label, gaps in self.gaps.items()]
        if len(self.differences):
            columns = [name for name in self.differences.columns if name.startswith("p ")]
            formats = dict.fromkeys(columns, p_value)
            shown += ["", self.differences.to_string(float_format="%.4f", formatters=formats, na_rep="-")]
            shown.append(
                "correlation: of the two methods over seeds; p (Holm): p (t) adjusted over the methods compared"
            )
            if self.differences["low"].isna().any():
                shown.append("no interval where all pairs differ by the same amount")
            if (pairs := int(self.differences["pairs"].min())) < 6:
                bound = f"{2 / 2**pairs:.2g}"
                shown.append(f"few pairs: with {pairs} pairs the sign-flip test cannot go below {bound}")
        return "\n".join(shown)


def _last_round(history: pd.DataFrame) -> list[int]:
    return [int(history["round"].max())]


def _splits(history: pd.DataFrame) -> list[str]:
    return [str(v) for v in history["split"].unique()]


def _of_split(history: pd.DataFrame, split: str | None) -> pd.DataFrame:
    """Return the rows of one split; by default of the clients' test samples, else validation, else training samples."""
    if split is None:
        beside = ["common", "validation"] if (history["split"] == "test").any() else ["common"]
        return history[~history["split"].isin(beside)]
    return history[history["split"] == split]


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
        Indexed by seed, one column per method, in the order of the history. A method with several estimands
        contributes the personal one, or its first if none is called so ("fine-tuned" before "global"). NaN if a value
        is missing, as in `complete_mean`.
    """
    rows = primary_rows(history, metric, last=last, split=split)
    return complete_mean(rows, ["seed", "method"]).unstack("method")[list(dict.fromkeys(rows["method"]))]


def primary_rows(history: pd.DataFrame, metric: str, *, last: int = 10, split: str | None = None) -> pd.DataFrame:
    """Return those rows of a history that `primary_summary` averages."""
    rows = _of_split(history[history["metric"] == metric], split)
    if last < 1:
        raise ValueError(f"last must be at least 1 round, got {last}.")
    if rows.empty:
        known = ", ".join(map(str, _of_split(history, split)["metric"].unique())) or "nothing"
        raise ValueError(
            f"metric {metric!r} is not in the history{f' of split {split!r}' * bool(split)}; it has {known}."
        )
    rows = rows[rows["kept"]] if "kept" in rows else rows[rows["round"] > rows["round"].max() - last]
    estimands = rows.groupby("method", observed=True)["estimand"].unique()
    chosen = {label: "personal" if "personal" in list(names) else names[0] for label, names in estimands.items()}
    return rows[rows["estimand"].astype(object) == rows["method"].astype(object).map(chosen)]


def compare(
    results: Any,
    *,
    metric: str | None = None,
    control: str | None = None,
    last: int = 10,
    level: float = 0.95,
    split: str | None = None,
) -> Comparison:
    """Compare the methods of one or several results, paired on seeds.

    A method with values that are infinite or NaN is shown with their number, and without a mean over the others.

    Parameters
    ----------
    results : Result, DataFrame, or sequence of them
        Runs (or their histories) under common seeds.
    metric : str, optional
        By default accuracy, or mse for regression.
    control : str, optional
        Label of the method that the others are compared with; by default FedAvg if present, else the first.
    last : int
        The primary summary is the mean over clients and over the last `last` rounds. If runs stopped early, it is the
        mean over clients in the round that each kept.
    level : float
        Confidence level of each interval.
    split : str, optional
        The samples measured on, "common" for the test set that all clients have in common (global models only); by
        default the clients' own held-out samples.

    Raises
    ------
    ValueError
        If labels repeat between results, a label is unknown, or methods lack common seeds.
    """
    import pandas as pd

    listed = results if isinstance(results, list | tuple) else [results]
    histories = [r if isinstance(r, pd.DataFrame) else r.history for r in listed]
    histories = [_of_split(h, split) for h in histories]
    if not histories:
        raise ValueError("results must hold at least one result.")
    if any(h.empty for h in histories):
        raise ValueError(f"results must hold evaluations, but one has none{f' of split {split!r}' if split else ''}.")
    kept = ["kept" in h for h in histories]
    if any(kept) and not all(kept):
        raise ValueError(
            "results must all have stopped early, or none: kept rounds and last rounds are different summaries."
        )
    rounds, splits = ({v for h in histories for v in read(h)} for read in (_last_round, _splits))
    if (len(rounds) > 1 and not any(kept)) or len(splits) > 1:
        raise ValueError(
            f"results must have equal rounds and one split, got last rounds {sorted(rounds)} and splits "
            f"{sorted(splits)}."
        )
    if metric is None:
        metric = "accuracy" if (histories[0]["metric"] == "accuracy").any() else "mse"
    tables = [primary_summary(h, metric, last=last, split=split) for h in histories]
    labels = [str(c) for t in tables for c in t.columns]
    if len(set(labels)) < len(labels):
        raise ValueError(f"methods of different results share a label: {', '.join(sorted(labels))}. Rename them.")
    table = pd.concat(tables, axis=1)
    table.columns = pd.Index([str(c) for c in table.columns])
    control = control or ("FedAvg" if "FedAvg" in labels else labels[0])
    if control not in labels:
        raise ValueError(f"control must be one of {', '.join(labels)}, got {control!r}.")

    compared = [primary_rows(h, metric, last=last, split=split) for h in histories]
    gaps = {label: words for rows in compared for label, words in count_missing(rows).items()}
    table[list(gaps)] = np.nan
    seeds = pd.concat([rows.groupby("method", observed=True)["seed"].nunique() for rows in compared])
    summary = pd.DataFrame({"mean": table.mean(), "sd over seeds": table.std(ddof=1), "seeds": seeds[labels]})
    if gaps:
        summary["missing"] = [gaps.get(label, "") for label in labels]
    rows = {}
    for label in [name for name in labels if name != control and not {name, control} & gaps.keys()]:
        both = table[[label, control]].dropna()
        if len(both) < 2:
            if len(table) < 2:
                continue
            raise ValueError(f"{label} and {control} have {len(both)} common seeds; pairs need at least 2.")
        d = paired_difference(both[label], both[control], level=level)
        flips = sign_flip_test(both[label], both[control])
        # with no spread beyond rounding the t interval is a point and says nothing
        spread = d.sd > 1e-12 * float(np.abs(both.to_numpy()).max())
        low, high, p = (d.low, d.high, d.p) if spread else (np.nan,) * 3
        rows[label] = [d.mean, low, high, d.correlation, d.n, flips, p]
    columns = ["difference", "low", "high", "correlation", "pairs", "p (sign flips)", "p (t)"]
    differences = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    if len(differences):
        differences["p (Holm)"] = holm(np.asarray(differences["p (t)"]))
    (of,) = splits
    whose = (
        "the global model on the common test set, mean over"
        if of == "common"
        else f"each client's model on its {of} samples, mean over clients and"
    )
    first_round = min(int(h.loc[h["round"] > h["round"].max() - last, "round"].min()) for h in histories)
    when = "the round that each run kept" if any(kept) else f"evaluated rounds {first_round} to {max(rounds)}"
    estimand = f"{metric} of {whose} {when}" + (
        f"; differences to {control}, paired on seeds, {level:.0%} intervals" if len(differences) else ""
    )
    return Comparison(summary, differences, estimand)
