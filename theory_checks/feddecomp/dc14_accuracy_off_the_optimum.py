"""DC-14: accuracy does not always fall off the best ratios.

DC-14c: where accuracy falls off the best ratios.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from fedstat.claims import Claim, Evidence, compared
from theory_checks.factorized_fl.tables import Figures
from theory_checks.feddecomp.table_2 import DATA, RATIOS, STATED, accuracies

DC14 = Claim(
    id="DC-14",
    place="section 4.3, 'Effect of R_l and R_c', second paragraph, 'Secondly' to 'gradually declines', Table 2",
    said_by="paper",
    words="Off the best ratios accuracy gradually falls, as the rank increases and as it decreases.",
    statement='A(R_c, R_l) " is unimodal in either ratio, with its maximum at the optimum"',
    severity="false",
    assumptions="one ratio varies while the other is at its optimum; printed means of three seeds, whose standard "
    "deviations of 0.1 to 2.3 points are left aside",
    sensitivity="a hundredth of a point, as printed",
    flaw="On CIFAR-10 accuracy rises again from 85.07 to 85.38 where R_c goes from 80% to 100%, by less than its "
    "standard deviation; on the other two data sets the sentence is true.",
    corrected="DC-14c",
)


def _steps(data: str) -> Iterator[Figures]:
    """Yield neighbours along either ratio through the optimum, the one that is farther from it on the left."""
    table, (conv, dense) = accuracies(data), STATED[data]
    for along, best, cells in (
        ("R_c", conv, {ratio: (ratio, dense) for ratio in RATIOS}),
        ("R_l", dense, {ratio: (conv, ratio) for ratio in RATIOS}),
    ):
        for low, high in pairwise(RATIOS):
            far, near = (low, high) if high <= best else (high, low)
            names = (f"at {along} = {far}%", f"at {along} = {near}%")
            yield Figures(f"{data}, accuracies", table[cells[far]], table[cells[near]], names=names)


def _falls_off(data_sets: Sequence[str]) -> Evidence:
    steps = [step for data in data_sets for step in _steps(data)]
    return compared(steps, of="neighbours in Table 2", every=True)


@DC14.reading("along either ratio through the optimum")
def everywhere() -> Evidence:
    return _falls_off(DATA)


@DC14.control("CIFAR-100")
def cifar100() -> Evidence:
    return _falls_off(["CIFAR-100"])


DC14C = Claim(
    id="DC-14c",
    place="corrected statement of DC-14",
    said_by="fedstat",
    words="On CIFAR-100 and Tiny ImageNet accuracy falls in either direction off the best ratios.",
    statement='A(R_c, R_l) " is unimodal in either ratio on CIFAR-100 and Tiny ImageNet"',
    severity="false",
    assumptions="printed means of three seeds; worded after seeing the table",
    sensitivity="a hundredth of a point, as printed",
)


@DC14C.reading("along either ratio through the optimum")
def two_data_sets() -> Evidence:
    return _falls_off(["CIFAR-100", "Tiny ImageNet"])
