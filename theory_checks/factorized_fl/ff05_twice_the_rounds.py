"""FF-05: twice the rounds do not cost pFedPara twice as much.

FF-05c: twice the rounds cost all but pFedPara twice as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from fedstat.claims import Claim, Evidence, Sides, all_of, compared
from theory_checks.factorized_fl.tables import COSTS, Figures, half_unit

FF05 = Claim(
    id="FF-05",
    place="Table 1, costs",
    said_by="fedstat",
    words="Every method's cost in the bottom part of Table 1, with twice the rounds, is twice that in the top part.",
    statement='"cost"(R = 100) = 2 "cost"(R = 50)',
    severity="false",
    assumptions="the same network in both parts, as all other methods' costs suggest",
    sensitivity="the last printed digit",
    flaw="pFedPara's cost is 15.98 after 7.4, which no rounding reconciles; the seven other methods' costs double.",
    corrected="FF-05c",
)


def _doubled(methods: Sequence[str]) -> Evidence:
    """Judge whether the bottom cost is twice the top one, up to rounding of both."""

    def limits() -> Iterator[Sides]:
        for method in methods:
            top, bottom = COSTS[method]
            half, beside = 2 * half_unit(top), half_unit(bottom)
            case = f"{method}: {top} in 50 rounds, {bottom} in 100"
            low, high = ("cost at least", "twice the other at most"), ("twice the other at least", "cost at most")
            yield Figures(case, Fraction(bottom) - beside, 2 * Fraction(top) + half, names=low)
            yield Figures(case, 2 * Fraction(top) - half, Fraction(bottom) + beside, names=high)

    return compared(limits(), of="limits of the costs in Table 1", every=True)


def _others(exception: str) -> list[str]:
    return [method for method in COSTS if method != exception]


@FF05.reading("up to rounding of the printed digits")
def doubled() -> Evidence:
    return _doubled(tuple(COSTS))


@FF05.control("all methods but pFedPara")
def without_pfedpara() -> Evidence:
    return _doubled(_others("pFedPara"))


FF05C = Claim(
    id="FF-05c",
    place="corrected statement of FF-05",
    said_by="fedstat",
    words="The bottom costs are twice the top ones for every method but pFedPara, whose cost grows 2.16-fold.",
    statement='"cost"(R = 100) = 2 "cost"(R = 50) " for all but pFedPara"',
    severity="false",
    assumptions="worded after seeing the table",
    sensitivity="the last printed digit",
)


@FF05C.reading("up to rounding of the printed digits")
def all_but_pfedpara() -> Evidence:
    """Judge whether all methods but pFedPara double their cost, and that one multiplies it by 2.16."""
    top, bottom = map(Fraction, COSTS["pFedPara"])
    limits = [
        Sides("pFedPara, its factor at least", Fraction("2.155") * top, bottom),
        Sides("pFedPara, its factor at most", bottom, Fraction("2.165") * top),
    ]
    return all_of([_doubled(_others("pFedPara")), compared(limits, of="limits of pFedPara's factor", every=True)])
