"""FD-06: products that share a client's factor are correlated.

FD-06c: when products are uncorrelated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb, prod
from typing import Any, NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared, enumeration, sampled
from theory_checks.filter_decomposition.exact_laws import (
    ONE,
    Law,
    centred,
    centred_moment,
    general,
    independent_laws,
    uniform_laws,
)

Product = tuple[int, int]


def _covariance(x: Product, y: Product, moment: Callable[[int, int], Any]) -> Any:
    """Return the covariance of alpha_k D_l for two pairs (k, l), from the mixed moments of one client."""

    def expected(*pairs: Product) -> Any:
        clients = {client for pair in pairs for client in pair}
        return prod((moment(sum(k == c for k, _ in pairs), sum(j == c for _, j in pairs)) for c in clients), start=ONE)

    return expected(x, y) - expected(x) * expected(y)


def _products(clients: int, *, virtual: bool = False) -> Iterator[tuple[Product, Product]]:
    """Yield pairs of different products; the virtual clients' alone, or all."""
    every = [(k, j) for k, j in product(range(clients), repeat=2) if not virtual or k != j]
    return combinations(every, 2)


def _varying_laws() -> Iterator[Law]:
    """Yield small laws in which neither factor is constant, and centred ones on three and four points up to two."""
    for law in (*uniform_laws(2, 1), *uniform_laws(3, 1), *uniform_laws(4, 1), *_centred_laws(3), *_centred_laws(4)):
        if law.central(2, 0) and law.central(0, 2):
            yield law


def _centred_laws(points: int) -> Iterator[Law]:
    """Yield laws with both means zero: all on three points with coordinates up to two, the uncorrelated on four."""
    axis = range(-2, 3)
    for values in combinations(product(axis, axis), points):
        a, d = zip(*values, strict=True)
        if sum(a) == sum(d) == 0 and (points == 3 or sum(x * y for x, y in values) == 0):
            yield Law(values, (Fraction(1, points),) * points)


def _orthogonal(law: Law) -> bool:
    return law.mean(1, 0) == law.mean(0, 1) == law.mean(1, 1) == 0


def _sums(laws: Iterable[Law], *, virtual: bool = False) -> Iterator[Sides]:
    """Yield, for two products of three clients, the variance of their sum beside their variances."""
    for law in laws:
        moment = cache(law.mean)
        for x, y in _products(3, virtual=virtual):
            first, second, both = (_covariance(*pair, moment) for pair in ((x, x), (y, y), (x, y)))
            case = f"α_{x[0] + 1} D_{x[1] + 1} and α_{y[0] + 1} D_{y[1] + 1} for (α, D) = {law.told}"
            summands = {"first variance": first, "second variance": second}
            yield Sides(case, first + second + 2 * both, summands, ("variance of the sum", "claimed"))


def _uncorrelated(laws: Iterable[Law], of: str, *, virtual: bool = False) -> Evidence:
    """Judge whether the variances of any two products of three clients add up, law by law."""
    return compared(_sums(laws, virtual=virtual), of=f"pairs of products for {of}", relation="==")


FD06 = Claim(
    id="FD-06",
    place="appendix A.3, first display of variances, third line, which adds them",
    said_by="fedstat",
    words="All products of one client's coefficients with the same or another client's atoms, which are the real and "
    "the virtual clients, are uncorrelated, so that their variances add up.",
    statement="op(\"Cov\")(alpha_k D_l, alpha_(k') D_(l')) = 0 \" for\" (k, l) != (k', l')",
    severity="unstated condition",
    assumptions="three clients, independent with one law of (α, D)",
    sensitivity="any correlation of two products of three clients in the enumerated laws",
    flaw="Two products that share a client's coefficient or its atom move together whenever the other factor has a "
    "mean: the m² products are made of 2m random quantities.",
    corrected="FD-06c",
)


@FD06.reading("real and virtual clients, whatever the law, as the proof adds their variances")
def any_law() -> Evidence:
    return _uncorrelated(_varying_laws(), "small laws of (α, D)")


@FD06.reading("virtual clients among themselves, whatever the law")
def virtual_clients() -> Evidence:
    return _uncorrelated(_varying_laws(), "small laws of (α, D)", virtual=True)


@FD06.condition("coefficient and atom uncorrelated and both with mean zero")
def about_zero() -> Evidence:
    return _uncorrelated(filter(_orthogonal, _varying_laws()), "small laws of (α, D) that meet it")


@FD06.control("coefficients independent of atoms, both with mean zero")
def independent() -> Evidence:
    return _uncorrelated(filter(centred, independent_laws()), "products of two laws with mean zero")


@FD06.mutant("both means zero, coefficient and atom correlated")
def correlated() -> Evidence:
    return _uncorrelated(filter(centred, _varying_laws()), "small laws of (α, D) with mean zero")


FD06C = Claim(
    id="FD-06c",
    place="corrected statement of FD-06",
    said_by="fedstat",
    words="Products of three or more clients are uncorrelated exactly if both means are zero and coefficient and atom "
    "are uncorrelated.",
    statement="(forall (k, l) != (k', l'): op(\"Cov\")(alpha_k D_l, alpha_(k') D_(l')) = 0) "
    "<=> EE alpha = EE D = EE alpha D = 0",
    severity="false",
    assumptions="three clients or more, independent with one law of (α, D), neither factor constant",
    sensitivity="any term of the covariances, which are polynomials in moments; any correlation in the enumerated laws",
)


class _Vanishing(NamedTuple):
    """A polynomial that has to vanish."""

    name: str
    polynomial: Any


def _exactly_if(*zero: str) -> Evidence:
    """Return whether covariances are zero if these moments are, and only if all three are.

    If: two products involve at most four clients, so that four stand for any number. Only if: three of the covariances
    are ``mu_20 d0^2``, ``mu_02 a0^2`` and, once a0 = d0 = 0, ``mu_11^2``; with mu_20 and mu_02 positive they vanish
    together only for ``a0 = d0 = mu_11 = 0``. They involve three clients.
    """
    import sympy

    a0, d0 = sympy.symbols("a0 d0")
    mu = centred_moment(general)
    nothing = {x: 0 for x in (a0, d0, mu(1, 1)) if str(x) in zero}

    def moment(i: int, j: int) -> Any:
        """Return E alpha^i D^j."""
        powers = product(range(i + 1), range(j + 1))
        return sum(comb(i, r) * comb(j, s) * a0 ** (i - r) * d0 ** (j - s) * mu(r, s) for r, s in powers)

    def polynomials() -> Iterator[_Vanishing]:
        for x, y in _products(4):
            name = f"the products of coefficient {x[0] + 1} with atom {x[1] + 1} and of {y[0] + 1} with {y[1] + 1}"
            yield _Vanishing(name, _covariance(x, y, moment).subs(nothing))
        shared_coefficient, shared_atom, swapped = ((0, 1), (0, 2)), ((1, 0), (2, 0)), ((0, 1), (1, 0))
        yield _Vanishing("a shared coefficient", _covariance(*shared_coefficient, moment) - mu(2, 0) * d0**2)
        yield _Vanishing("a shared atom", _covariance(*shared_atom, moment) - mu(0, 2) * a0**2)
        yield _Vanishing("swapped clients", _covariance(*swapped, moment).subs({a0: 0, d0: 0}) - mu(1, 1) ** 2)

    of = "covariances of products of four clients (no two products involve more), as polynomials in moments"
    return enumeration(polynomials(), lambda p: sympy.expand(p.polynomial) == 0, of=of, show=lambda p: p.name)


@FD06C.reading("for all laws at once")
def all_laws() -> Evidence:
    return _exactly_if("a0", "d0", "mu11")


@FD06C.reading("on small laws")
def small_laws() -> Evidence:
    def right(law: Law) -> bool:
        return all(
            (_uncorrelated([law], "law", virtual=v).verdict != "refuted") == _orthogonal(law) for v in (False, True)
        )

    return sampled(_varying_laws(), right, of="small laws: uncorrelated where the condition is met, and nowhere else")


@FD06C.mutant("zero means alone")
def zero_means() -> Evidence:
    return _exactly_if("a0", "d0")
