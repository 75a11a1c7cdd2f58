"""FF-13: all methods beat stand-alone training under standard labels."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from fedstat.claims import Claim, Evidence, enumeration
from theory_checks.factorized_fl.tables import Cell, cells

FF13 = Claim(
    id="FF-13",
    place="section 5.2, 'Label-heterogeneous FL', first sentence",
    said_by="paper",
    words="With standard labels all federated methods beat stand-alone training.",
    statement='A_"federated" ("standard") > A_"Stand-Alone" ("standard")',
    severity="false",
    assumptions="printed means of three seeds; the row labels are shifted in print: nine methods for CIFAR-10, then "
    "nine for SVHN",
    sensitivity="a hundredth of a point, as printed",
)


def _all_above(table: Iterable[Cell]) -> Evidence:
    return enumeration(
        [cell for cell in table if cell.labels == "standard"],
        lambda cell: cell.accuracy > cell.stand_alone,
        of="cells of Table 1 with standard labels",
    )


@FF13.reading("every method in every setting")
def every_method() -> Evidence:
    return _all_above(cells())


@FF13.mutant("pFedPara's accuracy on CIFAR-10 (IID) set below stand-alone training's, to 64.30")
def one_figure() -> Evidence:
    def lowered(cell: Cell) -> Cell:
        here = (cell.data, cell.partition, cell.method) == ("CIFAR-10", "IID", "pFedPara")
        return cell._replace(accuracy=Decimal("64.30")) if here else cell

    return _all_above(map(lowered, cells()))
