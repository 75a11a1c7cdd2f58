"""Laws of a client's filter, a sum of several atoms with coefficients, and the variances of its aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import lcm, prod
from typing import Any

from fedstat.claims import Evidence, compared, enumeration
from theory_checks.filter_decomposition.exact_laws import (
    ENOUGH_CLIENTS,
    NORMAL,
    POLYNOMIALS,
    WEIGHTS,
    Moment,
    centred_moment,
    expectation,
    general,
    sided,
    text,
    total,
)

#: The summand of the difference of the variances that is left without joint moments of higher order.
SECOND = "second moments"
#: A client's coefficients, one per atom, and its atoms, each with the same number of entries.
Factors = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


@dataclass(frozen=True)
class FilterLaw:
    """Independent clients with these coefficients and atoms, probabilities in whole parts, and their weights."""

    values: tuple[Factors, ...]
    parts: tuple[int, ...]
    weights: tuple[Fraction, ...] = WEIGHTS[0]

    def __str__(self) -> str:
        values = " or ".join(
            f"α = ({text(*a)}) with atoms {' and '.join(f'({text(*entries)})' for entries in d)}"
            for a, d in self.values
        )
        return f"{values} in parts {text(*self.parts)}, p = ({text(*self.weights)})"

    def power(self, r: int) -> Fraction:
        """Return S_r."""
        return total(p**r for p in self.weights)

    def enumerated_difference(self) -> Fraction:
        """Return Var P - Var Q, summed over the filter, from all outcomes of all clients, in whole numbers."""
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

    def difference(self) -> dict[str, Fraction]:
        """Return the summands of the formula of `several_atoms`."""
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
        return {
            SECOND: s2 * (1 - s2) * crossed,
            "third moments": 2 * (s2 - s3) * total(q[k] * inner(linear[k], w[k, k]) for k in every),
            "fourth cumulants": (s2 - s4) * (own - squared(mean_own) - crossed),
        }


def composed(alpha: Sequence[Any], atoms: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the entries of the filter: atoms times their coefficients, summed."""
    return [sum(a * d[e] for a, d in zip(alpha, atoms, strict=True)) for e in range(len(atoms[0]))]


def inner(x: Sequence[Any], y: Sequence[Any]) -> Any:
    """Return the inner product."""
    return sum(a * b for a, b in zip(x, y, strict=True))


def squared(x: Sequence[Any]) -> Any:
    """Return the squared norm."""
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
    """Yield laws on two and on three clients' factors."""
    for values, points in product((_ONE_ENTRY, _TWO_ENTRIES), (2, 3)):
        for chosen in combinations(values, points):
            for parts, p in product(((1,) * points, (*range(2, points + 1), 1)), WEIGHTS[:3]):
                yield FilterLaw(chosen, parts, p)


def independent_filters() -> Iterator[FilterLaw]:
    """Yield coefficients drawn independently of atoms: every combination of those of two clients."""
    for values in (_ONE_ENTRY, _TWO_ENTRIES):
        for (a, d), (b, e) in combinations(values, 2):
            for s, p in product((1, 2), WEIGHTS[:3]):
                yield FilterLaw(((a, d), (a, e), (b, d), (b, e)), (s, 1, s, 1), p)


def gaussian_filters() -> Iterator[FilterLaw]:
    """Yield two coefficients and two atoms, linear in two variables with Gaussian moments up to order four."""
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


def several_atoms(moment: Moment = general, *, higher: bool = True) -> Evidence:
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

    Checked for one entry with two atoms and up to four clients, as a polynomial in all moments: variances are sums over
    entries, and no term of the square of an entry involves more than two atoms or four clients. `higher` keeps the
    first two terms.
    """
    import sympy

    def vanishes(m: int) -> bool:
        x = two_atoms(m, moment)
        found = x.s(2) * (1 - x.s(2)) * (x.apart + x.crossed)
        if higher:
            found += 2 * (x.s(2) - x.s(3)) * x.linear_own
            found += (x.s(2) - x.s(4)) * (x.own - x.mean_own**2 - x.apart - x.crossed)
        return bool(sympy.expand(x.var_p - x.var_q - found) == 0)

    return enumeration(ENOUGH_CLIENTS, vanishes, of=f"{POLYNOMIALS}, for two atoms", show=lambda m: f"m = {m}")


@dataclass(frozen=True)
class TwoAtoms:
    """The variances of a filter's entry with two atoms, and the moments that make up their difference."""

    s: Callable[[int], Any]
    var_p: Any
    var_q: Any
    apart: Any
    crossed: Any
    own: Any
    mean_own: Any
    linear_own: Any


def two_atoms(m: int, moment: Moment) -> TwoAtoms:
    """Expand P and Q for m clients; with deviations from ``sum_r a_r d_r``, and weights that sum to one."""
    import sympy

    atoms, every = (0, 1), range(m)
    mu, p, a, d = centred_moment(moment), sympy.symbols(f"p1:{m + 1}"), sympy.symbols("a1:3"), sympy.symbols("d1:3")
    clients = [sympy.symbols(f"u{k}_1 u{k}_2 v{k}_1 v{k}_2") for k in every]
    u, v = ([[client[shift + r] for r in atoms] for client in clients] for shift in (0, 2))
    first, second = ([sum(p[k] * x[k][r] for k in every) for r in atoms] for x in (u, v))
    plain = sum(p[k] * (a[r] * v[k][r] + d[r] * u[k][r] + u[k][r] * v[k][r]) for k in every for r in atoms)
    decomposed = sum(a[r] * second[r] + d[r] * first[r] + first[r] * second[r] for r in atoms)

    def variance(z: Any) -> Any:
        return expectation(z**2, clients, mu) - expectation(z, clients, mu) ** 2

    def of(*factors: int) -> Any:
        """Return the moment of the product of these of u^1, u^2, v^1, v^2."""
        return mu(*(factors.count(i) for i in range(4)))

    pairs = list(product(atoms, atoms))
    return TwoAtoms(
        s=lambda r: sum(pk**r for pk in p),
        var_p=variance(plain),
        var_q=variance(decomposed),
        apart=sum(of(r, s) * of(2 + r, 2 + s) for r, s in pairs),
        crossed=sum(of(r, 2 + s) * of(s, 2 + r) for r, s in pairs),
        own=sum(of(r, s, 2 + r, 2 + s) for r, s in pairs),
        mean_own=sum(of(r, 2 + r) for r in atoms),
        linear_own=sum(d[r] * of(r, s, 2 + s) + a[r] * of(2 + r, s, 2 + s) for r, s in pairs),
    )


def enumerated_filters(laws: Iterable[FilterLaw], of: str, *, higher: bool = True) -> Evidence:
    """Compare the formula of `several_atoms` with all outcomes of all clients."""

    def sides(law: FilterLaw) -> tuple[Fraction, dict[str, Fraction] | Fraction]:
        found = law.difference()
        return law.enumerated_difference(), found if higher else found[SECOND]

    names = ("difference of the variances", "by the formula")
    return compared(sided(laws, sides, names), of=of, relation="==")


FILTERS = "laws of two coefficients and two atoms, with several weights, against all outcomes of all clients"
