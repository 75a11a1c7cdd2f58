"""FF-11: most methods stay above training alone with permuted labels.

FF-11c: permuted labels cost accuracy, but rarely the lead.
"""

from __future__ import annotations

from fedstat.claims import Claim, Evidence, all_of, compared
from theory_checks.factorized_fl.tables import Cell, Figures, above, below, cells

FF11 = Claim(
    id="FF-11",
    place="section 5.2, 'Label-heterogeneous FL', second sentence",
    said_by="paper",
    words="With permuted labels all earlier methods fall below training alone.",
    statement='A_"earlier" ("permuted") < A_"Local" ("permuted")',
    severity="false",
    assumptions="printed means of three seeds; the row labels are shifted in print: nine methods for CIFAR-10, then "
    "nine for SVHN",
    sensitivity="a hundredth of a point, as printed",
    flaw="The table says otherwise: permuting labels costs every earlier method accuracy, but 22 of 24 figures still "
    "exceed training alone.",
    corrected="FF-11c",
)

_EARLIER = ("FedAvg", "FedProx", "Clustered-FL", "Per-FedAvg", "FedFOMO", "pFedPara")


def _cells(labels: str) -> list[Cell]:
    return [cell for cell in cells() if cell.method in _EARLIER and cell.labels == labels]


def _excepted(cell: Cell) -> bool:
    return cell.method == "FedFOMO" and cell.data == "SVHN"


@FF11.reading("every earlier method in every setting")
def every_method() -> Evidence:
    return below(_cells("permuted"))


@FF11.reading("at least one earlier method in every setting, the least that the words may say")
def one_method_at_least() -> Evidence:
    worst: dict[tuple[str, str], Cell] = {}
    for cell in _cells("permuted"):
        setting = (cell.data, cell.partition)
        worst[setting] = min(worst.get(setting, cell), cell, key=lambda c: c.accuracy)
    return below(worst.values())


@FF11.control("FedFOMO on SVHN with permuted labels, the two cells of which it is true")
def fedfomo() -> Evidence:
    return below(filter(_excepted, _cells("permuted")))


FF11C = Claim(
    id="FF-11c",
    place="corrected statement of FF-11",
    said_by="fedstat",
    words="Permuted labels cost every earlier method accuracy, yet all but FedFOMO on SVHN stay above training alone.",
    statement='A_"earlier" ("permuted") < A_"earlier" ("standard"), quad A_"earlier" ("permuted") > A_"Local" '
    '("permuted") " but for FedFOMO on SVHN"',
    severity="false",
    assumptions="printed means of three seeds; worded after seeing the table",
    sensitivity="a hundredth of a point, as printed",
)


@FF11C.reading("the 24 cells")
def all_cells() -> Evidence:
    """Judge every method's loss by the permutation, and which cells are below Local's."""
    standard = {(c.data, c.partition, c.method): c.accuracy for c in _cells("standard")}
    permuted = _cells("permuted")
    losses = [
        Figures(f"{c}, {c.method}", c.accuracy, standard[c.data, c.partition, c.method], ("permuted", "standard"))
        for c in permuted
    ]
    return all_of(
        [
            compared(losses, of="cells of Table 1", relation="<", every=True),
            above(cell for cell in permuted if not _excepted(cell)),
            below(filter(_excepted, permuted)),
        ]
    )
