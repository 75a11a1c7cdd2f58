"""FD-03: the aggregates' variances whatever the dependence of coefficients and atoms (Proposition 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from fedstat.claims import Claim, Evidence
from theory_checks.filter_decomposition.exact_laws import (
    QUARTER,
    WEIGHTS,
    Law,
    Symbols,
    identity,
    independent_laws,
    never_larger,
    small_laws,
    weighted,
)
from theory_checks.filter_decomposition.filter_laws import (
    FILTERS,
    any_filters,
    enumerated_filters,
    several_atoms,
)


def _fourth_cumulant(law: Law) -> Fraction:
    return law.central(2, 2) - law.central(2, 0) * law.central(0, 2) - 2 * law.central(1, 1) ** 2


def _symmetric_laws() -> Iterator[Law]:
    """Yield laws symmetric about a centre, whose third moments vanish: two pairs of opposite points, and the centre."""
    points = ((1, 0), (0, 1), (1, 1), (1, -1), (2, 1), (1, -2))
    for (a, d), (b, e) in product(points, points):
        for q, (x, y) in product((QUARTER, QUARTER / 2, QUARTER / 4), ((0, 0), (1, 0), (1, 1), (2, -1))):
            values = tuple((x + s, y + t) for s, t in ((a, d), (-a, -d), (b, e), (-b, -e), (0, 0)))
            yield Law(values, (q, q, q, q, 1 - 4 * q))


def _symmetric(condition: Callable[[Law], bool] = lambda law: _fourth_cumulant(law) >= 0) -> Evidence:
    cases = weighted(filter(condition, _symmetric_laws()), WEIGHTS[:3])
    return never_larger(cases, "symmetric laws that meet the condition, with several weights")


FD03 = Claim(
    id="FD-03",
    place="section 4.1, Proposition 4.1",
    said_by="paper",
    words="The product of averages never has a larger variance than the average of products.",
    statement='op("Var") Q <= op("Var") P',
    severity="unstated condition",
    assumptions="P is the average of products and Q the product of averages; clients independent with one law of "
    "(α, D), as the proof takes them; nothing else is stated",
    sensitivity="any excess in the enumerated laws",
    flaw="The proof adds the variances of all products as if products that share a client were uncorrelated and all "
    "had one variance. If α and D change sign together, say (1, 1) or (−1, −1), every client has the same filter and "
    "the average of products does not vary at all, while the product of averages does.",
    corrected="FD-03c",
)


@FD03.reading("whatever the dependence of coefficients and atoms, as stated")
def any_law() -> Evidence:
    return never_larger(small_laws(), "small laws of (α, D), with several weights")


@FD03.reading("a client's coefficients independent of its atoms")
def independent() -> Evidence:
    return never_larger(independent_laws(), "products of two small laws, with several weights")


@FD03.control("symmetric laws whose fourth joint cumulant is not negative, as FD-03c asks")
def symmetric() -> Evidence:
    return _symmetric()


@FD03.mutant("coefficients independent of atoms, and the inequality turned round")
def turned_round() -> Evidence:
    return never_larger(independent_laws(), "products of two small laws, with several weights", opposite=True)


FD03C = Claim(
    id="FD-03c",
    place="corrected statement of FD-03",
    said_by="fedstat",
    words="For one atom the variance is not larger if the third joint cumulants of coefficient and atom vanish and "
    "that of order (2, 2) is not negative.",
    statement='op("Var") P - op("Var") Q = 2 (S_2 - S_3)(a_0 kappa_12 + d_0 kappa_21) + (S_2 - S_4) kappa_22 '
    "+ S_2 (1 - S_2)(sigma_alpha^2 sigma_D^2 + sigma_(alpha D)^2) >= 0 "
    '" if" kappa_12 = kappa_21 = 0 <= kappa_22',
    severity="false",
    assumptions="S_r sums the weights' r-th powers; clients independent with one law of (α, D), fourth moments "
    "finite; one atom in the displayed formula, in place of whose terms several atoms have 2(S₂ − S₃) E⟨L, W₁₁⟩, "
    "(S₂ − S₄)(E|W₁₁|² − |E W₁₁|² − E|W₁₂|² − E⟨W₁₂, W₂₁⟩) and S₂(1 − S₂) E|W₁₂ + W₂₁|²/2, with W_kl the sum over "
    "atoms of the deviations' products and L the linear part",
    sensitivity="any difference between the polynomials; any excess in the enumerated laws",
)


def _difference(fourth: int) -> Evidence:
    """Return whether the difference of the variances is as stated, with `fourth` times its fourth cumulant.

    P is a weighted sum of independent copies of ``a0 d0 + a0 v + d0 u + u v``, so ``Var P`` is S2 times
    ``a0^2 mu_02 + d0^2 mu_20 + 2 a0 d0 mu_11 + 2 a0 mu_12 + 2 d0 mu_21 + mu_22 - mu_11^2``. Subtracting Var Q (FD-05c)
    and writing ``mu_22 = kappa_22 + mu_20 mu_02 + 2 mu_11^2`` leaves

        2 (S2 - S3)(a0 mu_12 + d0 mu_21) + (S2 - S4) kappa_22 + S2 (1 - S2)(mu_20 mu_02 + mu_11^2).

    Weights have ``S4 <= S3 <= S2 <= 1``. So the difference is not negative once the third joint cumulants mu_12 and
    mu_21 vanish and kappa_22 is not negative.
    """

    def difference(x: Symbols) -> Any:
        cumulant = x.mu(2, 2) - x.mu(2, 0) * x.mu(0, 2) - 2 * x.mu(1, 1) ** 2
        third = 2 * (x.s(2) - x.s(3)) * (x.a0 * x.mu(1, 2) + x.d0 * x.mu(2, 1))
        second = x.s(2) * (1 - x.s(2)) * (x.mu(2, 0) * x.mu(0, 2) + x.mu(1, 1) ** 2)
        return x.var_p - x.var_q - third - fourth * (x.s(2) - x.s(4)) * cumulant - second

    return identity(difference)


@FD03C.reading("one atom: the exact difference, for all laws at once")
def exact_difference() -> Evidence:
    return _difference(1)


@FD03C.reading("one atom: its sign, on small laws")
def sign() -> Evidence:
    return _symmetric()


@FD03C.reading("filters of several atoms: the exact difference, for all laws at once")
def filters() -> Evidence:
    return several_atoms()


@FD03C.reading("filters of several atoms: the exact difference, on small laws")
def small_filters() -> Evidence:
    return enumerated_filters(any_filters(), FILTERS)


@FD03C.mutant("the fourth cumulant left out of the difference")
def no_fourth() -> Evidence:
    return _difference(0)


@FD03C.mutant("the condition on the fourth cumulant left out")
def no_condition() -> Evidence:
    return _symmetric(lambda law: True)
