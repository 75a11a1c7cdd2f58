"""The tables of the study on filter decomposition by seed and arm, and intervals that hold together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Comparison, Design, TimeToTarget, compare, to_target
from simulations.beside import beside_printed
from simulations.estimates import Estimate, joint_of, mean_of, means_by, missing, undefined
from simulations.filterdecomp.arms import ESTIMAND, GLOBAL, OURS, OURS_HEAD, PERSONAL, SENDING
from simulations.published import printed

#: Every seed draws its images from the same ones, and deals them to new clients.
DESIGN = Design(clients="new", data="drawn")
#: The arm of the paper's Table 1 that it calls "Ours".
PRINTED_AS = {"Ours": OURS}
PRINTED_SEEDS = 3
#: Rounds to a target: this share of FedAvg's own mean accuracy in the last ten rounds, a rule fixed before the runs.
SHARE = 0.9
LAST = 10
_FULL = 100.0  # points; a difference of accuracies lies within so many


def table_cells(tables: Tables) -> list[str]:
    """Return the names of the cells of Table 1."""
    values = tables["values"]
    return list(dict.fromkeys(values.loc[values["shown"] == "Table 1", "cell"]))


def curve_cells(tables: Tables) -> list[str]:
    """Return the names of the cells of Figures 2 and 5."""
    values = tables["values"]
    return list(dict.fromkeys(values.loc[values["shown"].isin(["Figure 2", "Figure 5"]), "cell"]))


def figure_of(tables: Tables, cell: str) -> str:
    """Return the figure that shows a cell's curves."""
    shown = tables["values"].loc[tables["values"]["cell"] == cell, "shown"]
    return "Figure 2" if (shown == "Figure 2").any() else "Figure 5"


def place(tables: Tables) -> str:
    """Return the name of the cell of Figures 3a to 3c and of the fast and slow protocol."""
    return str(tables["spread"]["cell"].iloc[0])


def short(cell: str) -> str:
    """Return what tells our cells apart; a name of the paper's stays whole."""
    images, _, rest = cell.rpartition(", ")
    return rest if images in ("9,085 images of CIFAR-10", "digits") else cell


def by_seed(tables: Tables, shown: str, cell: str, metric: str = "accuracy", column: str = "arm") -> pd.DataFrame:
    """Return one row per seed and one column per arm (or per value of another column); shares in per cent.

    Tables 1 and 2 speak of each client's own model on test images of its classes, figures of the global model on the
    common test set.
    """
    rows = tables["values"]
    rows = rows[(rows["shown"] == shown) & (rows["cell"] == cell) & (rows["metric"] == metric)]
    if shown.startswith("Table"):
        rows = rows[(rows["estimand"] == rows["arm"].map(ESTIMAND)) & (rows["split"] == "test")]
    else:
        rows = rows[(rows["estimand"] == "global") & (rows["split"] == "common")]
    return rows.pivot(index="seed", columns=column, values="value") * (1 if metric == "log_loss" else 100)


def atoms_by_seed(tables: Tables, cell: str) -> pd.DataFrame:
    """Return the personal accuracy by number of atoms, in per cent, over the seeds that all numbers have."""
    first, second = by_seed(tables, "Table 1", cell), by_seed(tables, "Table 2", cell, column="atoms")
    both = second.assign(**{"9": first[OURS]})
    both.columns = [int(name) for name in both.columns]
    return both.sort_index(axis=1).dropna()


def figure_3(tables: Tables, shown: str, arm: str) -> pd.DataFrame:
    """Return an arm's global accuracy in Figure 3a by local epochs, in Figure 3c by participants, in per cent."""
    some = tables["values"]
    some = some[some["arm"] == arm]
    column = {"Figure 3a": "epochs", "Figure 3c": "participants"}[shown]
    return by_seed({**tables, "values": some}, shown, place(tables), column=column).dropna(axis=1)


def joint(table: pd.DataFrame, pairs: Sequence[tuple[Any, Any]]) -> dict[tuple[Any, Any], Estimate]:
    """Compare pairs of columns in points, paired on seeds, with 95% limits that hold together.

    Limits are cut off where differences of shares end.
    """
    found = joint_of(table, pairs, DESIGN)
    cut = {pair: (mean, max(low, -_FULL), min(high, _FULL)) for pair, (mean, low, high) in found.items()}
    return {pair: found[pair] if math.isnan(limits[1]) else limits for pair, limits in cut.items()}


def personal_differences(tables: Tables, cell: str) -> dict[tuple[str, str], Estimate]:
    """Compare both personal forms of FilterDecomp with each other arm of Table 1, and with each other."""
    others = [arm for arm in PERSONAL if arm not in (OURS, OURS_HEAD)]
    pairs = [(ours, arm) for ours in (OURS, OURS_HEAD) for arm in others] + [(OURS_HEAD, OURS)]
    return joint(by_seed(tables, "Table 1", cell), pairs)


def global_differences(tables: Tables, cell: str) -> dict[tuple[str, str], Estimate]:
    """Compare FilterDecomp's global model with FedAvg's and FedProx's, in the mean of the last ten rounds."""
    table = by_seed(tables, figure_of(tables, cell), cell).reindex(columns=list(GLOBAL))
    return joint(table, [("FilterDecomp", other) for other in GLOBAL if other != "FilterDecomp"])


def curves(tables: Tables, cell: str) -> pd.DataFrame:
    """Return the global model's curves in a cell of Figures 2 and 5, as `fedstat.inference` takes them."""
    rows = tables["curves"]
    rows = rows[(rows["cell"] == cell) & rows["shown"].isin(["Figure 2", "Figure 5"]) & rows["arm"].isin(GLOBAL)]
    return rows.rename(columns={"arm": "method"}).assign(value=100 * rows["accuracy"])


def compared(tables: Tables, cell: str) -> Comparison:
    """Return the comparison from which bands over rounds are drawn."""
    tidy = curves(tables, cell)[["method", "seed", "round", "value"]]
    tidy = tidy.assign(value=tidy["value"] / 100, client=0, metric="accuracy", estimand="global", split="test")
    return compare(tidy, control="FedAvg", last=LAST, design=DESIGN)


def rounds_to_target(tables: Tables, cell: str) -> TimeToTarget | None:
    """Return the rounds after which the global models reach `SHARE` of FedAvg's mean accuracy in the last ten.

    None where that accuracy is not known.
    """
    table = curves(tables, cell)
    late = table[(table["method"] == "FedAvg") & (table["round"] > table["round"].max() - LAST)]
    if why := missing(late["value"].rename("FedAvg's late accuracy")):
        undefined(why)
        return None
    return to_target(table, SHARE * float(late["value"].mean()), control="FedAvg")


# --- variance of the aggregate ------------------------------------------------------------------------------------


def geometric(logs: pd.Series, of: int = 1) -> Estimate:
    """Return a geometric mean over seeds and its limits, which hold together at 95% for so many (Bonferroni)."""
    mean, low, high = np.exp(mean_of(logs, 1 - 0.05 / of))
    return float(mean), float(low), float(high)


def moments(tables: Tables, clients: int, arm: str, layer: str | None = None) -> pd.DataFrame:
    """Return the moments of an arm's aggregates of so many clients by seed and round; of all layers, or of one."""
    rows = tables["spread"]
    rows = rows[(rows["arm"] == arm) & (rows["clients"] == clients) & ((rows["layer"] == layer) | (layer is None))]
    return rows.groupby(["seed", "round"])[["plain", "decomposed", "bias", "energy"]].sum(skipna=False)


def variance_ratio(tables: Tables, clients: int, layer: str | None = None, *, error: bool = False) -> pd.Series:
    """Return the log of variance (or mean squared error) of the product of averages over the variance of the average.

    Of the same trained clients, FilterDecomp's; mean over rounds, by seed.
    """
    found = moments(tables, clients, "FilterDecomp", layer)
    above = found["decomposed"] + (found["bias"] if error else 0)
    return _mean_log(above / found["plain"])


def own_ratio(tables: Tables, clients: int, *, relative: bool) -> pd.Series:
    """Return the log of FilterDecomp's variance over FedAvg's, each on its own trajectory; mean over rounds, by seed.

    With `relative` each is divided by the squared norm of its mean filters.
    """
    ours, theirs = (moments(tables, clients, arm) for arm in ("FilterDecomp", "FedAvg"))
    ratio = ours["decomposed"] / theirs["plain"]
    if relative:
        ratio = ratio * theirs["energy"] / ours["energy"]
    return _mean_log(ratio)


def _mean_log(ratio: pd.Series) -> pd.Series:
    """Average logs over rounds, by seed; NaN where a ratio is not positive."""
    return np.log(ratio.where(ratio > 0)).groupby("seed").mean(skipna=False)


# --- what travels -------------------------------------------------------------------------------------------------


def sending(tables: Tables) -> pd.DataFrame:
    """Return the curves of the fast and slow protocol with FedAvg's, FedProx's and FilterDecomp's of the same cell."""
    rows = tables["curves"]
    rows = rows[(rows["cell"] == place(tables)) & (rows["shown"].isin(["A.2", "Figure 2", "Figure 5"]))]
    rows = rows[rows["arm"].isin(["FedAvg", "FilterDecomp", *SENDING])]
    seeds = set.intersection(*(set(some["seed"]) for _, some in rows.groupby("arm")))
    return rows[rows["seed"].isin(seeds)]


def late_accuracy(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean accuracy over the last ten rounds by seed and arm, in per cent."""
    late = rows[rows["round"] > rows["round"].max() - LAST]
    return 100 * means_by(late, "arm", "accuracy")


def at_equal_numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the accuracy by seed and arm at the last measured round by which no more numbers had travelled than the
    thriftiest arm's in all, in per cent; 0 rounds count as the accuracy of the first measured one.
    """  # fmt: skip
    budget = rows.groupby(["seed", "arm"])["numbers"].max().groupby("seed").min()
    within = rows[rows["numbers"] <= rows["seed"].map(budget) * (1 + 1e-9)]
    # the first measured round stands before those within the budget, for arms that have none there
    first = rows[rows["round"] == rows.groupby(["seed", "arm"])["round"].transform("min")]
    both = pd.concat([first, within]).sort_values("round", kind="stable")
    return 100 * both.groupby(["seed", "arm"]).tail(1).pivot(index="seed", columns="arm", values="accuracy")


# --- the paper ----------------------------------------------------------------------------------------------------


def of_paper(table: str, cell: str) -> pd.DataFrame:
    """Return a printed column in per cent, by arm or number of atoms; empty for a cell that is not printed."""
    rows = [row for row in printed("filter_decomposition", table) if row["setting"] == printed_name(cell)]
    by = "method" if table == "table_1" else "atoms"
    names = [PRINTED_AS.get(row[by], row[by]) for row in rows]
    return pd.DataFrame({"value": [float(row["accuracy"]) for row in rows], "seeds": PRINTED_SEEDS}, index=names)


def printed_name(cell: str) -> str:
    """Return the name of the paper's cell that has as many classes a client."""
    return {"2 classes a client": "CIFAR10 (100,2)", "5 classes a client": "CIFAR10 (100,5)"}.get(short(cell), cell)


def agreement(tables: Tables, cell: str, arms: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return Table 1's column beside ours, for some arms or all; None for a cell that is not printed."""
    theirs, ours = of_paper("table_1", cell), by_seed(tables, "Table 1", cell).dropna()
    if theirs.empty:
        return None
    known = [arm for arm in theirs.index if arm in ours and (not arms or arm in arms)]
    return beside_printed(theirs.loc[known], ours, control="FedAvg + FT")


def atoms_agreement(tables: Tables, cell: str) -> dict[str, Any] | None:
    """Return Table 2's column beside ours; None for a cell that is not printed."""
    ours, theirs = atoms_by_seed(tables, cell), of_paper("table_2", cell)
    ours.columns = [str(name) for name in ours.columns]
    known = [name for name in theirs.index if name in ours]
    return beside_printed(theirs.loc[known], ours, control="9") if len(known) > 1 else None
