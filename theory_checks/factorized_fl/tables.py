"""The numbers that Table 1 prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from simulations.published import printed


def half_unit(number: str) -> Fraction:
    """Return half a unit of the last printed digit."""
    return Fraction(1, 2 * 10 ** len(number.partition(".")[2]))


def _costs() -> dict[str, tuple[str, str]]:
    """Return each method's costs in the label heterogeneous and in the domain heterogeneous part."""
    top = {row["method"]: row["cost"] for row in printed("factorized_fl", "table_1_top")}
    return {
        row["method"]: (top[row["method"]], row["cost"])
        for row in printed("factorized_fl", "table_1_bottom")
        if row["cost"]
    }


COSTS = _costs()
#: Rounds of the two parts, clients, and bytes of a number.
ROUNDS, CLIENTS, BYTES = (50, 100), 20, 4


class Cell(NamedTuple):
    """One method's printed accuracy beside stand-alone training's."""

    data: str
    partition: str
    labels: str
    method: str
    accuracy: Decimal
    stand_alone: Decimal

    def __str__(self) -> str:
        where = f"{self.data}, {self.partition}, {self.labels} labels"
        return f"{where}: {self.method} {self.accuracy}, stand-alone {self.stand_alone}"


def cells() -> Iterator[Cell]:
    """Yield all cells of the table's top part but those of stand-alone training."""
    rows = printed("factorized_fl", "table_1_top")
    place: Sequence[str] = ("data", "partition", "labels")
    alone = {tuple(row[p] for p in place): row["accuracy"] for row in rows if row["method"] == "Stand-Alone"}
    for row in rows:
        if row["method"] != "Stand-Alone":
            beside = Decimal(alone[tuple(row[p] for p in place)])
            accuracy = Decimal(row["accuracy"])
            yield Cell(row["data"], row["partition"], row["labels"], row["method"], accuracy, beside)
