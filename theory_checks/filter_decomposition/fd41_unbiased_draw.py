"""FD-41: the drawn clients' sum is too small with weights 1/M.

FD-41c: weights that make the draw unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.exact_laws import mean, text, total

#: Numbers that say how much each client counts.
COUNTS = (1, 2, 3)


class Draw(NamedTuple):
    """Clients with parameters w_k and n_k samples, of which m are drawn without replacement."""

    w: tuple[int, ...]
    n: tuple[int, ...]
    m: int

    def __str__(self) -> str:
        counts = "" if len(set(self.n)) == 1 else f", samples {text(*self.n)}"
        return f"w = {text(*self.w)}{counts}, {self.m} of {len(self.w)} drawn"

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """p_k = n_k / n."""
        return tuple(Fraction(n, sum(self.n)) for n in self.n)

    @property
    def everyone(self) -> Fraction:
        """``w^``, the weighted mean of all clients."""
        return total(p * w for p, w in zip(self.weights, self.w, strict=True))

    def expected(self, aggregate: Callable[[Draw, tuple[int, ...]], Fraction]) -> Fraction:
        """Return the mean of an aggregate of the drawn clients over all draws."""
        return mean(aggregate(self, drawn) for drawn in combinations(range(len(self.w)), self.m))


def _draws(counts: tuple[int, ...]) -> Iterator[Draw]:
    """Yield up to four clients; as both sides are linear in the parameters, zero and one decide for all others."""
    for size in (2, 3, 4):
        for n, w in product(combinations_with_replacement(counts, size), product((0, 1), repeat=size)):
            for m in range(1, size + 1):
                yield Draw(w, n, m)


def _judged(aggregate: Callable[[Draw, tuple[int, ...]], Fraction], counts: tuple[int, ...]) -> Evidence:
    """Compare an aggregate's expectation with ``w^``."""

    def sides() -> Iterator[Sides]:
        for case in _draws(counts):
            yield Sides(str(case), case.expected(aggregate), case.everyone, ("expected average", "claimed"))

    return compared(sides(), of="draws from up to 4 clients", relation="==")


def _printed(case: Draw, drawn: tuple[int, ...]) -> Fraction:
    return total(case.weights[k] * case.w[k] for k in drawn)


FD41 = Claim(
    id="FD-41",
    place="appendix A.5, Assumption A.2 and the proof below it",
    said_by="paper",
    words="The aggregate of the drawn clients has the aggregate of all clients as its expectation, if all weights are "
    "equal.",
    statement="EE sum_(k=1)^m p_k w_k = sum_(k=1)^M p_k w_k, quad p_1 = ... = p_M = 1/M",
    severity="misprint",
    assumptions="m of M clients drawn without replacement, the m drawn being numbered from 1 to m",
    sensitivity="any difference in the cases tried",
    flaw="With weights 1/M the drawn clients' weights add up to m/M, so that the sum is no average: its expectation "
    "is m/M times what is claimed. The proof takes them to add up to one. Section A.5.2 divides by m, which makes it "
    "true.",
    corrected="FD-41c",
)


@FD41.reading("with weights 1/M, as Assumption A.2 has them")
def share_of_all() -> Evidence:
    return _judged(_printed, (1,))


@FD41.reading("with weights 1/m, as section A.5.2 has them")
def share_of_the_drawn() -> Evidence:
    return _judged(lambda case, drawn: mean(Fraction(case.w[k]) for k in drawn), (1,))


FD41C = Claim(
    id="FD-41c",
    place="corrected statement of FD-41",
    said_by="fedstat",
    words="The drawn clients' sum with weights p_k M/m is unbiased for all weights, equal or not; with weights p_k its "
    "expectation is m/M times too small.",
    statement="EE sum_(k in S) M/m p_k w_k = sum_(k=1)^M p_k w_k",
    severity="false",
    assumptions="m of M clients drawn without replacement; the weights of all M clients add up to one",
    sensitivity="any difference in the cases tried",
)


@FD41C.reading("weights up to a ratio of three")
def any_weights() -> Evidence:
    """Each client is drawn with probability m/M, so that ``E sum_S p_k w_k = (m/M) sum p_k w_k``."""
    return _judged(lambda case, drawn: Fraction(len(case.w), case.m) * _printed(case, drawn), COUNTS)


@FD41C.mutant("samples divided by those of the drawn clients, as Algorithm 1 has it")
def of_the_drawn() -> Evidence:
    def aggregate(case: Draw, drawn: tuple[int, ...]) -> Fraction:
        return total(Fraction(case.n[k], sum(case.n[j] for j in drawn)) * case.w[k] for k in drawn)

    return _judged(aggregate, COUNTS)
