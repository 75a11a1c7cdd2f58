"""What the runs of Factorized-FL's Table 1 say: differences that hold together, and the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from fedstat._tables import Tables
from fedstat.inference import Design
from fedstat.inference.intervals.design import overlap_ratio
from simulations.beside import beside_printed
from simulations.effects import LEVEL, Effects, Question, above_all
from simulations.factorized.arms import ARMS, FACTORIZED, READINGS
from simulations.factorized.cells import Cell
from simulations.published import printed

#: Every seed draws 2,400 training images anew from the same ones, and deals them to new clients. On one data set all
#: clients test on the same 400 images, and two seeds have .37 of their images in common; in domains all seeds have the
#: same 1,000 test images, and it is .48. By whether clients belong to domains; at desk scale.
DESIGNS = {
    domains: Design(clients="new", data="resplit", test_to_train=overlap_ratio(test, 2400, common))
    for domains, test, common in ((False, 400, 0.37), (True, 1000, 0.48))
}
ACCURACY, AT_THE_END = "accuracy", "accuracy at the last round"
LABELS = "permuted labels against standard ones"
Pairs = list[tuple[str, str]]
EARLIER = ("FedAvg", "FedProx", "Clustered-FL", "Per-FedAvg", "FedFOMO", "pFedPara")
YARDSTICKS = ("Local", "FedAvg")
#: Points of accuracy that count as none where permuted labels are compared with standard ones; fixed before the runs.
MARGIN = 1.0
#: Seeds behind the paper's means.
PRINTED_SEEDS = 3
_WHERE = ["data", "partition", "labels"]
_PRINTED = {"cifar10": "CIFAR-10", "svhn": "SVHN"}


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


def at_last_round(tables: Tables, cell: Cell) -> pd.DataFrame:
    """Return accuracies after a cell's last round in per cent: one row per seed, one column per arm."""
    rows = of_cell(tables["curves"], cell)
    return 100 * rows[rows["round"] == rows["round"].max()].pivot(index="seed", columns="arm", values="accuracy")


def effects(tables: Tables) -> Effects:
    """Return the differences of accuracy: of Factorized-FL, of the earlier methods, of labels, as printed, at the end.

    Cells of one data set and domains are families of their own, as they are tables of the paper's; the order of all
    printed methods is a question for each cell.
    """
    return Effects(question for question in _questions(tables) if any(question.pairs.values()))


def _questions(tables: Tables) -> Iterator[Question]:
    for domains, where in ((False, "on one data set"), (True, "in domains")):
        some = [cell for cell in cells(tables) if cell.domains == domains]
        values, last = ({key(cell): read(tables, cell) for cell in some} for read in (per_seed, at_last_round))
        asked: dict[str, Callable[[pd.DataFrame], Pairs]] = {
            f"Factorized-FL against Local and FedAvg, {where}": lambda _: list(product(FACTORIZED, YARDSTICKS)),
            f"the earlier methods against Local, {where}": lambda table: [
                (arm, "Local") for arm in EARLIER if arm in table
            ],
        }
        for words, ask in asked.items():
            yield _question(words, ACCURACY, values, {name: ask(table) for name, table in values.items()}, domains)
        words = f"Factorized-FL against FedAvg at the last round, {where}"
        yield _question(
            words, AT_THE_END, last, {name: [(arm, "FedAvg") for arm in FACTORIZED] for name in last}, domains
        )
        for name, table in values.items():
            known = {pair for ask in asked.values() for pair in ask(table)}
            rest = [pair for pair in as_printed(table) if not {pair, pair[::-1]} & known]
            yield _question(f"the order of the methods, {name}", ACCURACY, {name: table}, {name: rest}, domains)
    yield _labels(tables)


def _labels(tables: Tables) -> Question:
    """Ask of every arm whether permuted labels change it, on the same samples."""
    values, pairs = {}, {}
    for cell in cells(tables):
        standard = replace(cell, labels="standard")
        if cell.permuted and standard in cells(tables):
            both = {labels: per_seed(tables, one) for labels, one in (("permuted", cell), ("standard", standard))}
            values[f"{cell.data}, {cell.partition}"] = pd.concat(
                [table.add_suffix(f", {labels}") for labels, table in both.items()], axis=1
            )
            pairs[f"{cell.data}, {cell.partition}"] = [
                (f"{arm}, permuted", f"{arm}, standard") for arm in both["permuted"]
            ]
    return _question(LABELS, ACCURACY, values, pairs, False)


def _question(
    words: str, metric: str, values: dict[str, pd.DataFrame], pairs: Mapping[str, Pairs], domains: bool
) -> Question:
    return Question(words, metric, values, pairs, DESIGNS[domains], "points")


def as_printed(table: pd.DataFrame) -> Pairs:
    """Return the pairs of methods whose order the paper's table gives: readings of Factorized-FL it does not."""
    readings = {arm: arm.rpartition(", ")[2] for arm in FACTORIZED}
    return [(a, b) for a, b in combinations(table, 2) if {readings.get(a), readings.get(b)} != set(READINGS)]


def above_both(found: Effects, run: Sequence[Cell]) -> dict[tuple[str, Cell], float]:
    """Return the adjusted p-value of "it is above Local and above FedAvg", by arm of Factorized-FL and cell."""
    claims = {
        f"{arm}: {key(cell)}": [found[ACCURACY, key(cell), arm, other] for other in YARDSTICKS]
        for arm in FACTORIZED
        for cell in run
    }
    return dict(zip(((arm, cell) for arm in FACTORIZED for cell in run), above_all(claims).values(), strict=True))


def works(tables: Tables) -> dict[str, list[Cell]]:
    """Return the cells in which each arm of Factorized-FL is above Local and above FedAvg, as its paper says."""
    p = above_both(effects(tables), cells(tables))
    return {arm: [cell for cell in cells(tables) if p[arm, cell] < 1 - LEVEL] for arm in FACTORIZED}


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
    """Count the cells with permuted labels in which earlier methods are printed above Local, and all of them."""
    above = of = 0
    for data in _PRINTED:
        for partition in ("IID", "non-IID"):
            value = of_paper(Cell(data, partition, "permuted"))["value"]
            above += int((value[list(EARLIER)] > value["Local"]).sum())
            of += len(EARLIER)
    return above, of


def agreement(tables: Tables, found: Effects, cell: Cell, reading: str) -> dict[str, Any] | None:
    """Return the paper's values of a cell beside ours with Factorized-FL in one reading; None without such a cell."""
    table = per_seed(tables, cell)
    theirs = of_paper(cell)
    arms = {method_of(arm): arm for arm in table if arm not in FACTORIZED or arm.endswith(reading)}
    if theirs.empty:
        return None
    return beside_printed(
        theirs.loc[[m for m in theirs.index if m in arms]],
        pd.DataFrame({method: table[arm] for method, arm in arms.items()}),
        control="FedAvg",
        difference=lambda a, b: found[ACCURACY, key(cell), arms[a], arms[b]],
    )


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
