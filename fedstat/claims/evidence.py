"""What a check found: a verdict, computed by the function that judges, never typed, and the numbers that decide it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedstat._checks import choice

#: What becomes of a statement: it "holds", proven; "holds-on-cases", true of all that were tried; is "supported" by an
#: interval; "holds-in-a-reading", where some of what the words may mean stands and some falls; "needs-a-condition" that
#: its authors do not state; is "ambiguous", if readings differ and none is nearest the letter; "refuted"; "undecided"
#: or "not-checkable". One check finds the first three or the last three. ``typing.get_args(Verdict)`` lists them.
Verdict = Literal[
    "holds",
    "holds-on-cases",
    "supported",
    "holds-in-a-reading",
    "needs-a-condition",
    "ambiguous",
    "refuted",
    "undecided",
    "not-checkable",
]

#: Verdicts that stand for the statement.
FAVOURABLE = ("holds", "holds-on-cases", "supported")

#: Writes a case in words.
Show = Callable[[Any], str]


@dataclass(frozen=True)
class Evidence:
    """What a check found.

    Attributes
    ----------
    verdict : Verdict
        The verdict, computed by the function that made the evidence: one of those that one check finds.
    summary : str
        One sentence with the numbers that decide.
    cases : int
        Number of cases looked at (or of seeds).
    margin : float or None
        How sharp the outcome is: for an inequality the largest ratio of its sides, for an interval the distance
        to the nearest limit (positive inside), for an exact identity None.
    counterexample : str or None
        The smallest counterexample found, as numbers.
    needed : int or None
        For an undecided interval, how many cases would decide if the estimate stayed.
    made : mapping of str to bool
        Of a check that stands and has two sides, the mutants made from them, and whether the cases refute each.

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
    made: Mapping[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        choice("verdict", self.verdict, (*FAVOURABLE, "refuted", "undecided", "not-checkable"))


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
