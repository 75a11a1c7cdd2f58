"""The papers' claims: a folder for each paper, a file for each claim; ``python -m theory_checks`` prints the ledger."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
LEDGER = FOLDER / "ledger.json"
#: What the ledger says, as the front page shows it.
PICTURE = FOLDER.parent / "docs" / "overview.svg"
#: Small tables that long runs left behind, one folder per study; claims about training are judged on them.
COMMITTED = FOLDER.parent / "reports" / "results"
