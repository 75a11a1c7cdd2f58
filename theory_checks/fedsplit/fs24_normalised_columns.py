"""FS-24: whether Z'Z is the correlation matrix depends on 'normalised'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared
from fedstat.inference import number
from theory_checks.fedsplit.factor_models import correlations, row


class Columns(NamedTuple):
    """Two columns of the input matrix."""

    x: tuple[int, ...]
    y: tuple[int, ...]

    def __str__(self) -> str:
        r = correlations(self)[0, 1]
        return f"columns {row(self.x)} and {row(self.y)}, with correlation {number(r)}"


def _columns(lowest: int = 0) -> Iterator[Columns]:
    """Draw all pairs of short columns whose entries begin at `lowest`."""
    for count, largest in ((2, 2), (3, 2), (4, 1)):
        varying = [c for c in product(range(lowest, largest + 1), repeat=count) if len(set(c)) > 1]
        yield from (Columns(x, y) for x, y in product(varying, repeat=2))


def _correlation(x: Sequence[int], y: Sequence[int]) -> Fraction:
    """Return the signed square of the correlation, from the differences of all pairs of rows; no mean is formed."""
    pairs = list(product(range(len(x)), repeat=2))
    xy, xx, yy = (sum((u[i] - u[j]) * (v[i] - v[j]) for i, j in pairs) for u, v in ((x, y), (x, x), (y, y)))
    return Fraction(xy * abs(xy), xx * yy)


def _normalise(
    centre: bool,
    squared_scale: Callable[[list[Fraction]], Fraction],
    pairs: Iterable[Columns] | None = None,
    of: str = "pairs of columns with 2 or 3 rows of 0, 1, 2, or 4 rows of 0, 1",
) -> Evidence:
    """Compare Z'Z, entry by entry, with the correlations; signed squares avoid roots, so all is exact."""

    def entry(x: Sequence[int], y: Sequence[int]) -> Fraction:
        u, v = ([w - centre * Fraction(sum(c), len(c)) for w in c] for c in (x, y))
        inner = sum((a * b for a, b in zip(u, v, strict=True)), start=Fraction(0))
        return inner * abs(inner) / (squared_scale(u) * squared_scale(v))

    names = ("squared entry of Z′Z with its sign", "squared correlation with its sign")
    cases = (
        Sides(str(case), entry(*pair), _correlation(*pair), names)
        for case in (_columns() if pairs is None else pairs)
        for pair in ((case.x, case.x), (case.x, case.y))
    )
    return compared(cases, of=f"entries of {of}", relation="==")


def _squares(column: list[Fraction]) -> Fraction:
    return sum((w * w for w in column), start=Fraction(0))


FS24 = Claim(
    id="FS-24",
    place="section 4.1, paragraph before equation (7), second and third sentences",
    said_by="paper",
    words="The product Z′Z of the column-normalised matrix is the correlation matrix.",
    statement='R = Z^top Z " is the correlation matrix after the columns of" Z " are normalised"',
    severity="unstated condition",
    assumptions="no column is constant",
    sensitivity="any difference, in exact arithmetic",
    flaw="The paper does not say what normalising means. Without centring Z′Z holds cosines; with unit variance it is "
    "k − 1 or k times, for k rows, the correlation matrix, which multiplies every ν and leaves their order.",
    nearest=False,
)


@FS24.reading("columns centred, of unit length")
def centred() -> Evidence:
    return _normalise(True, _squares)


@FS24.reading("columns of unit length, not centred")
def not_centred() -> Evidence:
    return _normalise(False, _squares)


@FS24.reading("columns centred, of unit variance (divisor k − 1)")
def unit_variance() -> Evidence:
    return _normalise(True, lambda c: _squares(c) / (len(c) - 1))


@FS24.reading("columns centred, of unit variance (divisor k)")
def unit_mean_square() -> Evidence:
    return _normalise(True, lambda c: _squares(c) / len(c))


@FS24.control("columns of unit length, not centred, whose sums are zero to begin with")
def centred_already() -> Evidence:
    pairs = (pair for pair in _columns(lowest=-2) if sum(pair.x) == sum(pair.y) == 0)
    return _normalise(False, _squares, pairs, "pairs of columns with sum zero and 2 to 4 rows of −2 to 2")
