"""What a share of parameters saves, from counts that are rounded in print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from fedstat.claims import Evidence, Sides, compared
from theory_checks.factorized_fl.tables import Figures, half_unit

Counts = tuple[Fraction, Fraction]


def _rounds_to(claimed: int, half: Fraction, counts: Iterable[Counts]) -> Iterator[Sides]:
    """Yield the saving in per cent beside the least and the largest that round to the claimed one."""
    for left, of in counts:
        saved = 100 * (1 - left / of)
        case = f"{float(left):g} of {float(of):g} million"
        yield Figures(case, claimed - half, saved, names=("least saving in per cent", "counted"))
        yield Figures(case, saved, claimed + half, names=("saving in per cent", "at most"))


def to_one_digit(left: str, of: str, claimed: int) -> Evidence:
    """To one digit, for all counts that round to the printed ones: the corners bound the saving, which is monotone."""
    corners = [
        (Fraction(left) + i * half_unit(left), Fraction(of) + j * half_unit(of)) for i in (0, -1, 1) for j in (0, -1, 1)
    ]
    limits = _rounds_to(claimed, Fraction(5), corners)
    return compared(limits, of="limits of the printed counts and the corners of what rounds to them", every=True)


def to_the_per_cent(left: str, of: str, claimed: int) -> Evidence:
    """Return whether the printed counts save as much, to the whole per cent."""
    limits = _rounds_to(claimed, Fraction(1, 2), [(Fraction(left), Fraction(of))])
    return compared(limits, of="limits of the printed counts", every=True)


ROUNDING = "the printed counts are rounded to their last digit"
