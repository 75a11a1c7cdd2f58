"""The papers on trial: a page for every claim and a table of all, from the committed ledger. Nothing is judged here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pages import escaped, write_pages
from sphinx.application import Sphinx

from fedstat.claims import Claim, plain, read_claims, read_ledger
from fedstat.claims.claim import SEVERITIES
from fedstat.claims.mutation import in_words
from theory_checks import FOLDER, LEDGER

COUNTEREXAMPLES = FOLDER / "counterexamples"
FRONT = Path(__file__).parent / "trial-front.md"
SAID = {"paper": "the paper", "fedstat": "fedstat, in place of what the paper says"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "trial", pages()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    claims, ledger = read_claims(FOLDER), read_ledger(LEDGER)
    corrects = {claim.corrected: name for name, claim in claims.items() if claim.corrected}
    found = {f"{name}.md": _page(claim, ledger[name], claims, corrects.get(name)) for name, claim in claims.items()}
    return found | {"index.md": _index(claims, ledger)}


def _index(claims: Mapping[str, Claim], ledger: Mapping[str, Any]) -> str:
    rows = [
        [
            f"[{name}]({name}.md)",
            escaped(claim.words),
            escaped(claim.paper),
            ledger[name]["verdict"],
            _gravity(claim, ledger[name]),
        ]
        for name, claim in sorted(claims.items(), key=lambda item: _order(item[1], ledger[item[0]]))
    ]
    head = ["Claim", "In words", "Paper", "Verdict", "If it fails"]
    return FRONT.read_text() + _table(head, rows, "trial", "10 48 16 13 13")


#: Verdicts from the gravest for a statement on.
_GRAVEST = (
    "refuted", "needs-a-condition", "ambiguous", "holds-in-a-reading", "undecided", "not-checkable", "supported",
    "holds-on-cases", "holds",
)  # fmt: skip


def _order(claim: Claim, judged: Mapping[str, Any]) -> tuple[bool, bool, int, int, str]:
    """Sort by gravity: the papers' own statements first, then others, and corrected statements last."""
    gravest = SEVERITIES[::-1].index(claim.severity)
    return (claim.id.endswith("c"), claim.said_by != "paper", _GRAVEST.index(judged["verdict"]), gravest, claim.id)


def _gravity(claim: Claim, judged: Mapping[str, Any]) -> str:
    """Return how grave a failure is, where there is one to speak of."""
    return claim.severity if judged["verdict"] in ("refuted", "needs-a-condition", "holds-in-a-reading") else "–"


def _page(claim: Claim, judged: Mapping[str, Any], claims: Mapping[str, Claim], corrects: str | None) -> str:
    said = SAID.get(claim.said_by, f"{claim.said_by}, who made a statement of a remark")
    facts = [
        ["Verdict", f"**{judged['verdict']}**" + _where(judged["saved_by"])],
        ["Paper", escaped(claim.paper)],
        ["Place", _linked(claim.place, claims)],
        ["Said by", escaped(said)],
        ["If it fails", f"{claim.severity}"],
        ["Assumptions", _linked(claim.assumptions, claims)],
        ["The check sees", escaped(claim.sensitivity)],
        ["Cases", f"{judged['cases']:,}" if judged["cases"] else "–"],
    ]
    parts = [
        "---\norphan: true\n---\n",
        f"({claim.id.lower()})=\n# {claim.id}, {_says(claim)}: {judged['verdict']}\n",
        "[The papers on trial](index.md)\n",
        f"> {escaped(claim.words)}\n",
        f"```text\n{plain(claim.statement)}\n```\n",
        _table(["", ""], facts, "facts", "22 78", header=False),
        _heading(claim),
        _readings(judged, "readings"),
        "## On a condition that is not stated\n" if claim.conditions else "",
        _readings(judged, "conditions") if claim.conditions else "",
    ]
    if claim.flaw:
        parts.append(f"## What goes wrong\n\n{_linked(claim.flaw, claims)}\n")
    if claim.corrected:
        other = claims[claim.corrected]
        parts.append(
            f"## What is true in its place\n\n[{other.id}]({other.id}.md): {escaped(other.words)}\n\n"
            f"```text\n{plain(other.statement)}\n```\n"
        )
    if corrects:
        parts.append(
            f"## What it stands in place of\n\n[{corrects}]({corrects}.md): {escaped(claims[corrects].words)}\n"
        )
    parts += [
        "## Whether the check can fail, and pass\n",
        _checks(
            "Mutants made from the check's two sides", {name: in_words(made) for name, made in judged["made"].items()}
        ),
        _checks("Broken on purpose, and refuted as it must be", judged["mutants"]),
        _checks("A case in which the same check passes", judged["controls"]),
        "## Judge it again\n\nFrom a clone:\n",
        f"```bash\npython -m theory_checks {claim.id}\n```\n",
        _alone(claim),
        "## Cite it\n\nA remark for LaTeX, with the counterexample, the version and the digest of the claim's file:\n",
        f"```bash\npython -m theory_checks {claim.id} --latex\n```\n",
    ]
    return "\n".join(part for part in parts if part)


def _linked(text: str, claims: Mapping[str, Claim]) -> str:
    """Return plain text as Markdown, with the claims that it names linked."""
    parts = re.split(r"\b([A-Z]{2}-\d\dc?)\b", text)
    return "".join(f"[{part}]({part}.md)" if part in claims else escaped(part, strip=False) for part in parts)


def _where(condition: str | None) -> str:
    return f": {escaped(condition)}" if condition else ""


def _says(claim: Claim) -> str:
    """Return what a claim is about, as the name of its file has it."""
    return claim.file.stem.partition("_")[2].replace("_", " ") if claim.file else claim.id


def _alone(claim: Claim) -> str:
    """Return how to verify the counterexample without fedstat, where a file does."""
    if claim.file is None or claim.id.endswith("c") or not (COUNTEREXAMPLES / claim.file.name).exists():
        return ""
    command = f"python -I theory_checks/counterexamples/{claim.file.name}"
    return f"The counterexample alone, by fractions and without fedstat:\n\n```bash\n{command}\n```\n"


def _heading(claim: Claim) -> str:
    if len(claim.readings) == 1:
        return "## Reading\n"
    return "## Readings\n" + ("\nThe first is nearest the letter.\n" if claim.nearest else "")


def _readings(judged: Mapping[str, Any], kind: str) -> str:
    rows = []
    for name, verdict in judged[kind].items():
        found = escaped(judged["evidence"][name])
        if name in judged["counterexamples"]:
            found += f"<br>Counterexample: {escaped(judged['counterexamples'][name])}"
        rows.append([escaped(name), verdict, found])
    head = ["Reading" if kind == "readings" else "Condition", "Verdict", "Evidence"]
    return _table(head, rows, "readings", "34 14 52")


def _checks(what: str, found: Mapping[str, str]) -> str:
    if not found:
        return ""
    rows = "".join(f"- {escaped(name)}: {escaped(summary)}\n" for name, summary in found.items())
    return f"{what}:\n\n{rows}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], name: str, widths: str, *, header: bool = True) -> str:
    lines = ["```{list-table}", f":class: {name}", f":widths: {widths}", f":header-rows: {int(header)}", ""]
    for row in [head, *rows] if header else rows:
        lines += [f"{'* -' if first else '  -'} {cell}" for first, cell in zip([True, *[False] * 9], row, strict=False)]
    return "\n".join([*lines, "```\n"])
