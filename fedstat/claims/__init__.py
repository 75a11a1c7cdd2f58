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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
