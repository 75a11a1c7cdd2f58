"""What the runs of Factorized-FL's Table 1 say: differences that hold together, and the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.family import unmoderated_because
from simulations.beside import beside_printed
from simulations.estimates import Estimate, joint_of
from simulations.factorized.arms import ARMS, FACTORIZED, READINGS
from simulations.factorized.cells import Cell
from simulations.published import printed

#: Every seed draws its samples from the same images, and deals them to new clients.
DESIGN = Design(clients="new", data="drawn")
EARLIER = ("FedAvg", "FedProx", "Clustered-FL", "Per-FedAvg", "FedFOMO", "pFedPara")
YARDSTICKS = ("Stand-Alone", "FedAvg")
#: Points of accuracy that count as none where permuted labels are compared with standard ones.
MARGIN = 1.0
#: Seeds behind the paper's means.
PRINTED_SEEDS = 3
_WHERE = ["data", "partition", "labels"]
_PRINTED = {"cifar10": "CIFAR-10", "svhn": "SVHN"}


@dataclass(frozen=True)
class Judged:
    """Differences in points that hold together, and whether their variances were moderated.

    Attributes
    ----------
    estimates : mapping of (str, str) to (float, float, float)
        Of each pair, first less second: mean, low, high.
    moderated : bool
        See `fedstat.inference.simultaneous`.
    """

    estimates: Mapping[tuple[str, str], Estimate]
    moderated: bool


def cells(tables: Tables) -> list[Cell]:
    """Return the cells that were run, in order."""
    return [Cell(*where) for where in tables["values"][_WHERE].drop_duplicates().itertuples(index=False)]


def key(cell: Cell) -> str:
    """Name a cell in findings."""
    return f"{cell.data}, {cell.partition}, {cell.labels}"


def of_cell(table: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    """Return the rows of a cell."""
    return table[(table[_WHERE] == [cell.data, cell.partition, cell.labels]).all(axis=1)]


def per_seed(tables: Tables, cell: Cell, metric: str = "accuracy") -> pd.DataFrame:
    """Return a cell's summaries: one row per seed, one column per arm; shares in per cent."""
    rows = of_cell(tables["values"], cell)
    table = rows[rows["metric"] == metric].pivot(index="seed", columns="arm", values="value")
    return table[[arm for arm in ARMS if arm in table]] * (1 if metric == "log_loss" else 100)


def judge(table: pd.DataFrame, pairs: list[tuple[str, str]]) -> Judged:
    """Compare pairs of columns, paired on seeds, with 95% intervals that hold for all of them together."""
    runs = table.dropna(axis=1).to_numpy().T
    return Judged(joint_of(table, pairs, DESIGN, moderated="auto"), not unmoderated_because(runs, DESIGN))


def differences(tables: Tables, cell: Cell) -> Judged:
    """Compare Factorized-FL with Stand-Alone and FedAvg, and every earlier method with Stand-Alone, in one cell."""
    table = per_seed(tables, cell)
    pairs = [(arm, yardstick) for arm in FACTORIZED for yardstick in YARDSTICKS]
    return judge(table, [*pairs, *((arm, "Stand-Alone") for arm in EARLIER if arm in table)])


def robustness(tables: Tables) -> Judged:
    """Compare every arm under permuted labels with itself under standard ones, on the same samples."""
    both: dict[str, pd.Series] = {}
    pairs = []
    for cell in cells(tables):
        standard = Cell(cell.data, cell.partition, "standard")
        if not cell.permuted or standard not in cells(tables):
            continue
        for arm, values in per_seed(tables, cell).items():
            names = (f"{arm}, {key(cell)}", f"{arm}, {key(standard)}")
            both |= {names[0]: values, names[1]: per_seed(tables, standard)[arm]}
            pairs.append(names)
    return judge(pd.DataFrame(both), pairs)


def works(tables: Tables) -> dict[str, list[Cell]]:
    """Return the cells in which each arm of Factorized-FL is above Stand-Alone and above FedAvg, as its paper says."""
    found: dict[str, list[Cell]] = {arm: [] for arm in FACTORIZED}
    for cell in cells(tables):
        estimates = differences(tables, cell).estimates
        for arm in FACTORIZED:
            if all(estimates[arm, yardstick][1] > 0 for yardstick in YARDSTICKS):
                found[arm].append(cell)
    return found


def of_paper(cell: Cell) -> pd.DataFrame:
    """Return the paper's accuracies and standard deviations of a cell, in per cent, by method.

    For domains they are those of its last column, which its text does not name; it is near the mean of the five
    domains, though not equal to it.
    """
    if cell.domains:
        rows = [(r["method"], r["average"], r["average_sd"]) for r in printed("factorized_fl", "table_1_bottom")]
    else:
        rows = [
            (r["method"], r["accuracy"], r["sd"])
            for r in printed("factorized_fl", "table_1_top")
            if (r["data"], r["partition"], r["labels"]) == (_PRINTED.get(cell.data), cell.partition, cell.labels)
        ]
    table = pd.DataFrame(rows, columns=["method", "value", "sd"]).set_index("method").astype(float)
    return table.assign(seeds=PRINTED_SEEDS)


def earlier_as_printed() -> tuple[int, int]:
    """Count the cells with permuted labels in which earlier methods are printed above Stand-Alone, and all of them."""
    above = of = 0
    for data in _PRINTED:
        for partition in ("IID", "non-IID"):
            value = of_paper(Cell(data, partition, "permuted"))["value"]
            above += int((value[list(EARLIER)] > value["Stand-Alone"]).sum())
            of += len(EARLIER)
    return above, of


def agreement(tables: Tables, cell: Cell, reading: str) -> dict[str, Any] | None:
    """Return the paper's values of a cell beside ours with Factorized-FL in one reading; None without such a cell."""
    table = per_seed(tables, cell)
    theirs = of_paper(cell)
    ours = table[[arm for arm in table if arm not in FACTORIZED or arm.endswith(reading)]]
    ours = ours.rename(columns={arm: method_of(arm) for arm in ours})
    if theirs.empty:
        return None
    return beside_printed(theirs.loc[[m for m in theirs.index if m in ours]], ours, control="FedAvg")


def method_of(arm: str) -> str:
    """Return the method of an arm, as the paper's table names it."""
    return arm.removesuffix(f", {READINGS[0]}").removesuffix(f", {READINGS[1]}")


def printed_costs(domains: bool = False) -> dict[str, float]:
    """Return the printed costs in gigabytes, by method."""
    rows = printed("factorized_fl", "table_1_bottom" if domains else "table_1_top")
    return {row["method"]: float(row["cost"]) if row["cost"] else float("nan") for row in rows}


def megabytes(tables: Tables, cell: Cell, clients: int) -> dict[str, float]:
    """Return the bytes of all clients and rounds, both ways, in millions, by arm: the mean over seeds."""
    rows = of_cell(tables["bytes"], cell)
    total = (rows["up"] + rows["down"]) * rows["rounds"] * clients / 1e6
    return {str(arm): float(np.mean(values)) for arm, values in total.groupby(rows["arm"])}
