"""Evidence for or against a statement, and the ways to obtain it. Verdicts are computed here and nowhere else."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeVar

from fedstat.inference import clopper_pearson, number

#: What evidence says of a statement: it "holds", proven; "holds-on-cases", true of all that were tried; is "supported"
#: by an interval; "holds-only-if" a condition is added; is "refuted"; "ambiguous", if readings differ and none is
#: nearest the letter; "undecided" or "not-checkable". ``typing.get_args(Verdict)`` lists them.
Verdict = Literal[
    "holds",
    "holds-on-cases",
    "supported",
    "holds-only-if",
    "refuted",
    "ambiguous",
    "undecided",
    "not-checkable",
]

#: Writes a case in words.
Show = Callable[[Any], str]

#: Level of a two-sided interval whose limits are one-sided at 95%.
_ONE_SIDED = 0.90

#: Number of cases that every search tries, as `searching` sets it; None leaves it to the check.
_CASES: ContextVar[int | None] = ContextVar("cases", default=None)

#: Verdicts that stand for the statement.
FAVOURABLE = ("holds", "holds-on-cases", "supported")


@dataclass(frozen=True)
class Evidence:
    """What a check found.

    Attributes
    ----------
    verdict : Verdict
        The verdict, computed by the function that made the evidence.
    summary : str
        One sentence with the numbers that decide.
    cases : int
        Number of cases looked at (or of seeds, or repeats).
    margin : float or None
        How sharp the outcome is: for an inequality the largest ratio of its sides, for an interval the distance
        to the nearest limit (positive inside), for an exact identity None.
    counterexample : str or None
        The smallest counterexample found, as numbers.
    needed : int or None
        For an undecided interval, how many cases would decide if the estimate stayed.

    Examples
    --------
    >>> from fedstat.claims import sampled
    >>> found = sampled(range(100), lambda n: n * n >= n, of="whole numbers")
    >>> found.verdict, found.cases, found.counterexample
    ('holds-on-cases', 100, None)
    >>> print(found.summary)
    true for all 100 whole numbers
    """

    verdict: Verdict
    summary: str
    cases: int
    margin: float | None = None
    counterexample: str | None = None
    needed: int | None = None


Case = TypeVar("Case")


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
    return _case_by_case(cases, holds, of, show, "holds")


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
    return _case_by_case(cases, holds, of, show, "holds-on-cases")


def _case_by_case(
    cases: Iterable[Case], holds: Callable[[Case], bool], of: str, show: Show, stands: Verdict
) -> Evidence:
    count = 0
    for case in cases:
        count += 1
        if not holds(case):
            return Evidence("refuted", f"false for the {_nth(count)} of the {of}", count, None, show(case))
    if count == 0:
        raise ValueError("cases must not be empty: an enumeration of nothing proves nothing.")
    return Evidence(stands, f"true for all {count} {of}" if count > 1 else f"true for the one case of {of}", count)


@dataclass(frozen=True)
class Sides:
    """A case with the two sides of a relation between exact numbers.

    Attributes
    ----------
    case : str
        The case in words.
    left, right : int, Fraction or Decimal
        The sides.
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
        left, right = (exact(value) for value in (self.left, self.right))
        return f"{self.case}: {self.names[0]} {left}, {self.names[1]} {right}"


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
    return (str(value) if short else f"{float(fraction):.6g}").replace("-", "−")


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
    true = {"<=": operator.le, "<": operator.lt, "==": operator.eq}[relation]
    ratios: list[float] = []

    def holds(case: Sides) -> bool:
        if case.right > 0:
            ratios.append(float(Fraction(case.left) / Fraction(case.right)))
        return bool(true(case.left, case.right))

    found = enumeration(cases, holds, of=of) if every else sampled(cases, holds, of=of)
    if found.verdict == "refuted" or relation == "==" or not ratios:
        return found
    summary = f"{found.summary}; largest ratio of the two sides {max(ratios):.4g}"
    return replace(found, summary=summary, margin=max(ratios))


@contextmanager
def searching(cases: int | None) -> Iterator[None]:
    """Let every search inside the block try `cases` cases; None leaves each check its own number.

    Examples
    --------
    >>> from hypothesis import strategies as st
    >>> from fedstat.claims import search, searching
    >>> numbers = st.integers(0, 1000)
    >>> with searching(20):  # a quick look, in place of the 200 cases of `search`
    ...     print(search(numbers, lambda n: (n, n * n)).cases)
    20
    """
    token = _CASES.set(cases)
    try:
        yield
    finally:
        _CASES.reset(token)


@contextmanager
def _from_nowhere() -> Iterator[None]:
    """Keep Hypothesis from trying numbers that it reads in the source of whatever modules are loaded.

    Else a verdict's digits depend on what was imported before. There is no setting for it; a version of Hypothesis
    without these names reads no source.
    """
    from hypothesis.internal.conjecture import providers

    known = {name: getattr(providers, name) for name in ("_get_local_constants", "CONSTANTS_CACHE")}
    nothing = providers.Constants()
    try:
        providers._get_local_constants = lambda: nothing
        providers.CONSTANTS_CACHE = type(known["CONSTANTS_CACHE"])(1024)
        yield
    finally:
        for name, value in known.items():
            setattr(providers, name, value)


class _Fails(Exception):
    """A case in which the relation fails, for Hypothesis to shrink."""


def search(
    strategy: Any,
    sides: Callable[[Any], tuple[float, float]],
    *,
    relation: Literal["<=", "=="] = "<=",
    tolerance: float = 0.0,
    examples: int = 200,
    names: tuple[str, str] = ("found", "claimed"),
    show: Show = str,
) -> Evidence:
    """Search by Hypothesis for a case in which the relation of two sides fails, and shrink it.

    The search aims at large ratios of the sides (for an identity, at large differences).

    Parameters
    ----------
    strategy : hypothesis strategy
        Draws the cases that the statement quantifies over.
    sides : callable
        Returns the two sides for a case.
    relation : {"<=", "=="}
        The claimed relation of the two sides.
    tolerance : float
        Rounding allowed for, absolute. Ratios are formed only if a side exceeds a thousand times this.
    examples : int
        Number of cases to try, unless `searching` sets another; the search is derandomised, so that a verdict repeats.
    names : tuple of str
        What the sides are, for the summary.
    show : callable
        Writes a counterexample in words.

    Examples
    --------
    >>> from hypothesis import strategies as st
    >>> from fedstat.claims import search
    >>> pairs = st.tuples(st.integers(0, 100), st.integers(0, 100))
    >>> search(pairs, lambda p: (2 * p[0] * p[1], p[0] ** 2 + p[1] ** 2)).verdict
    'holds-on-cases'
    >>> search(pairs, lambda p: (p[0] * p[1], p[0] + p[1])).counterexample  # shrunk to the smallest pair
    '(2, 3)'
    """
    from hypothesis import HealthCheck, given, settings, target

    sharpness: list[float] = []
    failing: list[tuple[Any, float, float]] = []

    def sharp(left: float, right: float) -> float:
        if relation == "==":
            return abs(left - right)
        return left / right if right > 0 and max(left, right) > 1e3 * tolerance else 0.0

    @settings(
        max_examples=_CASES.get() or examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def attempt(case: Any) -> None:
        left, right = sides(case)
        sharpness.append(sharp(left, right))
        target(min(sharpness[-1], 1e6))
        gap = abs(left - right) if relation == "==" else left - right
        if not gap <= tolerance:  # written so that NaN fails
            failing.append((case, left, right))
            raise _Fails

    try:
        with _from_nowhere():
            attempt()
    except _Fails:
        case, left, right = failing[-1]  # Hypothesis replays the smallest counterexample last
        word = "differs from" if relation == "==" else "exceeds"
        written = number(left, 6), number(right, 6)
        gap = f" by {number(abs(left - right), 2)}" if relation == "==" or written[0] == written[1] else ""
        sides_in_words = f"{names[0]} {written[0]} {word} {names[1]} {written[1]}"
        summary = f"{sides_in_words}{gap} in the smallest counterexample"
        return Evidence("refuted", summary, len(sharpness), sharp(left, right), show(case))
    what = "difference" if relation == "==" else "ratio of the two sides"
    summary = f"no counterexample in {len(sharpness)} cases; largest {what} {max(sharpness):.3g}"
    return Evidence("holds-on-cases", summary, len(sharpness), max(sharpness))


def probability(successes: int, n: int, *, at_least: float, what: str) -> Evidence:
    """Judge 'true with probability at least' from independent repeats, by one-sided 95% Clopper-Pearson limits.

    Parameters
    ----------
    successes, n : int
        How many of n independent repeats bore the statement out.
    at_least : float
        The claimed probability.
    what : str
        What was repeated, for the summary.

    Examples
    --------
    >>> from fedstat.claims import probability
    >>> [probability(hits, 20, at_least=0.8, what="coverage").verdict for hits in (20, 18, 10)]
    ['supported', 'undecided', 'refuted']

    All of 20 repeats bear a claim of 80% out, 18 leave it open, and 10 refute it.
    """
    low, high = clopper_pearson(successes, n, _ONE_SIDED)
    verdict: Verdict = "supported" if low > at_least else "refuted" if high < at_least else "undecided"
    summary = (
        f"{what}: {successes} of {n}, one-sided 95% limits {low:.3f} and {high:.3f}, claimed at least {at_least:g}"
    )
    if verdict == "undecided" and at_least < 1:
        summary += f"; {_needed(at_least)} successes in a row would decide for it"
    return Evidence(verdict, summary, n, min(low - at_least, high - at_least, key=abs))


def within(
    low: float, high: float, region: tuple[float, float], *, cases: int, what: str, level: float = 0.95
) -> Evidence:
    """Judge 'the quantity lies in the region' from a confidence interval for the quantity.

    An interval inside the region supports the statement, an interval outside refutes it, and an interval across the
    region's border leaves it undecided.

    Parameters
    ----------
    low, high : float
        The interval.
    region : tuple of float
        The interval in which the quantity is claimed to lie; either end may be infinite.
    cases : int
        Seeds or repeats behind the interval.
    what : str
        The quantity, for the summary.
    level : float
        The interval's confidence level, for the summary.

    Examples
    --------
    >>> from fedstat.claims import within
    >>> for low, high in ((0.01, 0.03), (-0.03, -0.01), (-0.01, 0.03)):
    ...     print(within(low, high, (0, float("inf")), cases=10, what="gain").verdict)
    supported
    refuted
    undecided
    """
    bottom, top = region
    if bottom <= low and high <= top:
        verdict: Verdict = "supported"
    elif high < bottom or low > top:
        verdict = "refuted"
    else:
        verdict = "undecided"
    limits = f"{100 * level:.3g}% interval {number(low)} to {number(high)}"
    summary, needed = f"{what}: {limits}, claimed {_interval(region)}", None
    if verdict == "undecided":
        centre, half = (low + high) / 2, (high - low) / 2
        distance = min(abs(centre - bottom), abs(top - centre))
        if distance > 0:  # an interval shrinks like one over the square root of the cases
            needed = math.ceil(cases * (half / distance) ** 2)
            many = f"{needed}" if needed <= 1000 else "more than a thousand"
            summary += f"; {many} seeds in place of {cases} would decide, if the estimate stayed"
    return Evidence(verdict, summary, cases, min(low - bottom, top - high), needed=needed)


#: Plain verdicts, weakest first.
_ORDER: tuple[Verdict, ...] = ("refuted", "undecided", "supported", "holds-on-cases", "holds")


def all_of(parts: Sequence[Evidence]) -> Evidence:
    """Judge a conjunction: refuted if a part is, else undecided if a part is, else as weak as its weakest part.

    Among the parts with the deciding verdict one gives the summary: the undecided part that needs most cases, the
    search with the sharpest ratio, else the part with the smallest margin.

    Raises
    ------
    ValueError
        If there are no parts, or one is itself conditional, ambiguous or not checkable.

    Examples
    --------
    >>> from fedstat.claims import all_of, sampled, within
    >>> proven = sampled(range(10), lambda n: n >= 0, of="numbers")
    >>> open_ = within(-0.01, 0.05, (0, 1), cases=5, what="gain")
    >>> all_of([proven, proven]).verdict, all_of([proven, open_]).verdict
    ('holds-on-cases', 'undecided')
    """
    _plain(parts)

    def speaks(e: Evidence) -> tuple[int, float]:
        margin = e.margin or 0.0
        return _ORDER.index(e.verdict), -e.needed if e.needed else -margin if e.verdict == "holds-on-cases" else margin

    worst = min(parts, key=speaks)
    summary = worst.summary if len(parts) == 1 else f"{_tally(parts)}; {worst.summary}"
    return replace(worst, summary=summary, cases=sum(e.cases for e in parts))


def both(*parts: Evidence) -> Evidence:
    """Judge a conjunction of checks that back one another, each heard in its own words; see `all_of`.

    Examples
    --------
    >>> from fedstat.claims import both, enumeration, sampled
    >>> small = enumeration(range(2), lambda n: n * n == n, of="bits")
    >>> large = sampled([0.0, 1.0], lambda x: x * x == x, of="floats")
    >>> found = both(small, large)
    >>> print(found.verdict, "-", found.summary)
    holds-on-cases - true for all 2 bits; true for all 2 floats
    """
    found = all_of(parts)
    if found.verdict == "refuted":
        return found
    margin = max((part.margin for part in parts if part.margin is not None), default=None)
    return replace(found, summary="; ".join(part.summary for part in parts), margin=margin)


def any_of(parts: Sequence[Evidence]) -> Evidence:
    """Judge a disjunction: refuted only if every part is; else the strongest part speaks for it.

    Raises
    ------
    ValueError
        As `all_of`.

    Examples
    --------
    >>> from fedstat.claims import any_of, enumeration
    >>> even = enumeration(range(1, 9), lambda n: n % 2 == 0, of="numbers")
    >>> small = enumeration(range(1, 9), lambda n: n < 9, of="numbers")
    >>> even.verdict, small.verdict, any_of([even, small]).verdict
    ('refuted', 'holds', 'holds')
    """
    _plain(parts)
    if all(part.verdict == "refuted" for part in parts):
        summary = "; ".join(part.summary for part in parts)
        return replace(parts[0], summary=summary, cases=sum(part.cases for part in parts))
    return max(parts, key=lambda part: _ORDER.index(part.verdict))


def _plain(parts: Sequence[Evidence]) -> None:
    if not parts or any(part.verdict not in _ORDER for part in parts):
        raise ValueError(f"parts must be given, with plain verdicts, got {[part.verdict for part in parts]}.")


def _tally(parts: Sequence[Evidence]) -> str:
    """Say how the parts came out, e.g. 'of 5 parts 2 fail'."""
    everything = "both parts" if len(parts) == 2 else f"all {len(parts)} parts"
    told = []
    for verdict, one, several in (("refuted", "fails", "fail"), ("undecided", "is undecided", "are undecided")):
        count = sum(part.verdict == verdict for part in parts)
        if count == len(parts):
            return f"{everything} {several}"
        if count:
            told.append(f"{count} {several if count > 1 else one}")
    return f"of {len(parts)} parts {', '.join(told)}" if told else f"{everything} stand"


def only_if(condition: str, given: Evidence, without: Evidence) -> Evidence:
    """Judge a statement that may need a condition.

    The verdict is "holds-only-if" if the evidence is favourable with the condition and refutes without it. If it is not
    favourable with the condition, that is the verdict; otherwise the verdict is that without the condition.

    Parameters
    ----------
    condition : str
        The condition in words.
    given, without : Evidence
        What was found where the condition holds, and of the statement as it stands.

    Examples
    --------
    >>> from fedstat.claims import only_if, sampled
    >>> def checked(numbers):
    ...     return sampled(numbers, lambda n: 2**n >= n**2, of="numbers", show=lambda n: f"n = {n}")
    >>> found = only_if("n is at least 4", given=checked(range(4, 100)), without=checked(range(100)))
    >>> found.verdict, found.counterexample
    ('holds-only-if', 'n = 3')
    """
    verdict: Verdict = without.verdict
    if given.verdict not in FAVOURABLE:
        verdict = given.verdict
    elif without.verdict == "refuted":
        verdict = "holds-only-if"
    summary = f"needs {condition}: with it, {given.summary}; without it, {without.summary}"
    return Evidence(verdict, summary, given.cases + without.cases, given.margin, without.counterexample)


def missing(what: str) -> Evidence:
    """Leave a statement undecided because something that would decide it does not exist yet.

    Examples
    --------
    >>> from fedstat.claims import missing
    >>> found = missing("runs at the papers' size")
    >>> print(found.verdict, "-", found.summary)
    undecided - missing: runs at the papers' size
    """
    return Evidence("undecided", f"missing: {what}", 0)


def not_checkable(why: str) -> Evidence:
    """Say that a statement cannot be checked here, and why.

    Examples
    --------
    >>> from fedstat.claims import not_checkable
    >>> found = not_checkable("the data are not public")
    >>> print(found.verdict, "-", found.summary)
    not-checkable - the data are not public
    """
    return Evidence("not-checkable", why, 0)


def _needed(at_least: float) -> int:
    """Count the successes in a row whose lower limit exceeds `at_least`."""
    n = 1
    while clopper_pearson(n, n, _ONE_SIDED)[0] <= at_least:
        n += 1
    return n


def _interval(region: tuple[float, float]) -> str:
    low, high = region
    if low == float("-inf"):
        return f"at most {number(high)}"
    if high == float("inf"):
        return f"at least {number(low)}"
    return f"{number(low)} to {number(high)}"


def _nth(n: int) -> str:
    if n in (1, 2, 3):
        return ("first", "second", "third")[n - 1]
    return f"{n}{'th' if n // 10 % 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"
