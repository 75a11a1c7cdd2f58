"""The numbers that Table 1 prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Evidence, Sides, compared
from fedstat.claims.mutation import total
from simulations.published import printed


@dataclass(frozen=True)
class Figures(Sides):
    """Two sides that are written as tables print them, in decimals."""

    def __str__(self) -> str:
        left, right = (f"{float(total(side)):.6g}".replace("-", "−") for side in (self.left, self.right))
        return f"{self.case}: {self.names[0]} {left}, {self.names[1]} {right}"


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
    """One method's printed accuracy beside Local's."""

    data: str
    partition: str
    labels: str
    method: str
    accuracy: Fraction
    alone: Fraction

    def __str__(self) -> str:
        return f"{self.data}, {self.partition}, {self.labels} labels"


def below(cases: Iterable[Cell]) -> Evidence:
    """Judge whether accuracies are below Local's."""
    sides = (Figures(str(c), c.accuracy, c.alone, names=(c.method, "Local")) for c in cases)
    return compared(sides, of="cells of Table 1", relation="<", every=True)


def above(cases: Iterable[Cell]) -> Evidence:
    """Judge whether accuracies are above Local's."""
    sides = (Figures(str(c), c.alone, c.accuracy, names=("Local", c.method)) for c in cases)
    return compared(sides, of="cells of Table 1", relation="<", every=True)


def cells() -> Iterator[Cell]:
    """Yield all cells of the table's top part but those of Local."""
    rows = printed("factorized_fl", "table_1_top")
    place: Sequence[str] = ("data", "partition", "labels")
    local = {tuple(row[p] for p in place): row["accuracy"] for row in rows if row["method"] == "Local"}
    for row in rows:
        if row["method"] != "Local":
            beside = Fraction(local[tuple(row[p] for p in place)])
            accuracy = Fraction(row["accuracy"])
            yield Cell(row["data"], row["partition"], row["labels"], row["method"], accuracy, beside)
