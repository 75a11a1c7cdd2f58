"""FF-06: the text does not say what Factorized-FL's costs consist of.

FF-06c: what the released code's network would send.
"""

from __future__ import annotations

from fractions import Fraction

from fedstat.claims import Claim, Evidence, Sides, both, compared, not_checkable
from theory_checks.factorized_fl.costs import COST_RULE, GIGABYTE, Sent, costs, follows, to_the_digits
from theory_checks.factorized_fl.network import (
    NETWORK,
    NETWORK_READ,
    bases,
    coefficients,
    factors,
    head,
    kernels,
    norms,
)
from theory_checks.factorized_fl.tables import BYTES, CLIENTS, COSTS, ROUNDS

_ALPHA, _BETA = "Factorized-FL α", "Factorized-FL β"


def _sent_by_alpha() -> Sent:
    """Return what the text names: u of all layers but the head both ways, and v of the layer before the head up."""
    return {"u sent up": bases(), "u sent down": bases(), "v sent up": factors(NETWORK[-1])[1].size}


def _entries_left_for_beta() -> str:
    each_way = Fraction(COSTS[_BETA][0]) * GIGABYTE / (BYTES * CLIENTS * ROUNDS[0] * 2)
    left = round(each_way) - bases() - coefficients()
    return (
        f"in the released code's network β's would take {left:,} of {kernels():,} entries of μ "
        f"({left / kernels():.0%}) in every round, a share that the text does not state"
    )


def _numbers(method: str) -> int:
    """Return the numbers per client and round that a method's printed cost stands for."""
    return round(Fraction(COSTS[method][1]) * GIGABYTE / (BYTES * CLIENTS * ROUNDS[1]))


FF06 = Claim(
    id="FF-06",
    place="Table 1, costs of Factorized-FL; section 5.2, 'Domain-heterogeneous FL', last sentence",
    said_by="fedstat",
    words="The transmission costs of Factorized-FL α and β follow from what the text says they send.",
    statement='"cost"(alpha) = 4 dot 20 R (2 sum_(l < L) abs(u_l) + abs(v_(L-1))) "bytes"',
    severity="unstated condition",
    assumptions=f"{COST_RULE}; {NETWORK_READ}",
    sensitivity="one per cent of the cost and half a unit of the last printed digit, given a network",
    flaw="The sizes of u and v depend on the network, which the paper does not name, and β's cost on the share of μ "
    "that is sent, which it does not state.",
    corrected="FF-06c",
)


@FF06.reading("by the paper alone")
def without_a_network() -> Evidence:
    return not_checkable(
        "the sizes of u and v depend on the network, which the paper does not name; the printed costs of α stand for "
        f"{_numbers(_ALPHA):,} numbers per client and round, those of β for {_numbers(_BETA):,}; "
        + _entries_left_for_beta()
    )


@FF06.condition("α in the released code's network")
def alpha_by_the_text() -> Evidence:
    return follows(costs(_ALPHA, _sent_by_alpha()))


FF06C = Claim(
    id="FF-06c",
    place="statement in place of FF-06",
    said_by="fedstat",
    words="By the text, with the released code's network, Factorized-FL α sends 65,712 numbers per client and "
    "round, which makes 0.26 and 0.53 gigabytes. With batch normalisation sent both ways and the head sent up "
    "once, they are the printed 0.32 and 0.64.",
    statement='"cost"(alpha) = 4 dot 20 R dot 65712 "bytes" = 5.257 dot 10^6 R "bytes"',
    severity="unstated condition",
    assumptions=f"{NETWORK_READ}; what is sent besides u and v was looked for after seeing the table",
    sensitivity="one number per client and round; in the costs half a unit of the last printed digit, which hides the "
    "numbers of u",
)


@FF06C.reading("counted from the network's layers")
def counted() -> Evidence:
    """Count 88 numbers u down, the same up and 65,536 numbers v up; then add what makes the printed costs.

    u has F^2 entries in each of eight convolutions, 7 * 9 + 25 = 88; v of the layer before the head has
    256 * 256 = 65,536. Each number takes 4 bytes at 20 clients in 50 or 100 rounds.
    """
    sent = _sent_by_alpha()
    numbers = Sides("α, numbers per client and round", sent, 2 * 88 + 65_536, names=("counted", "stated"))
    by_the_text = [
        case._replace(printed=cost) for case, cost in zip(costs(_ALPHA, sent), ("0.26", "0.53"), strict=True)
    ]
    found = {**sent, "norms sent up": norms(), "norms sent down": norms(), "head sent up": head()}
    return both(
        compared([numbers], of="counts", relation="==", every=True),
        to_the_digits(by_the_text),
        to_the_digits(costs(_ALPHA, found)),
    )
