"""Transmission costs counted from numbers sent, beside those of Table 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Evidence, Sides, compared
from theory_checks.factorized_fl.tables import BYTES, CLIENTS, COSTS, ROUNDS, Figures, half_unit

GIGABYTE, GIBIBYTE, GIGABIT = Fraction(10**9), Fraction(2**30), Fraction(10**9, 8)
_UNITS = {GIGABYTE: "gigabytes", GIBIBYTE: "gibibytes", GIGABIT: "gigabits"}

#: Numbers that a client sends and receives in a round, by what they are.
Sent = Mapping[str, Fraction | int]


class Cost(NamedTuple):
    """A printed cost beside that of sending so many numbers per client and round."""

    method: str
    rounds: int
    sent: Sent
    unit: Fraction
    printed: str

    def counted(self, share: Fraction = Fraction(1)) -> dict[str, Fraction]:
        """Return a share of the cost that follows from the numbers sent, by what they are."""
        each = share * BYTES * CLIENTS * self.rounds / self.unit
        return {what: each * numbers for what, numbers in self.sent.items()}

    def limits(self, tolerance: Fraction) -> Iterator[Sides]:
        """Yield both limits of what rounds to the printed cost, beside the count within a tolerance."""
        printed, half = Fraction(self.printed), half_unit(self.printed)
        low = sum(self.counted(1 - tolerance).values())
        yield Figures(str(self), low, printed + half, names=("counted at least", "printed at most"))
        yield Figures(
            str(self), printed - half, self.counted(1 + tolerance), names=("printed at least", "counted at most")
        )

    def __str__(self) -> str:
        sent = f"{float(sum(self.sent.values())):,.0f} numbers per client and round in {self.rounds} rounds"
        cost = f"{float(sum(self.counted().values())):.2f} {_UNITS[self.unit]}"
        return f"{self.method}: {sent} are {cost}, printed {self.printed}"


def costs(method: str, sent: Sent, unit: Fraction = GIGABYTE) -> list[Cost]:
    """Return a method's costs in both parts of Table 1."""
    return [Cost(method, ROUNDS[part], sent, unit, COSTS[method][part]) for part in (0, 1)]


def follows(cases: Iterable[Cost]) -> Evidence:
    """Judge whether printed costs lie within one per cent of the count, apart from their rounding."""
    return _within(cases, Fraction(1, 100))


def to_the_digits(cases: Iterable[Cost]) -> Evidence:
    """Judge whether counted costs round to the printed ones."""
    return _within(cases, Fraction(0))


def _within(cases: Iterable[Cost], tolerance: Fraction) -> Evidence:
    limits = (sides for case in cases for sides in case.limits(tolerance))
    return compared(limits, of="limits of printed costs", every=True)


COST_RULE = (
    "20 clients, all in every round, 4 bytes a number, both directions; 'follows' means within one per cent, apart "
    "from rounding, a tolerance that was chosen after seeing the table"
)
