"""What the report says of the claims: the committed ledger, and beside it the verdicts on a fresh run's tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedstat.claims import Claim, ClaimError, Studies, judge, read_claims, read_ledger
from fedstat.claims.mutation import in_words
from theory_checks import FOLDER, LEDGER


def entries(fresh: Path | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the claims with their committed verdicts and evidence, each with the statement that is true in its place.

    Beside them stand, a line each, the claims that could not be judged on the fresh tables, and why.

    Parameters
    ----------
    fresh : Path, optional
        Folder with a fresh run's tables: claims about training are judged on these as well.
    """
    claims, ledger = read_claims(FOLDER), read_ledger(LEDGER)
    again, failed = _judged_again(claims, fresh) if fresh else ({}, [])
    found = {name: _entry(claims[name], ledger[name]) | {"fresh": again.get(name)} for name in claims}
    for entry in found.values():
        entry["correction"] = found.get(entry["corrected"])
    corrections = {entry["corrected"] for entry in found.values()}
    return [entry for name, entry in found.items() if name not in corrections], failed


def _judged_again(claims: Mapping[str, Claim], folder: Path) -> tuple[dict[str, str], list[str]]:
    """Judge the claims about training; those are left out whose study has no tables there."""
    found, failed = dict[str, str](), []
    for name in [name for name, claim in claims.items() if claim.trained]:
        try:
            found[name] = judge(claims[name], Studies(folder), with_mutant=False).verdict
        except ClaimError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                failed.append(f"{error} (python -m theory_checks {name} --results {folder})")
    return found, failed


def _entry(claim: Claim, judged: Mapping[str, Any]) -> dict[str, Any]:
    verdicts = judged["readings"] | judged["conditions"]
    return {
        "id": claim.id,
        "paper": claim.paper,
        "place": claim.place,
        "said_by": claim.said_by,
        "severity": claim.severity,
        "statement": claim.statement,
        "words": claim.words,
        "assumptions": claim.assumptions,
        "flaw": claim.flaw,
        "sensitivity": claim.sensitivity,
        "corrected": claim.corrected,
        "verdict": judged["verdict"],
        "saved_by": judged["saved_by"],
        "readings": [
            {
                "name": name,
                "verdict": verdicts[name],
                "summary": summary,
                "counterexample": judged["counterexamples"].get(name),
            }
            for name, summary in judged["evidence"].items()
        ],
        "made": [{"name": name, "summary": in_words(made)} for name, made in judged["made"].items()],
        "mutants": [{"name": name, "summary": summary} for name, summary in judged["mutants"].items()],
        "controls": [{"name": name, "summary": summary} for name, summary in judged["controls"].items()],
    }
