"""DC-13: pre-trained weights are better where the low-rank part moves more."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, compared
from simulations.published import printed
from theory_checks.factorized_fl.tables import Figures

DC13 = Claim(
    id="DC-13",
    place="section 4.5, third paragraph, first sentence, Table 6",
    said_by="paper",
    words="With pre-trained weights accuracy is better whenever the low-rank part moves more than the full-rank part.",
    statement='Delta tau > Delta sigma => A "larger"',
    severity="false",
    assumptions="five columns that differ in E_lora: the changes and the accuracy follow it together, so the table "
    "shows an association",
    sensitivity="a change of one accuracy by 21.10 points: so far apart are the two kinds of columns",
)


class Column(NamedTuple):
    """A column of Table 6."""

    epochs: int
    accuracy: Fraction
    sigma: Fraction
    tau: Fraction

    @property
    def tau_moves_more(self) -> bool:
        """Whether the low-rank part moves more."""
        return self.tau > self.sigma


def _columns() -> list[Column]:
    names = ("accuracy", "change_of_sigma", "change_of_tau")
    return [
        Column(int(row["low_rank_epochs"]), *(Fraction(row[n]) for n in names))
        for row in printed("feddecomp", "table_6")
    ]


def _better_when_tau_moves(table: list[Column]) -> Evidence:
    pairs = [(worse, better) for better in table for worse in table if better.tau_moves_more > worse.tau_moves_more]
    cases = [
        Figures("accuracies", worse.accuracy, better.accuracy, names=(_at(worse), _at(better)))
        for worse, better in pairs
    ]
    return compared(cases, of="pairs of columns of Table 6", relation="<", every=True)


def _at(column: Column) -> str:
    return f"E_lora = {column.epochs} (Δσ {float(column.sigma):.2f}, Δτ {float(column.tau):.2f})"


@DC13.reading("every such column against every other")
def every_pair() -> Evidence:
    return _better_when_tau_moves(_columns())


@DC13.mutant("the accuracy of E_lora = 2 lowered to that of E_lora = 1, by 21.10 points, the least change that refutes")
def least_change() -> Evidence:
    table = _columns()
    table[2] = table[2]._replace(accuracy=table[1].accuracy)
    return _better_when_tau_moves(table)
