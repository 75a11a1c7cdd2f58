"""The ledger of verdicts: a file that tests compare with, and text that people read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from fedstat._files import atomic_file
from fedstat.claims.claim import SEVERITIES, Claim, Judgement
from fedstat.claims.evidence import FAVOURABLE, Evidence
from fedstat.claims.plain import plain

#: Marks of verdicts that read without colour.
MARKS = {
    **dict.fromkeys(FAVOURABLE, "●"),
    "holds-only-if": "◐",
    "ambiguous": "◐",
    "undecided": "○",
    "not-checkable": "○",
    "refuted": "×",
}
_WIDTH = 120


def as_object(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as plain values: the claim's id, source and severity, its verdict, and all evidence.

    Examples
    --------
    >>> from fedstat.claims import Claim, as_object, judge, sampled
    >>> claim = Claim(
    ...     id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2",
    ... )
    >>> check = claim.reading("n to 99")(lambda: sampled(range(4, 100), lambda n: 2**n >= n**2, of="numbers"))
    >>> found = as_object(judge(claim))
    >>> found["id"], found["verdict"], found["cases"], found["readings"]
    ('EX-01', 'holds-on-cases', 96, {'n to 99': 'holds-on-cases'})
    """
    claim = judgement.claim
    return {
        "id": claim.id,
        "paper": claim.paper,
        "place": claim.place,
        "said_by": claim.said_by,
        "severity": claim.severity,
        "verdict": judgement.verdict,
        "condition": judgement.condition,
        "readings": {name: e.verdict for name, e in judgement.evidence.items()},
        "cases": sum(e.cases for e in judgement.evidence.values()),
        "margin": judgement.main.margin,
        "evidence": {name: e.summary for name, e in judgement.evidence.items()},
        "counterexamples": {name: e.counterexample for name, e in judgement.evidence.items() if e.counterexample},
        "mutants": {name: e.summary for name, e in judgement.mutants.items()},
        "controls": {name: e.summary for name, e in judgement.controls.items()},
        "corrected": claim.corrected,
    }


def write_ledger(judgements: Sequence[Judgement], path: str | Path, *, kept: Sequence[Mapping[str, Any]] = ()) -> None:
    """Write judgements as a JSON list, sorted by id.

    `kept` are entries of the ledger before, as `read_ledger` reads them, of claims that are not judged again.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from fedstat.claims import Claim, judge, sampled, write_ledger
    >>> claim = Claim(
    ...     id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2",
    ... )
    >>> check = claim.reading("n to 99")(lambda: sampled(range(4, 100), lambda n: 2**n >= n**2, of="numbers"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ledger([judge(claim)], Path(folder) / "ledger.json")
    ...     [(entry["id"], entry["cases"]) for entry in json.loads((Path(folder) / "ledger.json").read_text())]
    [('EX-01', 96)]
    """
    entries = {entry["id"]: entry for entry in (*kept, *map(as_object, judgements))}
    with atomic_file(path) as temporary:
        objects = [entries[name] for name in sorted(entries)]
        temporary.write_text(json.dumps(objects, indent=2, ensure_ascii=False) + "\n")


def read_ledger(path: str | Path) -> dict[str, dict[str, Any]]:
    """Read a ledger; its entries by id.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fedstat.claims import Claim, judge, read_ledger, sampled, write_ledger
    >>> claim = Claim(
    ...     id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2",
    ... )
    >>> check = claim.reading("n to 99")(lambda: sampled(range(4, 100), lambda n: 2**n >= n**2, of="numbers"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ledger([judge(claim)], Path(folder) / "ledger.json")
    ...     read_ledger(Path(folder) / "ledger.json")["EX-01"]["verdict"]
    'holds-on-cases'
    """
    return {entry["id"]: entry for entry in json.loads(Path(path).read_text())}


def table(judgements: Sequence[Judgement]) -> str:
    """Return the ledger as text: verdicts, statements in words, the evidence of each reading; of several the counts.

    Examples
    --------
    >>> from fedstat.claims import Claim, judge, sampled, table
    >>> claim = Claim(
    ...     id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2",
    ... )
    >>> check = claim.reading("n to 99")(lambda: sampled(range(4, 100), lambda n: 2**n >= n**2, of="numbers"))
    >>> print(table([judge(claim)]))
    EX-01   ● holds-on-cases  From n = 4 on 2^n is at least n^2.
            true for all 96 numbers
    """
    entries = [_entry(j) for j in sorted(judgements, key=lambda j: j.claim.id)]
    return "\n".join([*entries, "", count(judgements)] if len(judgements) > 1 else entries)


def count(judgements: Sequence[Judgement]) -> str:
    """Count the statements that stand, and those that do not, by how grave that is.

    Examples
    --------
    >>> from fedstat.claims import Claim, count, judge, sampled
    >>> claim = Claim(
    ...     id="EX-01", place="folklore", said_by="paper", severity="false", sensitivity="an excess of one",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2",
    ... )
    >>> check = claim.reading("n to 99")(lambda: sampled(range(4, 100), lambda n: 2**n >= n**2, of="numbers"))
    >>> print(count([judge(claim)]))
    1 statements: 1 stand.
    """
    corrections = {j.claim.corrected for j in judgements} - {None}
    stated = [j for j in judgements if j.claim.id not in corrections]
    verdicts = Counter(MARKS[j.verdict] for j in stated)
    parts = [f"{verdicts['●']} stand"]
    for mark, words in (("◐", "hold under a condition or in some readings"), ("×", "are refuted")):
        grave = Counter(j.claim.severity for j in stated if MARKS[j.verdict] == mark)
        counted = ", ".join(f"{grave[s]} {s}" for s in SEVERITIES if grave[s])
        if counted:
            parts.append(f"{verdicts[mark]} {words} ({counted})")
    if verdicts["○"]:
        parts.append(f"{verdicts['○']} undecided or not checkable")
    return f"{len(stated)} statements: {'; '.join(parts)}."


def explain(judgement: Judgement, claims: Mapping[str, Claim]) -> str:
    """Return one claim at length: its source, statement, assumptions, mutants and controls, and what is true instead.

    `claims` holds the corrected statement by its id.

    Examples
    --------
    >>> from fedstat.claims import Claim, explain, judge, sampled
    >>> claim = Claim(
    ...     id="EX-01", paper="Powers", place="folklore", said_by="paper", severity="false", sensitivity="any excess",
    ...     words="From n = 4 on 2^n is at least n^2.", statement="2^n >= n^2",
    ... )
    >>> check = claim.reading("n to 99")(lambda: sampled(range(4, 100), lambda n: 2**n >= n**2, of="numbers"))
    >>> print(explain(judge(claim), {}))
    EX-01, Powers, folklore
      statement    2^n ≥ n²
      assumes      none
      if it fails  false
      sees         any excess
    """
    claim = judgement.claim
    by = "" if claim.said_by == "paper" else f", as {claim.said_by} states it"
    lines = [
        f"{claim.id}, {claim.paper}, {claim.place}{by}",
        _field("statement", plain(claim.statement)),
        _field("assumes", claim.assumptions),
        _field("if it fails", claim.severity),
        *(_field("broken", f"{name}: refuted, as it must be: {_told(e)}") for name, e in judgement.mutants.items()),
        *(_field("control", f"{name}: stands, as it must: {_told(e)}") for name, e in judgement.controls.items()),
        _field("sees", claim.sensitivity),
    ]
    if claim.no_mutant:
        lines.append(_field("no mutant", claim.no_mutant))
    if claim.flaw:
        lines.append(_field("to be noted" if judgement.verdict in FAVOURABLE else "goes wrong", claim.flaw))
    if claim.corrected:
        lines.append(_field("corrected", f"{claim.corrected}: {claims[claim.corrected].words}"))
    return "\n".join(lines)


def _entry(judgement: Judgement) -> str:
    claim, several = judgement.claim, len(judgement.evidence) > 1
    mark = f"{MARKS[judgement.verdict]} {judgement.verdict}"
    lines = [fill(claim.words, _WIDTH, initial_indent=f"{claim.id:<7} {mark:<17} ", subsequent_indent=" " * 26)]
    if judgement.condition:
        lines.append(_indented(f"only if read so: {judgement.condition}"))
    for name, e in judgement.evidence.items():
        lines.append(_indented(f"[{e.verdict}] {name}: {_told(e)}" if several else _told(e)))
    return "\n".join(lines)


def _told(e: Evidence) -> str:
    return f"{e.summary}: {e.counterexample}" if e.counterexample else e.summary


def _indented(words: str) -> str:
    return fill(words, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 10)


def _field(name: str, words: str) -> str:
    return fill(words, _WIDTH, initial_indent=f"  {name:<12} ", subsequent_indent=" " * 15)
