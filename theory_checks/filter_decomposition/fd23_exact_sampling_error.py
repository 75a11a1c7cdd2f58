"""FD-23: the exact sampling error of the plain average."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from fedstat.claims import Claim, Evidence, both, enumeration
from theory_checks.filter_decomposition.drawn_clients import Sizes, sizes_up_to

#: A factor of the clients' summed squares, for m of M.
Factor = Callable[[Any, Any], Any]

FD23 = Claim(
    id="FD-23",
    place="appendix A.5.2, equation (31), last line",
    said_by="paper",
    words="The mean squared error of the average of m clients, drawn without replacement from M, is "
    "1/(mM) − (m − 1)/(mM(M − 1)) times the summed squared distances of all clients from their average ŵ.",
    statement="EE norm(1/m sum_(k in S) w_k - hat(w))^2 = (1/(m M) - (m-1)/(m M (M-1))) sum_k norm(w_k - hat(w))^2",
    severity="false",
    assumptions="M at least 2; the algebra is proved for any m and M, given the chances m/M and m(m − 1)/(M(M − 1)) of "
    "drawing one and two given clients",
    sensitivity="any difference between the polynomials",
)


def error_of_averages(factor: Factor) -> Evidence:
    """Compare the factor with that of the derivation, and the error with the mean over all draws.

    With deviations u from the mean of all clients, which add up to zero, and T the sum of their squares, the square of
    the drawn clients' mean is ``(sum u_k^2 + sum_(k != l) u_k u_l) / m^2`` over the drawn ones. One client is drawn
    with probability m/M, two with m (m - 1)/(M (M - 1)), and ``sum_(k != l) u_k u_l = -T`` over all clients. Hence
    ``T (1/(m M) - (m - 1)/(m M (M - 1)))``. Coordinates of w add up, so scalars suffice.
    """
    import sympy

    def derived(chances: Callable[[Any, Any], Any]) -> bool:
        m, size = sympy.symbols("m M", positive=True)
        return bool(sympy.simplify(chances(m, size) - factor(m, size)) == 0)

    def enumerated(sizes: Sizes) -> bool:
        m, size = sympy.Integer(sizes.m), sympy.Integer(sizes.M)
        w = sympy.symbols(f"w1:{size + 1}")
        centre = sum(w) / size
        draws = list(combinations(w, sizes.m))
        error = sum((sum(s) / m - centre) ** 2 for s in draws) / sympy.Integer(len(draws))
        return bool(sympy.expand(error - factor(m, size) * sum((x - centre) ** 2 for x in w)) == 0)

    forms: tuple[Factor, ...] = (
        lambda m, size: (m / size - m * (m - 1) / (size * (size - 1))) / m**2,
        lambda m, size: (size - m) / (m * size * (size - 1)),
    )
    return both(
        enumeration(forms, derived, of="forms of the factor, for any m and M", show=lambda form: "for any m and M"),
        enumeration(sizes_up_to(6), enumerated, of="sizes m up to M, M from 2 to 6, as identities in the clients' w"),
    )


@FD23.reading("as printed")
def printed() -> Evidence:
    return error_of_averages(lambda m, size: 1 / (m * size) - (m - 1) / (m * size * (size - 1)))


@FD23.mutant("clients drawn with replacement")
def with_replacement() -> Evidence:
    return error_of_averages(lambda m, size: 1 / (m * size))
