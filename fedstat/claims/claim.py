"""A claim: declared once, with its readings and conditions, mutants that its check must refute, and controls."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Literal, get_args

from fedstat.claims.evidence import FAVOURABLE, Evidence, Verdict
from fedstat.claims.mutation import blind, in_words, sees
from fedstat.claims.studies import Studies

#: Returns what was found; a check with a parameter is given the tables of studies.
Check = Callable[..., Evidence]
#: How grave it is if the statement fails.
Severity = Literal["misprint", "unstated condition", "false"]
SEVERITIES: tuple[Severity, ...] = ("misprint", "unstated condition", "false")


class ClaimError(ValueError):
    """A claim that cannot be judged: the message names its file and what is wrong with it.

    Examples
    --------
    A check that cannot fail proves nothing:

    >>> from fedstat.claims import Claim, ClaimError, judge, sampled
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="none",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> for name, add in (("n from 4 to 99", claim.reading), ("n^2 made n^3", claim.mutant)):
    ...     check = add(name)(lambda: sampled(range(4, 100), lambda n: True, of="numbers"))
    >>> try:
    ...     judge(claim)
    ... except ClaimError as error:
    ...     print(error)
    EX-01: its mutant 'n^2 made n^3' came out holds-on-cases, it must be refuted: true for all 96 numbers.
    """

    #: Judgements of the other claims, where `judge_all` was asked for several.
    judged: Sequence[Judgement] = ()


@dataclass(frozen=True)
class Reading:
    """A named check: one way to understand a claim, a condition, a mutant or a control.

    Attributes
    ----------
    name : str
        What is checked, in words.
    check : callable
        Returns the evidence.
    natural : bool
        Whether the words may mean it; if not, the check tells something beside the verdict.

    Examples
    --------
    >>> from fedstat.claims import Claim, Sides, compared
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> _ = claim.reading("n to 99")(lambda: compared([Sides(str(n), n**2, 2**n) for n in range(4, 100)], of="numbers"))
    >>> reading = claim.readings[0]
    >>> reading.name, reading.natural, reading.check().verdict
    ('n to 99', True, 'holds-on-cases')
    """

    name: str
    check: Check
    natural: bool = True


@dataclass(kw_only=True, eq=False)
class Claim:
    """A statement that can be refuted; its decorators add the checks.

    Attributes
    ----------
    id : str
        Name in the ledger, e.g. "FS-04".
    place : str
        Where it is stated, to the sentence.
    said_by : str
        Who states it: "paper", or who made a statement of a remark.
    words : str
        The statement in one plain sentence.
    statement : str
        The statement in Typst mathematics.
    severity : {"misprint", "unstated condition", "false"}
        How grave it is if the statement fails.
    sensitivity : str
        The smallest violation that the check can see.
    assumptions : str
        What is assumed.
    flaw : str
        What goes wrong in the argument, if something does: one or two sentences in plain words.
    corrected : str or None
        Id of the corrected statement, if this one is wrong or conditional.
    nearest : bool
        Whether the first reading is nearest the letter; if not, differing outcomes make the claim ambiguous.
    paper : str
        Where it comes from; by default what the folder's package calls `PAPER`, or nothing.
    link : str
        Address of the paper, as ``https://doi.org/...``; by default that of the DOI or arXiv number in `place`, else
        what the folder's package calls `LINK`.

    Examples
    --------
    A claim, what checks it, and a broken variant that its check must refute:

    >>> from fedstat.claims import Claim, judge, sampled
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> @claim.reading("n from 4 to 99")
    ... def letter(first=4):
    ...     return sampled(range(first, 100), lambda n: 2**n >= n**2, of="numbers", show=lambda n: f"n = {n}")
    >>> @claim.mutant("from n = 3 on")
    ... def early():
    ...     return letter(3)
    >>> found = judge(claim)
    >>> found.verdict, found.mutants["from n = 3 on"].counterexample
    ('holds-on-cases', 'n = 3')
    """

    id: str
    place: str
    said_by: str
    words: str
    statement: str
    severity: Severity
    sensitivity: str
    assumptions: str = "none"
    flaw: str = ""
    corrected: str | None = None
    nearest: bool = True
    paper: str = ""
    link: str = ""
    file: Path | None = field(default=None, init=False)
    module: str = field(default="", init=False)
    readings: list[Reading] = field(default_factory=list, init=False)
    conditions: list[Reading] = field(default_factory=list, init=False)
    mutants: list[Reading] = field(default_factory=list, init=False)
    controls: list[Reading] = field(default_factory=list, init=False)

    def __new__(cls, *args: object, **given: object) -> Claim:
        """Say how checks are added to whoever passes them as arguments; note the module that declares the claim."""
        for name in ("reading", "condition", "mutant", "control"):
            if {name, f"{name}s"} & given.keys():
                raise ClaimError(
                    f"{name} is no argument of Claim: a check is a function under @NAME.{name}('in words')."
                )
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "<module>":  # functions that make claims may lie elsewhere
            frame = frame.f_back
        claim = super().__new__(cls)
        claim.module = frame.f_globals.get("__name__", "") if frame else ""
        return claim

    def reading(self, name: str, *, natural: bool = True) -> Callable[[Check], Check]:
        """Add what the words may mean; the first reading is nearest the letter, unless `nearest` is False."""
        return _adding(self.readings, name, natural)

    def condition(self, name: str) -> Callable[[Check], Check]:
        """Add a condition that the authors do not state, with the check of the statement where it is met."""
        return _adding(self.conditions, name)

    def mutant(self, name: str) -> Callable[[Check], Check]:
        """Add a broken variant, named by what was broken, which must come out refuted."""
        return _adding(self.mutants, name)

    def control(self, name: str) -> Callable[[Check], Check]:
        """Add a case in which the check must come out favourable."""
        return _adding(self.controls, name)

    @property
    def trained(self) -> bool:
        """Whether a check reads the tables of studies, which differ from run to run."""
        return any(_reads(check) for check in self.checks)

    @property
    def checks(self) -> list[Reading]:
        """All checks."""
        return [*self.readings, *self.conditions, *self.mutants, *self.controls]

    def __repr__(self) -> str:
        return f"<claim {self.id}>"


def _adding(checks: list[Reading], name: str, natural: bool = True) -> Callable[[Check], Check]:
    if not isinstance(name, str) or not name.strip():
        raise ClaimError(f"a check needs a name in words, as in @NAME.reading('in words'), got {name!r}.")

    def add(check: Check) -> Check:
        if not callable(check):
            raise ClaimError(f"the check {name!r} must be a function that returns Evidence, got {check!r}.")
        checks.append(Reading(name, check, natural))
        return check

    return add


def _reads(reading: Reading) -> bool:
    return any(p.default is p.empty for p in inspect.signature(reading.check).parameters.values())


@dataclass(frozen=True)
class Judgement:
    """A claim with the evidence that its checks returned, by their names.

    Examples
    --------
    >>> from fedstat.claims import Claim, Sides, compared, judge
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> _ = claim.reading("n to 99")(lambda: compared([Sides(str(n), n**2, 2**n) for n in range(4, 100)], of="numbers"))
    >>> found = judge(claim)
    >>> found.verdict, list(found.evidence), found.main.cases
    ('holds-on-cases', ['n to 99'], 96)
    """

    claim: Claim
    evidence: dict[str, Evidence]
    conditions: dict[str, Evidence]
    mutants: dict[str, Evidence]
    controls: dict[str, Evidence]

    @cached_property
    def verdict(self) -> Verdict:
        """What becomes of the statement, by its natural readings and, where none stands, by its conditions.

        Where some natural reading stands and another falls it "holds-in-a-reading", or is "ambiguous" if none is
        nearest the letter. Where none stands it is "refuted" only if all fall; where all do and a condition saves it,
        it "needs-a-condition". Else it is as the first reading is, or the weakest if none is nearest the letter.
        """
        natural = [self.evidence[r.name].verdict for r in self.claim.readings if r.natural]
        stands, falls = any(v in FAVOURABLE for v in natural), "refuted" in natural
        if stands and falls:
            return "holds-in-a-reading" if self.claim.nearest else "ambiguous"
        if set(natural) == {"refuted"} and any(e.verdict in FAVOURABLE for e in self.conditions.values()):
            return "needs-a-condition"
        first = natural[0] if self.claim.nearest else max(natural, key=get_args(Verdict).index)
        return "undecided" if first == "refuted" and len(set(natural)) > 1 else first

    @property
    def saved_by(self) -> str | None:
        """The reading in which the statement stands, or the condition that it needs, where the verdict names one."""
        found = {"holds-in-a-reading": self.evidence, "needs-a-condition": self.conditions}.get(self.verdict, {})
        meant = {r.name for r in (*self.claim.readings, *self.claim.conditions) if r.natural}
        return next((name for name, e in found.items() if name in meant and e.verdict in FAVOURABLE), None)

    @property
    def main(self) -> Evidence:
        """The evidence of the first natural reading."""
        return next(self.evidence[r.name] for r in self.claim.readings if r.natural)


def judge(claim: Claim, studies: Studies | None = None, *, with_mutant: bool = True) -> Judgement:
    """Run the checks of a claim: its readings and conditions, its mutants and its controls.

    Parameters
    ----------
    claim : Claim
        The claim to judge.
    studies : Studies, optional
        Tables for the checks that read some.
    with_mutant : bool
        False leaves out mutants and controls, for data that may be too few even for them, such as a small run's tables.

    Raises
    ------
    ClaimError
        If no reading is natural, two checks have one name or one raises; if a mutant is not refuted, or a control does
        not come out favourable. A check that cannot fail proves nothing: a claim that stands is refused if it has no
        mutant of its own and none made from the two sides of its checks is refuted, or if a check has two sides and
        lets all of these pass. A check that cannot pass proves nothing either: what is refuted needs a control.

    Examples
    --------
    >>> from fedstat.claims import Claim, judge, sampled
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="2^n is at least n^2.", statement="2^n >= n^2", flaw="At n = 3 it is 8, and 9 is larger.")
    >>> def checked(numbers):
    ...     return lambda: sampled(numbers, lambda n: 2**n >= n**2, of="numbers", show=lambda n: f"n = {n}")
    >>> letter = claim.reading("every n")(checked(range(100)))
    >>> control = claim.control("from 4 on")(checked(range(4, 100)))  # the check must be able to pass
    >>> found = judge(claim)
    >>> found.verdict, found.main.counterexample
    ('refuted', 'n = 3')
    """
    if not isinstance(claim, Claim):
        raise ClaimError(f"claim must be a fedstat.claims.Claim, got {claim!r}; judge_all(path) judges a file.")
    if not any(reading.natural for reading in claim.readings):
        raise fault(
            claim, f"it has no {'natural ' * bool(claim.readings)}reading; add a check under @NAME.reading('in words')"
        )
    for checks in (claim.readings + claim.conditions, claim.mutants, claim.controls):
        names = [check.name for check in checks]
        if len(set(names)) < len(names):
            raise fault(claim, f"two of its checks have one name: {', '.join(sorted(names))}")
    studies = Studies(None) if studies is None else studies
    found = [_run(claim, "reading", claim.readings, studies), _run(claim, "condition", claim.conditions, studies)]
    for what, checks in (("mutant", claim.mutants), ("control", claim.controls)):
        found.append(_run(claim, what, checks, studies) if with_mutant else {})
    judgement = Judgement(claim, *found)
    if with_mutant:
        _can_fail_and_pass(judgement)
    return judgement


def _can_fail_and_pass(judgement: Judgement) -> None:
    claim = judgement.claim
    for name, e in judgement.mutants.items():
        if e.verdict != "refuted":
            raise fault(claim, f"its mutant {name!r} came out {e.verdict}, it must be refuted: {e.summary}")
    for name, e in judgement.controls.items():
        if e.verdict not in FAVOURABLE:
            raise fault(claim, f"its control {name!r} came out {e.verdict}, it must stand: {e.summary}")
    standing = {n: e for n, e in {**judgement.evidence, **judgement.conditions}.items() if e.verdict in FAVOURABLE}
    for name, e in standing.items():
        if blind(e.made):
            raise fault(claim, f"its check {name!r} sees nothing of the statement: {in_words(e.made)}")
    if standing and not judgement.mutants and not any(sees(e.made) for e in standing.values()):
        raise fault(
            claim,
            "nothing shows that its check can fail; let the check return two sides that are not zero (compared, "
            "search), or add a broken variant that must come out refuted, under @NAME.mutant('what was broken')",
        )
    if judgement.verdict == "refuted" and not claim.controls:
        needed = "add @NAME.control(...), a case in which the check must come out favourable"
        found = judgement.main.counterexample or judgement.main.summary.rstrip(".")
        raise fault(claim, f"it came out refuted and has no control; {needed}. What refutes it: {found}")


def _run(claim: Claim, what: str, checks: Sequence[Reading], studies: Studies) -> dict[str, Evidence]:
    found = {}
    for check in checks:
        try:
            e = check.check(studies) if _reads(check) else check.check()
        except (Exception, SystemExit) as error:
            lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(claim.file)]
            where = f" in line {lines[-1]}" if lines else ""
            around = studies.around(error)
            words = f"its {what} {check.name!r} raised {type(error).__name__}{where}: {error}"
            raise fault(claim, f"{words}; {around}" if around else words) from error
        if not isinstance(e, Evidence):
            raise fault(claim, f"its {what} {check.name!r} must return Evidence, it returned {e!r}")
        found[check.name] = e
    return found


def fault(claim: Claim, words: str) -> ClaimError:
    """Return an error that names the claim and its file."""
    return ClaimError(f"{f'{claim.file}: ' if claim.file else ''}{claim.id}: {words}.")
