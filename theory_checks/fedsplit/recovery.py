"""What the statistics of the generator's true parameters recover of the true split, by the agreement study's table.

Only intervals over seeds are computed here. A reading covers many settings at once, so its intervals are widened
(Bonferroni) to keep 95% over all of them.
"""

from __future__ import annotations

import pandas as pd

from fedstat._tables import Tables
from fedstat.claims import Evidence, Studies, all_of, both, missing, within
from fedstat.inference import mean_interval

INFINITY = float("inf")
#: Recovery: this share of the units lies on its true side, or of the pairs in their true order.
RECOVERED = 0.95
#: An AUC that leaves no more than rare pairs in the wrong order.
SEPARATED = 0.99
#: An intraclass correlation no further from its null than this counts as destroyed.
NONE_LEFT = 0.01
#: The paper's quantiles; a cut at one of them that is not the true size puts some units on the wrong side.
QUANTILES = (0.25, 0.5, 0.75)

WHAT = {
    "auc": "AUC",
    "true_size": "share of units on their true side",
    "of_attainable": "share of units on their true side, in what the cut can reach",
    "shared": "shared units' agreement after the permutation",
}


def rows_of(tables: Tables, statistic: str, parameters: str = "true") -> pd.DataFrame:
    truth = tables["truth"]
    rows = truth[(truth["statistic"] == statistic) & (truth["parameters"] == parameters)]
    missed = rows["p"].map(lambda p: min(abs(1 - q - p) for q in QUANTILES))
    return rows.assign(of_attainable=rows["nearest"] / (1 - missed))


def figure_6(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the settings of Figure 6, which varies p at alpha = 0.4 and alpha at p = 0.5."""
    return rows[(rows["alpha"] == 0.4) | (rows["p"] == 0.5)]


def means(
    rows: pd.DataFrame, measure: str, region: tuple[float, float] = (RECOVERED, INFINITY), comparisons: int = 0
) -> list[Evidence]:
    """Judge the measure's mean over seeds: one part for each p and alpha, and kappa where there is one."""
    groups = list(rows.groupby(["p", "alpha", "kappa"], dropna=False)[measure])
    if not groups:
        return [missing("a setting in the tables")]
    level = 1 - 0.05 / (comparisons or len(groups))
    parts = []
    for (p, alpha, kappa), values in groups:
        _, low, high = mean_interval(values, level)
        where = f"p = {p:g}, α = {alpha:g}" + ("" if pd.isna(kappa) else f", κ = {kappa:g}")
        parts.append(within(low, high, region, cases=len(values), what=f"{WHAT[measure]} at {where}", level=level))
    return parts


def at(studies: Studies, statistic: str, *kappas: float) -> pd.DataFrame:
    """Return the rows of a statistic of the true parameters, for all kappas if none is named."""
    rows = rows_of(studies["agreement"], statistic)
    return rows[rows["kappa"].isin(kappas)] if kappas else rows


def best_kappa_of(rows: pd.DataFrame, measure: str) -> Evidence:
    """Take the kappa of the largest mean, chosen on the same seeds: the intervals are as wide as for all of them."""
    mean = rows.groupby(["p", "alpha", "kappa"])[measure].mean()
    best = mean.groupby(["p", "alpha"]).idxmax()
    chosen = rows.set_index(["p", "alpha", "kappa"]).loc[best.tolist()].reset_index()
    return all_of(means(chosen, measure, comparisons=len(mean)))


def range_of_kappa(rows: pd.DataFrame) -> Evidence:
    """In Figure 6's settings the units are ordered over a range of kappa, and cut right at its lower end."""
    rows = figure_6(rows)
    return both(all_of(means(rows, "auc")), all_of(means(rows[rows["kappa"] == rows["kappa"].min()], "true_size")))
