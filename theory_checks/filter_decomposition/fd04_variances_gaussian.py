"""FD-04: the variance is no larger under one Gaussian law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from fedstat.claims import Claim, Evidence, compared
from theory_checks.filter_decomposition.exact_laws import (
    HALF,
    NORMAL,
    WEIGHTS,
    Law,
    Symbols,
    gaussian,
    identity,
    sided,
    variances,
    weighted,
)
from theory_checks.filter_decomposition.filter_laws import FILTERS, enumerated_filters, gaussian_filters, several_atoms

SIGNS = ((-1, HALF), (1, HALF))


def _linear_laws(node: Sequence[tuple[int, Fraction]]) -> Iterator[Law]:
    """Yield laws of ``(a0 + x z1, d0 + y z1 + t z2)`` for independent z1, z2 on the given points."""
    means = ((0, 0), (1, 0), (0, 1), (1, 1), (1, -1), (2, 3))
    loadings = ((1, 0, 1), (1, 1, 0), (1, 1, 1), (1, -1, 1), (2, -1, 3))
    drawn = [(z, w, q * r) for (z, q), (w, r) in product(node, node)]
    for (a0, d0), (x, y, t) in product(means, loadings):
        yield Law(tuple((a0 + x * z, d0 + y * z + t * w) for z, w, _ in drawn), tuple(q for *_, q in drawn))


FD04 = Claim(
    id="FD-04",
    place="section 4.1, Proposition 4.1, for jointly Gaussian coefficients and atoms and one law for all clients",
    said_by="fedstat",
    words="If all clients draw their coefficients and atoms from one Gaussian law, the product of averages never has a "
    "larger variance than the average of products.",
    statement='(alpha_k, D_k) tilde cal(N) => op("Var") P - op("Var") Q '
    "= S_2 (1 - S_2)(sigma_alpha^2 sigma_D^2 + sigma_(alpha D)^2) >= 0 "
    '" for one atom", quad = 1/2 S_2 (1 - S_2) EE norm(W_12 + W_21)^2 " for several", quad '
    "W_(k l) = sum_r u_k^r times.o v_l^r",
    severity="false",
    assumptions="P is the average of products, Q the product of averages, S₂ the sum of the squared weights; clients "
    "independent, all with the same Gaussian law of (α, D), whose two parts may be correlated; u and v are deviations "
    "from the means; variances of a filter are summed over its entries",
    sensitivity="any difference between the polynomials, or in the enumerated laws",
)


def _small(node: Sequence[tuple[int, Fraction]], of: str) -> Evidence:
    """The variances involve moments up to order four, so discrete laws with the Gaussian ones serve as cases."""

    def sides(law: Law) -> tuple[Fraction, dict[str, Fraction]]:
        var_q, var_p = variances(law)
        factor = law.power(2) * (1 - law.power(2))
        of_variances = factor * law.central(2, 0) * law.central(0, 2)
        return Fraction(var_p) - var_q, {"variances": of_variances, "covariance": factor * law.central(1, 1) ** 2}

    cases = sided(weighted(_linear_laws(node), WEIGHTS[:3]), sides, ("difference of the variances", "by the formula"))
    return compared(cases, of=of, relation="==")


@FD04.reading("filters of several atoms, for all laws at once")
def filters() -> Evidence:
    return several_atoms(gaussian, higher=False)


@FD04.reading("filters of several atoms, on laws with Gaussian moments")
def small_filters() -> Evidence:
    return enumerated_filters(gaussian_filters(), f"{FILTERS}, Gaussian moments", higher=False)


@FD04.reading("one atom, any means and covariances")
def one_atom() -> Evidence:
    """Joint cumulants above the second vanish, which leaves the second moments' term of FD-03c."""

    def gap(x: Symbols) -> Any:
        return x.var_p - x.var_q - x.s(2) * (1 - x.s(2)) * (x.mu(2, 0) * x.mu(0, 2) + x.mu(1, 1) ** 2)

    return identity(gap, moment=gaussian)


@FD04.reading("one atom, on laws with Gaussian moments")
def small_laws() -> Evidence:
    return _small(NORMAL, "laws with Gaussian moments up to order four, with several weights")


@FD04.mutant("the fourth moments of coin tosses in place of Gaussian ones")
def coin_tosses() -> Evidence:
    return _small(SIGNS, "laws with the fourth moments of coin tosses, with several weights")
