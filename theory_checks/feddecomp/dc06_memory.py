"""DC-06: the memory that FedDecomp needs."""

from __future__ import annotations

from fractions import Fraction

from fedstat.claims import Claim, Evidence, all_of, enumeration
from theory_checks.feddecomp.networks import NETWORKS, Ratios, parameter_formula, parameters

DC06 = Claim(
    id="DC-06",
    place="section 3.5, 'Memory usage', last sentence",
    said_by="paper",
    words="FedDecomp needs slightly more memory than FedAvg.",
    statement='M_"FedDecomp" = M_"FedAvg" (1 + epsilon), quad epsilon "small"',
    severity="false",
    assumptions=f"memory means parameters kept, as in the paper's argument; {NETWORKS}",
    sensitivity="one parameter",
    flaw="The argument rests on DC-05. Whatever the network, the low-rank part of every convolution of whole rank adds "
    "more than R_c, that is 0.6 at least, to its memory; at the ratios used in the experiments that part is as large "
    "as the full-rank part, so that memory more than doubles.",
    corrected="DC-06c",
)


def _memory(more: Fraction, ratios: Ratios | None = None) -> Evidence:
    return enumeration(parameters(ratios), lambda case: case.sigma + case.tau <= (1 + more) * case.sigma, of="networks")


@DC06.reading("at most a tenth more, at the paper's own ratios")
def a_tenth_more() -> Evidence:
    return _memory(Fraction(1, 10))


@DC06.reading("at most half more, at the paper's own ratios")
def half_more() -> Evidence:
    return _memory(Fraction(1, 2))


@DC06.mutant("at most half more, at R_c = R_l = 40%, the second lowest ratios tried")
def second_lowest() -> Evidence:
    return _memory(Fraction(1, 2), (Fraction(2, 5), Fraction(2, 5)))


@DC06.control("at most half more, at R_c = R_l = 20%, the lowest ratios tried")
def lowest() -> Evidence:
    return _memory(Fraction(1, 2), (Fraction(1, 5), Fraction(1, 5)))


DC06C = Claim(
    id="DC-06c",
    place="corrected statement of DC-06",
    said_by="fedstat",
    words="A layer takes between 1 + R and 1 + 2 R times FedAvg's memory; at the paper's ratios its networks take 2.0 "
    "to 2.5 times as much.",
    statement='M_"FedDecomp" / M_"FedAvg" = 1 + R (1 + min(I, O) / max(I, O))',
    severity="false",
    assumptions=f"memory means parameters kept; {NETWORKS}",
    sensitivity="one parameter in a layer; for the networks the limits 2.0 and 2.5",
)


def _formula_and_networks(low: Fraction, high: Fraction) -> Evidence:
    """Judge the formula for a layer, and the memory of the whole networks at the paper's ratios."""
    networks = enumeration(
        parameters(), lambda case: low < 1 + Fraction(case.tau, case.sigma) < high, of="networks at the paper's ratios"
    )
    return all_of([parameter_formula(lambda share: 1 + share, memory=True), networks])


@DC06C.reading("whole ranks, and the networks at the paper's ratios")
def doubled() -> Evidence:
    return _formula_and_networks(Fraction(2), Fraction(5, 2))


@DC06C.mutant("limits of 1 and 2 for the networks")
def less_than_doubled() -> Evidence:
    return _formula_and_networks(Fraction(1), Fraction(2))
