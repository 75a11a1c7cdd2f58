"""FD-07: the squared weights of all products sum to a square."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise, product

from fedstat.claims import Claim, Evidence, all_of, compared, enumeration
from theory_checks.filter_decomposition.exact_laws import sided, text, total


class _Weights(tuple[Fraction, ...]):
    """Weights that sum to one, written as numbers."""

    def __str__(self) -> str:
        return f"p = ({text(*self)})"


def _grid_weights(finest: int) -> Iterator[_Weights]:
    """Yield all weights of up to four clients in multiples of 1/n, n up to `finest`."""
    for m, n in product(range(1, 5), range(1, finest + 1)):
        for cuts in combinations(range(n + m - 1), m - 1):
            yield _Weights(Fraction(b - a - 1, n) for a, b in pairwise((-1, *cuts, n + m - 1)))


FD07 = Claim(
    id="FD-07",
    place="appendix A.3, fourth and fifth line of the first display of variances, and the sentences after the second",
    said_by="paper",
    words="The squared weights of all products sum to the square of the sum of squared weights, which is at most that "
    "sum.",
    statement="sum_k p_k^4 + sum_(k != l) p_k^2 p_l^2 = (sum_k p_k^2)^2 <= sum_k p_k^2",
    severity="false",
    assumptions="weights are not negative and sum to one",
    sensitivity="any difference of the polynomials; any excess on the grid of weights",
)


@FD07.reading("any number of clients")
def any_number() -> Evidence:
    """With ``S2 = sum p_k^2`` the first is a polynomial identity. ``1 - S2 = (sum p_k)^2 - S2`` is twice the sum of all
    ``p_k p_l``, k < l, so not negative; and ``0 <= S2 <= 1`` gives ``S2^2 <= S2``.
    """
    import sympy

    def holds(m: int) -> bool:
        p = sympy.symbols(f"p1:{m + 1}")
        squares = sum(x**2 for x in p)
        pairs = sum((x**2 * y**2 for x in p for y in p if x != y), start=sympy.Integer(0))
        rest = 2 * sum((x * y for x, y in combinations(p, 2)), start=sympy.Integer(0))
        identities = (sum(x**4 for x in p) + pairs - squares**2, sum(p) ** 2 - squares - rest)
        return all(sympy.expand(difference) == 0 for difference in identities)

    of = "numbers of clients from 1 to 6 (no term involves more than two), as identities between polynomials"
    return enumeration(range(1, 7), holds, of=of, show=lambda m: f"m = {m}")


@FD07.reading("up to four clients with weights on a grid")
def on_grid() -> Evidence:
    def exact(p: _Weights) -> tuple[Fraction, dict[str, Fraction]]:
        every = range(len(p))
        virtual = total(p[k] ** 2 * p[j] ** 2 for k in every for j in every if k != j)
        return _squares(p) ** 2, {"real clients": total(x**4 for x in p), "virtual clients": virtual}

    of, grid = "weights of up to four clients in multiples of 1/8 or coarser", list(_grid_weights(8))
    name = "square of the sum of squared weights"
    parts = compared(sided(grid, exact, (name, "squared weights of all products")), of=of, relation="==")
    bound = compared(sided(grid, lambda p: (_squares(p) ** 2, _squares(p)), (name, "sum of squared weights")), of=of)
    return all_of([parts, bound])


def _squares(p: _Weights) -> Fraction:
    return total(x**2 for x in p)
