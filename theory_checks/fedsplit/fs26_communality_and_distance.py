"""FS-26: ν is a squared distance, not a distance.

FS-26c: ν orders units as the distance does.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from fedstat.claims import Claim, Evidence, Sides, both, compared, sampled
from theory_checks.fedsplit.factor_models import row


class Unit(NamedTuple):
    """Loadings of one unit."""

    loadings: tuple[Fraction, ...]

    def nu(self) -> Fraction:
        """Return the communality."""
        return sum((a * a for a in self.loadings), start=Fraction(0))

    def distance(self, order: int = 2) -> Any:
        """Return the exact distance to the unit with zero loadings: Euclidean, or city-block for order 1."""
        import sympy

        return sympy.Matrix([sympy.Rational(a.numerator, a.denominator) for a in self.loadings]).norm(order)

    def __str__(self) -> str:
        return f"loadings {row(self.loadings)}: ν = {self.nu()}, Euclidean distance √({self.nu()})"


def _units() -> list[Unit]:
    values = [Fraction(0), Fraction(1, 2), Fraction(-1, 2), Fraction(1)]
    units = [Unit(a) for factors in (1, 2, 3) for a in product(values, repeat=factors)]
    return [u for u in units if u.nu() <= 1]


def _distance(power: int, order: int = 2, among: Callable[[Unit], bool] = lambda u: True) -> Evidence:
    """Compare nu with a power of the distance; both are non-negative, so where a root is left their squares are."""
    root, names = 2 // power, ("ν²" if power == 1 else "ν", "squared distance")
    cases = (Sides(str(u), u.nu() ** root, Fraction(u.distance(order) ** 2), names) for u in filter(among, _units()))
    return compared(cases, of="units with up to 3 loadings 0, ±1/2, 1", relation="==")


def _same_order() -> Evidence:
    """The squared distance is nu by definition; squaring is increasing, so distances order the units alike."""
    units = [(u.nu(), u.distance()) for u in _units()]
    return sampled(
        product(units, repeat=2),
        lambda pair: (pair[0][0] < pair[1][0]) == bool(pair[0][1] < pair[1][1]),
        of="pairs of such units, put in the same order",
    )


FS26 = Claim(
    id="FS-26",
    place="section 4.1, paragraph after the iteration, the sentence that rewrites ν",
    said_by="paper",
    words="A unit's ν is its Euclidean distance to a unit with zero loadings.",
    statement="nu_j = sqrt(sum_(m=1)^G (a_(j m) - 0)^2)",
    severity="misprint",
    sensitivity="any difference, in exact arithmetic",
    flaw="The sum of squares is the square of the distance; the root is missing. The order of units, hence a split by "
    "quantiles, is the same.",
    corrected="FS-26c",
)


@FS26.reading("Euclidean distance of the loadings")
def euclidean() -> Evidence:
    return _distance(1)


@FS26.reading("'distance' loosely for the squared distance")
def loosely() -> Evidence:
    return _distance(2)


@FS26.control("units whose ν is 0 or 1, which are their own squares")
def own_squares() -> Evidence:
    return _distance(1, among=lambda u: u.nu() in (0, 1))


FS26C = Claim(
    id="FS-26c",
    place="corrected statement of FS-26",
    said_by="fedstat",
    words="A unit's ν is its squared distance to a unit with zero loadings, and orders the units as the distance does.",
    statement="nu_j = norm(a_j - 0)^2, quad nu_i < nu_j <=> norm(a_i) < norm(a_j)",
    severity="false",
    sensitivity="any difference, in exact arithmetic",
)


@FS26C.reading("squared distance, and the order")
def squared() -> Evidence:
    return both(_distance(2), _same_order())


@FS26C.mutant("city blocks in place of Euclid's distance")
def city_blocks() -> Evidence:
    return _distance(2, order=1)
