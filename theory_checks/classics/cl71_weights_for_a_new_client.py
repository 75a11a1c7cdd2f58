"""CL-71: weights n_k / n are right for a new sample, not for a new client.

CL-71c: equal weights are best for a new client.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Parabolas, Sides, compared, expectation

CL71 = Claim(
    id="CL-71",
    place="folklore: the objective of FedAvg with weights n_k / n, read as the expected loss of a client that joins "
    "later",
    said_by="folklore",
    words="Among all models the optimum of FedAvg's objective, with weights n_k / n, has the least expected loss for a "
    "new client.",
    statement='EE F_"new" (w^*) <= EE F_"new" (w), quad w^* = "argmin"_w sum_k n_k / n F_k (w)',
    severity="unstated condition",
    assumptions="the new client is like one of the present ones, each with the same chance; losses h_k (w − c_k)² / 2",
    sensitivity="any smaller loss, exact",
    flaw="The weights n_k / n are the chances of a new sample, not of a new client: a client with much data counts "
    "often, though it joins once.",
    corrected="CL-71c",
)


def _federations() -> Iterator[tuple[tuple[int, ...], Parabolas]]:
    for sizes, h, c in product(((1, 1), (1, 3), (1, 2, 5)), ((1, 1, 1), (1, 2, 4)), ((0, 1, 3), (0, 1, 1), (2, 2, 2))):
        n = len(sizes)
        yield sizes, Parabolas(h[:n], c[:n], tuple(Fraction(size, sum(sizes)) for size in sizes))


def _beside(cases: Iterator[tuple[tuple[int, ...], Parabolas]], *, by: str) -> Evidence:
    """Compare the expected loss at an optimum with that beside it; it is a parabola, so that two neighbours decide."""

    def sides() -> Iterator[Sides]:
        for sizes, problem in cases:
            n = len(sizes)
            equal = (Fraction(1, n),) * n
            chances = problem.p if by == "samples" else equal
            weights = equal if by == "equal weights" else problem.p
            optimum = Parabolas(problem.h, problem.c, weights).optimum

            def expected(
                w: Fraction, problem: Parabolas = problem, chances: tuple[Fraction, ...] = chances
            ) -> Fraction:
                return Fraction(expectation(list(zip(chances, problem.losses(w), strict=True))))

            for step in (Fraction(1, 50), Fraction(-1, 50), Fraction(1), Fraction(-1)):
                case = f"{problem}, w = {optimum} against {optimum + step}"
                yield Sides(case, expected(optimum), expected(optimum + step), names=("expected loss", "expected loss"))

    return compared(sides(), of="expected losses beside those of other models")


@CL71.reading("a new client, each of the present ones as likely")
def new_client() -> Evidence:
    return _beside(_federations(), by="clients")


@CL71.reading("a new sample, each of the present ones as likely", natural=False)
def new_sample() -> Evidence:
    return _beside(_federations(), by="samples")


@CL71.condition("clients with equally many samples")
def equal_sizes() -> Evidence:
    return _beside((case for case in _federations() if len(set(case[0])) == 1), by="clients")


CL71C = Claim(
    id="CL-71c",
    place="corrected statement of CL-71",
    said_by="fedstat",
    words="For a new client the optimum with equal weights has the least expected loss; that with weights n_k / n has "
    "the least for a new sample.",
    statement='w^* = "argmin"_w 1 / K sum_k F_k (w) ==> EE F_"new" (w^*) <= EE F_"new" (w)',
    severity="false",
    assumptions="as in CL-71",
    sensitivity="any smaller loss, exact",
)


@CL71C.reading("a new client, equal weights")
def equal_weights() -> Evidence:
    return _beside(_federations(), by="equal weights")
