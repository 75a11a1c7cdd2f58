"""FD-26: virtual clients can make the sampling error larger.

FD-26c: when virtual clients lower the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.any_draw import (
    Independent,
    errors,
    independent,
    mean_square,
    rates,
    symbols,
    vanish,
    variances,
)
from theory_checks.filter_decomposition.drawn_clients import (
    RATES,
    SMALL_POPULATIONS,
    Drawn,
    Pair,
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
    "product of one client's coefficient and another's atom the variance of a client's own, as independence would; "
    "with independent clients errors are averages over their law too",
    sensitivity="any excess in the populations tried; with half of the clients drawn the two errors are equal",
    flaw="A.3 is about the variance of each average, but the sampling error is taken about the average of all "
    "products, which the product of averages does not estimate. Even if coefficients and atoms are independent, the "
    "M clients at hand have some covariance by chance, and Q misses most of it: where more than half of the clients "
    "are drawn, that outweighs the smaller variance.",
    corrected="FD-26c",
)

NAMES = ("error of Q", "error of P")
OWN = ("variance of Q", "variance of P")
LAWS = "laws of independent coefficients and atoms of up to 6 clients"


def partly(m: int, size: int) -> bool:
    return 1 < m < size


def on_average(cases: Iterable[Independent], values: Callable[[Drawn], Pair], names: tuple[str, str]) -> Evidence:
    """Compare Q with P on average over all populations and draws."""
    return compared((Sides(str(case), *case.average(values), names) for case in cases), of=LAWS)


@FD26.reading("about the average of all clients' products, as printed")
def about_the_average() -> Evidence:
    return compared(sided(some_drawn(4), errors, NAMES), of=SMALL_POPULATIONS)


@FD26.reading("each about its own mean, as in A.3")
def about_own_means() -> Evidence:
    return compared(sided(some_drawn(4), variances, OWN), of=SMALL_POPULATIONS)


@FD26.condition("coefficients and atoms independent over the clients, as A.3 takes for granted, any number drawn")
def independence() -> Evidence:
    return on_average(independent((3, 4), partly), errors, NAMES)


@FD26.condition("coefficients and atoms independent over the clients, and at most half of the clients drawn")
def at_most_half() -> Evidence:
    return on_average(independent((4, 5, 6), lambda m, size: 1 < m <= size / 2), errors, NAMES)


@FD26.condition("each about its own mean, and coefficients and atoms independent over the clients")
def own_means_independent() -> Evidence:
    """Compare the variances within a population, on average over populations.

    By FD-26c the errors differ by ``(m - 1)(2 m - M)/(m^2 M) Var alpha Var D``. Of Q's the squared bias
    ``(1 - f)^2 t_11^2`` is a part, on average ``(m - 1)^2/(m^2 (M - 1)) Var alpha Var D``; P has none. What is left is
    ``-(m - 1)(M - m)(M - 2)/(m^2 M (M - 1)) Var alpha Var D``, never positive.
    """
    return on_average(independent((3, 4, 5), partly), variances, OWN)


FD26C = Claim(
    id="FD-26c",
    place="corrected statement of FD-26",
    said_by="fedstat",
    words="For one atom the two errors differ by an exact expression in joint moments. If coefficients and atoms are "
    "independent, Q has the smaller error on average if more than one and fewer than half of the clients are drawn, "
    "the same if half are, and the larger one if more are.",
    statement="EE norm(Q - hat(w))^2 - EE norm(P - hat(w))^2 = (1 - f) t_11^2 - 2 (f - f_3)(a_0 t_12 + d_0 t_21) "
    "- (f - f_4) t_22 + g (t_20 t_02 + 2 t_11^2), quad "
    'alpha perp D => "on average" (m - 1)(2 m - M)/(m^2 M) op("Var")(alpha) op("Var")(D)',
    severity="false",
    assumptions=f"{RATES}; for the average, independent clients with one law; with several atoms the product of the "
    "variances becomes the trace of the product of the two covariance matrices, which is not negative either",
    sensitivity="each of the four terms, and the excess; any difference of the rational functions in m and M",
)


@FD26C.reading("for any m and M")
def in_general() -> Evidence:
    """Compare the difference with the formula, and its average over independent clients with the closed form.

    The functions of m and M have poles at M = 1, 2, 3, which the populations below cover.

    The error of Q is `mean_square`; that of P is by (31) f times the mean square over all clients of
    ``a0 v + d0 u + u v - t_11``. The terms of second order, ``f (a0^2 t_02 + d0^2 t_20 + 2 a0 d0 t_11)``, are the same.

    For independent clients, with A and B the variances of alpha and D, the deviations from the M clients' mean have
    ``E u_k^2 = (M - 1)/M A``, and ``E t_11^2 = (M - 1)/M^2 A B``, while ``E t_22 = E t_20 t_02 = (M - 1)^2/M^2 A B``;
    ``E a0 t_12 = E d0 t_21 = 0``, since a mean is uncorrelated with the deviations from it. In total that is
    ``(m - 1)(2 m - M)/(m^2 M) A B``. A direct way: with ``a^2 + A/m`` for the mean square of m clients' mean,
    ``E Q^2 = (a^2 + A/m)(d^2 + B/m)`` and ``E Q w^ = a^2 d^2 + (a^2 B + d^2 A)/M + A B/(m M)``.
    For a given population and many clients drawn, ``t_11^2`` outlasts all other terms, which fall like 1/m.
    """
    s = symbols()
    f, f3, f4, g = rates(s.m, s.M)
    t, a0, d0 = s.t, s.a0, s.d0
    plain = t(2, 2) - t(1, 1) ** 2 + a0**2 * t(0, 2) + d0**2 * t(2, 0) + 2 * a0 * d0 * t(1, 1)
    plain += 2 * a0 * t(1, 2) + 2 * d0 * t(2, 1)
    claimed = (1 - f) * t(1, 1) ** 2 - 2 * (f - f3) * (a0 * t(1, 2) + d0 * t(2, 1))
    claimed += g * (t(2, 0) * t(0, 2) + 2 * t(1, 1) ** 2) - (f - f4) * t(2, 2)
    squares, product = (s.M - 1) / s.M**2, (s.M - 1) ** 2 / s.M**2
    average = (1 - f) * squares + g * (product + 2 * squares) - (f - f4) * product
    differences = {
        "the difference of the errors": mean_square(s) - f * plain - claimed,
        "its average over independent clients": average - (s.m - 1) * (2 * s.m - s.M) / (s.m**2 * s.M),
    }
    return vanish(differences, of="identities of rational functions of m and M")


@FD26C.reading("against all draws from small populations")
def on_populations() -> Evidence:
    def cases() -> Iterator[Sides]:
        for case in populations(4):
            f, f3, f4, g = rates(case.sizes.m, case.sizes.M)
            (a0, d0), t, centre = case.centre, case.central, case.everyone
            claimed = {
                "squared covariance": (1 - f) * t(1, 1) ** 2,
                "third moments": -2 * (f - f3) * (a0 * t(1, 2) + d0 * t(2, 1)),
                "fourth moment": -(f - f4) * t(2, 2),
                "products of moments": g * (t(2, 0) * t(0, 2) + 2 * t(1, 1) ** 2),
            }
            found = mean((q - centre) ** 2 - (p - centre) ** 2 for p, q in case.aggregates())
            yield Sides(str(case), found, claimed, ("difference of the errors", "by the formula"))

    return compared(cases(), of=SMALL_POPULATIONS, relation="==")


@FD26C.reading("on average over independent clients")
def over_laws() -> Evidence:
    def cases() -> Iterator[Sides]:
        for case in independent((2, 3, 4), lambda m, size: True):
            found, plain = case.average(errors)
            yield Sides(str(case), found, {"error of P": plain, "excess": case.excess}, ("error of Q", "claimed"))

    return compared(cases(), of="laws of up to 4 independent clients", relation="==")
