"""FD-25: products with virtual clients are no random sample.

FD-25c: the exact error with virtual clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations
from typing import Any

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.any_draw import mean_square, rates, symbols, vanish
from theory_checks.filter_decomposition.drawn_clients import (
    RATES,
    SMALL_POPULATIONS,
    Drawn,
    Pair,
    populations,
    some_drawn,
)
from theory_checks.filter_decomposition.exact_laws import mean, sided, total

FD25 = Claim(
    id="FD-25",
    place="appendix A.5.2, equation (33), last line",
    said_by="paper",
    words="With virtual clients the sampling error is that of m² products drawn from M²: "
    "(M² − m²)/(m²M²(M² − 1)) times the summed squared distances of all M² products from ŵ.",
    statement="EE norm(Q - hat(w))^2 = (M^2 - m^2)/(m^2 M^2 (M^2 - 1)) sum_(k, l) norm(alpha_k D_l - hat(w))^2",
    severity="false",
    assumptions="Q is the product of the drawn clients' averages of α and of D, one atom; more than one client is "
    "drawn and fewer than all",
    sensitivity="any difference in the populations tried",
    flaw="The m² products are not a simple random sample of the M²: m coefficients and m atoms are drawn, of the "
    "same clients, and every product they form comes with them.",
    corrected="FD-25c",
)


PRODUCTS = "draws from the products of up to 3 clients with α, D in {−1, 0, 1}"


def all_products(case: Drawn) -> list[int]:
    """Return the products of all coefficients with all atoms."""
    return [a * d for a, _ in case.clients for _, d in case.clients]


def averages(case: Drawn) -> Iterator[Fraction]:
    """Yield Q of every draw of clients."""
    return (q for _, q in case.aggregates())


def own_draws(case: Drawn) -> Iterator[Fraction]:
    """Yield the average of every m^2 of the M^2 products, as if these were drawn one by one."""
    return (Fraction(sum(s), case.m**2) for s in combinations(all_products(case), case.m**2))


def printed_error(
    cases: Iterable[Drawn],
    target: Callable[[Drawn], Fraction],
    draws: Callable[[Drawn], Iterator[Fraction]] = averages,
    of: str = SMALL_POPULATIONS,
) -> Evidence:
    """Compare the mean square about a target, over equally likely draws, with that of (33)."""

    def sides(case: Drawn) -> Pair:
        centre = target(case)
        squares = total((x - centre) ** 2 for x in all_products(case))
        return mean((x - centre) ** 2 for x in draws(case)), case.sizes.printed * squares

    return compared(sided(cases, sides, ("error", "by (33)")), of=of, relation="==")


@FD25.reading("about ŵ, the average of all clients' filters, as defined")
def about_the_average() -> Evidence:
    return printed_error(some_drawn(4), lambda case: case.everyone)


@FD25.reading("about the product of averages over all clients")
def about_the_product() -> Evidence:
    return printed_error(some_drawn(4), lambda case: case.own_value)


@FD25.control("m² of the M² products drawn one by one, about the average of all M²")
def products_drawn() -> Evidence:
    return printed_error(populations(3), lambda case: case.own_value, own_draws, PRODUCTS)


FD25C = Claim(
    id="FD-25c",
    place="corrected statement of FD-25",
    said_by="fedstat",
    words="For one atom, the exact sampling error of the product of averages has a closed form in the clients' joint "
    "moments.",
    statement="EE norm(Q - hat(w))^2 = f (a_0^2 t_02 + d_0^2 t_20 + 2 a_0 d_0 t_11) + 2 f_3 (a_0 t_12 + d_0 t_21) "
    "+ f_4 t_22 + g (t_20 t_02 + 2 t_11^2) + (1 - 2 f) t_11^2",
    severity="false",
    assumptions=RATES,
    sensitivity="each of the five terms; any difference of the rational functions in m and M",
)


@FD25C.reading("for any m and M")
def in_general() -> Evidence:
    """Compare the mean square of ``Q - w^ = a0 y + d0 x + x y - t_11`` with the formula.

    The moments of x and y follow from sums over different clients, in which ``sum u = sum v = 0`` leaves only the
    ``T_ij = M t_ij``; with the probability ``pi_r`` that r given clients are drawn,

        E x y = T_11 (pi_1 - pi_2) / m^2 = f t_11, likewise E x^2 and E y^2,
        E x y^2 = T_12 (pi_1 - 3 pi_2 + 2 pi_3) / m^3 = f3 t_12, likewise E x^2 y,
        E x^2 y^2 = (T_22 (pi_1 - 7 pi_2 + 12 pi_3 - 6 pi_4) + (T_20 T_02 + 2 T_11^2)(pi_2 - 2 pi_3 + pi_4)) / m^4
                  = f4 t_22 + g (t_20 t_02 + 2 t_11^2).

    `any_draw` forms these sums from their definition. The functions of m and M have poles at M = 1, 2, 3, which the
    populations below cover.
    """
    s = symbols()
    claimed = sum(formula(s.t, (s.a0, s.d0), s.m, s.M).values())
    return vanish({"the error and the formula": mean_square(s) - claimed}, of="rational functions of m and M")


def formula(t: Callable[[int, int], Any], centre: tuple[Any, Any], m: Any, size: Any) -> dict[str, Any]:
    """Return the summands of the closed form."""
    f, f3, f4, g = rates(m, size)
    a0, d0 = centre
    return {
        "second moments": f * (a0**2 * t(0, 2) + d0**2 * t(2, 0) + 2 * a0 * d0 * t(1, 1)),
        "third moments": 2 * f3 * (a0 * t(1, 2) + d0 * t(2, 1)),
        "fourth moment": f4 * t(2, 2),
        "products of moments": g * (t(2, 0) * t(0, 2) + 2 * t(1, 1) ** 2),
        "bias": (1 - 2 * f) * t(1, 1) ** 2,
    }


@FD25C.reading("against all draws from small populations, and with the library's closed form")
def on_populations() -> Evidence:
    def cases() -> Iterator[Sides]:
        for case in populations(4):
            error = case.squared_error(case.everyone)
            summands = formula(case.central, case.centre, case.sizes.m, case.sizes.M)
            yield Sides(str(case), error, summands, ("error", "by the formula"))
            yield Sides(str(case), error, Fraction(case.moments().decomposed_mse), ("error", "by the library"))

    return compared(cases(), of=SMALL_POPULATIONS, relation="==")
