"""FD-02: the variance is no larger if factors are independent."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fedstat.claims import Claim, Evidence, all_of, compared
from theory_checks.filter_decomposition.exact_laws import (
    Law,
    Symbols,
    identity,
    independent,
    independent_laws,
    never_larger,
    sided,
)
from theory_checks.filter_decomposition.filter_laws import (
    FILTERS,
    enumerated_filters,
    independent_filters,
    several_atoms,
)

FD02 = Claim(
    id="FD-02",
    place="section 4.1, Proposition 4.1, for coefficients independent of atoms and one law for all clients",
    said_by="fedstat",
    words="If all clients draw their coefficients and atoms from one law, the coefficients independently of the "
    "atoms, the product of averages never has a larger variance than the average of products.",
    statement='alpha_k perp D_k => op("Var") Q = S_2 (a_0^2 sigma_D^2 + d_0^2 sigma_alpha^2) '
    '+ S_2^2 sigma_alpha^2 sigma_D^2 <= op("Var") P " for one atom", quad '
    'op("Var") P - op("Var") Q = S_2 (1 - S_2) EE norm(sum_r u_1^r times.o v_2^r)^2 " for several"',
    severity="false",
    assumptions="P is the average of products and Q the product of averages with weights p_k, S₂ the sum of their "
    "squares; clients independent, all with the same law of (α, D), whose means are a₀ and d₀; u and v are deviations "
    "from the means; variances of a filter are summed over its entries",
    sensitivity="any difference between the polynomials; any excess in the enumerated laws",
)


def _one_atom(power: int) -> Evidence:
    """Return whether Var Q, and its distance from Var P, are as stated.

    With independence ``mu_11 = mu_12 = mu_21 = 0`` and ``mu_22 = mu_20 mu_02``, so that
    ``Var Q = S2 (a0^2 mu_02 + d0^2 mu_20) + S2^2 mu_20 mu_02`` and ``Var P - Var Q = S2 (1 - S2) mu_20 mu_02 >= 0``,
    since ``S2 <= 1`` (FD-07). Equality needs a client with all the weight, or a constant factor.
    """

    def variance(x: Symbols) -> Any:
        linear = x.a0**2 * x.mu(0, 2) + x.d0**2 * x.mu(2, 0)
        return x.var_q - x.s(2) ** power * linear - x.s(2) ** 2 * x.mu(2, 0) * x.mu(0, 2)

    def gap(x: Symbols) -> Any:
        return x.var_p - x.var_q - x.s(2) * (1 - x.s(2)) * x.mu(2, 0) * x.mu(0, 2)

    return identity(variance, gap, moment=independent)


@FD02.reading("filters of several atoms, for all laws at once")
def filters() -> Evidence:
    return several_atoms(independent, higher=False)


@FD02.reading("filters of several atoms, on small laws")
def small_filters() -> Evidence:
    return enumerated_filters(independent_filters(), FILTERS, higher=False)


@FD02.reading("one atom, for all laws at once")
def one_atom() -> Evidence:
    return _one_atom(1)


@FD02.reading("one atom, on small laws")
def small_laws() -> Evidence:
    def sides(law: Law) -> tuple[Fraction, dict[str, Fraction]]:
        s2, a, d = law.power(2), law.central(2, 0), law.central(0, 2)
        by_coefficients, by_atoms = s2 * law.mean(0, 1) ** 2 * a, s2 * law.mean(1, 0) ** 2 * d
        return law.enumerated()[2], {
            "coefficients": by_coefficients,
            "atoms": by_atoms,
            "product of both": s2**2 * a * d,
        }

    of, names = "products of two small laws, with several weights", ("variance of the product of averages", "formula")
    exact = compared(sided(independent_laws(), sides, names), of=of, relation="==")
    return all_of([exact, never_larger(independent_laws(), of)])


@FD02.mutant("the terms in the means made to fall like the square of S₂, as A.3 has it")
def means_squared() -> Evidence:
    return _one_atom(2)
