"""FD-03: the product of averages may vary more, not less.

FD-03c: when the variance is no larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from fedstat.claims import Claim, Evidence, Sides, all_of, compared, enumeration
from theory_checks.filter_decomposition.exact_laws import (
    ENOUGH_CLIENTS,
    HALF,
    ONE,
    POLYNOMIALS,
    QUARTER,
    THIRD,
    VARIANCES,
    WEIGHTS,
    Exact,
    Law,
    Moment,
    Pair,
    centred_moment,
    expectation,
    independent_laws,
    never_larger,
    sided,
    small_laws,
    text,
    total,
    uniform_laws,
    weighted,
)
from theory_checks.filter_decomposition.filter_laws import FILTERS, any_filters, enumerated_filters, several_atoms


@dataclass(frozen=True)
class Clients:
    """Independent clients, each with a law of its own, and their weights in the aggregate."""

    laws: tuple[Law, ...]
    weights: tuple[Fraction, ...] = WEIGHTS[0]

    def __str__(self) -> str:
        told = "; ".join(f"client {k}: (α, D) = {law.told}" for k, law in enumerate(self.laws, 1))
        return f"{told}; p = ({text(*self.weights)})"

    def variances(self) -> Pair:
        """Return Var Q and Var P from all outcomes of all clients."""
        outcomes = []
        for drawn in product(*(range(len(law.values)) for law in self.laws)):
            each = list(zip(self.weights, self.laws, drawn, strict=True))
            q = prod((law.probabilities[k] for _, law, k in each), start=ONE)
            values = [(p, *law.values[k]) for p, law, k in each]
            separate = total(p * a for p, a, _ in values) * total(p * d for p, _, d in values)
            outcomes.append((q, separate, total(p * a * d for p, a, d in values)))
        var_q, var_p = (
            total(o[0] * o[i] ** 2 for o in outcomes) - total(o[0] * o[i] for o in outcomes) ** 2 for i in (1, 2)
        )
        return var_q, var_p


def _client(mean: Pair, scale: Pair = (1, 1), shapes: Sequence[int] = (0, 0)) -> Law:
    """Return an independent coefficient and atom with these means and standard deviations, of these shapes."""
    shape: tuple[tuple[tuple[Exact, Fraction], ...], ...] = (
        ((-1, HALF), (1, HALF)),
        ((-2, Fraction(1, 5)), (HALF, Fraction(4, 5))),
        ((-2, QUARTER / 2), (0, 3 * QUARTER), (2, QUARTER / 2)),
    )  # all with mean zero and variance one
    drawn = list(product(*(shape[i] for i in shapes)))
    values = tuple((mean[0] + scale[0] * x, mean[1] + scale[1] * y) for (x, _), (y, _) in drawn)
    return Law(values, tuple(q * r for (_, q), (_, r) in drawn))


def _rescaled(largest: int) -> Iterator[tuple[int, Clients]]:
    """Yield c and two clients with the same filters: one's coefficients are c times the other's, its atom is 1/c."""
    for c in range(1, largest + 1):
        yield c, Clients(tuple(Law(((0, Fraction(1, s)), (s, Fraction(1, s))), (HALF, HALF)) for s in (1, c)))


def _never_larger(cases: Iterable[Clients], of: str) -> Evidence:
    return compared(sided(cases, Clients.variances, VARIANCES), of=of)


def _alike() -> Iterator[Clients]:
    """Yield clients with independent coefficients and atoms, the same variances, and one mean or equal weights."""
    means, scales = ((0, 0), (1, 0), (1, 1), (2, -1)), ((1, 1), (1, 2), (3, 1))
    for mean, scale, shapes, p in product(means, scales, ((0, 1), (1, 2), (2, 0)), WEIGHTS[:2]):
        yield Clients((_client(mean, scale), _client(mean, scale, shapes)), p)
    for one, other, scale in product(means, means, scales):
        yield Clients((_client(one, scale), _client(other, scale)))
    for scale in scales:
        yield Clients(tuple(_client(mean, scale) for mean in means[:3]), WEIGHTS[2])


ALIKE = (
    "groups of clients with independent coefficients and atoms, the same variances and the same means or equal weights"
)

FD03 = Claim(
    id="FD-03",
    place="section 4.1, Proposition 4.1",
    said_by="paper",
    words="The product of averages never has a larger variance than the average of products.",
    statement='op("Var") Q <= op("Var") P',
    severity="unstated condition",
    assumptions="P is the average of products and Q the product of averages; clients independent; nothing else is "
    "stated, and the proof takes all products to have one variance",
    sensitivity="any excess in the enumerated laws",
    flaw="The proof adds the variances of all products as if products that share a client were uncorrelated and all "
    "had one variance. If α and D change sign together, say (1, 1) or (−1, −1), every client has the same filter and "
    "the average of products does not vary at all, while the product of averages does. Independence within each client "
    "does not mend this where clients differ: if the atoms do not vary, and one of two clients has ten times the "
    "other's coefficients and a tenth of its atom, both have the same filters, and the product of averages has fifteen "
    "times the variance.",
    corrected="FD-03c",
)


@FD03.reading("whatever the dependence of coefficients and atoms, as stated")
def any_law() -> Evidence:
    return never_larger(small_laws(), "small laws of (α, D), the same for all clients, with several weights")


@FD03.condition("every client's coefficients independent of its atoms")
def independent() -> Evidence:
    return _never_larger((clients for _, clients in _rescaled(10)), "pairs of clients with the same filters")


@FD03.condition(
    "every client's coefficients independent of its atoms; at all clients the same variances, and the same means or "
    "equal weights"
)
def independent_and_alike() -> Evidence:
    one_law = never_larger(independent_laws(), "products of two small laws, the same for all clients")
    return all_of([_never_larger(_alike(), ALIKE), one_law])


@FD03.control("symmetric laws, the same for all clients, whose fourth joint cumulant is not negative")
def symmetric() -> Evidence:
    return never_larger(weighted(_symmetric_laws(), WEIGHTS[:3]), "symmetric laws, with several weights")


def _symmetric_laws(*, cumulant: bool = True) -> Iterator[Law]:
    """Yield laws symmetric about a centre, whose third moments vanish: two pairs of opposite points, and the centre.

    Laws with a negative fourth joint cumulant are left out if `cumulant` says so.
    """
    points = ((1, 0), (0, 1), (1, 1), (1, -1), (2, 1), (1, -2))
    for (a, d), (b, e) in product(points, points):
        for q, (x, y) in product((QUARTER, QUARTER / 2, QUARTER / 4), ((0, 0), (1, 0), (1, 1), (2, -1))):
            values = tuple((x + s, y + t) for s, t in ((a, d), (-a, -d), (b, e), (-b, -e), (0, 0)))
            law = Law(values, (q, q, q, q, 1 - 4 * q))
            fourth = law.central(2, 2) - law.central(2, 0) * law.central(0, 2) - 2 * law.central(1, 1) ** 2
            if fourth >= 0 or not cumulant:
                yield law


FD03C = Claim(
    id="FD-03c",
    place="corrected statement of FD-03",
    said_by="fedstat",
    words="The difference of the variances is a sum of four terms, in means, variances and joint cumulants. The "
    "product of averages never has the larger variance if each client's coefficients are independent of its atoms, and "
    "all clients have the same variances and the same means or equal weights; where clients differ in scale, its "
    "variance can be any number of times the other.",
    statement='op("Var") P - op("Var") Q = sum_k p_k^2 (q_k (a_k, d_k) - q_k (macron(a), macron(d))) '
    "+ 2 sum_k p_k^2 ((a_k - p_k macron(a)) kappa_(12, k) + (d_k - p_k macron(d)) kappa_(21, k)) "
    "+ sum_k p_k^2 (1 - p_k^2) kappa_(22, k) + sum_k p_k^2 (sigma_k^2 tau_k^2 + c_k^2) "
    "- (sum_k p_k^2 sigma_k^2)(sum_k p_k^2 tau_k^2) - (sum_k p_k^2 c_k)^2, quad "
    "q_k (x, y) = x^2 tau_k^2 + 2 x y c_k + y^2 sigma_k^2",
    severity="false",
    assumptions="one atom; clients independent, each with a law of its own: means a_k and d_k with averages ā and d̄, "
    "variances σ_k² and τ_k², covariance c_k and joint cumulants κ of higher order; in place of independence within a "
    "client it is enough that the κ of order 3 vanish, those of order 4 are not negative and all have one covariance; "
    "for several atoms the difference is judged with one law for all clients",
    sensitivity="any difference between the polynomials; any excess in the enumerated laws",
)


def _summands(p: Sequence[Any], a: Sequence[Any], d: Sequence[Any], mu: Sequence[Moment]) -> dict[str, Any]:
    """Return the four terms of the difference of the variances, for numbers or symbols.

    Write ``alpha_k = a_k + u_k`` and ``D_k = d_k + v_k``, ``U = sum p_k u_k``, ``V = sum p_k v_k`` and abar, dbar for
    the weighted averages of the means. With ``E u_k^2 v_k^2 = kappa_22 + s_k t_k + 2 c_k^2`` for variances s, t and the
    covariance c of client k (the index k of kappa left out),

        Var P = sum p_k^2 (a_k^2 t_k + d_k^2 s_k + 2 a_k d_k c_k + 2 a_k kappa_12 + 2 d_k kappa_21
                           + kappa_22 + s_k t_k + c_k^2),

    and for ``Q = (abar + U)(dbar + V)``, in whose moments only products of one client's deviations survive,

        Var Q = sum p_k^2 (abar^2 t_k + dbar^2 s_k + 2 abar dbar c_k) + 2 sum p_k^3 (abar kappa_12 + dbar kappa_21)
                + sum p_k^4 kappa_22 + (sum p_k^2 s_k)(sum p_k^2 t_k) + (sum p_k^2 c_k)^2.

    Sign. Let the third cumulants vanish and kappa_22 not be negative. For clients with one covariance matrix the first
    term is zero if means agree; for equal weights it is ``1/m`` times the mean of ``q(a_k, d_k)`` minus q at the mean,
    not negative since the quadratic form q is convex. The last is then ``S2 (1 - S2)(s t + c^2)``. Both can be had for
    less where coefficients and atoms are uncorrelated: let clients with larger ``a_k^2`` have no smaller ``p_k t_k``,
    with larger ``d_k^2`` no smaller ``p_k s_k``, and with larger s_k no smaller t_k. By Chebyshev's sum inequality
    with weights p_k, ``sum p_k (p_k t_k)(a_k^2 - abar^2)`` is at least ``(sum p_k^2 t_k)(sum p_k a_k^2 - abar^2)``;
    with weights p_k^2, ``(sum p_k^2 s_k)(sum p_k^2 t_k) <= S2 sum p_k^2 s_k t_k``, and ``S2 <= 1``.
    """
    every = range(len(p))
    abar, dbar = (sum(w * x for w, x in zip(p, xs, strict=True)) for xs in (a, d))
    s, t, c = ([mu[k](*powers) for k in every] for powers in ((2, 0), (0, 2), (1, 1)))

    def average(of: Callable[[int], Any]) -> Any:
        return sum(p[k] ** 2 * of(k) for k in every)

    def linear(k: int, x: Any, y: Any) -> Any:
        return x**2 * t[k] + 2 * x * y * c[k] + y**2 * s[k]

    def third(k: int) -> Any:
        return (a[k] - p[k] * abar) * mu[k](1, 2) + (d[k] - p[k] * dbar) * mu[k](2, 1)

    apart = average(lambda k: s[k]) * average(lambda k: t[k]) + average(lambda k: c[k]) ** 2
    return {
        "means": average(lambda k: linear(k, a[k], d[k]) - linear(k, abar, dbar)),
        "third cumulants": 2 * average(third),
        "fourth cumulants": average(lambda k: (1 - p[k] ** 2) * (mu[k](2, 2) - s[k] * t[k] - 2 * c[k] ** 2)),
        "second moments": average(lambda k: s[k] * t[k] + c[k] ** 2) - apart,
    }


@FD03C.reading("one atom: the exact difference, for all laws of all clients at once")
def exact_difference() -> Evidence:
    import sympy

    def vanishes(m: int) -> bool:
        p, a, d, u, v = (sympy.symbols(f"{letter}1:{m + 1}") for letter in "padxy")
        mu = [centred_moment(_symbols(k)) for k in range(m)]
        average_a, average_d, first, second = (sum(w * x for w, x in zip(p, xs, strict=True)) for xs in (a, d, u, v))
        plain = sum(w * (x * f + y * e + e * f) for w, x, y, e, f in zip(p, a, d, u, v, strict=True))
        decomposed = average_a * second + average_d * first + first * second
        clients = list(zip(u, v, strict=True))
        var_p, var_q = (expectation(z**2, clients, mu) - expectation(z, clients, mu) ** 2 for z in (plain, decomposed))
        return bool(sympy.expand(var_p - var_q - sum(_summands(p, a, d, mu).values())) == 0)

    return enumeration(ENOUGH_CLIENTS, vanishes, of=POLYNOMIALS, show=lambda m: f"m = {m}")


def _symbols(client: int) -> Moment:
    import sympy

    return lambda i, j: sympy.Symbol(f"mu{client}_{i}{j}")


@FD03C.reading("one atom: the exact difference, on small laws")
def on_small_laws() -> Evidence:
    some = [*list(uniform_laws(2, 1))[::5], *list(uniform_laws(3, 1))[::17], _client((1, 2), (2, 1), (1, 2))]
    some += [Law(law.values, (THIRD, 1 - THIRD)) for law in list(uniform_laws(2, 1))[::7]]

    def sides(case: Clients) -> tuple[Fraction, dict[str, Any]]:
        var_q, var_p = case.variances()
        a, d = ([law.mean(*powers) for law in case.laws] for powers in ((1, 0), (0, 1)))
        return Fraction(var_p) - var_q, _summands(case.weights, a, d, [law.central for law in case.laws])

    cases = (Clients(laws, p) for laws in product(some, some) for p in WEIGHTS[:2])
    names = ("difference of the variances", "by the formula")
    return compared(sided(cases, sides, names), of="pairs of clients with small laws", relation="==")


@FD03C.reading("one atom: its sign, for independent coefficients and atoms")
def sign() -> Evidence:
    return _never_larger(_alike(), ALIKE)


def _covariances_alike(*, cumulant: bool) -> Evidence:
    """Judge symmetric laws: with any weights the same for all clients, with equal weights about different centres."""
    centres = list(_symmetric_laws(cumulant=cumulant))
    four = [centres[i : i + 4] for i in range(0, len(centres), 4)]  # four centres of the same law
    pairs = (Clients((one, other)) for laws in four for one, other in zip(laws, laws[1:] + laws[:1], strict=True))
    of = "symmetric laws with one covariance that meet the condition"
    return all_of([never_larger(weighted(centres, WEIGHTS[:3]), of), _never_larger(pairs, of)])


@FD03C.reading("one atom: its sign, for one covariance, third joint cumulants of zero and fourth that are not negative")
def covariances_alike() -> Evidence:
    return _covariances_alike(cumulant=True)


def _ordered(*, means: bool = True, variances: bool = True) -> Evidence:
    """Judge independent coefficients and atoms, whose means and variances are ordered as the derivation asks."""

    def alike(x: Sequence[Any], y: Sequence[Any]) -> bool:
        return bool((x[0] - x[1]) * (y[0] - y[1]) >= 0)

    def meets(moments: Sequence[Sequence[int]], p: Sequence[Fraction]) -> bool:
        a, d, s, t = zip(*moments, strict=True)
        of_a, of_d = ([w * x * x for w, x in zip(p, xs, strict=True)] for xs in (t, s))
        by_means = alike([x * x for x in a], of_a) and alike([x * x for x in d], of_d)
        return (by_means or not means) and (alike(s, t) or not variances)

    values = list(product((0, 1, 2), repeat=4))
    chosen = [(m, p) for m in product(values, values) for p in WEIGHTS[:2] if meets(m, p)]
    cases = (Clients(tuple(_client((a, d), (s, t)) for a, d, s, t in m), p) for m, p in chosen[::7])
    return _never_larger(cases, "pairs of clients with means and variances in the same order")


@FD03C.reading("one atom: its sign, for uncorrelated coefficients and atoms with means and variances in the same order")
def ordered() -> Evidence:
    return _ordered()


@FD03C.reading("one atom: two clients with the same filters, a coefficient c times as large and an atom 1/c as large")
def rescaled() -> Evidence:
    """With the atoms constant, ``Var P = s/2`` and ``Var Q = ((1 + 1/c)/2)^2 (1 + c^2) s/4``."""

    def sides(c: int, clients: Clients) -> Sides:
        var_q, var_p = clients.variances()
        factor = Fraction((1 + c) ** 2 * (1 + c * c), 8 * c * c)
        return Sides(f"c = {c}", var_q, factor * var_p, ("variance of the product of averages", "claimed"))

    return compared((sides(*case) for case in _rescaled(10)), of="scales c", relation="==")


@FD03C.reading("filters of several atoms, one law for all clients: the exact difference, for all laws at once")
def filters() -> Evidence:
    return several_atoms()


@FD03C.reading("filters of several atoms, one law for all clients: the exact difference, on small laws")
def small_filters() -> Evidence:
    return enumerated_filters(any_filters(), FILTERS)


@FD03C.mutant("the condition on the fourth cumulant left out")
def no_cumulant() -> Evidence:
    return _covariances_alike(cumulant=False)


@FD03C.mutant("means in any order")
def means_in_any_order() -> Evidence:
    return _ordered(means=False)


@FD03C.mutant("the variances of coefficients and of atoms in any order")
def variances_in_any_order() -> Evidence:
    return _ordered(variances=False)
