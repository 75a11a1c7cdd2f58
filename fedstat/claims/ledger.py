"""The ledger of verdicts: a file that tests compare with, and text that people read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from fedstat._files import write_text
from fedstat.claims.claim import SEVERITIES, Claim, Judgement
from fedstat.claims.evidence import FAVOURABLE, Evidence, Verdict
from fedstat.claims.mutation import in_words
from fedstat.claims.notation import plain

#: Verdicts, each with a mark that reads without colour, and as they are counted.
_VERDICTS: dict[Verdict, tuple[str, str]] = {
    "holds": ("■", "proven"),
    "holds-on-cases": ("●", "without a counterexample"),
    "supported": ("◆", "supported by an interval"),
    "holds-in-a-reading": ("◐", "true in one reading, false in another"),
    "ambiguous": ("◐", "ambiguous"),
    "needs-a-condition": ("◒", "true on a condition that is not stated"),
    "refuted": ("×", "refuted"),
    "undecided": ("○", "undecided"),
    "not-checkable": ("○", "not checkable"),
}
_WIDTH = 120


def as_object(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as plain values: the claim's id, source and severity, its verdict, and all evidence.

    Examples
    --------
    >>> from fedstat.claims import Claim, Sides, as_object, compared, judge
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> _ = claim.reading("n to 99")(lambda: compared([Sides(str(n), n**2, 2**n) for n in range(4, 100)], of="numbers"))
    >>> found = as_object(judge(claim))
    >>> found["id"], found["verdict"], found["cases"], found["readings"]
    ('EX-01', 'holds-on-cases', 96, {'n to 99': 'holds-on-cases'})
    """
    claim, found = judgement.claim, judgement.evidence | judgement.conditions
    return {
        "id": claim.id,
        "paper": claim.paper,
        "place": claim.place,
        "said_by": claim.said_by,
        "severity": claim.severity,
        "verdict": judgement.verdict,
        "saved_by": judgement.saved_by,
        "readings": {name: e.verdict for name, e in judgement.evidence.items()},
        "conditions": {name: e.verdict for name, e in judgement.conditions.items()},
        "cases": sum(e.cases for e in found.values()),
        "margin": judgement.main.margin,
        "evidence": {name: e.summary for name, e in found.items()},
        "counterexamples": {name: e.counterexample for name, e in found.items() if e.counterexample},
        "made": {name: dict(e.made) for name, e in found.items() if e.made},
        "mutants": {name: e.summary for name, e in judgement.mutants.items()},
        "controls": {name: e.summary for name, e in judgement.controls.items()},
        "corrected": claim.corrected,
    }


def write_ledger(judgements: Sequence[Judgement], path: str | Path, *, kept: Sequence[Mapping[str, Any]] = ()) -> None:
    """Write judgements as a JSON list, sorted by id.

    `kept` are entries of the ledger before, as `read_ledger` reads them, of claims that are not judged again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedstat.claims import Claim, Sides, compared, judge, read_ledger, write_ledger
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> _ = claim.reading("n to 99")(lambda: compared([Sides(str(n), n**2, 2**n) for n in range(4, 100)], of="numbers"))
    >>> file = Path(tempfile.mkdtemp(), "ledger.json")
    >>> write_ledger([judge(claim)], file)
    >>> [(entry["id"], entry["cases"]) for entry in read_ledger(file).values()]
    [('EX-01', 96)]
    """
    entries = {entry["id"]: entry for entry in (*kept, *map(as_object, judgements))}
    write_text(path, json.dumps([entries[name] for name in sorted(entries)], indent=2, ensure_ascii=False) + "\n")


def read_ledger(path: str | Path) -> dict[str, dict[str, Any]]:
    """Read a ledger; its entries by id.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedstat.claims import read_ledger, write_ledger
    >>> file = Path(tempfile.mkdtemp(), "ledger.json")
    >>> write_ledger([], file, kept=[{"id": "EX-01", "verdict": "holds-on-cases"}])
    >>> read_ledger(file)["EX-01"]["verdict"]
    'holds-on-cases'
    """
    return {entry["id"]: entry for entry in json.loads(Path(path).read_text())}


def table(judgements: Sequence[Judgement]) -> str:
    """Return the ledger as text: verdicts, statements in words, the evidence of each reading; of several the counts.

    Examples
    --------
    >>> from fedstat.claims import Claim, Sides, compared, judge, table
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> _ = claim.reading("n to 99")(lambda: compared([Sides(str(n), n**2, 2**n) for n in range(4, 100)], of="numbers"))
    >>> print(table([judge(claim)]))
    EX-01   ● holds-on-cases     From n = 4 on 2^n is at least n^2.
            true for all 96 numbers; largest ratio of the two sides 1
    """
    entries = [_entry(j) for j in sorted(judgements, key=lambda j: j.claim.id)]
    return "\n".join([*entries, "", count(judgements)] if len(judgements) > 1 else entries)


def count(judgements: Sequence[Judgement]) -> str:
    """Count what became of the statements, the papers' own first and those that others worded apart.

    Examples
    --------
    >>> from fedstat.claims import Claim, Sides, compared, count, judge
    >>> claim = Claim(id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2")
    >>> _ = claim.reading("n to 99")(lambda: compared([Sides(str(n), n**2, 2**n) for n in range(4, 100)], of="numbers"))
    >>> print(count([judge(claim)]))
    1 statement of the papers: 1 without a counterexample.
    """
    corrections = {j.claim.corrected for j in judgements} - {None}
    stated = [j for j in judgements if j.claim.id not in corrections]
    papers = [j for j in stated if j.claim.said_by == "paper"]
    others = [j for j in stated if j.claim.said_by != "paper"]
    told = ((papers, "of the papers"), (others, "worded by others"))
    return "\n".join(_counted(members, words) for members, words in told if members)


def _counted(judgements: Sequence[Judgement], of: str) -> str:
    verdicts = Counter(j.verdict for j in judgements)
    parts = []
    for verdict, (_, words) in _VERDICTS.items():
        graves = Counter(j.claim.severity for j in judgements if j.verdict == verdict == "refuted")
        grave = ", ".join(f"{graves[s]} {s}" for s in SEVERITIES if graves[s])
        parts += [f"{verdicts[verdict]} {words}{f' ({grave})' if grave else ''}"] if verdicts[verdict] else []
    return f"{len(judgements)} statement{'s' if len(judgements) > 1 else ''} {of}: {'; '.join(parts)}."


def explain(judgement: Judgement, claims: Mapping[str, Claim]) -> str:
    """Return one claim at length: its source, statement, assumptions, mutants and controls, and what is true instead.

    `claims` holds the corrected statement by its id.

    Examples
    --------
    >>> from fedstat.claims import Claim, Sides, compared, explain, judge
    >>> claim = Claim(id="EX-01", paper="Powers", place="folklore", said_by="paper", severity="false",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2", sensitivity="any excess")
    >>> _ = claim.reading("n to 99")(lambda: compared([Sides(str(n), n**2, 2**n) for n in range(4, 100)], of="numbers"))
    >>> print(explain(judge(claim), {}))
    EX-01, Powers, folklore
      statement    2^n ≥ n²
      assumes      none
      if it fails  false
      mutants      n to 99: refuted: the right side a tenth smaller, the relation turned
      sees         any excess
    """
    claim, found = judgement.claim, judgement.evidence | judgement.conditions
    by = "" if claim.said_by == "paper" else f", as stated by {claim.said_by}"
    lines = [
        ", ".join(filter(None, [claim.id, claim.paper, claim.place])) + by,
        *([_field("paper", claim.link)] if claim.link else []),
        _field("statement", plain(claim.statement)),
        _field("assumes", claim.assumptions),
        _field("if it fails", claim.severity),
        *(_field("mutants", f"{name}: {in_words(e.made)}") for name, e in found.items() if e.made),
        *(_field("broken", f"{name}: refuted, as it must be: {_told(e)}") for name, e in judgement.mutants.items()),
        *(_field("control", f"{name}: stands, as it must: {_told(e)}") for name, e in judgement.controls.items()),
        _field("sees", claim.sensitivity),
    ]
    if claim.flaw:
        lines.append(_field("to be noted" if judgement.verdict in FAVOURABLE else "goes wrong", claim.flaw))
    if claim.corrected:
        lines.append(_field("corrected", f"{claim.corrected}: {claims[claim.corrected].words}"))
    return "\n".join(lines)


def _entry(judgement: Judgement) -> str:
    claim, several = judgement.claim, len(judgement.evidence | judgement.conditions) > 1
    mark = f"{_VERDICTS[judgement.verdict][0]} {judgement.verdict}"
    lines = [fill(claim.words, _WIDTH, initial_indent=f"{claim.id:<7} {mark:<20} ", subsequent_indent=" " * 29)]
    if judgement.saved_by:
        how = "in the reading" if judgement.verdict == "holds-in-a-reading" else "on the condition"
        lines.append(_indented(f"{how}: {judgement.saved_by}"))
    for name, e in (judgement.evidence | judgement.conditions).items():
        lines.append(_indented(f"[{e.verdict}] {name}: {_told(e)}" if several else _told(e)))
    return "\n".join(lines)


def _told(e: Evidence) -> str:
    return f"{e.summary}: {e.counterexample}" if e.counterexample else e.summary


def _indented(words: str) -> str:
    return fill(words, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 10)


def _field(name: str, words: str) -> str:
    return fill(words, _WIDTH, initial_indent=f"  {name:<12} ", subsequent_indent=" " * 15)
