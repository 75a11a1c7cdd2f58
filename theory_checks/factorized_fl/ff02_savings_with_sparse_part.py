"""FF-02: with the sparse part the model has 30% fewer parameters."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.factorized_fl.savings import ROUNDING, to_one_digit, to_the_per_cent

FF02 = Claim(
    id="FF-02",
    place="section 5.2, 'Analysis on γ, τ, and λ', fifth sentence",
    said_by="paper",
    words="The factorised model has 30% fewer parameters, 1.784 in place of 2.574 million.",
    statement="1 - 1.784 / 2.574 = 30 %",
    severity="misprint",
    assumptions=ROUNDING,
    sensitivity="five points to one digit, half a point to the whole per cent",
    flaw="The counts save 30.7%, which rounds to 31%; the text gives a figure of one digit, or one cut off.",
)


@FF02.reading("to one digit")
def one_digit() -> Evidence:
    return to_one_digit("1.784", "2.574", 30)


@FF02.reading("to the whole per cent")
def whole_per_cent() -> Evidence:
    return to_the_per_cent("1.784", "2.574", 30)
