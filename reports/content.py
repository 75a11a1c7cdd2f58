"""Collect what the Typst templates print: numbers from the studies, verdicts from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from fedstat._environment import environment
from fedstat._workers import run_jobs
from fedstat.methods import available
from reports.anew import Fresh, words_of
from reports.choices import RANKING
from reports.chooser import chooser
from reports.claims import entries
from reports.sizes import sizes
from simulations import catalogue
from simulations.captions import alone, plain
from simulations.contract import Finding, second_look
from simulations.effects import Effects
from simulations.names import readable
from simulations.studies import WORDS, chapter, draw, effects, record, tell
from theory_checks import COMMITTED
from theory_checks.classics import PAPER as LITERATURE

HERE = Path(__file__).parent
PARTS = (HERE / "front.typ", HERE / "ledger.typ", *sorted((HERE / "paper").iterdir()))
LEFT_OUT = Fresh("left out")
#: The largest share of false discoveries among the differences that the findings lead with.
RATE = 0.05
#: A study's record, its files by the names under which the template finds them, and its effects.
Told = tuple[dict[str, Any], dict[str, Path], pd.DataFrame]


@dataclass(frozen=True)
class Content:
    """All that a report prints.

    Attributes
    ----------
    data : dict
        Plain values for the template.
    files : dict of str to Path
        What the template imports and shows, by the names under which it does.
    failed : list of str
        What could not be made, why, and the command that shows it, a line each.
    effects : DataFrame
        Every difference that the chapters report, a row each, and which of them survive the control of false
        discoveries over all.
    """

    data: dict[str, Any]
    files: dict[str, Path]
    failed: list[str]
    effects: pd.DataFrame


def content(
    scale: str, folder: Path | None, shown: Path, studies: Sequence[str], claims: bool, fresh: Mapping[str, Fresh]
) -> Content:
    """Return all that the template prints.

    A chapter that cannot be made is left out, and a second look that fails is told; neither costs the report.

    Parameters
    ----------
    scale : str
        Scale of the fresh runs, or "committed" if there are none.
    folder : Path or None
        Folder with the tables of the fresh runs.
    shown : Path
        Folder that pictures are drawn into.
    studies : sequence of str
        Studies with a chapter, in order.
    claims : bool
        Whether the claims are shown.
    fresh : mapping of str to Fresh
        What became of the fresh runs, as `reports.anew.run_anew` says.
    """
    judged, failed = entries(folder) if claims else ([], [])
    counted = Counter(claim["paper"] for claim in judged)
    papers = sorted(counted, key=lambda paper: (paper == LITERATURE, -counted[paper], paper))
    data: dict[str, Any] = {"scale": scale, "environment": environment(), "papers": papers, "claims": judged}
    data["literature"] = LITERATURE
    files = {"words.typ": WORDS, **{str(part.relative_to(HERE)): part for part in PARTS}}
    data["catalogue"] = [
        {"paper": entry.paper, "study": entry.study, **asdict(entry.shown)} for entry in catalogue.entries()
    ]
    data["studies"], data["proofs"] = [], []
    differences = dict[str, pd.DataFrame]()
    told = [partial(_told, name, folder, shown / name, fresh.get(name, LEFT_OUT)) for name in studies]
    for name, made in zip(studies, run_jobs("chapters", told, few=3), strict=True):
        if isinstance(made, str):
            failed.append(f"the chapter of {name} is left out: {made}")
            continue
        one, own, differences[name] = made
        if one["fresh"]["state"] == "failed":
            failed.append(f"{name}: {one['fresh']['why']} ({one['fresh']['command']})")
        data["proofs"] += [proof(one, printed) for printed in one.pop("proof", [])]
        data["studies"].append(one)
        files |= own
    data["chooser"] = chooser(available())
    told = discoveries(differences)
    data["discoveries"] = counts(told)
    lasting = {study["name"] for study in data["discoveries"]["studies"] if study["survive"]}
    # what rests on a difference that survives goes first; claims have no place in this count and keep theirs
    data["ranking"] = sorted(RANKING, key=lambda name: name in differences and name not in lasting)
    return Content(data, files, failed, told)


def discoveries(differences: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Join the effects of all studies, and mark those that survive Benjamini and Hochberg's rule over all of them.

    Parameters
    ----------
    differences : mapping of str to DataFrame
        The table of effects by study.

    Returns
    -------
    DataFrame
        Their rows with the columns ``study`` and ``survives``; an effect without a p-value does not survive.
    """
    from statsmodels.stats.multitest import multipletests

    held = [table.assign(study=name) for name, table in differences.items() if len(table)]
    if not held:
        return pd.DataFrame(columns=["study", "question", "p", "survives"])
    found = pd.concat(held, ignore_index=True)
    known = found["p"].notna()
    found["survives"] = False
    if known.any():
        found.loc[known, "survives"] = multipletests(found.loc[known, "p"], RATE, method="fdr_bh")[0]
    return found[["study", *(name for name in found if name != "study")]]


def counts(effects: pd.DataFrame) -> dict[str, Any]:
    """Return the number of questions, of differences and of those that survive, in all and by study."""

    def count(rows: pd.DataFrame) -> dict[str, int]:
        questions = len(rows[["study", "question"]].drop_duplicates())
        return {"questions": questions, "of": len(rows), "survive": int(rows["survives"].sum())}

    studies = [{"name": str(name), **count(rows)} for name, rows in effects.groupby("study", sort=False)]
    return {**count(effects), "rate": f"{100 * RATE:g}", "studies": studies}


def worth_reading(made: Content, number: int = 3) -> list[str]:
    """Return what the first studies of the ranking found, in plain text."""
    by_name = {one["name"]: one for one in made.data["studies"]}
    found = []
    for one in [by_name[name] for name in made.data["ranking"] if name in by_name][:number]:
        pictures = {path[1:]: made.files[path[1:]] for path in one["figures"].values()}
        (message,) = alone(one, pictures, "<message>")
        found.append(f"{one['about']['title']}. {' '.join(plain(message).split())}")
    return found


def _told(name: str, folder: Path | None, shown: Path, fresh: Fresh) -> Told | str:
    """Do as `_study`, or return in words why that failed."""
    try:
        return _study(name, folder, shown, fresh)
    except Exception as error:
        return words_of(error)


def _study(name: str, folder: Path | None, shown: Path, fresh: Fresh) -> Told:
    """Return a study's record, its chapter and figures, and its effects; the chapter is typeset alone, to see it can.

    Committed tables make the chapter where there are any, and the fresh run stands beside as a second look.

    Raises
    ------
    FileNotFoundError
        If there are neither.
    ValueError
        If a study's numbers have names of the report's own.
    """
    committed, again = COMMITTED / name, folder / name if folder and (folder / name).is_dir() else None
    source = committed if committed.is_dir() else again
    if source is None:
        raise FileNotFoundError(f"{committed} does not exist: the study {name} has to be run, at any scale.")
    tables, numbers, findings = tell(name, source)
    pictures = {f"{name}-{path.name}": path for path in draw(name, tables, shown).values()}
    second: list[dict[str, str]] = []
    if again and source == committed:
        try:
            second = _second(findings, tell(name, again)[2])
        except Exception as error:
            fresh = replace(fresh, state="failed", why=words_of(error))
    found = record(name, numbers, findings, pictures)
    alone(found, pictures, "<message>")
    every = effects(name, tables)
    more = {"committed": source == committed, "second": second, "fresh": asdict(fresh)}
    more |= {"sizes": sizes(name, numbers["config"]), "trained": trained(every), "has_effects": len(every) > 0}
    if taken := sorted(more.keys() & found.keys()):
        raise ValueError(f"the numbers of {name} hold {', '.join(taken)}: these names are the report's own.")
    return (found | more, {f"{name}.typ": chapter(name), **pictures}, every.table())


def trained(found: Effects) -> dict[str, Any] | None:
    """Return which arms of a study are not trained enough to be judged; None where a study does not ask.

    Returns
    -------
    dict
        ``of`` and ``left``, how many differences there are and how many are not judged, and ``settings``, a record for
        each that has such arms: its name and ``arms``, each with the reason.
    """
    if found.untrained is None:
        return None
    asked = {setting for _, setting, *_ in found}
    settings = [
        {"setting": setting, "arms": [{"arm": readable(arm), "why": why} for arm, why in arms.items()]}
        for setting, arms in found.untrained.items()
        if arms and setting in asked
    ]
    return {"of": len(found), "left": sum(e.unjudged is not None for e in found.values()), "settings": settings}


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
    """Add up the two answers of one or several comparisons with printed values; None if there is none."""
    if not beside:
        return None
    controls = sorted({record["control"] for record in beside})
    return {
        **{name: {key: sum(r[name][key] for r in beside) for key in beside[0][name]} for name in ("order", "sign")},
        "control": " or ".join(controls),
    }


def _second(committed: Mapping[str, Finding], fresh: Mapping[str, Finding]) -> list[dict[str, str]]:
    """Tabulate the findings of a fresh run beside the committed ones."""
    return [
        {
            "what": first.what + (f" ({first.unit})" if first.unit else ""),
            "border": f"{first.border:g}",
            "committed": first.text,
            "fresh": second.text,
            "outcome": outcome,
        }
        for first, second, outcome in second_look(committed, fresh)
    ]
