"""FF-05: twice the rounds cost twice as much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, all_of, enumeration
from theory_checks.factorized_fl.tables import COSTS, half_unit

FF05 = Claim(
    id="FF-05",
    place="Table 1, costs",
    said_by="fedstat",
    words="Every method's cost in the bottom part of Table 1, with twice the rounds, is twice that in the top part.",
    statement='"cost"(R = 100) = 2 "cost"(R = 50)',
    severity="misprint",
    assumptions="the same network in both parts, as all other methods' costs suggest",
    sensitivity="the last printed digit",
    flaw="pFedPara's cost is 15.98 after 7.4, which no rounding reconciles; the seven other methods' costs double.",
    corrected="FF-05c",
)


class Twice(NamedTuple):
    """A method's printed costs in 50 and in 100 rounds."""

    method: str
    top: str
    bottom: str

    def __str__(self) -> str:
        return f"{self.method}: {self.top} in 50 rounds, {self.bottom} in 100"


def _multiplies(
    methods: Sequence[str], tolerance: Callable[[Twice], Fraction], factor: Fraction = Fraction(2)
) -> Evidence:
    return enumeration(
        (Twice(method, *COSTS[method]) for method in methods),
        lambda case: abs(Fraction(case.bottom) - factor * Fraction(case.top)) <= tolerance(case),
        of="methods of Table 1",
    )


def _by_rounding(case: Twice) -> Fraction:
    return 2 * half_unit(case.top) + half_unit(case.bottom)


def _others(exception: str) -> list[str]:
    return [method for method in COSTS if method != exception]


@FF05.reading("up to rounding of the printed digits")
def doubled() -> Evidence:
    return _multiplies(tuple(COSTS), _by_rounding)


@FF05.reading("up to a tenth", natural=False)
def nearly_doubled() -> Evidence:
    return _multiplies(tuple(COSTS), lambda case: Fraction(case.top) / 5)


@FF05.mutant("two and a half times the cost, all methods but pFedPara")
def more_than_doubled() -> Evidence:
    return _multiplies(_others("pFedPara"), _by_rounding, factor=Fraction(5, 2))


@FF05.control("all methods but pFedPara")
def without_pfedpara() -> Evidence:
    return _multiplies(_others("pFedPara"), _by_rounding)


FF05C = Claim(
    id="FF-05c",
    place="corrected statement of FF-05",
    said_by="fedstat",
    words="The bottom costs are twice the top ones for every method but pFedPara, whose cost grows 2.16-fold.",
    statement='"cost"(R = 100) = 2 "cost"(R = 50) " for all but pFedPara"',
    severity="misprint",
    assumptions="worded after seeing the table",
    sensitivity="the last printed digit",
)


def _all_but(exception: str) -> Evidence:
    """All methods but one double their cost, and that one multiplies it by 2.16 (to two decimals)."""
    return all_of(
        [
            _multiplies(_others(exception), _by_rounding),
            enumeration(
                [Twice(exception, *COSTS[exception])],
                lambda case: round(Fraction(case.bottom) / Fraction(case.top), 2) == Fraction("2.16"),
                of="exceptions",
            ),
        ]
    )


@FF05C.reading("up to rounding of the printed digits")
def all_but_pfedpara() -> Evidence:
    return _all_but("pFedPara")


@FF05C.mutant("FedAvg named as the exception in place of pFedPara")
def all_but_fedavg() -> Evidence:
    return _all_but("FedAvg")
