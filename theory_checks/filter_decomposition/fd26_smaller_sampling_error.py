"""FD-26: whether the product of averages has the smaller sampling error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from fedstat.claims import Claim, Evidence, both, compared, enumeration
from theory_checks.filter_decomposition.drawn_clients import (
    DECISIVE,
    RATES,
    SMALL_POPULATIONS,
    Drawn,
    Pair,
    crossed,
    populations,
    some_drawn,
)
from theory_checks.filter_decomposition.exact_laws import mean, sided

FD26 = Claim(
    id="FD-26",
    place="appendix A.5.2, 'Influences of virtual clients', second sentence",
    said_by="paper",
    words="The sampling error of the product of averages, Q, is never larger than that of the average of products, P.",
    statement="EE norm(Q - hat(w))^2 <= EE norm(P - hat(w))^2",
    severity="unstated condition",
    assumptions="more than one client is drawn and fewer than all; A.3, from which the statement is taken, gives every "
    "product of one client's coefficient and another's atom the variance of a client's own, as independence would",
    sensitivity="any excess in the populations tried",
    flaw="The product of averages does not estimate the average of products but lacks most of the covariance of "
    "coefficients and atoms over clients; and where the two depend on one another, its variance can be the larger one "
    "as well.",
    corrected="FD-26c",
)

NAMES = ("error of Q", "error of P")
CROSSED = "draws from populations in which every coefficient meets every atom"


def errors(case: Drawn) -> Pair:
    """Return the errors of Q and of P about the average of all clients' products."""
    found = case.moments()
    return Fraction(found.decomposed_mse), Fraction(found.plain_variance)


def variances(case: Drawn) -> Pair:
    """Return the mean squares of Q and of P about their own means."""
    found = case.moments()
    return Fraction(found.decomposed_variance), Fraction(found.plain_variance)


def never_larger(
    cases: Iterable[Drawn], sides: Callable[[Drawn], Pair], of: str, names: tuple[str, str] = NAMES
) -> Evidence:
    return compared(sided(cases, sides, names), of=of)


@FD26.reading("about the average of all clients' products, as printed")
def about_the_average() -> Evidence:
    return never_larger(some_drawn(4), errors, SMALL_POPULATIONS)


@FD26.reading("each about its own mean, as in A.3")
def about_own_means() -> Evidence:
    return never_larger(some_drawn(4), variances, SMALL_POPULATIONS, ("variance of Q", "variance of P"))


@FD26.reading("coefficients and atoms independent over the clients, as A.3 takes for granted")
def independent() -> Evidence:
    return never_larger(crossed(), errors, CROSSED)


@FD26.mutant("the error of P never larger than that of Q, where every coefficient meets every atom")
def reverse() -> Evidence:
    return never_larger(crossed(), lambda case: errors(case)[::-1], CROSSED, NAMES[::-1])


@FD26.control("coefficients and atoms independent over the clients, some values twice as frequent as others")
def frequencies() -> Evidence:
    return never_larger(crossed(((0, 0, 1), (1, 2, 2), (-1, 1))), errors, CROSSED)


FD26C = Claim(
    id="FD-26c",
    place="corrected statement of FD-26",
    said_by="fedstat",
    words="For one atom the two errors agree to second order in the clients' spread and are equal for m = 1; for m = M "
    "that of Q is larger by the squared covariance; if every coefficient meets every atom once, it is never larger.",
    statement="EE norm(Q - hat(w))^2 - EE norm(P - hat(w))^2 = (1 - f) t_11^2 - 2 (f - f_3)(a_0 t_12 + d_0 t_21) "
    "- (f - f_4) t_22 + g (t_20 t_02 + 2 t_11^2)",
    severity="false",
    assumptions=f"{RATES}; {DECISIVE}",
    sensitivity="any difference in the populations tried, or of the rational functions in m and M",
)


def rates(m: Any, size: Any) -> tuple[Any, Any, Any, Any]:
    """Return f, f3, f4 and g of `RATES`, of numbers or of symbols."""
    pi = [Fraction(1)]
    for r in range(4):
        pi.append(Fraction(0) if pi[-1] == 0 or m == r else pi[-1] * (m - r) / (size - r))
    third = size * (pi[1] - 3 * pi[2] + 2 * pi[3]) / m**3
    fourth = size * (pi[1] - 7 * pi[2] + 12 * pi[3] - 6 * pi[4]) / m**4
    return (pi[1] - pi[2]) * size / m**2, third, fourth, size**2 * (pi[2] - 2 * pi[3] + pi[4]) / m**4


def crossed_difference() -> Evidence:
    """Compare ``f - f4 - g`` and ``f - f3`` with their factored forms."""
    import sympy

    m, size = sympy.symbols("m M", positive=True)
    f, f3, f4, g = rates(m, size)
    factored = size * (size - m) * (m - 1) * (size * m - 4 * m + 2) / (m**3 * (size - 1) * (size - 2) * (size - 3))
    zeros = {
        "f − f₄ − g": f - f4 - g - factored,
        "f − f₃": f - f3 - size * (size - m) * (m - 1) / (m**2 * (size - 1) * (size - 2)),
    }
    return enumeration(
        zeros, lambda name: bool(sympy.simplify(zeros[name]) == 0), of="coefficients, as rational functions of m and M"
    )


def difference(sign: int) -> Evidence:
    """Compare the difference of the two errors with the formula, and with what it says in three cases.

    By FD-25c and (31),

        error of Q - error of P = (1 - f) t_11^2 - 2 (f - f3)(a0 t_12 + d0 t_21) - (f - f4) t_22
                                  + g (t_20 t_02 + 2 t_11^2),

    since the terms of second order, ``f (a0^2 t_02 + d0^2 t_20 + 2 a0 d0 t_11)``, are the same. For m = 1 all four
    coefficients vanish; for m = M only ``t_11^2`` is left. If every coefficient meets every atom once, or all as often
    as independence wants, then ``t_11 = t_12 = t_21 = 0`` and ``t_22 = t_20 t_02``, and the difference is
    ``-(f - f4 - g) t_20 t_02`` with
    ``f - f4 - g = M (M - m)(m - 1)(M m - 4 m + 2) / (m^3 (M - 1)(M - 2)(M - 3)) >= 0`` for M >= 4.
    """

    def sides(case: Drawn) -> Pair:
        f, f3, f4, g = rates(Fraction(case.m), Fraction(len(case.clients)))
        a0, d0 = case.centre
        t = case.central
        claimed = (1 - f) * t(1, 1) ** 2 + sign * 2 * (f - f3) * (a0 * t(1, 2) + d0 * t(2, 1))
        claimed += g * (t(2, 0) * t(0, 2) + 2 * t(1, 1) ** 2) - (f - f4) * t(2, 2)
        centre = case.everyone
        return mean((q - centre) ** 2 - (p - centre) ** 2 for p, q in case.aggregates()), claimed

    def limit(case: Drawn) -> Pair:
        error, plain = errors(case)
        return error - plain, 0 if case.m == 1 else case.central(1, 1) ** 2

    found = sided(populations(4), sides, ("difference of the errors", "by the formula"))
    ends = (c for c in populations(3) if c.m in (1, len(c.clients)))
    limits = sided(ends, limit, ("difference of the errors", "claimed"))
    return both(
        compared(found, of=f"{SMALL_POPULATIONS}, against all subsets", relation="==", every=True),
        compared(limits, of="draws of one client or of all", relation="==", every=True),
        crossed_difference(),
        compared(sided(crossed(), errors, NAMES), of=CROSSED, every=True),
    )


@FD26C.reading("the exact difference and its three cases")
def exact_difference() -> Evidence:
    return difference(-1)


@FD26C.mutant("the terms of third order with the other sign")
def other_sign() -> Evidence:
    return difference(1)
