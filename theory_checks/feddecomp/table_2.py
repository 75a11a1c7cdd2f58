"""Accuracies by the ratios of ranks, as Table 2 prints them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from simulations.published import printed

RATIOS = (20, 40, 60, 80, 100)
DATA = ("CIFAR-10", "CIFAR-100", "Tiny ImageNet")
#: Accuracies of a data set by (R_c, R_l), in per cent.
Table = Mapping[tuple[int, int], Fraction]
#: The optimal (R_c, R_l) that section 4.3 states.
STATED = {"CIFAR-10": (60, 60), "CIFAR-100": (80, 40), "Tiny ImageNet": (80, 40)}


@cache
def accuracies(data: str, exchanged: bool = False) -> Table:
    """Return Table 2's part for a data set; exchanged, rows are read as R_c and columns as R_l."""
    names = ("dense_ratio", "conv_ratio") if exchanged else ("conv_ratio", "dense_ratio")
    rows = [row for row in printed("feddecomp", "table_2") if row["data"] == data]
    return {(int(row[names[0]]), int(row[names[1]])): Fraction(row["accuracy"]) for row in rows}
