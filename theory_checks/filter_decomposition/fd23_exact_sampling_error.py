"""FD-23: the exact sampling error of the plain average."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.any_draw import drawn_mean, symbols, vanish
from theory_checks.filter_decomposition.drawn_clients import SMALL_POPULATIONS, populations
from theory_checks.filter_decomposition.exact_laws import mean, total

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
    sensitivity="either summand; any difference of the rational functions",
)


def error_of_averages(factor: Factor) -> Evidence:
    """Compare the error for any m and M.

    With deviations u from the mean of all clients, which add up to zero, and T the sum of their squares, the square of
    the drawn clients' mean is ``(sum u_k^2 + sum_(k != l) u_k u_l) / m^2`` over the drawn ones. One client is drawn
    with probability m/M, two with m (m - 1)/(M (M - 1)), and ``sum_(k != l) u_k u_l = -T`` over all clients. Hence
    ``T (1/(m M) - (m - 1)/(m M (M - 1)))``. Coordinates of w add up, so scalars suffice.
    """
    s = symbols()
    difference = drawn_mean(2, 0, s) - factor(s.m, s.M) * s.M * s.t(2, 0)
    return vanish({"the error and the formula": difference}, of="rational functions of m and M")


@FD23.reading("as printed, for any m and M")
def printed() -> Evidence:
    return error_of_averages(lambda m, size: 1 / (m * size) - (m - 1) / (m * size * (size - 1)))


@FD23.reading("as printed, against all draws from small populations")
def on_populations() -> Evidence:
    def cases() -> Iterator[Sides]:
        for case in populations(4):
            centre, m, size = case.everyone, case.sizes.m, case.sizes.M
            error = mean((p - centre) ** 2 for p, _ in case.aggregates())
            squares = total((a * d - centre) ** 2 for a, d in case.clients)
            claimed = {"single clients": squares / (m * size), "pairs": -squares * (m - 1) / (m * size * (size - 1))}
            yield Sides(str(case), error, claimed, ("error of P", "by (31)"))

    return compared(cases(), of=SMALL_POPULATIONS, relation="==")


@FD23.mutant("clients drawn with replacement")
def with_replacement() -> Evidence:
    return error_of_averages(lambda m, size: 1 / (m * size))
