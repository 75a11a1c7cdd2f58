"""The papers' claims, one module per paper; ``python -m theory_checks`` prints the ledger."""

from __future__ import annotations

from pathlib import Path

from fedstat.claims import Claim

LEDGER = Path(__file__).parent / "ledger.json"
#: Small tables that long runs left behind; claims about trained networks are judged on them.
COMMITTED = Path(__file__).parent.parent / "reports" / "results" / "split"


def all_claims(tables: Path = COMMITTED) -> tuple[Claim, ...]:
    """Return all claims; those about trained networks read the tables of the split study in `tables`."""
    from theory_checks import fedsplit, fedsplit_training, filter_decomposition

    return (*fedsplit.CLAIMS, *fedsplit_training.claims(tables), *filter_decomposition.CLAIMS)
