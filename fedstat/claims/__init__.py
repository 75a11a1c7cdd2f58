"""The machinery of judgement: a claim is declared once, and its verdict is computed.

A claim states something that can be refuted, and its checks return `Evidence`, made by `enumeration`, `sampled`,
`compared`, `search`, `bounded`, `probability`, `within`, `all_of`, `both`, `any_of`, `missing` or `not_checkable`. A
reading is what the words may mean, a condition what its authors do not state. Every check must be able to fail: mutants
are made from its two sides, and others may be added, broken variants that it must refute. What is refuted has a
control, a case in which the check must pass. ``fedstat judge FILE_OR_FOLDER`` judges what files declare; so does
`judge_all`.

Examples
--------
A false claim; `Claim` has a true one:

>>> from fedstat.claims import Claim, enumeration, judge
>>> PRIMES = Claim(id="EX-02", place="folklore", said_by="paper", severity="false", corrected="EX-02c",
...     words="n^2 + n + 41 is prime for every whole number n.", statement="n^2 + n + 41 in PP",
...     sensitivity="any number that is not prime", flaw="At n = 40 it is 41 squared.")
>>> def euler(numbers, constant=41):
...     def prime(n):
...         value = n * n + n + constant
...         return all(value % d for d in range(2, value))
...     return enumeration(numbers, prime, of="whole numbers", show=lambda n: f"n = {n}")
>>> @PRIMES.reading("as printed")
... def up_to_a_hundred():
...     return euler(range(100))
>>> @PRIMES.mutant("the constant 42")
... def even():
...     return euler(range(40), 42)
>>> @PRIMES.control("below forty")
... def small():
...     return euler(range(40))
>>> judgement = judge(PRIMES)
>>> judgement.verdict, judgement.main.counterexample
('refuted', 'n = 40')
"""

from fedstat.claims.bounds import Setting, bounded
from fedstat.claims.cases import Sides, compared, enumeration, exact, sampled, tried
from fedstat.claims.citation import remark
from fedstat.claims.claim import Claim, ClaimError, Judgement, Reading, judge
from fedstat.claims.combining import all_of, any_of, both
from fedstat.claims.counterexample import search
from fedstat.claims.evidence import Evidence, Verdict, missing, not_checkable
from fedstat.claims.files import read_claims
from fedstat.claims.identities import identity
from fedstat.claims.intervals import probability, within
from fedstat.claims.judging import judge_all
from fedstat.claims.laws import Law, draws, expectation, inclusions, subsets, variance
from fedstat.claims.ledger import as_object, count, explain, read_ledger, table, write_ledger
from fedstat.claims.plain import plain
from fedstat.claims.problems import BentParabola, Parabolas, convex_pairs, minimiser, parabolas, shares
from fedstat.claims.rounds import fedavg_round, local_steps
from fedstat.claims.runs import Client, Functions, Run, average, fedavg, square
from fedstat.claims.studies import Studies
from fedstat.claims.worst_cases import WorstCase, WorstFunction, worst_case

__all__ = [
    "BentParabola",
    "Claim",
    "ClaimError",
    "Client",
    "Evidence",
    "Functions",
    "Judgement",
    "Law",
    "Parabolas",
    "Reading",
    "Run",
    "Setting",
    "Sides",
    "Studies",
    "Verdict",
    "WorstCase",
    "WorstFunction",
    "all_of",
    "any_of",
    "as_object",
    "average",
    "both",
    "bounded",
    "compared",
    "convex_pairs",
    "count",
    "draws",
    "enumeration",
    "exact",
    "expectation",
    "explain",
    "fedavg",
    "fedavg_round",
    "identity",
    "inclusions",
    "judge",
    "judge_all",
    "local_steps",
    "minimiser",
    "missing",
    "not_checkable",
    "parabolas",
    "plain",
    "probability",
    "read_claims",
    "read_ledger",
    "remark",
    "sampled",
    "search",
    "shares",
    "square",
    "subsets",
    "table",
    "tried",
    "variance",
    "within",
    "worst_case",
    "write_ledger",
]
