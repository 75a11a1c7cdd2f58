"""DC-13: accuracy with pre-trained weights, and which part moves more."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, enumeration
from simulations.published import printed

DC13 = Claim(
    id="DC-13",
    place="section 4.5, third paragraph, first sentence, Table 6",
    said_by="paper",
    words="With pre-trained weights accuracy is better whenever the low-rank part moves more than the full-rank part.",
    statement='Delta tau > Delta sigma => A "larger"',
    severity="false",
    assumptions="five columns that differ in E_lora: the changes and the accuracy follow it together, so the table "
    "shows an association",
    sensitivity="a hundredth of a point, as printed",
)


class Column(NamedTuple):
    """A column of Table 6."""

    epochs: int
    accuracy: Fraction
    sigma: Fraction
    tau: Fraction

    def __str__(self) -> str:
        changes = f"Δσ {float(self.sigma):.2f}, Δτ {float(self.tau):.2f}"
        return f"E_lora = {self.epochs}: accuracy {float(self.accuracy):.2f}, {changes}"


class Pair(NamedTuple):
    """A column with the larger change of tau, and one with the larger change of sigma."""

    tau_moves_more: Column
    sigma_moves_more: Column

    def __str__(self) -> str:
        return f"{self.tau_moves_more}; {self.sigma_moves_more}"


def _columns() -> list[Column]:
    names = ("accuracy", "change_of_sigma", "change_of_tau")
    return [
        Column(int(row["low_rank_epochs"]), *(Fraction(row[n]) for n in names))
        for row in printed("feddecomp", "table_6")
    ]


def _better_when_tau_moves(table: list[Column]) -> Evidence:
    pairs = [Pair(a, b) for a in table for b in table if a.tau > a.sigma and b.tau <= b.sigma]
    return enumeration(pairs, lambda pair: pair[0].accuracy > pair[1].accuracy, of="pairs of columns of Table 6")


@DC13.reading("every such column against every other")
def every_pair() -> Evidence:
    return _better_when_tau_moves(_columns())


@DC13.mutant("the accuracy of E_lora = 2 set to 50.00, below that of E_lora = 1")
def one_figure() -> Evidence:
    table = _columns()
    table[2] = table[2]._replace(accuracy=Fraction(50))
    return _better_when_tau_moves(table)
