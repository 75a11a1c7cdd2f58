"""The papers on trial: a page for every claim and a table of all, from the committed ledger. Nothing is judged here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from os.path import relpath
from pathlib import Path
from typing import Any, NamedTuple

from formulas import typeset
from pages import escaped, write_pages
from sphinx.application import Sphinx

from fedstat.claims import Claim, read_claims, read_ledger
from fedstat.claims.citation import source
from fedstat.claims.claim import SEVERITIES
from fedstat.claims.mutation import in_words
from theory_checks import FOLDER, LEDGER

COUNTEREXAMPLES = FOLDER / "counterexamples"
#: Claims of many papers; every other folder is one paper's.
LITERATURE = FOLDER / "classics"
FRONT = Path(__file__).parent / "trial-front.md"
WRITTEN = Path(__file__).parents[1] / "trial"


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / WRITTEN.name, pages()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Trial(NamedTuple):
    """All claims, what became of them, and their formulas."""

    claims: Mapping[str, Claim]
    ledger: Mapping[str, Any]
    formulas: Mapping[str, str]


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    claims = read_claims(FOLDER)
    formulas = typeset([claim.statement for claim in claims.values()])
    trial = Trial(claims, read_ledger(LEDGER), dict(zip(claims, formulas, strict=True)))
    return {f"{name}.md": _page(claim, trial) for name, claim in claims.items()} | {"index.md": _index(trial)}


# --- all claims ------------------------------------------------------------------------------------------------


def _index(trial: Trial) -> str:
    claims, ledger = trial.claims, trial.ledger
    papers = [claim for claim in claims.values() if not _corrects(claim, trial)]
    ours = sorted((claim for claim in claims.values() if _corrects(claim, trial)), key=lambda c: c.id)
    four, others = ([c for c in papers if _literature(c) == apart] for apart in (False, True))
    parts = [
        FRONT.read_text(),
        _counts(four, others, trial),
        "## Statements of the four papers\n\nThe gravest findings come first.\n",
        _claims(sorted(four, key=lambda c: _gravest(c, ledger[c.id])), trial),
        "## Statements of other papers\n\nPaper by paper, the gravest findings first.\n",
        _claims(sorted(others, key=lambda c: (_source(c, trial), *_gravest(c, ledger[c.id]))), trial),
        "## Corrected statements\n\nOurs, in place of those that fail or need a condition, judged in the same way.\n",
        _claims(ours, trial),
    ]
    return "\n".join(parts)


def _claims(shown: Iterable[Claim], trial: Trial) -> str:
    rows = [
        [
            f"[{claim.id}]({claim.id}.md)",
            _prose(claim.words),
            escaped(_source(claim, trial)),
            trial.ledger[claim.id]["verdict"],
            _gravity(claim, trial.ledger[claim.id]) or "–",
        ]
        for claim in shown
    ]
    return _table(["Claim", "In words", "Paper", "Verdict", "If it fails"], rows, "trial", "10 46 16 15 13")


#: Verdicts as the index counts them, from the gravest for a statement on.
_GRAVEST = {
    "refuted": "refuted",
    "needs-a-condition": "true on a condition",
    "ambiguous": "true in a reading",
    "holds-in-a-reading": "true in a reading",
    "undecided": "open",
    "not-checkable": "open",
    "supported": "stands",
    "holds-on-cases": "stands",
    "holds": "stands",
}


def _counts(four: Iterable[Claim], others: Iterable[Claim], trial: Trial) -> str:
    """Count verdicts by paper, and of all other papers together."""
    kinds = list(dict.fromkeys(_GRAVEST.values()))
    names = {c.id: f"[{escaped(c.paper)}]({c.link})" for c in four} | {
        c.id: "Other papers, and folklore" for c in others
    }
    found = Counter((paper, _GRAVEST[trial.ledger[name]["verdict"]]) for name, paper in names.items())
    rows = []
    for paper in dict.fromkeys(names.values()):
        counted = [found[paper, kind] for kind in kinds]
        rows.append([paper, *(str(number or "–") for number in (sum(counted), *counted))])
    return _table(["Paper", "statements", *kinds], rows, "counts", "28 14 12 12 12 12 10")


def _gravest(claim: Claim, judged: Mapping[str, Any]) -> tuple[bool, int, int, str]:
    """Sort by gravity, the papers' own statements first."""
    verdict = list(_GRAVEST).index(judged["verdict"])
    return claim.said_by != "paper", verdict, SEVERITIES[::-1].index(claim.severity), claim.id


def _gravity(claim: Claim, judged: Mapping[str, Any]) -> str:
    """Return how grave a failure is, where there is one to speak of."""
    return claim.severity if judged["verdict"] in ("refuted", "needs-a-condition", "holds-in-a-reading") else ""


# --- where a claim comes from ----------------------------------------------------------------------------------


def _literature(claim: Claim) -> bool:
    return claim.file is not None and LITERATURE in claim.file.parents


def _corrects(claim: Claim, trial: Trial) -> Claim | None:
    """Return the claim in whose place this one stands, if it does."""
    return next((other for other in trial.claims.values() if other.corrected == claim.id), None)


_NAME = r"[^\W\d_][\w'’-]*(?: y)?(?: [A-Z][\w'’-]*)?"
_CITED = re.compile(
    r"(?:remark on |our wording of (?:what two sources suggest together: )?)?"
    rf"({_NAME})(?:(?:, ({_NAME}))?(?:, {_NAME})* and ({_NAME})(?=, | \())?.*?\([^()]*?\b((?:19|20)\d\d)\b[^()]*\)"
)


def _source(claim: Claim, trial: Trial) -> str:
    """Return the paper in short: of claims of many papers authors and year, as their places begin."""
    stated = _corrects(claim, trial) or claim
    if not _literature(stated):
        return stated.paper
    if stated.place.startswith("folklore"):
        return "folklore"
    if not (cited := _CITED.match(stated.place)):
        return stated.paper
    more = f", {cited[2]} et al." if cited[2] else f" and {cited[3]}" if cited[3] else ""
    return f"{cited[1]}{more} {cited[4]}"


_SAID = r"(?<!after )(?<!before )(?<!with )(?<!between )(?<!refers to )"
_NAMED = re.compile(
    _SAID + r"\b((?:Theorem|Proposition|Lemma|Corollary|Remark|Definition|Assumption|Algorithm)\s[A-Z]?[.\d]*\d"
    r"|equation \(\d+\))"
)
_PART = re.compile(r"\b((?:section|appendix) [A-Z]?[.\d]*[A-Z\d]|Table \d+|abstract|the authors' public code)")


def _title(claim: Claim, trial: Trial) -> str:
    """Return paper and place in short, and what the docstring of the claim's file says of it in a line."""
    stated = _corrects(claim, trial) or claim
    source = _source(claim, trial)
    place = None if source == "folklore" else _NAMED.search(stated.place) or _PART.search(stated.place)
    where = (f", {place[1]}" if place else "") + ("" if stated is claim else ", corrected")
    said = re.search(rf'^(?:""")?{claim.id}: (.+)\.', claim.file.read_text(), re.MULTILINE)
    if not said:
        raise ValueError(f"{claim.file}: its docstring must have a line '{claim.id}: what is claimed or wrong.'")
    return f"{source[0].upper()}{source[1:]}{where}: {said[1]}"


# --- one claim -------------------------------------------------------------------------------------------------


def _page(claim: Claim, trial: Trial) -> str:
    judged, corrects = trial.ledger[claim.id], _corrects(claim, trial)
    parts = [
        "---\norphan: true\n---\n",
        f"({claim.id.lower()})=\n# {_prose(_title(claim, trial))}\n",
        f"[The papers on trial](index.md), {claim.id}\n",
        f"> {_prose(claim.words)}\n>\n> {_place(claim, trial)}\n",
        _formula(claim, trial),
        _outcome(claim, judged),
    ]
    if claim.flaw:
        parts.append(f"## What goes wrong\n\n{_linked(claim.flaw, trial)}\n")
    for heading, other in (
        ("What is true instead", trial.claims.get(claim.corrected or "")),
        ("What it stands in place of", corrects),
    ):
        if other:
            said = f"[{other.id}]({other.id}.md): {_prose(other.words)}"
            parts.append(f"## {heading}\n\n{said}\n\n{_formula(other, trial)}")
    parts += [
        "## How it was judged\n",
        _folded("What is assumed, and what the check sees", _conduct(claim, judged, trial)),
        _folded(_how_read(claim, judged), _readings(claim, judged, "readings")),
        _folded(
            "On conditions that are not stated", _readings(claim, judged, "conditions") if claim.conditions else ""
        ),
        _folded("Whether the check can fail, and pass", _failing(judged)),
        "## Judge it again, and cite it\n",
        _again(claim),
    ]
    return "\n".join(part for part in parts if part)


def _place(claim: Claim, trial: Trial) -> str:
    """Return where it is said, with a link to the paper; places in papers of the literature begin with the paper."""
    place = _linked(claim.place, trial)
    if not _literature(claim):
        place = f"{_to_paper(claim, claim.paper)}, {place}"
    elif claim.link and (number := re.search(r"(?:arXiv:|doi:)[^\s,;)]+", claim.place)):
        place = place.replace(escaped(number[0]), _to_paper(claim, number[0]))
    elif claim.link:
        place += f" ({_to_paper(claim, claim.link.partition('://')[2])})"
    return place if claim.said_by in ("paper", "folklore") else f"{place}, as {escaped(claim.said_by)} states it"


def _to_paper(claim: Claim, words: str) -> str:
    return f"[{escaped(words)}]({claim.link})" if claim.link else escaped(words)


def _formula(claim: Claim, trial: Trial) -> str:
    return f"```{{raw}} html\n{trial.formulas[claim.id]}\n```\n"


#: Colours of verdicts as the theme names them; the words say it without.
_COLOURS = {"refuted": "danger", "stands": "tip", "open": "note"}


def _outcome(claim: Claim, judged: Mapping[str, Any]) -> str:
    """Return the verdict, what saves the statement, and the first counterexample or else what was found, in a line."""
    gravity, saved = _gravity(claim, judged), judged["saved_by"]
    name, case = next(iter(judged["counterexamples"].items()), ("", ""))
    how = "True if read so" if judged["verdict"] == "holds-in-a-reading" else "True on a condition that is not stated"
    lines = [f"{how}: {_prose(saved)}."] if saved else []
    if judged["verdict"] == "ambiguous":
        lines.append("Some natural readings stand and others do not; none is nearest the letter.")
    if case:
        among = f" ({_prose(name)})" if len(judged["evidence"]) > 1 else ""
        lines.append(f"Counterexample{among}: {_prose(case)}.")
    else:
        name, found = next(iter(judged["evidence"].items()))
        told = f"{name}: {found}" if len(judged["evidence"]) > 1 else found
        lines.append(f"{_prose(told[:1].upper() + told[1:])}.")
    title = judged["verdict"] + {"misprint": ", a misprint", "false": ", a false statement"}.get(gravity, "")
    colour = _COLOURS.get(_GRAVEST[judged["verdict"]], "warning")
    return f":::{{admonition}} Verdict: {title}\n:class: {colour}\n\n" + "\n\n".join(lines) + "\n:::\n"


def _conduct(claim: Claim, judged: Mapping[str, Any], trial: Trial) -> str:
    facts = [
        ["Assumptions", _linked(claim.assumptions, trial)],
        ["The check sees", _prose(claim.sensitivity)],
        ["Cases", f"{judged['cases']:,}" if judged["cases"] else "–"],
    ]
    return _table(["", ""], facts, "facts", "22 78", header=False)


def _how_read(claim: Claim, judged: Mapping[str, Any]) -> str:
    """Return what the readings are headed by; which of them is nearest the letter is said where that decides."""
    nearest = ": the first is nearest the letter" if judged["verdict"] == "holds-in-a-reading" else ""
    return f"How it may be read{nearest}" if len(claim.readings) > 1 else "How it is read"


def _readings(claim: Claim, judged: Mapping[str, Any], kind: str) -> str:
    beside = {reading.name for reading in claim.readings if not reading.natural}
    rows = []
    for name, verdict in judged[kind].items():
        found = _prose(judged["evidence"][name])
        if name in judged["counterexamples"]:
            found += f"<br>Counterexample: {_prose(judged['counterexamples'][name])}"
        rows.append([_prose(name) + (" (beside the verdict)" if name in beside else ""), verdict, found])
    head = ["Reading" if kind == "readings" else "Condition", "Verdict", "Evidence"]
    return _table(head, rows, "readings", "34 14 52") if rows else ""


def _failing(judged: Mapping[str, Any]) -> str:
    made = {name: in_words(mutants) for name, mutants in judged["made"].items()}
    parts = {
        "Mutants made from the check's two sides": made,
        "Broken on purpose, and refuted as it must be": judged["mutants"],
        "A case in which the same check passes": judged["controls"],
    }
    lists = {what: "".join(f"- {_prose(k)}: {_prose(v)}\n" for k, v in found.items()) for what, found in parts.items()}
    return "\n".join(f"{what}:\n\n{items}" for what, items in lists.items() if items)


def _again(claim: Claim) -> str:
    """Return the commands, the file with its digest, and the revision."""
    if claim.file is None:
        return ""
    origin = source(claim)
    file = f"{{download}}`{claim.file.name} <{relpath(claim.file, WRITTEN)}>`"
    revision = f", revision {origin['revision'].removesuffix('-dirty')}" if origin["revision"] else ""
    commands = [f"python -m theory_checks {claim.id}"]
    if not claim.id.endswith("c") and (COUNTEREXAMPLES / claim.file.name).exists():
        commands += [f"python -I theory_checks/counterexamples/{claim.file.name}  # in fractions, without fedstat"]
    commands += [f"python -m theory_checks {claim.id} --latex  # a remark for your paper"]
    shown = "\n".join(commands)
    return (
        f"Judged as {claim.id} by fedstat {origin['fedstat']}{revision}, from {file}\n"
        f"(SHA-256 `{origin['digest']}`). From a clone:\n\n```bash\n{shown}\n```\n"
    )


# --- Markdown --------------------------------------------------------------------------------------------------


def _prose(text: str, *, strip: bool = True) -> str:
    """Return plain text as Markdown, with indices and powers as such."""
    lowered = re.sub(r"\\_([^\W_]+)", r"<sub>\1</sub>", escaped(text, strip=strip))
    return re.sub(r"\\\^(\\\*|[^\W_]+|\\\([^()\\]*\\\))", r"<sup>\1</sup>", lowered)


def _linked(text: str, trial: Trial) -> str:
    """Return plain text as Markdown, with the claims that it names linked."""
    parts = re.split(r"\b([A-Z]{2}-\d\dc?)\b", text)
    return "".join(f"[{part}]({part}.md)" if part in trial.claims else _prose(part, strip=False) for part in parts)


def _folded(title: str, inside: str) -> str:
    return f"::::{{dropdown}} {title}\n{inside}\n::::\n" if inside else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], name: str, widths: str, *, header: bool = True) -> str:
    lines = ["```{list-table}", f":class: {name}", f":widths: {widths}", f":header-rows: {int(header)}", ""]
    for row in [head, *rows] if header else rows:
        lines += [f"{'* -' if first else '  -'} {cell}" for first, cell in zip([True, *[False] * 9], row, strict=False)]
    return "\n".join([*lines, "```\n"])
