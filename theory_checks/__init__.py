"""The papers' claims, one folder or module per paper; ``python -m theory_checks`` prints the ledger."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from fedstat.claims import Claim

LEDGER = Path(__file__).parent / "ledger.json"
#: Small tables that long runs left behind, one folder per study; claims about training are judged on them.
COMMITTED = Path(__file__).parent.parent / "reports" / "results"

_MODULES = (
    "factorized_fl",
    "feddecomp.cost",
    "feddecomp.privacy",
    "feddecomp.rank",
    "feddecomp.tables",
    "feddecomp.training",
    "fedsplit.agreement",
    "fedsplit.convergence",
    "fedsplit.factor_analysis",
    "fedsplit.generalisation",
    "fedsplit.kernels",
    "fedsplit.tables",
    "fedsplit.training",
    "filter_decomposition.aggregation",
    "filter_decomposition.convergence",
    "filter_decomposition.products",
    "filter_decomposition.proof_steps",
    "filter_decomposition.protocol",
    "filter_decomposition.sampling",
    "filter_decomposition.variance",
)


def all_claims(results: Path = COMMITTED) -> tuple[Claim, ...]:
    """Return all claims, by id; those about training read the tables of the studies in `results`."""
    found = [claim for name in _MODULES for claim in import_module(f"theory_checks.{name}").claims(results)]
    return tuple(sorted(found, key=lambda claim: claim.id))
