"""FD-08: the aggregate's variance after local training, as more clients are averaged."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedstat.claims import Claim, Evidence, Studies, all_of, within
from fedstat.inference import mean_interval

LIKE_ONE_OVER_M = (-1.25, -0.75)
ALIKE = (0.9, 1.1)
DESIGN = (
    "judged on the toy task of section 6.6 (linear model w = αD, Gaussian classes), class centres differing between "
    "clients, sizes as the committed configuration says"
)


def _groups(studies: Studies, start: str) -> pd.DataFrame:
    """Return variances over groups of m trained clients, one row per seed and m, and their ratio."""
    table = studies["aggregation"]["variance"]
    rows = table[(table["source"] == "training") & (table["start"] == start)].copy()
    rows["ratio"] = rows["decomposed_variance"] / rows["plain_variance"]
    return rows


def _slope(rows: pd.DataFrame, column: str, region: tuple[float, float], what: str) -> Evidence:
    """Least-squares slope of the logarithm on log m, with an interval over seeds."""
    slopes = [np.polyfit(np.log(r["clients"]), np.log(r[column]), 1)[0] for _, r in rows.groupby("seed")]
    _, low, high = mean_interval(slopes)
    return within(low, high, region, cases=len(slopes), what=f"slope of the logarithm of {what} on log m")


def _slope_of_ratio(studies: Studies, start: str, region: tuple[float, float] = LIKE_ONE_OVER_M) -> Evidence:
    return _slope(_groups(studies, start), "ratio", region, "the ratio of the variances")


def _ratios(rows: pd.DataFrame, region: tuple[float, float]) -> Evidence:
    """Judge the ratio of the variances for every m, at 95% for all together."""
    sizes = rows.groupby("clients")["ratio"]
    level = 1 - 0.05 / len(sizes)
    parts = []
    for m, ratios in sizes:
        low, high = np.exp(mean_interval(np.log(ratios), level)[1:])
        what = f"ratio of the variances for m = {m}"
        parts.append(within(float(low), float(high), region, cases=len(ratios), what=what, level=level))
    return all_of(parts)


FD08 = Claim(
    id="FD-08",
    place="section 4.1, sentence before Proposition 4.1, and section 6.6, third sentence",
    said_by="paper",
    words="Virtual clients make the aggregate's variance markedly smaller than FedAvg's, the more so the more clients "
    "are averaged, after real local training too.",
    statement='(op("Var") Q) / (op("Var") P) prop 1/m " after local training"',
    severity="unstated condition",
    assumptions="P is FedAvg's average of products and Q the product of averages, over m clients with equal weights, "
    "m from 2 to 40; 'like 1/m', which A.3 derives for the ratio, is a slope between −1.25 and −0.75 on log scales, "
    "and 'markedly' a ratio of at most 0.9; " + DESIGN,
    sensitivity="a slope off by a few tenths; a ratio off by a few hundredths",
    flaw="Both variances contain the same term of order 1/m, of second order in the clients' spread; what differs is "
    "of higher order, and after local training from a common start it is negligible. The variance does fall like 1/m, "
    "but so does FedAvg's, without virtual clients.",
    corrected="FD-08c",
)


@FD08.reading("smaller by the factor 1/m that A.3 derives")
def like_one_over_m(studies: Studies) -> Evidence:
    return _slope_of_ratio(studies, "common")


@FD08.reading("at most nine tenths of FedAvg's for every m")
def nine_tenths(studies: Studies) -> Evidence:
    return _ratios(_groups(studies, "common"), (0, 0.9))


@FD08.reading("the variance itself, which falls as FedAvg's does", natural=False)
def variance_itself(studies: Studies) -> Evidence:
    return _slope(_groups(studies, "common"), "decomposed_variance", LIKE_ONE_OVER_M, "the variance")


@FD08.reading("smaller by the factor 1/m, if clients start from independent weights", natural=False)
def independent_starts(studies: Studies) -> Evidence:
    return _slope_of_ratio(studies, "independent")


@FD08.control("clients that start from independent weights, whose ratio of variances falls like 1/m")
def unlike_starts(studies: Studies) -> Evidence:
    return _slope_of_ratio(studies, "independent")


@FD08.mutant("a ratio like 1/m² claimed for clients that start from independent weights")
def squared(studies: Studies) -> Evidence:
    return _slope_of_ratio(studies, "independent", (-2.25, -1.75))


FD08C = Claim(
    id="FD-08c",
    place="corrected statement of FD-08",
    said_by="fedstat",
    words="After local training from a common start both variances agree within a tenth and fall like 1/m.",
    statement='op("Var") Q approx op("Var") P prop 1/m " after local training from a common start"',
    severity="false",
    assumptions="P is FedAvg's average of products and Q the product of averages, over m clients with equal weights; "
    "worded, with its tenth, on other seeds than those judged; " + DESIGN,
    sensitivity="a ratio off by a few hundredths more than the tenth that is allowed",
)


def _alike(studies: Studies, start: str) -> Evidence:
    """Judge both variances alike for every m, and falling like 1/m.

    By FD-05c the terms in ``S2 = 1/m``, ``(a0^2 mu_02 + d0^2 mu_20 + 2 a0 d0 mu_11) / m``, are the same for both
    aggregates. They are of second order in the clients' spread, and all that differs is of third and fourth order.
    Local training from a common start leaves the spread small against the means, hence a ratio near one.
    """
    rows = _groups(studies, start)
    return all_of([_ratios(rows, ALIKE), _slope(rows, "decomposed_variance", LIKE_ONE_OVER_M, "the variance")])


@FD08C.reading("every m from 2 to 40")
def alike(studies: Studies) -> Evidence:
    return _alike(studies, "common")


@FD08C.mutant("clients that start from independent weights")
def independent_weights(studies: Studies) -> Evidence:
    return _alike(studies, "independent")
