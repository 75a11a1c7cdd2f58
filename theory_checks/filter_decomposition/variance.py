"""The filter decomposition's statements about bias and variance of the aggregate (sections 4, 4.1, 6.6, 6.7; A.3).

P is the average of products ``sum_k p_k alpha_k D_k`` (FedAvg's filter), Q the product of averages
``(sum_k p_k alpha_k)(sum_k p_k D_k)``; clients are independent with one law of (alpha, D), as A.3 takes them. Means
are a0 and d0, deviations u and v, ``mu_ij = E u^i v^j``, ``S_r = sum_k p_k^r``. A filter entry is a sum over atoms of
such products, so a statement that fails for scalars fails for filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, pairwise, product
from math import lcm, prod
from operator import eq, ge, le
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from fedstat.claims import Claim, Evidence, Reading, all_of, enumeration, only_if, within
from fedstat.inference import mean_interval
from fedstat.theory.product_average import ProductAverage, product_average_moments, sampled_product_average
from simulations.study import Tables, read_tables
from theory_checks.filter_decomposition import PAPER

Exact = int | Fraction
Pair = tuple[Exact, Exact]
Case = TypeVar("Case")

ONE, HALF, THIRD, QUARTER = Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)
#: Aggregation weights that small cases are tried with.
WEIGHTS = ((HALF, HALF), (THIRD, 1 - THIRD), (THIRD, THIRD, THIRD), (QUARTER, QUARTER, HALF), (ONE,))


# --- exact cases and how they are compared -------------------------------------------------------------------------


def text(*numbers: Exact) -> str:
    """Numbers separated by commas, with a true minus sign."""
    return ", ".join(map(str, numbers)).replace("-", "−")


def total(numbers: Iterable[Exact]) -> Fraction:
    """Sum, as a fraction."""
    return Fraction(sum(numbers, Fraction(0)))


@dataclass(frozen=True)
class Sides:
    """A case with the two sides of a relation, written as numbers."""

    case: Any
    names: tuple[str, str]
    left: Exact
    right: Exact

    def __repr__(self) -> str:
        return f"{self.case!r}: {self.names[0]} = {text(self.left)}, {self.names[1]} = {text(self.right)}"


def compared(
    cases: Iterable[Case],
    sides: Callable[[Case], Pair],
    relation: Callable[[Exact, Exact], bool],
    *,
    names: tuple[str, str],
    of: str,
) -> Evidence:
    """Judge a relation between exact numbers, case by case; of an inequality that holds the largest ratio is told."""
    ratios: list[float] = []

    def holds(s: Sides) -> bool:
        if s.right > 0:
            ratios.append(float(Fraction(s.left) / s.right))
        return relation(s.left, s.right)

    evidence = enumeration((Sides(case, names, *sides(case)) for case in cases), holds, of=of)
    if evidence.verdict == "refuted" or relation is eq or not ratios:
        return evidence
    return replace(evidence, summary=f"{evidence.summary}, largest ratio {max(ratios):.4g}", margin=max(ratios))


def both(*parts: Evidence) -> Evidence:
    """Judge the conjunction of checks that back one another, each heard in its own words."""
    evidence = all_of(parts)
    if evidence.verdict == "refuted":
        return evidence
    margin = max((p.margin for p in parts if p.margin is not None), default=None)
    return replace(evidence, summary="; ".join(p.summary for p in parts), margin=margin)


@dataclass(frozen=True)
class Law:
    """Independent clients with these values of (alpha, D), and their weights in the aggregate."""

    values: tuple[Pair, ...]
    probabilities: tuple[Fraction, ...]
    weights: tuple[Fraction, ...] = WEIGHTS[0]

    def __repr__(self) -> str:
        values = " or ".join(f"({text(*v)})" for v in self.values)
        return f"(α, D) = {values} with probabilities {text(*self.probabilities)}, p = ({text(*self.weights)})"

    def mean(self, i: int, j: int) -> Fraction:
        """E alpha^i D^j."""
        return total(q * a**i * d**j for q, (a, d) in zip(self.probabilities, self.values, strict=True))

    def central(self, i: int, j: int) -> Fraction:
        """E u^i v^j."""
        a0, d0 = self.mean(1, 0), self.mean(0, 1)
        return replace(self, values=tuple((a - a0, d - d0) for a, d in self.values)).mean(i, j)

    def power(self, r: int) -> Fraction:
        """S_r."""
        return total(p**r for p in self.weights)

    def moments(self) -> ProductAverage:
        """Closed forms of the library."""
        return product_average_moments(self.values, self.probabilities, self.weights)

    def enumerated(self) -> tuple[Fraction, Fraction, Fraction]:
        """E P, E Q and Var Q from all outcomes of all clients."""
        outcomes = []
        for drawn in product(range(len(self.values)), repeat=len(self.weights)):
            clients = [(p, *self.values[k]) for p, k in zip(self.weights, drawn, strict=True)]
            q = prod((self.probabilities[k] for k in drawn), start=ONE)
            separate = total(p * a for p, a, _ in clients) * total(p * d for p, _, d in clients)
            outcomes.append((q, total(p * a * d for p, a, d in clients), separate))
        mean_p, mean_q = total(q * x for q, x, _ in outcomes), total(q * y for q, _, y in outcomes)
        return mean_p, mean_q, total(q * (y - mean_q) ** 2 for q, _, y in outcomes)


def uniform_laws(points: int, reach: int) -> Iterator[Law]:
    """Laws with equal probabilities on so many points with coordinates up to `reach`, smallest first."""
    axis = sorted(range(-reach, reach + 1), key=lambda x: (abs(x), -x))
    grid = sorted(product(axis, axis), key=lambda v: (abs(v[0]) + abs(v[1]), max(map(abs, v))))
    for values in sorted(combinations(grid, points), key=lambda vs: sum(abs(x) for v in vs for x in v)):
        yield Law(values, (Fraction(1, points),) * points)


def weighted(laws: Iterable[Law], weights: Sequence[tuple[Fraction, ...]] = WEIGHTS) -> Iterator[Law]:
    """Each law with each of the weights."""
    for law in laws:
        for p in weights:
            yield replace(law, weights=p)


def small_laws() -> Iterator[Law]:
    """Laws on two points with equal odds, with odds 1 to 2, and on three points."""
    yield from weighted(uniform_laws(2, 1))
    for law in uniform_laws(2, 1):
        for probabilities in ((THIRD, 1 - THIRD), (1 - THIRD, THIRD)):
            yield replace(law, probabilities=probabilities)
    yield from weighted(uniform_laws(3, 1), WEIGHTS[:2])


def independent_laws() -> Iterator[Law]:
    """Products of two laws on up to three points."""
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

Moment = Callable[[int, int], Any]


@dataclass(frozen=True)
class Symbols:
    """Means, power sums of weights and moments of a symbolic law, and the exact moments of P and Q."""

    a0: Any
    d0: Any
    s: Callable[[int], Any]
    mu: Moment
    mean_p: Any
    mean_q: Any
    var_p: Any
    var_q: Any


def general(i: int, j: int) -> Any:
    """A symbol for each mixed moment."""
    import sympy

    return sympy.Symbol(f"mu{i}{j}")


def independent(i: int, j: int) -> Any:
    """Mixed moments of independent deviations: products."""
    return (general(i, 0) if i > 1 else 1 - i) * (general(0, j) if j > 1 else 1 - j)


def gaussian(i: int, j: int) -> Any:
    """Mixed moments of jointly Gaussian deviations, from their moment generating function."""
    import sympy

    if (i + j) % 2:
        return sympy.Integer(0)
    s, t = sympy.symbols("s t")
    exponent = (general(2, 0) * s**2 + 2 * general(1, 1) * s * t + general(0, 2) * t**2) / 2
    order = (i + j) // 2
    term = sympy.Poly(sympy.expand(exponent**order), s, t).coeff_monomial(s**i * t**j)
    return sympy.expand(term * sympy.factorial(i) * sympy.factorial(j) / sympy.factorial(order))


@lru_cache
def symbolic(m: int, moment: Moment = general) -> Symbols:
    """Expand P, Q and their squares for m clients, and replace monomials by moments, client by client.

    Weights are free symbols that are taken to sum to one where a mean is split off.
    """
    import sympy

    p, u, v = (sympy.symbols(f"{letter}1:{m + 1}") for letter in "puv")
    a0, d0 = sympy.symbols("a0 d0")

    @lru_cache
    def mu(i: int, j: int) -> Any:
        return 1 - i - j if i + j < 2 else moment(i, j)

    def expectation(polynomial: Any) -> Any:
        terms = sympy.Poly(polynomial, *u, *v).terms()
        return sum(c * prod(mu(powers[k], powers[m + k]) for k in range(m)) for powers, c in terms)

    plain = a0 * d0 + sum(pk * (a0 * y + d0 * x + x * y) for pk, x, y in zip(p, u, v, strict=True))
    first, second = (mean + sum(pk * x for pk, x in zip(p, xs, strict=True)) for mean, xs in ((a0, u), (d0, v)))
    mean_p = a0 * d0 + mu(1, 1)
    mean_q = expectation(first * second)
    spread = plain - a0 * d0
    return Symbols(
        a0=a0,
        d0=d0,
        s=lambda r: sum(pk**r for pk in p),
        mu=mu,
        mean_p=mean_p,
        mean_q=mean_q,
        var_p=expectation(spread**2) - expectation(spread) ** 2,
        var_q=expectation((first * second) ** 2) - mean_q**2,
    )


def identity(*differences: Callable[[Symbols], Any], moment: Moment = general) -> Evidence:
    """Judge whether differences vanish for 1 to 4 clients, with any weights and any moments.

    No term of the square of P or Q involves more than four clients, so that these sizes stand for all.
    """
    import sympy

    return enumeration(
        range(1, 5),
        lambda m: all(sympy.expand(difference(symbolic(m, moment))) == 0 for difference in differences),
        of="numbers of clients from 1 to 4, as identities between polynomials in weights and moments",
    )


# --- filters: sums over several atoms --------------------------------------------------------------------------------

#: A client's coefficients, one per atom, and its atoms, each with the same number of entries.
Factors = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


@dataclass(frozen=True)
class FilterLaw:
    """Independent clients with these coefficients and atoms, probabilities in whole parts, and their weights."""

    values: tuple[Factors, ...]
    parts: tuple[int, ...]
    weights: tuple[Fraction, ...] = WEIGHTS[0]

    def __repr__(self) -> str:
        values = " or ".join(f"α = {a}, D = {d}" for a, d in self.values)
        return f"{values} in parts {self.parts}, p = ({text(*self.weights)})"

    def power(self, r: int) -> Fraction:
        """S_r."""
        return total(p**r for p in self.weights)

    def enumerated_difference(self) -> Fraction:
        """Var P - Var Q, summed over the filter's entries, from all outcomes of all clients, in whole numbers."""
        scale = lcm(*(p.denominator for p in self.weights))
        n = [int(p * scale) for p in self.weights]  # so that P and Q come out scaled by the square of `scale`
        difference, mean_p, mean_q = 0, [0 for _ in self._entries], [0 for _ in self._entries]
        for drawn in product(range(len(self.values)), repeat=len(n)):
            q = prod(self.parts[k] for k in drawn)
            clients = [(w, *self.values[k]) for w, k in zip(n, drawn, strict=True)]
            alpha = [sum(w * a[r] for w, a, _ in clients) for r in self._atoms]
            atoms = [[sum(w * d[r][e] for w, _, d in clients) for e in self._entries] for r in self._atoms]
            filters = [(w, composed(a, d)) for w, a, d in clients]
            plain = [scale * sum(w * x[e] for w, x in filters) for e in self._entries]
            separate = composed(alpha, atoms)
            difference += q * (squared(plain) - squared(separate))
            mean_p = [m + q * x for m, x in zip(mean_p, plain, strict=True)]
            mean_q = [m + q * x for m, x in zip(mean_q, separate, strict=True)]
        every = sum(self.parts) ** len(n)
        return Fraction(difference * every - squared(mean_p) + squared(mean_q), every**2 * scale**4)

    @property
    def _atoms(self) -> range:
        return range(len(self.values[0][0]))

    @property
    def _entries(self) -> range:
        return range(len(self.values[0][1][0]))

    def difference(self, *, third: bool = True, fourth: bool = True) -> Fraction:
        """The formula of `_several_atoms`, with the terms of third and of fourth order or without."""
        q = [Fraction(part, sum(self.parts)) for part in self.parts]
        every = range(len(q))
        a0 = [total(q[k] * self.values[k][0][r] for k in every) for r in self._atoms]
        d0 = [[total(q[k] * self.values[k][1][r][e] for k in every) for e in self._entries] for r in self._atoms]
        u = [[self.values[k][0][r] - a0[r] for r in self._atoms] for k in every]
        v = [[[self.values[k][1][r][e] - d0[r][e] for e in self._entries] for r in self._atoms] for k in every]
        w = {(k, j): composed(u[k], v[j]) for k in every for j in every}
        linear = [[x + y for x, y in zip(composed(u[k], d0), composed(a0, v[k]), strict=True)] for k in every]
        pairs = [(q[k] * q[j], k, j) for k in every for j in every]
        crossed = total(p * squared([x + y for x, y in zip(w[k, j], w[j, k], strict=True)]) for p, k, j in pairs) / 2
        own = total(q[k] * squared(w[k, k]) for k in every)
        mean_own = [total(q[k] * w[k, k][e] for k in every) for e in self._entries]
        s2, s3, s4 = (self.power(r) for r in (2, 3, 4))
        found = s2 * (1 - s2) * crossed
        if third:
            found += 2 * (s2 - s3) * total(q[k] * inner(linear[k], w[k, k]) for k in every)
        if fourth:
            found += (s2 - s4) * (own - squared(mean_own) - crossed)
        return found


def composed(alpha: Sequence[Any], atoms: Sequence[Sequence[Any]]) -> list[Any]:
    """Entries of the filter: atoms times their coefficients, summed."""
    return [sum(a * d[e] for a, d in zip(alpha, atoms, strict=True)) for e in range(len(atoms[0]))]


def inner(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """Inner product."""
    return sum(a * b for a, b in zip(x, y, strict=True))


def squared(x: Sequence[Any]) -> Any:
    """Squared norm."""
    return inner(x, x)


#: Two atoms of one and of two entries, with coefficients: what a client may have.
_ONE_ENTRY: tuple[Factors, ...] = (
    ((1, 0), ((1,), (0,))),
    ((1, 1), ((1,), (-1,))),
    ((0, 2), ((2,), (1,))),
    ((-1, 1), ((0,), (3,))),
)
_TWO_ENTRIES: tuple[Factors, ...] = (
    ((1, 0), ((1, 0), (0, 1))),
    ((1, 1), ((1, -1), (2, 0))),
    ((-1, 2), ((0, 1), (1, 1))),
    ((0, -1), ((2, 1), (-1, 0))),
)


def any_filters() -> Iterator[FilterLaw]:
    """Laws on two and on three clients' factors."""
    for values, points in product((_ONE_ENTRY, _TWO_ENTRIES), (2, 3)):
        for chosen in combinations(values, points):
            for parts, p in product(((1,) * points, (*range(2, points + 1), 1)), WEIGHTS[:3]):
                yield FilterLaw(chosen, parts, p)


def independent_filters() -> Iterator[FilterLaw]:
    """Coefficients drawn apart from atoms: every combination of those of two clients."""
    for values in (_ONE_ENTRY, _TWO_ENTRIES):
        for (a, d), (b, e) in combinations(values, 2):
            for s, p in product((1, 2), WEIGHTS[:3]):
                yield FilterLaw(((a, d), (a, e), (b, d), (b, e)), (s, 1, s, 1), p)


def gaussian_filters() -> Iterator[FilterLaw]:
    """Two coefficients and two atoms that are linear in two variables with Gaussian moments up to order four."""
    parts = [int(12 * q) for _, q in NORMAL]
    drawn = [
        (z, t, x * y) for (z, _), x in zip(NORMAL, parts, strict=True) for (t, _), y in zip(NORMAL, parts, strict=True)
    ]
    for mean_, p in product((0, 1), WEIGHTS[:2]):
        alphas = (((1, 0), (1, 1)), ((1, 1), (0, -1)))
        for first, second in alphas:
            values = tuple(
                ((mean_ + inner(first, (z, t)), inner(second, (z, t))), ((mean_ + z - t,), (2 * mean_ + t,)))
                for z, t, _ in drawn
            )
            yield FilterLaw(values, tuple(q for *_, q in drawn), p)


def _several_atoms(laws: Iterable[FilterLaw], of: str, **terms: bool) -> Evidence:
    """The difference of the variances for filters ``sum_r alpha^r (x) D^r``, variances being summed over entries.

    With deviations u and v from the means, ``W_kl = sum_r u_k^r (x) v_l^r`` and
    ``L_k = sum_r (u_k^r (x) d_0^r + a_0^r (x) v_k^r)`` the aggregates are ``P = W_0 + sum_k p_k (L_k + W_kk)`` and
    ``Q = W_0 + sum_k p_k L_k + sum_kl p_k p_l W_kl``. For different clients W_kl has mean zero and is uncorrelated with
    all terms but itself and W_lk. So

        Var P = S2 (E|L_k|^2 + 2 E<L_k, W_kk> + E|W_kk|^2 - |E W_kk|^2)
        Var Q = S2 E|L_k|^2 + 2 S3 E<L_k, W_kk> + S4 (E|W_kk|^2 - |E W_kk|^2)
                + (S2^2 - S4)(E|W_12|^2 + E<W_12, W_21>)

    and, with ``kappa = E|W_kk|^2 - |E W_kk|^2 - E|W_12|^2 - E<W_12, W_21>``,

        Var P - Var Q = 2 (S2 - S3) E<L_k, W_kk> + (S2 - S4) kappa + S2 (1 - S2) E|W_12 + W_21|^2 / 2.

    Jointly Gaussian factors have no third moments about the mean, and by Isserlis' theorem
    ``E u^r u^s v^r v^s = E u^r u^s E v^r v^s + E u^r v^r E u^s v^s + E u^r v^s E u^s v^r``; summed over atoms r, s that
    is ``kappa = 0``, so only the last term is left. If all coefficients are independent of all atoms, then
    ``E<L_k, W_kk>``, ``E W_kk`` and ``E<W_12, W_21>`` vanish and ``E|W_kk|^2 = E|W_12|^2``, hence kappa = 0 again, and
    the last term is ``S2 (1 - S2) E|W_12|^2``. Neither is negative, as ``S2 <= 1``.
    """
    return compared(
        laws,
        lambda law: (law.enumerated_difference(), law.difference(**terms)),
        eq,
        names=("Var P − Var Q", "by the formula"),
        of=of,
    )


_FILTERS = "laws of two coefficients and two atoms, with several weights, against all outcomes of all clients"


# --- FD-02, FD-03, FD-04 -------------------------------------------------------------------------------------------

VARIANCES = ("Var Q", "Var P")


def _variances(law: Law) -> Pair:
    found = law.moments()
    return Fraction(found.decomposed_variance), Fraction(found.plain_variance)


def _never_larger(laws: Iterable[Law], of: str) -> Evidence:
    return compared(laws, _variances, le, names=VARIANCES, of=of)


def _independent(power: int) -> Evidence:
    """FD-02: Var Q for independent alpha and D, and its distance from Var P.

    With independence ``mu_11 = mu_12 = mu_21 = 0`` and ``mu_22 = mu_20 mu_02``, so that
    ``Var Q = S2 (a0^2 mu_02 + d0^2 mu_20) + S2^2 mu_20 mu_02`` and ``Var P - Var Q = S2 (1 - S2) mu_20 mu_02 >= 0``,
    since ``S2 <= 1``. Equality needs a client with all the weight, or a constant factor.
    """

    def variance(x: Symbols) -> Any:
        linear = x.a0**2 * x.mu(0, 2) + x.d0**2 * x.mu(2, 0)
        return x.var_q - x.s(2) ** power * linear - x.s(2) ** 2 * x.mu(2, 0) * x.mu(0, 2)

    def gap(x: Symbols) -> Any:
        return x.var_p - x.var_q - x.s(2) * (1 - x.s(2)) * x.mu(2, 0) * x.mu(0, 2)

    return both(
        _never_larger(independent_laws(), "products of two small laws, with several weights"),
        identity(variance, gap, moment=independent),
    )


FD02 = Claim(
    id="FD-02",
    paper=PAPER,
    place="Proposition 4.1, for independent coefficients and atoms",
    statement='alpha_k perp D_k => op("Var") Q = S_2 (a_0^2 sigma_D^2 + d_0^2 sigma_alpha^2) '
    '+ S_2^2 sigma_alpha^2 sigma_D^2 <= op("Var") P " for one atom", quad '
    'op("Var") P - op("Var") Q = S_2 (1 - S_2) EE norm(sum_r u_1^r times.o v_2^r)^2 " for several"',
    words="For independent coefficients and atoms the product of averages never has the larger variance.",
    readings=(
        Reading(
            "filters of several atoms, variances summed over entries",
            lambda: _several_atoms(independent_filters(), _FILTERS, third=False, fourth=False),
        ),
        Reading("one atom", lambda: _independent(1)),
    ),
    mutant=lambda: _independent(2),  # the terms in the means falling like the square, as A.3 has it
    sensitivity="any difference between the polynomials; any excess in the enumerated laws",
    assumptions="clients independent with one law of (α, D); a client's coefficients independent of its atoms; u and v "
    "are deviations from the means",
)


def _any_law(relation: Callable[[Exact, Exact], bool]) -> Evidence:
    of = "small laws of (α, D), with several weights"
    return compared(small_laws(), _variances, relation, names=VARIANCES, of=of)


FD03 = Claim(
    id="FD-03",
    paper=PAPER,
    place="Proposition 4.1",
    statement='op("Var") Q <= op("Var") P',
    words="The product of averages never has a larger variance than the average of products.",
    readings=(Reading("as stated, whatever the dependence of coefficients and atoms", lambda: _any_law(le)),),
    mutant=lambda: _any_law(ge),  # the opposite
    sensitivity="any excess in the enumerated laws",
    assumptions="clients independent with one law of (α, D), as the proof takes them; nothing else is stated",
    flaw="The proof adds the variances of all products as if products that share a client were uncorrelated and all "
    "had one variance. If α and D change sign together, say (1, 1) or (−1, −1), every client has the same filter and "
    "the average of products does not vary at all, while the product of averages does.",
    corrected="FD-03c",
)


def _fourth_cumulant(law: Law) -> Fraction:
    return law.central(2, 2) - law.central(2, 0) * law.central(0, 2) - 2 * law.central(1, 1) ** 2


def _symmetric_laws() -> Iterator[Law]:
    """Laws symmetric about a centre, whose third moments vanish: two pairs of opposite points, and the centre."""
    points = ((1, 0), (0, 1), (1, 1), (1, -1), (2, 1), (1, -2))
    for (a, d), (b, e) in product(points, points):
        for q, (x, y) in product((QUARTER, QUARTER / 2, QUARTER / 4), ((0, 0), (1, 0), (1, 1), (2, -1))):
            values = tuple((x + s, y + t) for s, t in ((a, d), (-a, -d), (b, e), (-b, -e), (0, 0)))
            yield Law(values, (q, q, q, q, 1 - 4 * q))


def _cumulants(condition: Callable[[Law], bool]) -> Evidence:
    """FD-03c: the exact difference of the variances, and a condition that gives it a sign.

    P is a weighted sum of independent copies of ``a0 d0 + a0 v + d0 u + u v``, so ``Var P`` is S2 times
    ``a0^2 mu_02 + d0^2 mu_20 + 2 a0 d0 mu_11 + 2 a0 mu_12 + 2 d0 mu_21 + mu_22 - mu_11^2``. Subtracting Var Q (FD-05c)
    and writing ``mu_22 = kappa_22 + mu_20 mu_02 + 2 mu_11^2`` leaves

        2 (S2 - S3)(a0 mu_12 + d0 mu_21) + (S2 - S4) kappa_22 + S2 (1 - S2)(mu_20 mu_02 + mu_11^2).

    Weights have ``S4 <= S3 <= S2 <= 1``. So the difference is not negative once the third joint cumulants mu_12 and
    mu_21 vanish and kappa_22 is not negative.
    """

    def difference(x: Symbols) -> Any:
        fourth = x.mu(2, 2) - x.mu(2, 0) * x.mu(0, 2) - 2 * x.mu(1, 1) ** 2
        third = 2 * (x.s(2) - x.s(3)) * (x.a0 * x.mu(1, 2) + x.d0 * x.mu(2, 1))
        second = x.s(2) * (1 - x.s(2)) * (x.mu(2, 0) * x.mu(0, 2) + x.mu(1, 1) ** 2)
        return x.var_p - x.var_q - third - (x.s(2) - x.s(4)) * fourth - second

    cases = weighted(filter(condition, _symmetric_laws()), WEIGHTS[:3])
    return both(_never_larger(cases, "symmetric laws that meet the condition"), identity(difference))


FD03C = Claim(
    id="FD-03c",
    paper="fedstat",
    place="corrected statement of FD-03",
    statement='op("Var") P - op("Var") Q = 2 (S_2 - S_3)(a_0 kappa_12 + d_0 kappa_21) + (S_2 - S_4) kappa_22 '
    "+ S_2 (1 - S_2)(sigma_alpha^2 sigma_D^2 + sigma_(alpha D)^2) >= 0 "
    '" if" kappa_12 = kappa_21 = 0 <= kappa_22',
    words="For one atom the variance is not larger if the third joint cumulants of coefficient and atom vanish and "
    "that of order (2, 2) is not negative.",
    readings=(
        Reading(
            "one atom: the exact difference, and its sign", lambda: _cumulants(lambda law: _fourth_cumulant(law) >= 0)
        ),
        Reading("filters of several atoms: the exact difference", lambda: _several_atoms(any_filters(), _FILTERS)),
    ),
    mutant=lambda: _cumulants(lambda law: True),  # only the third cumulants vanish
    sensitivity="any difference between the polynomials; any excess in the enumerated laws",
    assumptions="clients independent with one law of (α, D), fourth moments finite; one atom in the displayed formula, "
    "in place of whose terms several atoms have 2(S₂ − S₃) E⟨L, W₁₁⟩, (S₂ − S₄)(E|W₁₁|² − |E W₁₁|² − E|W₁₂|² − "
    "E⟨W₁₂, W₂₁⟩) and S₂(1 − S₂) E|W₁₂ + W₂₁|²/2 with W_kl the sum over atoms of the deviations' products and L the "
    "linear part",
)

#: Points and probabilities with the moments of the standard normal law up to order five, and up to order three.
NORMAL = tuple((z, Fraction(q, 12)) for z, q in ((-2, 1), (-1, 2), (0, 6), (1, 2), (2, 1)))
SIGNS = ((-1, HALF), (1, HALF))


def _linear_laws(node: Sequence[tuple[int, Fraction]]) -> Iterator[Law]:
    """Laws of ``(a0 + x z1, d0 + y z1 + t z2)`` for independent z1, z2 on the given points."""
    means = ((0, 0), (1, 0), (0, 1), (1, 1), (1, -1), (2, 3))
    loadings = ((1, 0, 1), (1, 1, 0), (1, 1, 1), (1, -1, 1), (2, -1, 3))
    drawn = [(z, w, q * r) for (z, q), (w, r) in product(node, node)]
    for (a0, d0), (x, y, t) in product(means, loadings):
        yield Law(tuple((a0 + x * z, d0 + y * z + t * w) for z, w, _ in drawn), tuple(q for *_, q in drawn))


def _jointly_gaussian(node: Sequence[tuple[int, Fraction]]) -> Evidence:
    """FD-04: for jointly Gaussian (alpha, D) the difference of the variances has a sign.

    Joint cumulants above the second vanish, and FD-03c leaves
    ``Var P - Var Q = S2 (1 - S2)(mu_20 mu_02 + mu_11^2) >= 0``. The variances involve moments up to order four, so
    discrete laws that have the Gaussian ones serve as cases.
    """

    def gap(x: Symbols) -> Any:
        return x.var_p - x.var_q - x.s(2) * (1 - x.s(2)) * (x.mu(2, 0) * x.mu(0, 2) + x.mu(1, 1) ** 2)

    laws = weighted(_linear_laws(node), WEIGHTS[:3])
    return both(_never_larger(laws, "laws with Gaussian moments up to order four"), identity(gap, moment=gaussian))


FD04 = Claim(
    id="FD-04",
    paper=PAPER,
    place="Proposition 4.1, for jointly Gaussian coefficients and atoms",
    statement='(alpha_k, D_k) tilde cal(N) => op("Var") P - op("Var") Q '
    "= S_2 (1 - S_2)(sigma_alpha^2 sigma_D^2 + sigma_(alpha D)^2) >= 0 "
    '" for one atom", quad = 1/2 S_2 (1 - S_2) EE norm(W_12 + W_21)^2 " for several", quad '
    "W_(k l) = sum_r u_k^r times.o v_l^r",
    words="For jointly Gaussian coefficients and atoms the product of averages never has the larger variance.",
    readings=(
        Reading(
            "filters of several atoms, variances summed over entries",
            lambda: _several_atoms(gaussian_filters(), f"{_FILTERS}, Gaussian moments", third=False, fourth=False),
        ),
        Reading("one atom, any means and covariances", lambda: _jointly_gaussian(NORMAL)),
    ),
    mutant=lambda: _jointly_gaussian(SIGNS),  # the fourth moments of coin tosses
    sensitivity="any difference between the polynomials; any excess in the enumerated laws",
    assumptions="clients independent with one jointly Gaussian law of (α, D)",
)


# --- FD-05 ---------------------------------------------------------------------------------------------------------


def _variance_is(formula: Callable[[Law], Fraction], laws: Iterable[Law], of: str) -> Evidence:
    """Compare a formula for Var Q with the enumeration of all outcomes of all clients."""

    def sides(law: Law) -> Pair:
        return law.enumerated()[2], formula(law)

    return compared(laws, sides, eq, names=("Var Q", "by the formula"), of=f"{of}, with several weights")


def _printed(law: Law, power: int = 2) -> Fraction:
    return (law.mean(2, 2) - law.mean(1, 1) ** 2) * law.power(2) ** power


def _centred(law: Law) -> bool:
    return law.mean(1, 0) == law.mean(0, 1) == 0


FD05 = Claim(
    id="FD-05",
    paper=PAPER,
    place="appendix A.3",
    statement='op("Var") Q = Sigma (sum_k p_k^2)^2, quad Sigma = op("Var")(alpha_k D_k)',
    words="The variance of the product of averages is one client's variance times the square of the sum of squared "
    "weights.",
    readings=(
        Reading("any law", lambda: _variance_is(_printed, small_laws(), "small laws")),
        Reading(
            "independent coefficients and atoms",
            lambda: _variance_is(_printed, independent_laws(), "products of two small laws"),
        ),
        Reading(
            "independent coefficients and atoms, both with mean zero",
            lambda: _variance_is(_printed, filter(_centred, independent_laws()), "products of two centred laws"),
        ),
    ),
    mutant=lambda: _variance_is(lambda law: _printed(law, 1), small_laws(), "small laws"),  # FedAvg's factor
    sensitivity="any difference in the enumerated laws",
    assumptions="clients independent with one law of (α, D)",
    flaw="Products that share a client's coefficient or atom are correlated, and virtual clients do not have the "
    "variance of real ones; with means away from zero the terms in S₂, which A.3 loses, are the large ones.",
    corrected="FD-05c",
)


def _exact_variance(cubic: int = 2) -> Evidence:
    """FD-05c: the variance of Q, from ``Q = a0 d0 + a0 V + d0 U + U V`` with ``U = sum p_k u_k, V = sum p_k v_k``.

    Second moments: ``E U^2 = S2 mu_20``, ``E V^2 = S2 mu_02``, ``E U V = S2 mu_11``. Third: in ``E U V^2`` only triples
    of one client survive, so it is ``S3 mu_12``, and ``E U^2 V = S3 mu_21``. Fourth: either all four factors belong to
    one client, ``S4 mu_22``, or they form pairs of two clients, ``(S2^2 - S4)(mu_20 mu_02 + 2 mu_11^2)``. Hence

        Var Q = S2 (a0^2 mu_02 + d0^2 mu_20 + 2 a0 d0 mu_11) + 2 S3 (a0 mu_12 + d0 mu_21) + S4 mu_22
                + (S2^2 - S4)(mu_20 mu_02 + 2 mu_11^2) - S2^2 mu_11^2.
    """

    def difference(x: Symbols) -> Any:
        linear = x.a0**2 * x.mu(0, 2) + x.d0**2 * x.mu(2, 0) + 2 * x.a0 * x.d0 * x.mu(1, 1)
        third = cubic * x.s(3) * (x.a0 * x.mu(1, 2) + x.d0 * x.mu(2, 1))
        pairs = (x.s(2) ** 2 - x.s(4)) * (x.mu(2, 0) * x.mu(0, 2) + 2 * x.mu(1, 1) ** 2)
        return x.var_q - x.s(2) * linear - third - x.s(4) * x.mu(2, 2) - pairs + (x.s(2) * x.mu(1, 1)) ** 2

    def library(law: Law) -> Fraction:
        return Fraction(law.moments().decomposed_variance)

    of = "small laws, against all outcomes of all clients"
    return both(_variance_is(library, small_laws(), of), identity(difference))


FD05C = Claim(
    id="FD-05c",
    paper="fedstat",
    place="corrected statement of FD-05",
    statement='op("Var") Q = S_2 (a_0^2 mu_02 + d_0^2 mu_20 + 2 a_0 d_0 mu_11) + 2 S_3 (a_0 mu_12 + d_0 mu_21) '
    "+ S_4 mu_22 + (S_2^2 - S_4)(mu_20 mu_02 + 2 mu_11^2) - S_2^2 mu_11^2",
    words="The exact variance of the product of averages, for one atom, in the joint moments of coefficient and atom.",
    readings=(Reading("one atom: the formula, and the library's", _exact_variance),),
    mutant=lambda: _exact_variance(cubic=1),
    sensitivity="any difference between the polynomials, or in the enumerated laws",
    assumptions="one atom; clients independent with one law of (α, D), fourth moments finite",
)


# --- FD-06 ---------------------------------------------------------------------------------------------------------


def _covariance(law: Law, *, virtual: bool) -> Fraction:
    """Largest absolute covariance of two different products of three clients; exactly, from the mixed moments."""
    moment = {(i, j): law.mean(i, j) for i in range(3) for j in range(3)}

    def expectation(*pairs: tuple[int, int]) -> Fraction:
        """E of the product of alpha_k D_l over the pairs (k, l)."""
        counts = ((sum(k == c for k, _ in pairs), sum(j == c for _, j in pairs)) for c in range(3))
        return prod((moment[count] for count in counts), start=ONE)

    products = [(k, j) for k, j in product(range(3), repeat=2) if not virtual or k != j]
    return max(abs(expectation(x, y) - expectation(x) * expectation(y)) for x, y in combinations(products, 2))


def _varying_laws() -> Iterator[Law]:
    """Small laws in which neither factor is constant, and centred ones on three and four points up to two."""
    for law in (*uniform_laws(2, 1), *uniform_laws(3, 1), *uniform_laws(4, 1), *_centred_laws(3), *_centred_laws(4)):
        if law.central(2, 0) and law.central(0, 2):
            yield law


def _centred_laws(points: int) -> Iterator[Law]:
    """Laws with both means zero: all on three points with coordinates up to two, the uncorrelated on four."""
    axis = range(-2, 3)
    for values in combinations(product(axis, axis), points):
        a, d = zip(*values, strict=True)
        if sum(a) == sum(d) == 0 and (points == 3 or sum(x * y for x, y in values) == 0):
            yield Law(values, (Fraction(1, points),) * points)


def _orthogonal(law: Law) -> bool:
    return law.mean(1, 0) == law.mean(0, 1) == law.mean(1, 1) == 0


def _no_correlation(*, virtual: bool, condition: Callable[[Law], bool] = _orthogonal) -> Evidence:
    def zero(laws: Iterable[Law], of: str) -> Evidence:
        names = ("largest covariance of two products", "claimed")
        return compared(laws, lambda law: (_covariance(law, virtual=virtual), 0), eq, names=names, of=of)

    return only_if(
        "both means to be zero and α, D to be uncorrelated",
        zero(filter(condition, _varying_laws()), "small laws of (α, D) that meet it"),
        zero(_varying_laws(), "small laws of (α, D)"),
    )


FD06 = Claim(
    id="FD-06",
    paper=PAPER,
    place="appendix A.3",
    statement="op(\"Cov\")(alpha_k D_l, alpha_(k') D_(l')) = 0 \" for\" (k, l) != (k', l')",
    words="Virtual clients are uncorrelated.",
    readings=(
        Reading("all products, real clients included, as the proof adds them", lambda: _no_correlation(virtual=False)),
        Reading("virtual clients among themselves", lambda: _no_correlation(virtual=True)),
    ),
    mutant=lambda: _no_correlation(virtual=False, condition=_centred),  # zero means alone
    sensitivity="any correlation of two products of three clients in the enumerated laws",
    assumptions="three clients or more, independent with one law of (α, D)",
    flaw="Two products that share a client's coefficient or its atom move together whenever the other factor has a "
    "mean: the m² products are made of 2m random quantities.",
    corrected="FD-06c",
)


def _exactly_if(condition: Callable[[Law], bool]) -> Evidence:
    """FD-06c: the covariances of products, and when all vanish.

    For different clients k, l, m the products ``alpha_k D_l`` and ``alpha_k D_m`` have covariance ``mu_20 d0^2``;
    ``alpha_l D_k`` and ``alpha_m D_k`` have ``mu_02 a0^2``; ``alpha_k D_l`` and ``alpha_l D_k`` have
    ``mu_11^2 + 2 a0 d0 mu_11``. If neither factor is constant, these vanish together only for ``a0 = d0 = mu_11 = 0``.
    Then all others do: in each some client contributes ``E alpha``, ``E D`` or ``E alpha D`` as a factor.
    """
    return enumeration(
        _varying_laws(),
        lambda law: all((_covariance(law, virtual=v) == 0) == condition(law) for v in (False, True)),
        of="small laws of (α, D): products are uncorrelated where the condition is met, and nowhere else",
    )


FD06C = Claim(
    id="FD-06c",
    paper="fedstat",
    place="corrected statement of FD-06",
    statement="(forall (k, l) != (k', l'): op(\"Cov\")(alpha_k D_l, alpha_(k') D_(l')) = 0) "
    "<=> EE alpha = EE D = EE alpha D = 0",
    words="Products of three or more clients are uncorrelated exactly if both means are zero and coefficient and atom "
    "are uncorrelated.",
    readings=(Reading("neither factor constant", lambda: _exactly_if(_orthogonal)),),
    mutant=lambda: _exactly_if(_centred),
    sensitivity="any correlation of two products of three clients in the enumerated laws",
    assumptions="three clients or more, independent with one law of (α, D), neither factor constant",
)


# --- FD-07 ---------------------------------------------------------------------------------------------------------


class Weights(tuple[Fraction, ...]):
    """Weights that sum to one, written as numbers."""

    def __repr__(self) -> str:
        return f"p = ({text(*self)})"


def _grid_weights(finest: int) -> Iterator[Weights]:
    """All weights of up to four clients in multiples of 1/n, n up to `finest`."""
    for m, n in product(range(1, 5), range(1, finest + 1)):
        for cuts in combinations(range(n + m - 1), m - 1):
            yield Weights(Fraction(b - a - 1, n) for a, b in pairwise((-1, *cuts, n + m - 1)))


def _squares(power: int) -> Evidence:
    """FD-07: ``(sum p_k^2)^2`` is the sum over all pairs; ``0 <= p_k <= 1`` gives ``p_k^2 <= p_k``, so ``S2 <= 1``."""
    import sympy

    def expands(m: int) -> bool:
        p = sympy.symbols(f"p1:{m + 1}")
        pairs = sum((p[i] ** 2 * p[j] ** 2 for i in range(m) for j in range(m) if i != j), start=sympy.Integer(0))
        return bool(sympy.expand(sum(x**4 for x in p) + pairs - sum(x**2 for x in p) ** 2) == 0)

    def sides(p: Weights) -> Pair:
        s2 = total(x**2 for x in p)
        return s2**2, s2**power

    of = "weights of up to four clients in multiples of 1/8 or coarser"
    return both(
        enumeration(range(1, 7), expands, of="numbers of clients from 1 to 6, as polynomial identities"),
        compared(_grid_weights(8), sides, le, names=("S₂²", "bound"), of=of),
    )


FD07 = Claim(
    id="FD-07",
    paper=PAPER,
    place="appendix A.3",
    statement="sum_k p_k^4 + sum_(k != l) p_k^2 p_l^2 = (sum_k p_k^2)^2 <= sum_k p_k^2",
    words="The squared weights of all products sum to the square of the sum of squared weights, which is at most that "
    "sum.",
    readings=(Reading("weights that sum to one", lambda: _squares(1)),),
    mutant=lambda: _squares(3),
    sensitivity="any difference of the polynomials; any excess on the grid of weights",
)


# --- FD-08 ---------------------------------------------------------------------------------------------------------

LIKE_ONE_OVER_M = (-1.25, -0.75)
ALIKE = (0.9, 1.1)
DESIGN = (
    "judged on the toy task of section 6.6 (linear model w = αD, Gaussian classes), class centres differing between "
    "clients, sizes as the committed configuration says"
)


def _groups(tables: Tables, start: str) -> pd.DataFrame:
    """Variances over groups of m trained clients, one row per seed and m, and their ratio."""
    table = tables["variance"]
    rows = table[(table["source"] == "training") & (table["start"] == start)].copy()
    rows["ratio"] = rows["decomposed_variance"] / rows["plain_variance"]
    return rows


def _slope(rows: pd.DataFrame, column: str, region: tuple[float, float], what: str) -> Evidence:
    """Least-squares slope of the logarithm on log m, with an interval over seeds."""
    slopes = [np.polyfit(np.log(r["clients"]), np.log(r[column]), 1)[0] for _, r in rows.groupby("seed")]
    _, low, high = mean_interval(slopes)
    return within(low, high, region, cases=len(slopes), what=f"slope of the logarithm of {what} on log m")


def _alike(rows: pd.DataFrame) -> Evidence:
    """FD-08c: both variances alike for every m, and falling like 1/m.

    By FD-05c the terms in ``S2 = 1/m``, ``(a0^2 mu_02 + d0^2 mu_20 + 2 a0 d0 mu_11) / m``, are the same for both
    aggregates. They are of second order in the clients' spread, and all that differs is of third and fourth order.
    Local training from a common start leaves the spread small against the means, hence a ratio near one.
    """
    sizes = rows.groupby("clients")["ratio"]
    level = 1 - 0.05 / len(sizes)
    parts = []
    for m, ratios in sizes:
        low, high = np.exp(mean_interval(np.log(ratios), level)[1:])
        what = f"ratio of the variances for m = {m}"
        parts.append(within(float(low), float(high), ALIKE, cases=len(ratios), what=what, level=level))
    return all_of([*parts, _slope(rows, "decomposed_variance", LIKE_ONE_OVER_M, "the variance")])


def _trained(results: Path) -> tuple[Claim, ...]:
    """Return the claims that are judged on the tables of the aggregation study."""

    @lru_cache(maxsize=1)
    def tables() -> Tables:
        return read_tables(results / "aggregation")

    def ratio(start: str, region: tuple[float, float] = LIKE_ONE_OVER_M) -> Evidence:
        return _slope(_groups(tables(), start), "ratio", region, "the ratio of the variances")

    return (
        Claim(
            trained=True,
            id="FD-08",
            paper=PAPER,
            place="sections 4.1 and 6.6, Figure 3b",
            statement='(op("Var") Q) / (op("Var") P) prop 1/m " after local training"',
            words="After real local training the variance falls markedly below FedAvg's, like 1/m.",
            readings=(
                Reading("relative to FedAvg's, as A.3 has it", lambda: ratio("common")),
                Reading(
                    "the variance itself",
                    lambda: _slope(_groups(tables(), "common"), "decomposed_variance", LIKE_ONE_OVER_M, "the variance"),
                ),
                Reading(
                    "relative to FedAvg's, if clients start from independent weights", lambda: ratio("independent")
                ),
            ),
            mutant=lambda: ratio("common", (-2.25, -1.75)),  # like 1/m²
            sensitivity="a slope off by a few tenths",
            assumptions="'like 1/m' is a slope between −1.25 and −0.75 on log scales, m from 2 to 40; " + DESIGN,
            flaw="Both variances contain the same term of order 1/m, of second order in the clients' spread; what "
            "differs is of higher order, and after local training from a common start it is negligible. FedAvg's "
            "variance falls like 1/m as well.",
            corrected="FD-08c",
        ),
        Claim(
            trained=True,
            id="FD-08c",
            paper="fedstat",
            place="corrected statement of FD-08",
            statement='op("Var") Q approx op("Var") P prop 1/m " after local training from a common start"',
            words="After local training from a common start both variances agree within a tenth and fall like 1/m.",
            readings=(Reading("every m from 2 to 40", lambda: _alike(_groups(tables(), "common"))),),
            mutant=lambda: _alike(_groups(tables(), "independent")),
            sensitivity="a ratio off by a few hundredths more than the tenth that is allowed",
            assumptions="worded, with its tenth, on other seeds than those judged; " + DESIGN,
        ),
    )


# --- FD-09 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """Clients of which m are drawn without replacement, with equal weights."""

    clients: tuple[tuple[int, ...], ...]
    m: int

    def __repr__(self) -> str:
        clients = ", ".join(f"({text(*c)})" for c in self.clients)
        return f"(α, D) = {clients}, {self.m} of {len(self.clients)} drawn"

    @property
    def centre(self) -> tuple[Fraction, Fraction]:
        """Means of coefficients and atoms over all clients."""
        a, d = (Fraction(sum(x), len(self.clients)) for x in zip(*self.clients, strict=True))
        return a, d

    @property
    def everyone(self) -> Fraction:
        """The average of all clients' products."""
        return Fraction(sum(a * d for a, d in self.clients), len(self.clients))

    def aggregates(self) -> Iterator[tuple[Fraction, Fraction]]:
        """P and Q of every draw, all equally likely."""
        for drawn in combinations(self.clients, self.m):
            a, d = (Fraction(sum(x), self.m) for x in zip(*drawn, strict=True))
            yield Fraction(sum(x * y for x, y in drawn), self.m), a * d

    def moments(self) -> ProductAverage:
        """Closed forms of the library."""
        a, d = zip(*self.clients, strict=True)
        return sampled_product_average(a, d, self.m)

    def central(self, i: int, j: int) -> Fraction:
        """Mean over all clients of u^i v^j."""
        a0, d0 = self.centre
        return mean((a - a0) ** i * (d - d0) ** j for a, d in self.clients)


def mean(values: Iterable[Fraction]) -> Fraction:
    """Mean of equally likely values."""
    listed = list(values)
    return total(listed) / len(listed)


def populations(most: int) -> Iterator[Drawn]:
    """Two or more clients with coefficients and atoms 0 or +-1, and all sizes of a draw, smallest first."""
    grid = sorted(product((0, 1, -1), repeat=2), key=lambda v: abs(v[0]) + abs(v[1]))
    for size in range(2, most + 1):
        chosen = combinations_with_replacement(grid, size)
        for clients in sorted(chosen, key=lambda vs: sum(abs(x) for v in vs for x in v)):
            for m in range(1, size + 1):
                yield Drawn(clients, m)


SMALL_POPULATIONS = "draws from up to 4 clients with α, D in {−1, 0, 1}"


def _iid_expectations(condition: Callable[[Law], bool]) -> Evidence:
    laws = [law for law in small_laws() if law.power(2) < 1]

    def equal(cases: Iterable[Law], of: str) -> Evidence:
        return compared(cases, lambda law: law.enumerated()[1::-1], eq, names=("E Q", "E P"), of=of)

    return only_if(
        "coefficient and atom to be uncorrelated",
        equal(filter(condition, laws), "small laws, with several weights, that meet it"),
        equal(laws, "small laws, with several weights"),
    )


def _drawn_expectations() -> Evidence:
    cases = [case for case in populations(4) if case.m > 1]

    def equal(cases: Iterable[Drawn], of: str) -> Evidence:
        def sides(case: Drawn) -> Pair:
            return mean(q for _, q in case.aggregates()), case.everyone

        return compared(cases, sides, eq, names=("E Q", "average of all products"), of=of)

    return only_if(
        "coefficient and atom to be uncorrelated over clients",
        equal((c for c in cases if c.central(1, 1) == 0), f"{SMALL_POPULATIONS}, that meet it"),
        equal(cases, SMALL_POPULATIONS),
    )


FD09 = Claim(
    id="FD-09",
    paper=PAPER,
    place="appendices A.3 and A.5",
    statement="EE Q = EE P",
    words="Both aggregates have the same expectation.",
    readings=(
        Reading(
            "A.3: independent clients",
            lambda: _iid_expectations(lambda law: law.mean(1, 1) == law.mean(1, 0) * law.mean(0, 1)),
        ),
        Reading("A.5: m of M clients drawn", _drawn_expectations),
    ),
    mutant=lambda: _iid_expectations(lambda law: law.mean(1, 0) == 0),  # a mean of zero does not help
    sensitivity="any difference in the enumerated cases",
    assumptions="more than one client in the aggregate",
    flaw="The expectation of a virtual client is the product of the means, that of a real one also holds the "
    "covariance of coefficient and atom; the product of averages loses most of that.",
    corrected="FD-09c",
)


def _bias(power: int) -> Evidence:
    """FD-09c: ``E P = a0 d0 + mu_11``, while ``Q = a0 d0 + a0 V + d0 U + U V`` keeps ``E U V = S2 mu_11``."""

    def sides(law: Law) -> Pair:
        mean_p, mean_q, _ = law.enumerated()
        return mean_q - mean_p, -(1 - law.power(2) ** power) * law.central(1, 1)

    of = "small laws, with several weights, against all outcomes of all clients"
    return both(
        compared(small_laws(), sides, eq, names=("E Q − E P", "by the formula"), of=of),
        identity(lambda x: x.mean_q - x.mean_p + (1 - x.s(2) ** power) * x.mu(1, 1)),
    )


FD09C = Claim(
    id="FD-09c",
    paper="fedstat",
    place="corrected statement of FD-09",
    statement='EE Q = EE P - (1 - S_2) op("Cov")(alpha, D)',
    words="The product of averages is biased by minus (1 − S₂) times the covariance of coefficient and atom.",
    readings=(Reading("independent clients, any weights", lambda: _bias(1)),),
    mutant=lambda: _bias(2),
    sensitivity="any difference between the polynomials, or in the enumerated laws",
    assumptions="clients independent with one law of (α, D)",
)


# --- FD-10 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factored:
    """Clients (alpha, D), and the same filters factored otherwise."""

    one: tuple[Pair, ...]
    other: tuple[Pair, ...]

    def __repr__(self) -> str:
        one, other = (", ".join(f"({text(*c)})" for c in clients) for clients in (self.one, self.other))
        return f"clients (α, D) = {one} against {other}, equal weights"


def _from_filters_alone(aggregate: Callable[[Sequence[Exact], Sequence[Exact]], Fraction]) -> Evidence:
    """Factor two clients' filters otherwise, (alpha, D) becoming (c alpha, D / c), and compare the aggregates."""
    cases = [
        Factored(filters, tuple((c * a, Fraction(d) / c) for c, (a, d) in zip(scales, filters, strict=True)))
        for filters in product(((1, 1), (1, 2), (2, 1), (-1, 1)), repeat=2)
        for scales in product((1, 2, -1), repeat=2)
    ]

    def sides(case: Factored) -> Pair:
        one, other = (aggregate(*zip(*clients, strict=True)) for clients in (case.one, case.other))
        return one, other

    return compared(cases, sides, eq, names=("aggregate", "the other"), of="pairs of clients, factored in two ways")


def _product_of_averages(a: Sequence[Exact], d: Sequence[Exact]) -> Fraction:
    return total(a) / len(a) * total(d) / len(d)


def _average_of_products(a: Sequence[Exact], d: Sequence[Exact]) -> Fraction:
    return total(x * y for x, y in zip(a, d, strict=True)) / len(a)


FD10 = Claim(
    id="FD-10",
    paper=PAPER,
    place="section 4",
    statement="alpha_k D_k = alpha'_k D'_k thick forall k => Q = Q'",
    words="The aggregate depends only on the clients' filters.",
    readings=(
        Reading("product of averages", lambda: _from_filters_alone(_product_of_averages)),
        Reading("FedAvg's average of products, for comparison", lambda: _from_filters_alone(_average_of_products)),
    ),
    mutant=lambda: _from_filters_alone(lambda a, d: total(a) * d[0]),  # one client's atoms with all coefficients
    sensitivity="any difference in the enumerated cases",
    flaw="A filter fixes its coefficients and atoms only up to an invertible change of atoms, and averaging the two "
    "apart depends on which of the factorisations each client holds.",
    corrected="FD-10c",
)


@dataclass(frozen=True)
class Size:
    """Numbers of atoms and of clients."""

    atoms: int
    clients: int


def _change_of_atoms(*, own: bool) -> Evidence:
    """FD-10c: one invertible T for all clients, atoms becoming ``D T^-1`` and coefficients ``T alpha``.

    Averages transform alike, ``sum p_k D_k T^-1 = (sum p_k D_k) T^-1`` and
    ``sum p_k T alpha_k = T sum p_k alpha_k``, and T cancels in their product. Checked with the adjugate in place of the
    inverse, both sides times det T.
    """
    import sympy

    def matrix(name: str, rows: int, columns: int) -> Any:
        return sympy.Matrix(rows, columns, lambda i, j: sympy.Symbol(f"{name}{i}{j}"))

    def holds(size: Size) -> bool:
        r, clients = size.atoms, range(size.clients)
        p = sympy.symbols(f"p0:{size.clients}")
        changes = [matrix(f"t{k if own else ''}_", r, r) for k in clients]
        alphas, atoms = [matrix(f"a{k}_", r, 1) for k in clients], [matrix(f"d{k}_", 1, r) for k in clients]

        def average(terms: Sequence[Any]) -> Any:
            return sum((w * x for w, x in zip(p, terms, strict=True)), start=sympy.zeros(*terms[0].shape))

        moved = average([atoms[k] * changes[k].adjugate() for k in clients])
        moved = moved * average([changes[k] * alphas[k] for k in clients])
        return bool(sympy.expand(moved[0] - changes[0].det() * (average(atoms) * average(alphas))[0]) == 0)

    sizes = [Size(r, m) for r in (1, 2) for m in (1, 2, 3)]
    return enumeration(sizes, holds, of="numbers of atoms (1, 2) and of clients (1 to 3), as polynomial identities")


FD10C = Claim(
    id="FD-10c",
    paper="fedstat",
    place="corrected statement of FD-10",
    statement="(sum_k p_k D_k T^(-1))(sum_k p_k T alpha_k) = (sum_k p_k D_k)(sum_k p_k alpha_k)",
    words="The aggregate is unchanged under one invertible change of atoms that is common to all clients.",
    readings=(Reading("common to all clients", lambda: _change_of_atoms(own=False)),),
    mutant=lambda: _change_of_atoms(own=True),  # each client its own
    sensitivity="any difference of the two polynomials",
)


# --- FD-11 ---------------------------------------------------------------------------------------------------------

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def _virtual_clients(m: int) -> int:
    """Count the different products ``alpha_k D_l``, k != l, of coefficients and atoms that are different primes."""
    return len({PRIMES[k] * PRIMES[m + j] for k in range(m) for j in range(m) if k != j})


def _count(claimed: Callable[[int], int], clients: Iterable[int]) -> Evidence:
    """FD-11c: coefficients come from m clients, atoms from the m - 1 others."""
    names = "virtual clients", "claimed"
    return compared(map(Clients, clients), lambda c: (_virtual_clients(c), claimed(c)), eq, names=names, of="counts")


class Clients(int):
    """A number of clients."""

    def __repr__(self) -> str:
        return f"{int(self)} clients"


FD11 = Claim(
    id="FD-11",
    paper=PAPER,
    place="section 6.7",
    statement="abs({alpha_k D_l : 1 <= k != l <= 4}) = 6",
    words="Four clients give six additional virtual clients.",
    readings=(
        Reading("products of one client's coefficients with another's atoms", lambda: _count(lambda m: 6, [4])),
        Reading(
            "unordered pairs of clients, each of which stands for two products",
            lambda: enumeration([4], lambda m: len(list(combinations(range(m), 2))) == 6, of="counts"),
        ),
    ),
    mutant=lambda: _count(lambda m: 16, [4]),  # all products, the real clients among them
    sensitivity="a count off by one",
    flaw="Coefficients of client k with atoms of client l make another filter than coefficients of l with atoms of k, "
    "so every pair of clients gives two.",
    corrected="FD-11c",
)


FD11C = Claim(
    id="FD-11c",
    paper="fedstat",
    place="corrected statement of FD-11",
    statement="abs({alpha_k D_l : 1 <= k != l <= m}) = m (m - 1)",
    words="m clients give m(m − 1) virtual clients: twelve for four.",
    readings=(Reading("m from 1 to 6", lambda: _count(lambda m: m * (m - 1), range(1, 7))),),
    mutant=lambda: _count(lambda m: m * (m - 1) // 2, range(1, 7)),
    sensitivity="a count off by one",
    assumptions="no coincidences among the products",
)


def claims(results: Path) -> tuple[Claim, ...]:
    """Return the claims; all but FD-08 are exact, that one reads the tables of the aggregation study."""
    exact = (FD02, FD03, FD03C, FD04, FD05, FD05C, FD06, FD06C, FD07, FD09, FD09C, FD10, FD10C, FD11, FD11C)
    return (*exact, *_trained(results))
