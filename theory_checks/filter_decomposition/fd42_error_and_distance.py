"""FD-42: the split of the distance fails with virtual clients.

FD-42c: the term that virtual clients add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.drawn_clients import DECISIVE, SMALL_POPULATIONS, Drawn, populations, some_drawn
from theory_checks.filter_decomposition.exact_laws import mean

NAMES = ("squared distance from w*", "by the formula")


def _judged(
    cases: Iterable[Drawn],
    which: int,
    cross: Callable[[Drawn, int], Any] | None = None,
    of: str = SMALL_POPULATIONS,
    *,
    every: bool = False,
) -> Evidence:
    """Compare the distance of P (`which` is 0) or Q (1) from w* with error and distance; both are linear in w*."""

    def compare() -> Iterator[Sides]:
        for case in cases:
            aggregates, everyone = [both[which] for both in case.aggregates()], case.everyone
            for best in (0, 1):
                parts: dict[str, Any] = {
                    "sampling error": mean((x - everyone) ** 2 for x in aggregates),
                    "distance of ŵ": (everyone - best) ** 2,
                }
                if cross is not None:
                    parts["cross term"] = cross(case, best)
                yield Sides(f"{case}, w* = {best}", mean((x - best) ** 2 for x in aggregates), parts, NAMES)

    return compared(compare(), of=of, relation="==", every=every)


FD42 = Claim(
    id="FD-42",
    place="appendix A.5.1, equation (28), and its use in (34) with virtual clients",
    said_by="paper",
    words="The mean squared distance of the drawn clients' aggregate from the optimum is its sampling error plus the "
    "squared distance of ŵ.",
    statement="EE norm(w^(t+1) - w^*)^2 = EE norm(w^(t+1) - hat(w)^(t+1))^2 + EE norm(hat(w)^(t+1) - w^*)^2",
    severity="unstated condition",
    assumptions="equal weights, divided by m as in section A.5.2; more than one client is drawn and fewer than all; ŵ "
    "is the average of all clients' filters",
    sensitivity="any difference in the populations tried",
    flaw="The third term of (27) vanishes only if the aggregate has ŵ as its expectation. The product of averages does "
    "not: it misses part of the covariance of coefficients and atoms over the clients, so that (28) does not "
    "hold for the aggregate with virtual clients, for which (34) uses it.",
    corrected="FD-42c",
)


@FD42.reading("for the average of the drawn clients' parameters, as in FedAvg")
def plain() -> Evidence:
    return _judged(some_drawn(4), 0)


@FD42.reading("for the filter with virtual clients, w′ of section A.5.2")
def decomposed() -> Evidence:
    return _judged(some_drawn(4), 1)


@FD42.condition("for the filter with virtual clients, coefficients and atoms uncorrelated over the clients")
def uncorrelated() -> Evidence:
    return _judged((c for c in some_drawn(4) if c.central(1, 1) == 0), 1, of=f"{SMALL_POPULATIONS}, uncorrelated")


FD42C = Claim(
    id="FD-42c",
    place="corrected statement of FD-42",
    said_by="fedstat",
    words="For the filter with virtual clients a third term comes in, the product of the covariance over clients "
    "and the distance of ŵ from the optimum.",
    statement="EE norm(w' - w^*)^2 = EE norm(w' - hat(w))^2 + norm(hat(w) - w^*)^2 - 2 (M (m - 1))/(m (M - 1)) t_11 "
    "(hat(w) - w^*)",
    severity="false",
    assumptions=f"one atom; t_11 is the covariance of coefficients and atoms over all clients; {DECISIVE}; both sides "
    "agree for all w* if they do for two",
    sensitivity="any difference in the populations tried",
)


@FD42C.reading("the term written out")
def cross_term() -> Evidence:
    """``E Q = a0 d0 + f t_11`` (FD-25c) and ``w^ = a0 d0 + t_11``, hence ``E Q - w^ = -(1 - f) t_11``.

    With ``f = (M - m)/(m (M - 1))`` this share ``1 - f`` is ``M (m - 1)/(m (M - 1))``: 0 for one client, 1 for all.
    """

    def cross(case: Drawn, best: int) -> Fraction:
        m, size = case.sizes.m, case.sizes.M
        return -2 * Fraction(size * (m - 1), m * (size - 1)) * case.central(1, 1) * (case.everyone - best)

    return _judged(populations(4), 1, cross, every=True)
