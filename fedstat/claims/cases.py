"""Check a statement case by case: all cases, some of a family without end, or two exact sides of a relation."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fedstat._checks import choice
from fedstat.claims.evidence import FAVOURABLE, Evidence, Show
from fedstat.claims.mutation import Mutants, total

if TYPE_CHECKING:
    import pandas as pd

Case = TypeVar("Case")
#: After the first counterexample a simpler one is looked for: among as many cases again, and at least so many.
_FURTHER = 20


def enumeration(cases: Iterable[Case], holds: Callable[[Case], bool], *, of: str, show: Show = str) -> Evidence:
    """Check every case that the statement is about, smallest first; exact arithmetic is the caller's duty.

    Where the cases are a part of a family without end, use `sampled`: no number of them proves the statement.

    Parameters
    ----------
    cases : iterable
        All cases that the statement is about, smallest first.
    holds : callable
        Tells whether the statement is true of a case.
    of : str
        What was enumerated, in the plural.
    show : callable
        Writes a counterexample in words.

    Examples
    --------
    >>> from itertools import product
    >>> from fedstat.claims import enumeration
    >>> bits = list(product([False, True], repeat=2))
    >>> enumeration(bits, lambda c: (not (c[0] and c[1])) == (not c[0] or not c[1]), of="pairs of truth values").verdict
    'holds'
    >>> enumeration(bits, lambda c: (c[0] or c[1]) == (c[0] != c[1]), of="pairs of truth values").counterexample
    '(True, True)'
    """
    count, last, failing, among = 0, math.inf, list[str](), ""
    for case in cases:
        count += 1
        if not holds(case):
            last = last if failing else count + max(count, _FURTHER)
            failing.append(show(case))
        if count >= last:
            among = "the first "
            break
    if failing:  # the simplest is the one that is told in the fewest letters
        summary = f"false for {len(failing)} of {among}{count} {of}"
        return Evidence("refuted", summary, count, None, min(failing, key=len))
    if count == 0:
        raise ValueError("cases must not be empty: an enumeration of nothing proves nothing.")
    return Evidence("holds", f"true for all {count} {of}" if count > 1 else f"true for the one case of {of}", count)


def sampled(cases: Iterable[Case], holds: Callable[[Case], bool], *, of: str, show: Show = str) -> Evidence:
    """Check cases of a family without end, which can refute but not prove; parameters as in `enumeration`.

    Examples
    --------
    Euler's polynomial, whose first forty values are primes:

    >>> from fedstat.claims import sampled
    >>> def is_prime(n):
    ...     value = n * n + n + 41
    ...     return all(value % d for d in range(2, value))
    >>> sampled(range(40), is_prime, of="whole numbers").verdict
    'holds-on-cases'
    >>> found = sampled(range(100), is_prime, of="whole numbers")
    >>> found.verdict, found.counterexample, 40 * 40 + 40 + 41 == 41 * 41
    ('refuted', '40', True)
    """
    found = enumeration(cases, holds, of=of, show=show)
    return replace(found, verdict="holds-on-cases") if found.verdict == "holds" else found


@dataclass(frozen=True)
class Sides:
    """A case with the two sides of a relation between exact numbers.

    Attributes
    ----------
    case : str
        The case in words.
    left, right : int, Fraction or Decimal, or a mapping of names to such numbers
        The sides; a mapping names the summands of its side, each of which is left out in turn to see whether the check
        would notice.
    names : tuple of str
        What they are.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import Sides, compared
    >>> halves = [Sides(f"{n} terms", sum(Fraction(1, 2**k) for k in range(1, n + 1)), 1) for n in (1, 2, 3)]
    >>> print(compared(halves, of="sums", relation="<").summary)
    true for all 3 sums; largest ratio of the two sides 0.875
    """

    case: str
    left: Any
    right: Any
    names: tuple[str, str] = ("found", "claimed")

    def __str__(self) -> str:
        left, right = total(self.left), total(self.right)
        told = f"{self.case}: {self.names[0]} {exact(left)}, {self.names[1]} {exact(right)}"
        apart = abs(Fraction(left) - Fraction(right))  # six decimals may not show it
        return f"{told}, {exact(apart)} apart" if 0 < apart * 10**5 < abs(Fraction(right)) else told


def exact(value: Any) -> str:
    """Write an exact number as people do, or its decimals if it is long.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import exact
    >>> exact(Fraction(2, 6)), exact(Fraction(3)), exact(Fraction(10**30 + 1, 3 * 10**30))
    ('1/3', '3', '0.333333')
    """
    fraction = Fraction(value)
    short = max(abs(fraction.numerator), fraction.denominator) < 10**6
    huge = abs(fraction) > 10**300  # above all floats
    size = (Decimal(fraction.numerator) / fraction.denominator).normalize() if huge else float(fraction)
    return (str(value) if short else f"{size:.6g}").replace("-", "−")


def compared(
    cases: Iterable[Sides], *, of: str, relation: Literal["<=", "<", "=="] = "<=", every: bool = False
) -> Evidence:
    """Judge a relation of exact numbers case by case; of an inequality that stands the largest ratio is told.

    Parameters
    ----------
    cases : iterable of Sides
        The cases, smallest first.
    of : str
        What was compared, in the plural.
    relation : {"<=", "<", "=="}
        The claimed relation of left to right.
    every : bool
        Whether the cases are all that the statement is about; if not, they can refute but not prove.

    Raises
    ------
    ValueError
        If `relation` is none of these, or a side of an equality is a float.

    Examples
    --------
    A harmonic sum of n terms is at most n:

    >>> from fractions import Fraction
    >>> from fedstat.claims import Sides, compared
    >>> sums = [Sides(f"n = {n}", sum(Fraction(1, k) for k in range(1, n + 1)), n) for n in (1, 2, 4, 8)]
    >>> found = compared(sums, of="harmonic sums")
    >>> found.verdict
    'holds-on-cases'
    >>> print(found.summary)
    true for all 4 harmonic sums; largest ratio of the two sides 1
    """
    relations = {"<=": operator.le, "<": operator.lt, "==": operator.eq}
    choice("relation", relation, relations)
    true = relations[relation]
    ratios: list[float] = []
    mutants = Mutants(true, identity=relation == "==")

    def holds(case: Sides) -> bool:
        left, right = total(case.left), total(case.right)
        if relation == "==" and any(
            isinstance(side, Real) and not isinstance(side, Rational) for side in (left, right)
        ):
            raise ValueError(
                f"both sides of an equality must be exact, got {left!r} and {right!r} ({case.case}); "
                "write 0.1 as Fraction(1, 10)."
            )
        if right > 0:
            ratios.append(float(Fraction(left) / Fraction(right)))
        mutants.meet(case.left, case.right)
        return bool(true(left, right))

    found = enumeration(cases, holds, of=of) if every else sampled(cases, holds, of=of)
    if found.verdict not in FAVOURABLE:
        return found
    found = replace(found, made=mutants.refuted)
    if relation == "==" or not ratios:
        return found
    summary = f"{found.summary}; largest ratio of the two sides {max(ratios):.4g}"
    return replace(found, summary=summary, margin=max(ratios))


def tried(cases: Iterable[Sides]) -> pd.DataFrame:
    """Return a table of what was tried: a row a case, with both sides and the ratio of left to right.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import Sides, tried
    >>> cases = [Sides(f"n = {n}", Fraction(n + 1, 2 * n), 1, ("mean", "bound")) for n in (1, 2, 3)]
    >>> print(tried(cases).to_string(index=False))
     case mean bound    ratio
    n = 1    1     1 1.000000
    n = 2  3/4     1 0.750000
    n = 3  2/3     1 0.666667
    """
    import pandas as pd

    rows = []
    for case in cases:
        left, right = total(case.left), total(case.right)
        ratio = float(Fraction(left) / Fraction(right)) if right else math.nan
        rows.append({"case": case.case, case.names[0]: exact(left), case.names[1]: exact(right), "ratio": ratio})
    return pd.DataFrame(rows)
