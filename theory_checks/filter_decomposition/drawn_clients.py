"""m of M clients, drawn without replacement, and their averages (appendix A.5, Remarks 5.6 and 5.7).

Clients have equal weights. P is the drawn clients' average of products ``alpha_k D_k``, Q the product of their
averages; errors are mean squares about the average ``w^`` of all M clients' products, unless said otherwise. Means over
all clients are a0 and d0, ``t_ij`` are the means of ``u^i v^j`` for the deviations u, v, and
``f = (M - m) / (m (M - 1))``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import TypeVar

from fedstat.theory.product_average import ProductAverage
from theory_checks.filter_decomposition.exact_laws import Exact, mean, text

Pair = tuple[Exact, Exact]
Case = TypeVar("Case")

#: Clients up to which statements about sizes alone are tried.
LARGEST = 40
SMALL_POPULATIONS = "draws from up to 4 clients with α, D in {−1, 0, 1}"
#: Why these are enough.
DECISIVE = (
    "for up to 4 clients the populations tried decide for all others, since both sides are polynomials of degree 2 at "
    "most in every α_k and D_k; the derivation holds for any number of clients"
)
#: What stands in the exact errors.
RATES = (
    "one atom; t_ij means over all clients of u^i v^j; f = (M − m)/(m(M − 1)), f₃ = M(π₁ − 3π₂ + 2π₃)/m³, "
    "f₄ = M(π₁ − 7π₂ + 12π₃ − 6π₄)/m⁴ and g = M²(π₂ − 2π₃ + π₄)/m⁴ with π_r = m(m − 1)…(m − r + 1) / "
    "(M(M − 1)…(M − r + 1))"
)


@dataclass(frozen=True)
class Sizes:
    """m of M clients."""

    m: int
    M: int

    def __str__(self) -> str:
        return f"m = {self.m}, M = {self.M}"

    @property
    def f(self) -> Fraction:
        """(M - m) / (m (M - 1)): the plain average's error, in units of the clients' variance."""
        return Fraction(self.M - self.m, self.m * (self.M - 1))

    @property
    def printed(self) -> Fraction:
        """The factor of (33), ``(M^2 - m^2) / (m^2 M^2 (M^2 - 1))``."""
        return Fraction(self.M**2 - self.m**2, self.m**2 * self.M**2 * (self.M**2 - 1))


def sizes_up_to(largest: int, *, fewest: int = 1) -> Iterator[Sizes]:
    """Yield all m up to M, for M from 2."""
    for size in range(2, largest + 1):
        for m in range(fewest, size + 1):
            yield Sizes(m, size)


@dataclass(frozen=True)
class Drawn:
    """Clients of which m are drawn without replacement, with equal weights."""

    clients: tuple[tuple[int, ...], ...]
    m: int

    def __str__(self) -> str:
        clients = ", ".join(f"({text(*c)})" for c in self.clients)
        return f"(α, D) = {clients}, {self.m} of {len(self.clients)} drawn"

    @property
    def sizes(self) -> Sizes:
        """How many are drawn of how many."""
        return Sizes(self.m, len(self.clients))

    @property
    def centre(self) -> tuple[Fraction, Fraction]:
        """Means of coefficients and atoms over all clients."""
        a, d = (Fraction(sum(x), len(self.clients)) for x in zip(*self.clients, strict=True))
        return a, d

    @property
    def everyone(self) -> Fraction:
        """The average of all clients' products."""
        return Fraction(sum(a * d for a, d in self.clients), len(self.clients))

    @property
    def own_value(self) -> Fraction:
        """Q at full participation."""
        a0, d0 = self.centre
        return a0 * d0

    def aggregates(self) -> Iterator[tuple[Fraction, Fraction]]:
        """Yield P and Q of every draw, all equally likely."""
        for drawn in combinations(self.clients, self.m):
            a, d = (Fraction(sum(x), self.m) for x in zip(*drawn, strict=True))
            yield Fraction(sum(x * y for x, y in drawn), self.m), a * d

    def squared_error(self, target: Fraction) -> Fraction:
        """Return the mean square of Q about the target, over all draws."""
        return mean((q - target) ** 2 for _, q in self.aggregates())

    def moments(self) -> ProductAverage:
        """Return the closed forms."""
        a, d = zip(*self.clients, strict=True)
        return sampled_moments(a, d, self.m)

    def central(self, i: int, j: int) -> Fraction:
        """Return the mean over all clients of u^i v^j."""
        a0, d0 = self.centre
        return mean((a - a0) ** i * (d - d0) ** j for a, d in self.clients)

    def entry_by_entry(self) -> Pair:
        """Return the error of (alpha, D), averaged entry by entry over the drawn clients, and the value of (31)."""
        a0, d0 = self.centre
        drawn = combinations(self.clients, self.m)
        averages = ([Fraction(sum(x), self.m) for x in zip(*s, strict=True)] for s in drawn)
        error = mean((a - a0) ** 2 + (d - d0) ** 2 for a, d in averages)
        return error, self.sizes.f * (self.central(2, 0) + self.central(0, 2))


def sampled_moments(a: Sequence[Exact], d: Sequence[Exact], m: int) -> ProductAverage:
    """Return the moments of both aggregates, those that correct (31) and (33), in closed form.

    With ``T_ij = sum_k u_k^i v_k^j`` and the probability ``pi_r`` that r given clients are drawn, the means x, y of
    u, v over the drawn clients have::

        E x y     = T_11 (pi_1 - pi_2) / m^2                    (likewise x^2, y^2)
        E x y^2   = T_12 (pi_1 - 3 pi_2 + 2 pi_3) / m^3         (likewise x^2 y)
        E x^2 y^2 = (T_22 (pi_1 - 7 pi_2 + 12 pi_3 - 6 pi_4) + (T_20 T_02 + 2 T_11^2)(pi_2 - 2 pi_3 + pi_4)) / m^4

    since sums over distinct clients reduce to the T_ij, those with a lone deviation vanishing.
    """
    size, a0, d0 = len(a), mean(map(Fraction, a)), mean(map(Fraction, d))

    def t(i: int, j: int) -> Fraction:
        return sum(((x - a0) ** i * (y - d0) ** j for x, y in zip(a, d, strict=True)), Fraction(0))

    def drawn(*coefficients: int) -> Fraction:
        """Sum of coefficients times the probabilities that 1, 2, ... given clients are drawn."""
        total, pi = Fraction(0), Fraction(1)
        for r, coefficient in enumerate(coefficients):
            pi *= Fraction(m - r, size - r) if m > r else 0
            total += coefficient * pi
        return total

    two, three = drawn(1, -1) / m**2, drawn(1, -3, 2) / m**3
    squared = drawn(1, -7, 12, -6) * t(2, 2) + drawn(0, 1, -2, 1) * (t(2, 0) * t(0, 2) + 2 * t(1, 1) ** 2)
    linear = a0**2 * t(0, 2) + d0**2 * t(2, 0) + 2 * a0 * d0 * t(1, 1)
    cubic = a0 * t(1, 2) + d0 * t(2, 1)
    variance = two * linear + 2 * three * cubic + squared / m**4 - (two * t(1, 1)) ** 2
    return ProductAverage(
        plain_mean=a0 * d0 + t(1, 1) / size,
        plain_variance=two * (linear + 2 * cubic + t(2, 2) - t(1, 1) ** 2 / size),
        decomposed_mean=a0 * d0 + two * t(1, 1),
        decomposed_variance=variance,
        decomposed_mse=variance + (two * t(1, 1) - t(1, 1) / size) ** 2,
    )


def populations(most: int) -> Iterator[Drawn]:
    """Yield two or more clients with coefficients and atoms 0 or +-1, and all sizes of a draw, smallest first.

    These decide an identity for all populations of up to `most` clients if its sides are polynomials of degree at most
    two in every coefficient and in every atom, as mean squares of P and Q are: three values of each variable determine
    such a polynomial, and the order of clients does not matter.
    """
    grid = sorted(product((0, 1, -1), repeat=2), key=lambda v: abs(v[0]) + abs(v[1]))
    for size in range(2, most + 1):
        chosen = combinations_with_replacement(grid, size)
        for clients in sorted(chosen, key=lambda vs: sum(abs(x) for v in vs for x in v)):
            for m in range(1, size + 1):
                yield Drawn(clients, m)


def some_drawn(most: int) -> Iterator[Drawn]:
    """Yield these populations with more than one client drawn and fewer than all."""
    return (case for case in populations(most) if 1 < case.m < len(case.clients))


def all_drawn(most: int) -> Iterator[Drawn]:
    """Yield these populations at full participation."""
    return (case for case in populations(most) if case.m == len(case.clients))


def crossed(values: Sequence[tuple[int, ...]] = ((0, 1), (1, 2), (-1, 2), (0, 1, 3))) -> Iterator[Drawn]:
    """Yield clients in which every coefficient meets every atom once."""
    for a, d in product(values, values):
        clients = tuple(product(a, d))
        for m in range(1, len(clients) + 1):
            yield Drawn(clients, m)
