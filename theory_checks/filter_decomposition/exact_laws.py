"""Small laws of a client's coefficient and atom: exact cases, and identities over all laws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import factorial, prod
from typing import Any, TypeVar

from fedstat.claims import Evidence, Sides, compared, enumeration
from fedstat.theory.product_average import ProductAverage, product_average_moments

Exact = int | Fraction
Pair = tuple[Exact, Exact]
Case = TypeVar("Case")

ONE, HALF, THIRD, QUARTER = Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
#: Aggregation weights that small cases are tried with.
WEIGHTS = ((HALF, HALF), (THIRD, 1 - THIRD), (THIRD, THIRD, THIRD), (QUARTER, QUARTER, HALF), (ONE,))


# --- exact cases and how they are compared -------------------------------------------------------------------------


def text(*numbers: Exact) -> str:
    """Write numbers separated by commas, with a true minus sign."""
    return ", ".join(map(str, numbers)).replace("-", "−")


def total(numbers: Iterable[Exact]) -> Fraction:
    """Sum, as a fraction."""
    return Fraction(sum(numbers, Fraction(0)))


def sided(cases: Iterable[Case], sides: Callable[[Case], tuple[Any, Any]], names: tuple[str, str]) -> Iterator[Sides]:
    """Put the two sides of a relation, numbers or named summands, beside each case."""
    for case in cases:
        yield Sides(str(case), *sides(case), names=names)


@dataclass(frozen=True)
class Law:
    """Independent clients with these values of (alpha, D), and their weights in the aggregate."""

    values: tuple[Pair, ...]
    probabilities: tuple[Fraction, ...]
    weights: tuple[Fraction, ...] = WEIGHTS[0]

    def __str__(self) -> str:
        return f"(α, D) = {self.told}, p = ({text(*self.weights)})"

    @property
    def told(self) -> str:
        """The values and their probabilities, in words."""
        values = " or ".join(f"({text(*v)})" for v in self.values)
        return f"{values} with probabilities {text(*self.probabilities)}"

    def mean(self, i: int, j: int) -> Fraction:
        """Return E alpha^i D^j."""
        return total(q * a**i * d**j for q, (a, d) in zip(self.probabilities, self.values, strict=True))

    def central(self, i: int, j: int) -> Fraction:
        """Return E u^i v^j."""
        a0, d0 = self.mean(1, 0), self.mean(0, 1)
        return replace(self, values=tuple((a - a0, d - d0) for a, d in self.values)).mean(i, j)

    def power(self, r: int) -> Fraction:
        """Return S_r."""
        return total(p**r for p in self.weights)

    def moments(self) -> ProductAverage:
        """Return the library's closed forms."""
        return product_average_moments(self.values, self.probabilities, self.weights)

    def enumerated(self) -> tuple[Fraction, Fraction, Fraction]:
        """Return E P, E Q and Var Q from all outcomes of all clients."""
        outcomes = []
        for drawn in product(range(len(self.values)), repeat=len(self.weights)):
            clients = [(p, *self.values[k]) for p, k in zip(self.weights, drawn, strict=True)]
            q = prod((self.probabilities[k] for k in drawn), start=ONE)
            separate = total(p * a for p, a, _ in clients) * total(p * d for p, _, d in clients)
            outcomes.append((q, total(p * a * d for p, a, d in clients), separate))
        mean_p, mean_q = total(q * x for q, x, _ in outcomes), total(q * y for q, _, y in outcomes)
        return mean_p, mean_q, total(q * (y - mean_q) ** 2 for q, _, y in outcomes)


def uniform_laws(points: int, reach: int) -> Iterator[Law]:
    """Yield laws with equal probabilities on `points` points with coordinates up to `reach`, smallest first."""
    axis = sorted(range(-reach, reach + 1), key=lambda x: (abs(x), -x))
    grid = sorted(product(axis, axis), key=lambda v: (abs(v[0]) + abs(v[1]), max(map(abs, v))))
    for values in sorted(combinations(grid, points), key=lambda vs: sum(abs(x) for v in vs for x in v)):
        yield Law(values, (Fraction(1, points),) * points)


def weighted(laws: Iterable[Law], weights: Sequence[tuple[Fraction, ...]] = WEIGHTS) -> Iterator[Law]:
    """Yield each law with each of the weights."""
    for law in laws:
        for p in weights:
            yield replace(law, weights=p)


def small_laws() -> Iterator[Law]:
    """Yield laws on two points with equal odds, with odds 1 to 2, and on three points."""
    yield from weighted(uniform_laws(2, 1))
    for law in uniform_laws(2, 1):
        for probabilities in ((THIRD, 1 - THIRD), (1 - THIRD, THIRD)):
            yield replace(law, probabilities=probabilities)
    yield from weighted(uniform_laws(3, 1), WEIGHTS[:2])


def independent_laws() -> Iterator[Law]:
    """Yield products of two laws on up to three points."""
    single: tuple[tuple[tuple[int, ...], tuple[Fraction, ...]], ...] = (
        ((0, 1), (HALF, HALF)),
        ((-1, 1), (HALF, HALF)),
        ((0, 1), (THIRD, 1 - THIRD)),
        ((1, 2), (HALF, HALF)),
        ((-1, 2), (1 - THIRD, THIRD)),
        ((1,), (ONE,)),
        ((-1, 0, 3), (HALF, QUARTER, QUARTER)),
    )
    for (xs, qs), (ys, rs) in product(single, single):
        yield from weighted([Law(tuple(product(xs, ys)), tuple(q * r for q in qs for r in rs))])


# --- expectations of polynomials in the clients' deviations: statements about all laws at once ---------------------

#: The mixed moment of a client's deviations with these powers, coefficients first.
Moment = Callable[..., Any]


def general(*powers: int) -> Any:
    """Return a symbol for each mixed moment."""
    import sympy

    return sympy.Symbol("mu" + "".join(map(str, powers)))


def independent(*powers: int) -> Any:
    """Return mixed moments of coefficients independent of atoms: products."""
    half, moment = len(powers) // 2, centred_moment(general)
    none = (0,) * half
    return moment(*powers[:half], *none) * moment(*none, *powers[half:])


@lru_cache
def gaussian(*powers: int) -> Any:
    """Return mixed moments of jointly Gaussian deviations, from their moment generating function."""
    import sympy

    every, total_power = range(len(powers)), sum(powers)
    if total_power % 2:
        return sympy.Integer(0)
    t = sympy.symbols(f"t0:{len(powers)}")
    exponent = sum(general(*((k == i) + (k == j) for k in every)) * t[i] * t[j] for i in every for j in every) / 2
    order = total_power // 2
    power = sympy.Poly(sympy.expand(exponent**order), *t)
    term = power.coeff_monomial(prod(x**k for x, k in zip(t, powers, strict=True)))
    return sympy.expand(term * prod(map(factorial, powers)) / factorial(order))


def centred_moment(moment: Moment) -> Moment:
    """Return the moment of deviations from the mean: one of order nought, zero of order one."""

    @lru_cache
    def of(*powers: int) -> Any:
        return 1 - sum(powers) if sum(powers) < 2 else moment(*powers)

    return of


def expectation(polynomial: Any, clients: Sequence[Sequence[Any]], moment: Moment | Sequence[Moment]) -> Any:
    """Replace the monomials of a polynomial in the clients' deviations by moments: of one law, or of each client's."""
    import sympy

    width, moments = len(clients[0]), [moment] * len(clients) if callable(moment) else moment
    terms = sympy.Poly(polynomial, *(x for client in clients for x in client)).terms()
    return sum(c * prod(mu(*w[k * width : (k + 1) * width]) for k, mu in enumerate(moments)) for w, c in terms)


@dataclass(frozen=True)
class Symbols:
    """Means, power sums of weights and moments of a symbolic law of one atom, and the exact moments of P and Q."""

    a0: Any
    d0: Any
    s: Callable[[int], Any]
    mu: Moment
    mean_p: Any
    mean_q: Any
    var_p: Any
    var_q: Any


@lru_cache
def symbolic(m: int, moment: Moment = general) -> Symbols:
    """Expand P, Q and their squares for m clients; weights are symbols that sum to one where a mean is split off."""
    import sympy

    p, u, v = (sympy.symbols(f"{letter}1:{m + 1}") for letter in "puv")
    a0, d0 = sympy.symbols("a0 d0")
    mu, clients = centred_moment(moment), list(zip(u, v, strict=True))
    first, second = (sum(pk * x for pk, x in zip(p, xs, strict=True)) for xs in (u, v))
    # deviations of P and Q from a0 d0
    plain = sum(pk * (a0 * y + d0 * x + x * y) for pk, (x, y) in zip(p, clients, strict=True))
    decomposed = a0 * second + d0 * first + first * second
    mean_p, mean_q = mu(1, 1), expectation(decomposed, clients, mu)
    return Symbols(
        a0=a0,
        d0=d0,
        s=lambda r: sum(pk**r for pk in p),
        mu=mu,
        mean_p=a0 * d0 + mean_p,
        mean_q=a0 * d0 + mean_q,
        var_p=expectation(plain**2, clients, mu) - expectation(plain, clients, mu) ** 2,
        var_q=expectation(decomposed**2, clients, mu) - mean_q**2,
    )


#: No term of the square of P or Q involves more than four clients, so that these sizes stand for all.
ENOUGH_CLIENTS = range(1, 5)
POLYNOMIALS = "numbers of clients from 1 to 4 (no term involves more), as identities between polynomials in moments"


def identity(*differences: Callable[[Symbols], Any], moment: Moment = general) -> Evidence:
    """Judge whether differences vanish for any number of clients, with any weights and any moments."""
    import sympy

    return enumeration(
        ENOUGH_CLIENTS,
        lambda m: all(sympy.expand(difference(symbolic(m, moment))) == 0 for difference in differences),
        of=POLYNOMIALS,
        show=lambda m: f"m = {m}",
    )


#: Points and probabilities with the moments of the standard normal law up to order five, and up to order three.
NORMAL = tuple((z, Fraction(q, 12)) for z, q in ((-2, 1), (-1, 2), (0, 6), (1, 2), (2, 1)))


def mean(values: Iterable[Fraction]) -> Fraction:
    """Return the mean of equally likely values."""
    listed = list(values)
    return total(listed) / len(listed)


VARIANCES = ("variance of the product of averages", "variance of the average of products")


def variances(law: Law) -> Pair:
    """Return Var Q and Var P."""
    found = law.moments()
    return Fraction(found.decomposed_variance), Fraction(found.plain_variance)


def never_larger(laws: Iterable[Law], of: str) -> Evidence:
    """Judge, on some of all laws, Var Q <= Var P."""
    return compared(sided(laws, variances, VARIANCES), of=of)


def centred(law: Law) -> bool:
    """Tell whether both means are zero."""
    return law.mean(1, 0) == law.mean(0, 1) == 0
