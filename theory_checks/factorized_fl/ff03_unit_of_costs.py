"""FF-03: costs are in gigabytes, with the sign for gigabits.

FF-03c: FedAvg's costs are right in gigabytes.
"""

from __future__ import annotations

from fractions import Fraction

from fedstat.claims import Claim, Evidence
from theory_checks.factorized_fl.costs import COST_RULE, GIBIBYTE, GIGABIT, Sent, costs, follows, to_the_digits
from theory_checks.factorized_fl.network import NETWORK_READ, model


def _both_ways(numbers: Fraction | int = Fraction("2.574") * 10**6) -> Sent:
    """Return what is sent per client and round if the whole model is, whose size section 5.2 gives."""
    return {"model sent up": numbers, "model sent down": numbers}


FF03 = Claim(
    id="FF-03",
    place="Table 1, heading 'Cost [Gb]'",
    said_by="paper",
    words="FedAvg's costs, 20.39 and 40.78 Gb, are those of sending the model of 2.574 million parameters both ways.",
    statement='"cost"("FedAvg") = 2 dot 4 dot 20 R dot 2.574 dot 10^6 "bytes, in Gb"',
    severity="misprint",
    assumptions=COST_RULE,
    sensitivity="one per cent of the cost",
    flaw="The unit is printed with a small b, the sign for bits; in gigabits the model's traffic is eight times as "
    "much. Read as gigabytes the printed costs lie one per cent below the count.",
    corrected="FF-03c",
)


@FF03.reading("Gb means gigabits, as the sign is defined")
def gigabits() -> Evidence:
    return follows(costs("FedAvg", _both_ways(), GIGABIT))


@FF03.reading("Gb means gigabytes, of 10⁹ bytes")
def gigabytes() -> Evidence:
    return follows(costs("FedAvg", _both_ways()))


@FF03.reading("Gb means gibibytes, of 2³⁰ bytes")
def gibibytes() -> Evidence:
    return follows(costs("FedAvg", _both_ways(), GIBIBYTE))


FF03C = Claim(
    id="FF-03c",
    place="corrected statement of FF-03",
    said_by="fedstat",
    words="If costs are in gigabytes of 10⁹ bytes, FedAvg's are right within one per cent.",
    statement='"cost"("FedAvg") = 2 dot 4 dot 20 R dot 2.574 dot 10^6 dot 10^(-9) "gigabytes" (1 + delta), '
    "quad abs(delta) <= 1 %",
    severity="misprint",
    assumptions=f"{COST_RULE}; for what stands beside the verdict, {NETWORK_READ}; 0.99 times its 2,574,282 numbers "
    "give all four printed figures, FedFOMO's 122.33 and 244.66 included, so that the printed costs lie exactly one "
    "per cent below the count",
    sensitivity="one per cent of the cost; half a unit of the last printed digit beside the verdict",
)


@FF03C.reading("both parts of Table 1")
def both_parts() -> Evidence:
    return follows(costs("FedAvg", _both_ways()))


@FF03C.reading("exactly one per cent below the count, to the printed digits, FedFOMO at six times it", natural=False)
def one_per_cent_below() -> Evidence:
    sent = Fraction(99, 100) * model()
    return to_the_digits([*costs("FedAvg", _both_ways(sent)), *costs("FedFOMO", _both_ways(6 * sent))])
