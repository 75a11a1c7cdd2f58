"""Draws of m from M clients in general: exact errors for any m and M, and on average over independent clients.

Notation as in `drawn_clients`; x and y are the drawn clients' means of the deviations u and v.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import factorial
from typing import Any

from fedstat.claims import Evidence, enumeration
from theory_checks.filter_decomposition.drawn_clients import Drawn, Pair
from theory_checks.filter_decomposition.exact_laws import text

#: The law of the coefficients or of the atoms: values with equal chances.
Values = tuple[int, ...]
SIGNS: Values = (-1, 1)


def rates(m: Any, size: Any) -> tuple[Any, Any, Any, Any]:
    """Return f, f3, f4 and g of `RATES`, of numbers or of symbols."""
    pi = [Fraction(1)]
    for r in range(4):
        pi.append(Fraction(0) if pi[-1] == 0 or m == r else pi[-1] * (m - r) / (size - r))
    third = size * (pi[1] - 3 * pi[2] + 2 * pi[3]) / m**3
    fourth = size * (pi[1] - 7 * pi[2] + 12 * pi[3] - 6 * pi[4]) / m**4
    return (pi[1] - pi[2]) * size / m**2, third, fourth, size**2 * (pi[2] - 2 * pi[3] + pi[4]) / m**4


@dataclass(frozen=True)
class Symbols:
    """m, M, the means a0 and d0, and the moments t_ij."""

    m: Any
    M: Any
    a0: Any
    d0: Any
    t: Callable[[int, int], Any]


def symbols() -> Symbols:
    """Return symbols for a population in general."""
    import sympy

    m, size, a0, d0 = sympy.symbols("m M a0 d0")
    return Symbols(m, size, a0, d0, lambda i, j: sympy.Integer(i + j != 1) if i + j < 2 else sympy.Symbol(f"t{i}{j}"))


def _over_different(blocks: list[tuple[int, int]], s: Symbols) -> Any:
    """Return the sum of products of ``u^i v^j``, one factor for each block, over different clients."""
    if not blocks:
        return 1
    (i, j), rest = blocks[0], blocks[1:]
    value = s.M * s.t(i, j) * _over_different(rest, s)
    for n, (k, q) in enumerate(rest):
        value -= _over_different([*rest[:n], (i + k, j + q), *rest[n + 1 :]], s)
    return value


def drawn_mean(i: int, j: int, s: Symbols) -> Any:
    """Return E x^i y^j over all draws, for any m and M.

    The product of means is a sum over i + j drawn clients, some of them the same. They are grouped by which of them
    are: r different ones are drawn with probability ``m (m - 1)...(m - r + 1) / (M (M - 1)...(M - r + 1))``.
    """
    from sympy.utilities.iterables import multiset_partitions

    value: Any = 0
    for same in multiset_partitions(list(range(i + j))) if i + j else [[]]:
        blocks = [(sum(n < i for n in block), sum(n >= i for n in block)) for block in same]
        chance: Any = 1
        for r in range(len(blocks)):
            chance = chance * (s.m - r) / (s.M - r)
        value += chance * _over_different(blocks, s)
    return value / s.m ** (i + j)


def mean_square(s: Symbols) -> Any:
    """Return the mean square of ``Q - w^ = a0 y + d0 x + x y - t_11`` over all draws."""
    import sympy

    x, y = sympy.symbols("x y")
    square = sympy.Poly((s.a0 * y + s.d0 * x + x * y - s.t(1, 1)) ** 2, x, y)
    return sum(factor * drawn_mean(i, j, s) for (i, j), factor in square.terms())


def vanish(differences: dict[str, Any], *, of: str) -> Evidence:
    """Judge whether named differences are zero as rational functions."""
    import sympy

    return enumeration(differences, lambda name: bool(sympy.simplify(differences[name]) == 0), of=of)


# --- on average over independent clients ------------------------------------------------------------------------


@dataclass(frozen=True)
class Independent:
    """Clients with independent coefficients and atoms, each equally likely to be any of some values; m of M drawn."""

    coefficients: Values
    atoms: Values
    m: int
    M: int

    def __str__(self) -> str:
        return (
            f"α from ({text(*self.coefficients)}) and D from ({text(*self.atoms)}) with equal chances, "
            f"{self.m} of {self.M} drawn"
        )

    @property
    def spread(self) -> Fraction:
        """Var alpha times Var D."""
        a, d = (
            Fraction(sum(x**2 for x in v), len(v)) - Fraction(sum(v), len(v)) ** 2
            for v in (self.coefficients, self.atoms)
        )
        return a * d

    @property
    def excess(self) -> Fraction:
        """By how much the error of Q exceeds that of P on average, by FD-26c."""
        return Fraction((self.m - 1) * (2 * self.m - self.M), self.m**2 * self.M) * self.spread

    def average(self, values: Callable[[Drawn], Pair]) -> tuple[Fraction, Fraction]:
        """Return the mean of two values over all populations."""
        grid = Counter(product(self.coefficients, self.atoms))
        first = second = Fraction(0)
        for clients in combinations_with_replacement(grid, self.M):
            weight = factorial(self.M)
            for client, repeats in Counter(clients).items():
                weight = weight // factorial(repeats) * grid[client] ** repeats
            a, b = values(Drawn(clients, self.m))
            first, second = first + weight * Fraction(a), second + weight * Fraction(b)
        populations = grid.total() ** self.M
        return first / populations, second / populations


def independent(
    sizes: Iterable[int], wanted: Callable[[int, int], bool], laws: Iterable[Values] = (SIGNS, (0, 1), (0, 0, 1))
) -> Iterator[Independent]:
    """Yield pairs of laws for M of these sizes and the wanted m, smallest M first."""
    several = list(laws)
    for size in sizes:
        for m in range(1, size + 1):
            if wanted(m, size):
                yield from (Independent(a, d, m, size) for a, d in product(several, several))


def errors(case: Drawn) -> Pair:
    """Return the errors of Q and of P about the average of all clients' products."""
    found = case.moments()
    return Fraction(found.decomposed_mse), Fraction(found.plain_variance)


def variances(case: Drawn) -> Pair:
    """Return the mean squares of Q and of P about their own means."""
    found = case.moments()
    return Fraction(found.decomposed_variance), Fraction(found.plain_variance)
