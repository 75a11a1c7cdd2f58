"""DC-05: the parameters of the personal part."""

from __future__ import annotations

from fractions import Fraction

from fedstat.claims import Claim, Evidence, enumeration
from theory_checks.feddecomp.networks import NETWORKS, Ratios, parameter_formula, parameters

DC05 = Claim(
    id="DC-05",
    place="section 3.5, 'Memory usage', second sentence",
    said_by="paper",
    words="The personal low-rank part has far fewer parameters than the full-rank part.",
    statement="abs(tau) << abs(sigma)",
    severity="false",
    assumptions=NETWORKS,
    sensitivity="one parameter",
    flaw="A matrix of rank r takes r (I + O) numbers, so a share R of the full rank costs between R and 2 R of the "
    "parameters. Whatever the network, every convolution of whole rank takes more than R_c, that is 0.6 at least, of "
    "its full part's; at the ratios used in the experiments the low-rank part is the larger of the two.",
    corrected="DC-05c",
)


def _fewer(at_most: Fraction, ratios: Ratios | None = None) -> Evidence:
    return enumeration(
        parameters(ratios),
        lambda case: case.tau < case.sigma and case.tau <= at_most * case.sigma,
        of="networks",
    )


@DC05.reading("at most a tenth, at the paper's own ratios")
def a_tenth() -> Evidence:
    return _fewer(Fraction(1, 10))


@DC05.reading("at most half, at the paper's own ratios")
def half() -> Evidence:
    return _fewer(Fraction(1, 2))


@DC05.reading("fewer at all, at the paper's own ratios")
def fewer() -> Evidence:
    return _fewer(Fraction(1))


@DC05.mutant("at most half, at R_c = R_l = 40%, the second lowest ratios tried")
def second_lowest() -> Evidence:
    return _fewer(Fraction(1, 2), (Fraction(2, 5), Fraction(2, 5)))


@DC05.control("at most half, at R_c = R_l = 20%, the lowest ratios tried")
def lowest() -> Evidence:
    return _fewer(Fraction(1, 2), (Fraction(1, 5), Fraction(1, 5)))


DC05C = Claim(
    id="DC-05c",
    place="corrected statement of DC-05",
    said_by="fedstat",
    words="The low-rank part has between R and 2 R times the parameters of the full-rank part; in square layers it has "
    "fewer only for R below a half, and at most a tenth for R up to 1/20.",
    statement="abs(tau) / abs(sigma) = R (1 + min(I, O) / max(I, O)), quad R < abs(tau) / abs(sigma) <= 2 R",
    severity="false",
    assumptions="R min(I, O), times K in a convolution, is whole; rounding the rank down only lowers the left side "
    "as long as the rank is not raised to one",
    sensitivity="one parameter",
)


@DC05C.reading("whole ranks")
def whole_ranks() -> Evidence:
    return parameter_formula(lambda share: 1 + share, memory=False)


@DC05C.mutant("R itself in place of R (1 + min(I, O) / max(I, O))")
def ratio_alone() -> Evidence:
    return parameter_formula(lambda share: Fraction(1), memory=False)
