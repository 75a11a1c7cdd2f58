"""FF-11: earlier methods under permuted labels."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, enumeration
from theory_checks.factorized_fl.tables import Cell, cells

FF11 = Claim(
    id="FF-11",
    place="section 5.2, 'Label-heterogeneous FL', second sentence",
    said_by="paper",
    words="With permuted labels all earlier methods fall below stand-alone training.",
    statement='A_"earlier" ("permuted") < A_"Stand-Alone" ("permuted")',
    severity="false",
    assumptions="printed means of three seeds; the row labels are shifted in print: nine methods for CIFAR-10, then "
    "nine for SVHN",
    sensitivity="a hundredth of a point, as printed",
    flaw="The table says otherwise: permuting labels costs every earlier method accuracy, but 22 of 24 figures still "
    "exceed stand-alone training.",
    corrected="FF-11c",
)

_EARLIER = ("FedAvg", "FedProx", "Clustered-FL", "Per-FedAvg", "FedFOMO", "pFedPara")
_ALL = ("CIFAR-10", "SVHN")


def _chosen(methods: Sequence[str], labels: str, data: Sequence[str]) -> list[Cell]:
    return [cell for cell in cells() if cell.method in methods and cell.labels == labels and cell.data in data]


def _below(methods: Sequence[str], labels: str = "permuted", data: Sequence[str] = _ALL) -> Evidence:
    return enumeration(
        _chosen(methods, labels, data),
        lambda cell: cell.accuracy < cell.stand_alone,
        of=f"cells of Table 1 with {labels} labels",
    )


@FF11.reading("every earlier method in every setting")
def every_method() -> Evidence:
    return _below(_EARLIER)


@FF11.reading("at least one earlier method in every setting", natural=False)
def one_method_at_least() -> Evidence:
    worst: dict[tuple[str, str], Cell] = {}
    for cell in _chosen(_EARLIER, "permuted", _ALL):
        setting = (cell.data, cell.partition)
        worst[setting] = min(worst.get(setting, cell), cell, key=lambda c: c.accuracy)
    return enumeration(
        worst.values(), lambda cell: cell.accuracy < cell.stand_alone, of="worst earlier methods of a setting"
    )


@FF11.mutant("FedFOMO on SVHN with standard labels")
def standard_labels() -> Evidence:
    return _below(["FedFOMO"], "standard", ["SVHN"])


@FF11.control("FedFOMO on SVHN with permuted labels, the two cells of which it is true")
def fedfomo() -> Evidence:
    return _below(["FedFOMO"], "permuted", ["SVHN"])


FF11C = Claim(
    id="FF-11c",
    place="corrected statement of FF-11",
    said_by="fedstat",
    words="Permuted labels cost every earlier method accuracy, yet all but FedFOMO on SVHN stay above stand-alone "
    "training.",
    statement='A_"earlier" ("permuted") < A_"earlier" ("standard"), quad A_"earlier" ("permuted") > A_"Stand-Alone" '
    '("permuted") " but for FedFOMO on SVHN"',
    severity="false",
    assumptions="printed means of three seeds; worded after seeing the table",
    sensitivity="a hundredth of a point, as printed",
)


class Permuted(NamedTuple):
    """A cell with permuted labels, and the same method's accuracy with standard ones."""

    cell: Cell
    standard: Decimal

    def __str__(self) -> str:
        return f"{self.cell}, with standard labels {self.standard}"


def _permuted_cells(exceptions: Sequence[str]) -> Evidence:
    """Every earlier method loses by the permutation, and is below stand-alone exactly in the cells named."""
    standard = {(c.data, c.partition, c.method): c.accuracy for c in _chosen(_EARLIER, "standard", _ALL)}
    cases = [Permuted(c, standard[c.data, c.partition, c.method]) for c in _chosen(_EARLIER, "permuted", _ALL)]

    def holds(case: Permuted) -> bool:
        below = case.cell.data == "SVHN" and case.cell.method in exceptions
        return case.cell.accuracy < case.standard and (case.cell.accuracy < case.cell.stand_alone) == below

    return enumeration(cases, holds, of="cells of Table 1 with permuted labels")


@FF11C.reading("the 24 cells")
def all_cells() -> Evidence:
    return _permuted_cells(["FedFOMO"])


@FF11C.mutant("no exception")
def no_exception() -> Evidence:
    return _permuted_cells([])
