"""Collect what the Typst templates print: numbers from the studies, verdicts from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fedstat._environment import environment
from fedstat._workers import run_jobs
from fedstat.methods import available
from reports.chooser import chooser
from reports.claims import entries
from simulations import catalogue
from simulations.contract import Finding, second_look
from simulations.studies import chapter, draw, study, tell
from theory_checks import COMMITTED

PARTS = tuple(Path(__file__).parent / name for name in ("front.typ", "ledger.typ"))


def content(
    scale: str, fresh: Path | None, shown: Path, studies: Sequence[str], claims: bool
) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return all that the template prints, as plain values, and the files that it imports and shows.

    Parameters
    ----------
    scale : str
        Scale of the fresh runs, or "committed" if there are none.
    fresh : Path or None
        Folder with the tables of the fresh runs.
    shown : Path
        Folder that pictures are drawn into.
    studies : sequence of str
        Studies with a chapter, in order.
    claims : bool
        Whether the claims are shown.
    """
    judged = entries(fresh) if claims else []
    counted = Counter(claim["paper"] for claim in judged)
    papers = sorted(counted, key=lambda paper: (-counted[paper], paper))
    data: dict[str, Any] = {"scale": scale, "environment": environment(), "papers": papers, "claims": judged}
    files = {part.name: part for part in PARTS}
    data["catalogue"] = [
        {"paper": entry.paper, "study": entry.study, **asdict(entry.shown)} for entry in catalogue.entries()
    ]
    data["studies"], data["proofs"] = [], []
    told = [partial(_study, name, fresh, shown / name) for name in studies]
    for record, own in run_jobs("chapters", told, few=3):
        data["proofs"] += [proof(record, one) for one in record.pop("proof", [])]
        data["studies"].append(record)
        files |= own
    data["chooser"] = chooser(available())
    return data, files


def _study(name: str, fresh: Path | None, shown: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return a study's record, and its chapter and figures.

    Committed tables make the chapter where there are any, and the fresh run stands beside as a second look.

    Raises
    ------
    FileNotFoundError
        If there are neither.
    """
    committed, again = COMMITTED / name, fresh / name if fresh and (fresh / name).is_dir() else None
    source = committed if committed.is_dir() else again
    if source is None:
        raise FileNotFoundError(f"{committed} does not exist: the study {name} has to be run, at any scale.")
    about = study(name).ABOUT
    tables, numbers, findings = tell(name, source)
    pictures = draw(name, tables, shown)
    figures = {stem: f"{name}-{path.name}" for stem, path in pictures.items()}
    record = {
        **numbers,
        "name": name,
        "about": {"title": about.title, "paper": about.paper, "place": about.where},
        "committed": source == committed,
        "figures": {stem: f"/{target}" for stem, target in figures.items()},
        "findings": {key: finding.record() for key, finding in findings.items()},
        "second": _second(name, findings, again) if again and source == committed else [],
        "not_again": fresh is not None and again is None,  # for want of data
    }
    return record, {f"{name}.typ": chapter(name), **{figures[stem]: path for stem, path in pictures.items()}}


def proof(study: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a paper's proving experiment as the first pages print it.

    Parameters
    ----------
    study : mapping
        The study's record, whose findings it rests on.
    one : mapping
        What the study says of it: ``what``, the setting; the keys of `XX, one or several
        records of `simulations.beside.beside_printed`, or None; ``printed``, the paper's numbers; and, if it likes,
        ``names``, short words for findings by key.
    """
    names = one.get("names", {})
    own = [dict(study["findings"][key]) for key in one["findings"]]
    for key, finding in zip(one["findings"], own, strict=True):
        finding["what"] = names.get(key, finding["what"])
        finding["text"] = finding["text"].removesuffix("points").rstrip()  # which the first pages say once
    beside = one["beside"] or []
    return {
        "paper": study["about"]["paper"],
        "study": study["name"],
        "title": study["about"]["title"],
        "what": one["what"],
        "printed": one["printed"],
        "findings": own,
        "answers": answers([beside] if isinstance(beside, Mapping) else beside),
    }


def answers(beside: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Add up the three answers of one or several comparisons with printed values; None if there is none."""
    if not beside:
        return None
    controls = sorted({record["control"] for record in beside})
    return {
        "value": {key: sum(record[name] for record in beside) for key, name in (("same", "value"), ("of", "of"))},
        **{name: {key: sum(r[name][key] for r in beside) for key in beside[0][name]} for name in ("order", "sign")},
        "control": " or ".join(controls),
    }


def _second(name: str, committed: dict[str, Finding], fresh: Path) -> list[dict[str, str]]:
    """Tabulate the findings of a fresh run beside the committed ones."""
    return [
        {
            "what": first.what + (f" ({first.unit})" if first.unit else ""),
            "border": f"{first.border:g}",
            "committed": first.text,
            "fresh": second.text,
            "outcome": outcome,
        }
        for first, second, outcome in second_look(committed, tell(name, fresh)[2])
    ]
