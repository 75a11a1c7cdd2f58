"""DC-05: the personal part does not have far fewer parameters.

DC-05c: how many parameters the personal part has.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from fedstat.claims import Claim, Evidence, compared
from theory_checks.factorized_fl.tables import Figures
from theory_checks.feddecomp.networks import NETWORKS, Ratios, parameter_formula, parameters

DC05 = Claim(
    id="DC-05",
    place="section 3.5, 'Memory usage', second sentence",
    said_by="paper",
    words="The personal low-rank part has far fewer parameters than the full-rank part.",
    statement="abs(tau) << abs(sigma)",
    severity="false",
    assumptions="'much fewer' names no number, half is ours and lenient, and fewer at all is the least that it says; "
    + NETWORKS,
    sensitivity="one parameter",
    flaw="A matrix of rank r takes r (I + O) numbers, so a share R of the full rank costs between R and 2 R of the "
    "parameters. Whatever the network, every convolution of whole rank takes more than R_c, that is 0.6 at least, of "
    "its full part's; at the ratios used in the experiments the low-rank part is the larger of the two.",
    corrected="DC-05c",
)


def _at_most(share: Fraction, ratios: Ratios | None = None, relation: Literal["<=", "<"] = "<=") -> Evidence:
    names = ("τ over σ", "at most" if relation == "<=" else "below")
    cases = [Figures(str(case), case.share, share, names=names) for case in parameters(ratios)]
    return compared(cases, of="networks", relation=relation, every=True)


@DC05.reading("at most half, at the paper's own ratios")
def half() -> Evidence:
    return _at_most(Fraction(1, 2))


@DC05.reading("fewer at all, at the paper's own ratios")
def fewer() -> Evidence:
    return _at_most(Fraction(1), relation="<")


@DC05.control("at most half, at R_c = R_l = 20%, the lowest ratios tried")
def lowest() -> Evidence:
    return _at_most(Fraction(1, 2), (Fraction(1, 5), Fraction(1, 5)))


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
    return parameter_formula(memory=False)
