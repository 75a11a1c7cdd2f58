"""CL-12: quantisation is unbiased, its variance bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement
from math import isqrt
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, both, compared, expectation

CL12 = Claim(
    id="CL-12",
    place="Alistarh, Grubic, Li, Tomioka and Vojnovic, QSGD: communication-efficient SGD via gradient quantization and "
    "encoding (2017), section 3.1, Lemma 3.1; arXiv:1610.02132",
    said_by="paper",
    words="Quantising n entries at random to s levels of the vector's norm is unbiased, has a variance of at most "
    "min(n / s², √n / s) times the squared norm, and leaves on average at most s (s + √n) entries that are not zero.",
    statement="EE Q_s (v) = v, quad EE norm(Q_s (v) - v)^2 <= min(n / s^2, sqrt(n) / s) norm(v)^2, quad "
    "EE norm(Q_s (v))_0 <= s (s + sqrt(n))",
    severity="false",
    assumptions="every entry is rounded for itself to one of the two multiples of ‖v‖ / s around it; tried on vectors "
    "of whole numbers whose norm is whole, so that all is exact",
    sensitivity="any excess, exact, with √n from below to twelve digits",
)

_DIGITS = 10**12


class Quantised(NamedTuple):
    """A vector of whole numbers with a whole norm, and how many levels it is quantised to."""

    v: tuple[int, ...]
    levels: int

    @property
    def norm(self) -> int:
        """Its length."""
        return isqrt(sum(entry**2 for entry in self.v))

    @property
    def root(self) -> Fraction:
        """The square root of n, from below."""
        return Fraction(isqrt(len(self.v) * _DIGITS**2), _DIGITS)

    def law(self, entry: int) -> list[tuple[Fraction, Fraction]]:
        """Return the levels to which an entry is rounded, with their chances."""
        place = Fraction(self.levels * entry, self.norm)
        below = place.numerator // place.denominator
        up, level = place - below, Fraction(self.norm, self.levels)
        return [(1 - up, below * level), (up, (below + 1) * level)]

    def __str__(self) -> str:
        counts = {entry: self.v.count(entry) for entry in sorted(set(self.v), reverse=True)}
        return f"s = {self.levels}, v of " + " and ".join(f"{count} times {entry}" for entry, count in counts.items())


def _vectors() -> Iterator[Quantised]:
    """Yield vectors of few entries, long ones of equal entries, and long ones with a single large entry."""
    few = [v for n in (1, 2, 3, 4) for v in combinations_with_replacement(range(10), n) if any(v)]
    equal = [(1,) * n**2 for n in (3, 5, 8)]
    single = [(1,) * (2 * m - 1) + (m - 1,) for m in (3, 5, 10, 20)]  # 2 m - 1 + (m - 1)^2 = m^2
    for v in (*few, *equal, *single):
        if isqrt(sum(entry**2 for entry in v)) ** 2 == sum(entry**2 for entry in v):
            yield from (Quantised(v, s) for s in (1, 2, 3, 4, 8))


def _unbiased() -> Iterator[Sides]:
    for case in _vectors():
        for entry in sorted(set(case.v)):
            yield Sides(f"{case}: {entry}", expectation(case.law(entry)), Fraction(entry), names=("mean", "entry"))


def _summed(case: Quantised, value: Callable[[int, Fraction], Fraction]) -> Fraction:
    """Add the expected value over the entries."""
    each = (case.v.count(entry) * expectation(case.law(entry), partial(value, entry)) for entry in set(case.v))
    return sum(each, Fraction(0))


def _variances(share: Fraction) -> Iterator[Sides]:
    for case in _vectors():
        n, s = len(case.v), case.levels
        bound = share * min(Fraction(n, s**2), case.root / s) * case.norm**2
        yield Sides(str(case), _summed(case, lambda entry, q: (q - entry) ** 2), bound, names=("variance", "bound"))


def _entries(share: Fraction) -> Iterator[Sides]:
    for case in _vectors():
        bound = share * case.levels * (case.levels + case.root)
        yield Sides(str(case), _summed(case, lambda _, q: Fraction(q != 0)), bound, names=("entries", "bound"))


def _lemma(variance: Fraction = Fraction(1), entries: Fraction = Fraction(1)) -> Evidence:
    return both(
        compared(_unbiased(), of="means of entries", relation="=="),
        compared(_variances(variance), of="variances of quantised vectors"),
        compared(_entries(entries), of="numbers of entries"),
    )


@CL12.reading("vectors of whole numbers, from one entry to 64")
def whole_numbers() -> Evidence:
    return _lemma()


@CL12.mutant("four fifths of the bound on the variance")
def smaller_variance() -> Evidence:
    return _lemma(variance=Fraction(4, 5))


@CL12.mutant("two fifths of the bound on the entries")
def fewer_entries() -> Evidence:
    return _lemma(entries=Fraction(2, 5))
