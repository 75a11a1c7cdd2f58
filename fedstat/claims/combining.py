"""Combine evidence: for a conjunction, or for a disjunction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedstat.claims.evidence import FAVOURABLE, Evidence, Verdict
from fedstat.claims.mutation import joined

#: Plain verdicts, weakest first.
_ORDER: tuple[Verdict, ...] = ("refuted", "undecided", "supported", "holds-on-cases", "holds")


def all_of(parts: Sequence[Evidence]) -> Evidence:
    """Judge a conjunction: refuted if a part is, else undecided if a part is, else as weak as its weakest part.

    Among the parts with the deciding verdict one gives the summary: the undecided part that needs most cases, the
    search with the sharpest ratio, else the part with the smallest margin.

    Raises
    ------
    ValueError
        If there are no parts, or one is not checkable.

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
    made = joined([e.made for e in parts]) if worst.verdict in FAVOURABLE else worst.made
    return replace(worst, summary=summary, cases=sum(e.cases for e in parts), made=made)


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
