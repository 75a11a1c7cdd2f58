"""FD-09: the product of averages can be biased.

FD-09c: how far the product of averages is biased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from fedstat.claims import Claim, Evidence, compared
from theory_checks.filter_decomposition.drawn_clients import SMALL_POPULATIONS, Drawn, populations
from theory_checks.filter_decomposition.exact_laws import Law, Pair, identity, mean, sided, small_laws


def _independent_clients(condition: Callable[[Law], bool], of: str) -> Evidence:
    laws = (law for law in small_laws() if law.power(2) < 1 and condition(law))
    names = ("expected product of averages", "expected average of products")
    cases = sided(laws, lambda law: law.enumerated()[1::-1], names)
    return compared(cases, of=f"{of}, with several weights", relation="==")


def _drawn(cases: Iterable[Drawn], of: str) -> Evidence:
    def sides(case: Drawn) -> Pair:
        return mean(q for _, q in case.aggregates()), case.everyone

    names = ("expected product of averages", "average of all products")
    return compared(sided(cases, sides, names), of=of, relation="==")


def _uncorrelated(law: Law) -> bool:
    return law.mean(1, 1) == law.mean(1, 0) * law.mean(0, 1)


FD09 = Claim(
    id="FD-09",
    place="appendix A.5.2, paragraph before (33), which measures the decomposed aggregate from the plain one's mean",
    said_by="fedstat",
    words="The product of averages has the same expectation as the average of products.",
    statement="EE Q = EE P",
    severity="unstated condition",
    assumptions="more than one client in the aggregate; clients independent with one law of (α, D), or drawn without "
    "replacement from clients that may all differ",
    sensitivity="any difference in the enumerated cases",
    flaw="The expectation of a virtual client is the product of the means, that of a real one also holds the "
    "covariance of coefficient and atom; the product of averages loses most of that. If clients are drawn, it"
    " is the covariance over clients that counts.",
    corrected="FD-09c",
)


@FD09.reading("independent clients, as in A.3")
def independent_clients() -> Evidence:
    return _independent_clients(lambda law: True, "small laws")


@FD09.reading("m of M clients drawn, as in A.5")
def drawn() -> Evidence:
    return _drawn((case for case in populations(4) if case.m > 1), SMALL_POPULATIONS)


@FD09.condition("independent clients, with a client's coefficient and atom uncorrelated")
def uncorrelated_clients() -> Evidence:
    return _independent_clients(_uncorrelated, "small laws without correlation")


@FD09.condition("m of M clients drawn, with coefficients and atoms uncorrelated over clients")
def drawn_uncorrelated() -> Evidence:
    cases = (case for case in populations(4) if case.m > 1 and case.central(1, 1) == 0)
    return _drawn(cases, f"{SMALL_POPULATIONS}, without correlation")


@FD09.control("the same atoms at all clients")
def same_atoms() -> Evidence:
    return _independent_clients(lambda law: law.central(0, 2) == 0, "small laws with a constant atom")


@FD09.mutant("coefficients with mean zero in place of uncorrelated ones")
def mean_zero() -> Evidence:
    return _independent_clients(lambda law: law.mean(1, 0) == 0, "small laws whose coefficient has mean zero")


FD09C = Claim(
    id="FD-09c",
    place="corrected statement of FD-09",
    said_by="fedstat",
    words="The product of averages is biased by minus (1 − S₂) times the covariance of coefficient and atom, S₂ the "
    "sum of the squared weights.",
    statement='EE Q = EE P - (1 - S_2) op("Cov")(alpha, D)',
    severity="false",
    assumptions="clients independent with one law of (α, D)",
    sensitivity="any difference between the polynomials, or in the enumerated laws",
)


def _bias(power: int) -> Evidence:
    """``E P = a0 d0 + mu_11``, while ``Q = a0 d0 + a0 V + d0 U + U V`` keeps ``E U V = S2 mu_11``."""
    return identity(lambda x: x.mean_q - x.mean_p + (1 - x.s(2) ** power) * x.mu(1, 1))


@FD09C.reading("for all laws at once")
def bias() -> Evidence:
    return _bias(1)


@FD09C.reading("on small laws")
def bias_on_small_laws() -> Evidence:
    def sides(law: Law) -> tuple[Fraction, dict[str, Fraction]]:
        mean_p, mean_q, _ = law.enumerated()
        return mean_q, {"average of products": mean_p, "covariance": -(1 - law.power(2)) * law.central(1, 1)}

    of = "small laws, with several weights, against all outcomes of all clients"
    names = ("expected product of averages", "by the formula")
    return compared(sided(small_laws(), sides, names), of=of, relation="==")


@FD09C.mutant("S₂ squared")
def squared() -> Evidence:
    return _bias(2)
