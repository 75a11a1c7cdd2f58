"""FF-01: without the sparse part the model has 90% fewer parameters."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.factorized_fl.savings import ROUNDING, to_one_digit, to_the_per_cent

FF01 = Claim(
    id="FF-01",
    place="section 5.2, 'Effect of kernel factorization', eighth sentence",
    said_by="paper",
    words="With u and v alone the model has 90% fewer parameters, 0.27 in place of 2.574 million.",
    statement="1 - 0.27 / 2.574 = 90 %",
    severity="misprint",
    assumptions=ROUNDING,
    sensitivity="five points to one digit, half a point to the whole per cent",
)


@FF01.reading("to one digit")
def one_digit() -> Evidence:
    return to_one_digit("0.27", "2.574", 90)


@FF01.reading("to the whole per cent")
def whole_per_cent() -> Evidence:
    return to_the_per_cent("0.27", "2.574", 90)
