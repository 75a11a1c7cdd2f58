"""FD-05: the variance of the product lacks its largest terms.

FD-05c: the exact variance of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from fedstat.claims import Claim, Evidence, compared
from theory_checks.filter_decomposition.exact_laws import (
    ONE,
    Law,
    centred,
    identity,
    independent_laws,
    sided,
    small_laws,
    uniform_laws,
    weighted,
)


def _variance_is(formula: Callable[[Law], Fraction | Mapping[str, Any]], laws: Iterable[Law], of: str) -> Evidence:
    """Compare a formula for Var Q with the enumeration of all outcomes of all clients."""

    def sides(law: Law) -> tuple[Fraction, Fraction | Mapping[str, Any]]:
        return law.enumerated()[2], formula(law)

    cases = sided(laws, sides, ("variance of the product of averages", "by the formula"))
    return compared(cases, of=f"{of}, with several weights", relation="==")


def _printed(law: Law, power: int = 2) -> Fraction:
    return (law.mean(2, 2) - law.mean(1, 1) ** 2) * law.power(2) ** power


FD05 = Claim(
    id="FD-05",
    place="appendix A.3, first display of variances, last line",
    said_by="paper",
    words="The variance of the product of averages is one client's variance times the square of the sum of squared "
    "weights.",
    statement='op("Var") Q = Sigma (sum_k p_k^2)^2, quad Sigma = op("Var")(alpha_k D_k)',
    severity="unstated condition",
    assumptions="Q is the product of averages; clients independent with one law of (α, D)",
    sensitivity="any difference in the enumerated laws",
    flaw="Products that share a client's coefficient or atom are correlated, and virtual clients do not have the "
    "variance of real ones. Only factors that scatter about zero have no such terms; with means away from zero the "
    "terms in S₂, the sum of squared weights, which A.3 loses, are the large ones.",
    corrected="FD-05c",
)


@FD05.reading("any law, the same for all clients")
def any_law() -> Evidence:
    return _variance_is(_printed, small_laws(), "small laws")


@FD05.condition("coefficients independent of atoms")
def independent() -> Evidence:
    return _variance_is(_printed, independent_laws(), "products of two small laws")


@FD05.condition("coefficients independent of atoms, and both with mean zero, so that A.3 may add variances")
def independent_about_zero() -> Evidence:
    return _variance_is(_printed, filter(centred, independent_laws()), "products of two laws with mean zero")


@FD05.control("a single client, whatever the law")
def single_client() -> Evidence:
    return _variance_is(_printed, weighted(uniform_laws(2, 1), [(ONE,)]), "small laws")


@FD05.mutant("FedAvg's factor, the sum of squared weights itself, for independent factors with mean zero")
def not_squared() -> Evidence:
    laws = filter(centred, independent_laws())
    return _variance_is(lambda law: _printed(law, 1), laws, "products of two laws with mean zero")


FD05C = Claim(
    id="FD-05c",
    place="corrected statement of FD-05",
    said_by="fedstat",
    words="For one atom, the exact variance of the product of averages has a closed form in the joint moments of "
    "coefficient and atom.",
    statement='op("Var") Q = S_2 (a_0^2 mu_02 + d_0^2 mu_20 + 2 a_0 d_0 mu_11) + 2 S_3 (a_0 mu_12 + d_0 mu_21) '
    "+ S_4 mu_22 + (S_2^2 - S_4)(mu_20 mu_02 + 2 mu_11^2) - S_2^2 mu_11^2",
    severity="false",
    assumptions="one atom; clients independent with one law of (α, D) with means a₀ and d₀, fourth moments finite; S_r "
    "sums the weights' r-th powers",
    sensitivity="any difference between the polynomials, or in the enumerated laws",
)


def _summands(a0: Any, d0: Any, s: Callable[[int], Any], mu: Callable[..., Any]) -> dict[str, Any]:
    """Return the terms of Var Q, as polynomials in the moments of any law or as the numbers of one.

    Take ``Q = a0 d0 + a0 V + d0 U + U V`` with ``U = sum p_k u_k, V = sum p_k v_k``. Second moments:
    ``E U^2 = S2 mu_20``, ``E V^2 = S2 mu_02``, ``E U V = S2 mu_11``. Third: in ``E U V^2`` only triples of one client
    survive, so it is ``S3 mu_12``, and ``E U^2 V = S3 mu_21``. Fourth: either all four factors belong to one client,
    ``S4 mu_22``, or they form pairs of two clients, ``(S2^2 - S4)(mu_20 mu_02 + 2 mu_11^2)``. Hence

        Var Q = S2 (a0^2 mu_02 + d0^2 mu_20 + 2 a0 d0 mu_11) + 2 S3 (a0 mu_12 + d0 mu_21) + S4 mu_22
                + (S2^2 - S4)(mu_20 mu_02 + 2 mu_11^2) - S2^2 mu_11^2.
    """
    return {
        "means": s(2) * (a0**2 * mu(0, 2) + d0**2 * mu(2, 0) + 2 * a0 * d0 * mu(1, 1)),
        "third moments": 2 * s(3) * (a0 * mu(1, 2) + d0 * mu(2, 1)),
        "fourth moment": s(4) * mu(2, 2),
        "pairs of clients": (s(2) ** 2 - s(4)) * (mu(2, 0) * mu(0, 2) + 2 * mu(1, 1) ** 2),
        "squared mean": -((s(2) * mu(1, 1)) ** 2),
    }


@FD05C.reading("for all laws at once")
def formula() -> Evidence:
    return identity(lambda x: x.var_q - sum(_summands(x.a0, x.d0, x.s, x.mu).values()))


@FD05C.reading("on small laws")
def on_small_laws() -> Evidence:
    def summands(law: Law) -> dict[str, Any]:
        return _summands(law.mean(1, 0), law.mean(0, 1), law.power, law.central)

    laws = (*small_laws(), *independent_laws())
    return _variance_is(summands, laws, "small laws, against all outcomes of all clients")
