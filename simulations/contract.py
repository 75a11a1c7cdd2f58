"""What a study states beside its numbers: where its chapter stands, and what its sentences rest on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fedstat.inference import interval, number
from simulations.effects import UNTRAINED, Effect
from simulations.estimates import Estimate, reason, times

Sign = Literal["more", "less", "unclear", "undefined"]
#: What a second look says of a finding: the same, the opposite, no longer resolved, resolved only now; or there is no
#: estimate in one of the two.
Outcome = Literal["same", "reversed", "lost", "gained", "undefined"]
#: What was measured of a figure or table: all of it, some of it, nothing; or there is nothing to measure.
State = Literal["measured", "in part", "not", "diagram", "summary"]


@dataclass(frozen=True)
class Shown:
    """A figure or table of a paper.

    Attributes
    ----------
    number : str
        Such as ``"Figure 6"``.
    what : str
        What the paper shows there, in our words.
    state : {"measured", "in part", "not", "diagram", "summary"}
        Measured: at the paper's sizes on its data. In part: on other data, at other sizes, or some panels.
        Not: nothing was measured. A diagram or a summary of data sets asks for no measurement.
    how : str
        How our set-up differs, or why nothing was measured; it may be empty for diagrams.
    outcome : str
        What came out, where that is told in a line: whether what is printed was found.
    """

    number: str
    what: str
    state: State
    how: str = ""
    outcome: str = ""


@dataclass(frozen=True)
class About:
    """Where a study's chapter stands in the report, and what it needs.

    Attributes
    ----------
    title : str
        Heading of the chapter.
    paper : str
        The paper that the study asks about, as the ledger names it; empty if it asks about all of them.
    place : str
        What of the paper it asks about where this is no figure or table, such as ``"section 4.1"``.
    order : int
        Chapters are sorted by it.
    shows : tuple of Shown
        The paper's figures and tables that the study reproduces, in full or in part.
    data : tuple of str
        The data sets that it reads above smoke scale, as `fedstat.data.datasets` names them; smoke scale reads none
        that has to be fetched.
    times : mapping of str to str
        How long each scale takes, and on what, in words: measured, or an estimate that says so.
    """

    title: str
    paper: str
    place: str
    order: int
    shows: tuple[Shown, ...] = ()
    data: tuple[str, ...] = ()
    times: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The figures and tables, or the place, in words such as ``"Figures 1 and 2, Table 3"``."""
        kinds = {kind: [s.number.split()[1] for s in self.shows if s.number.split()[0] == kind] for kind in _KINDS}
        named = [f"{kind}{'s' * (len(n) > 1)} {_listed(n)}" for kind, n in kinds.items() if n]
        return ", ".join(named) or self.place


#: What stands in place of an estimate where an arm is not trained enough.
NOT_JUDGED = "not judged"
_KINDS = ("Figure", "Table")
_NO_LIMITS = "values are missing, or too few or too much alike for limits"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


@dataclass(frozen=True)
class Finding:
    """A quantity whose sign decides words of a chapter.

    Attributes
    ----------
    what : str
        The quantity in words.
    mean, low, high : float
        Estimate and confidence limits.
    border : float
        The value at which the words change: no effect, or what a paper claims.
    unit : str
        Stands behind the numbers.
    digits : int
        Decimals that are shown.
    why : str
        The reason if it is undefined: mean, limits or all of them are NaN then.
    p : float
        Two-sided p-value against a border of zero, for a difference in the table of effects; NaN for all others.
    could_find : float
        The smallest difference that is found with a power of 80%, for an effect; NaN for all others.
    """

    what: str
    mean: float
    low: float
    high: float
    border: float = 0.0
    unit: str = ""
    digits: int = 2
    why: str = ""
    p: float = math.nan
    could_find: float = math.nan

    @classmethod
    def of(
        cls,
        what: str,
        estimate: Effect | Estimate,
        factor: float = 1.0,
        unit: str = "",
        digits: int = 2,
        border: float = 0.0,
    ) -> Finding:
        """Make a finding of an effect, or of an estimate in another unit if need be."""
        p = could_find = math.nan
        if isinstance(estimate, Effect):
            p, could_find = estimate.p if border == 0 else math.nan, factor * estimate.could_find
            unit, estimate = estimate.unit, estimate.estimate
        found = times(factor, estimate)
        why = reason(found) or (_NO_LIMITS if math.isnan(sum(found)) else "")
        return cls(what, *found, border=border, unit=unit, digits=digits, why=why, p=p, could_find=could_find)

    def record(self) -> dict[str, str]:
        """Return what chapters print of it."""
        return {
            "what": self.what,
            "text": self.words,
            "estimate": self.text,
            "sign": self.sign,
            "power": self.power,
            "could": self.could,
            "why": self.why,
        }

    @property
    def sign(self) -> Sign:
        """Say on which side of the border the interval lies, if there is one."""
        if math.isnan(self.mean + self.low + self.high):
            return "undefined"
        return "more" if self.low > self.border else "less" if self.high < self.border else "unclear"

    @property
    def text(self) -> str:
        """Format the estimate and its limits, without the unit; where there are none, say why."""
        if self.sign == "undefined":
            if self.why.endswith(UNTRAINED):
                return NOT_JUDGED
            known = "undefined" if math.isnan(self.mean) else f"{number(self.mean)} without limits"
            return f"{known}: {self.why}" if self.why else known
        return interval((self.mean, self.low, self.high), self.digits)

    @property
    def words(self) -> str:
        """Format it with its unit."""
        return self.text if self.sign == "undefined" else f"{self.text} {self.unit}".rstrip()

    @property
    def power(self) -> str:
        """Say, where no difference is shown, which one would have been; how large it can be, the limits say."""
        return f"a difference of {self.could} would have been found with 80% power" if self.could else ""

    @property
    def could(self) -> str:
        """Format, where no difference is shown, which one would have been."""
        if self.sign != "unclear" or math.isnan(self.could_find):
            return ""
        return f"{self.could_find:.{self.digits}f}"


def second_look(
    committed: Mapping[str, Finding], fresh: Mapping[str, Finding]
) -> Iterable[tuple[Finding, Finding, Outcome]]:
    """Compare the findings of committed tables with those of a fresh run, as far as both have them."""
    for name, first in committed.items():
        if name in fresh:
            yield first, fresh[name], _outcome(first.sign, fresh[name].sign)


def _outcome(first: Sign, second: Sign) -> Outcome:
    if "undefined" in (first, second):
        return "undefined"
    if first == second:
        return "same"
    return "lost" if second == "unclear" else "gained" if first == "unclear" else "reversed"
