"""Mutants made from a claim's own two sides: what a check that stands would notice, and what it would not.

Whenever a relation of two sides is checked, its mutants are tried on the same cases: the right side made smaller, each
named summand left out, the relation turned. Nobody has to write them, and they say how sharp the check is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

#: How far the right side of an inequality is cut, in words and as the share that goes.
CUTS = {
    "the right side a tenth smaller": Fraction(1, 10),
    "the right side a third smaller": Fraction(1, 3),
    "the right side halved": Fraction(1, 2),
    "the right side cut to a thousandth": Fraction(999, 1000),
}
LARGER = "the right side a tenth larger"
TURNED = "the relation turned"


def total(side: Any) -> Any:
    """Return a side of a relation: a number, or the sum of summands that a mapping names."""
    return sum(side.values()) if isinstance(side, Mapping) else side


class Mutants:
    """The mutants of a relation, and which of them the cases so far have refuted.

    `holds` tells of two sides whether the relation holds, and `identity` whether it is an equality.
    """

    def __init__(self, holds: Callable[[Any, Any], bool], *, identity: bool) -> None:
        self.holds, self.identity = holds, identity
        self.refuted: dict[str, bool] = {}

    def meet(self, left: Any, right: Any) -> None:
        """Try every mutant that has not been refuted yet on a case."""
        for name, a, b in self._made(left, right):
            self.refuted[name] = self.refuted.get(name, False) or not self.holds(a, b)

    def _made(self, left: Any, right: Any) -> Iterable[tuple[str, Any, Any]]:
        whole, bound = total(left), total(right)
        if self.identity:
            if not self.holds(bound, 0):  # a tenth of nothing changes nothing
                yield LARGER, whole, bound + _share(bound, Fraction(1, 10))
        else:
            for name, gone in CUTS.items() if bound != 0 else ():
                yield name, whole, bound - abs(_share(bound, gone))
            yield TURNED, bound, whole
        if isinstance(right, Mapping):
            for name, summand in right.items():
                yield f"without the {name}", whole, bound - summand
        if isinstance(left, Mapping) and self.identity:
            for name, summand in left.items():
                yield f"without the {name}", whole - summand, bound


def scaled(low: float, high: float, refutes: Callable[[float, float], bool]) -> dict[str, bool]:
    """Return the mutants of a quantity with an interval, and which of them are refuted."""
    made = {f"the quantity times {factor:g}": refutes(low * factor, high * factor) for factor in (0.9, 1.1, 1.5, 2.0)}
    return made | {"its sign turned": refutes(-high, -low)}


def joined(parts: Sequence[Mapping[str, bool]]) -> dict[str, bool]:
    """Return the mutants of several checks that must all stand: one is refuted if any of them refutes it."""
    return {name: any(part.get(name) for part in parts) for part in parts for name in part}


def sees(made: Mapping[str, bool]) -> bool:
    """Tell whether a check notices any change of its sides; a relation turned is no such change."""
    return any(refuted for name, refuted in made.items() if name != TURNED)


def blind(made: Mapping[str, bool]) -> bool:
    """Tell whether a check has two sides and notices no change of them, so that it says nothing of the statement."""
    return (LARGER in made or not made.keys().isdisjoint(CUTS)) and not sees(made)


def in_words(made: Mapping[str, bool]) -> str:
    """Say which mutants a check refutes and which it lets pass; of cuts the smallest that is seen tells all."""
    cuts = [name for name in CUTS if name in made]
    first = next((name for name in cuts if made[name]), None)
    told = [name for name in made if name not in cuts or name == first or (first is None and name == cuts[-1])]
    parts = []
    for words, wanted in (("refuted", True), ("not noticed", False)):
        names = [name for name in told if made[name] == wanted]
        parts += [f"{words}: {', '.join(names)}"] if names else []
    return "; ".join(parts)


def _share(value: Any, share: Fraction) -> Any:
    """Return a share of a number, exact for exact ones."""
    if isinstance(value, Decimal):
        return value * share.numerator / share.denominator
    return Fraction(value) * share if isinstance(value, Rational) else value * share
