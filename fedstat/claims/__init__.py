"""The machinery of judgement: a claim is declared once, and its verdict is computed.

A check returns `Evidence`; the constructors `enumeration`, `search`, `probability`, `within`, `all_of` and
`only_if` are the ways to get there. `judge` applies a claim's checks and its mutant, `Ledger` keeps verdicts.
"""

from fedstat.claims.claim import Claim, Judgement, Reading, judge
from fedstat.claims.evidence import (
    Evidence,
    Verdict,
    all_of,
    enumeration,
    only_if,
    probability,
    search,
    within,
)
from fedstat.claims.ledger import as_object, read_ledger, table, write_ledger

__all__ = [
    "Claim",
    "Evidence",
    "Judgement",
    "Reading",
    "Verdict",
    "all_of",
    "as_object",
    "enumeration",
    "judge",
    "only_if",
    "probability",
    "read_ledger",
    "search",
    "table",
    "within",
    "write_ledger",
]
