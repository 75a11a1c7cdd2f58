"""FS-38: the text averages simply, the algorithms by sample size.

FS-38c: how simple and weighted averages differ.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared, enumeration
from theory_checks.fedsplit.factor_models import row


class Round(NamedTuple):
    """Sample sizes and updates of a round's participants."""

    samples: tuple[int, ...]
    updates: tuple[int, ...]

    def weighted(self) -> Fraction:
        """Average by sample size, as in the algorithms."""
        return Fraction(sum(n * u for n, u in zip(self.samples, self.updates, strict=True)), sum(self.samples))

    def simple(self) -> Fraction:
        """Return the simple average, as in section 3.2."""
        return Fraction(sum(self.updates), len(self.updates))

    def __str__(self) -> str:
        return f"samples {row(self.samples)}, updates {row(self.updates)}"


def _averages(among: Callable[[Round], bool]) -> Evidence:
    rounds = (
        Round(samples, updates)
        for m in (2, 3)
        for samples in product((1, 2, 3), repeat=m)
        for updates in product((0, 1), repeat=m)
    )
    sides = (Sides(str(r), r.weighted(), r.simple(), ("weighted", "simple")) for r in rounds if among(r))
    return compared(sides, of="rounds with 2 or 3 participants of 1 to 3 samples", relation="==")


def _equal_samples(r: Round) -> bool:
    return len(set(r.samples)) == 1


def _covariance(divisor: int) -> Evidence:
    """Reduce the difference of the two averages minus Cov(n, Delta) / mean(n), for m = 1..5 participants.

    sum_k n_k Delta_k = m Cov(n, Delta) + m mean(n) mean(Delta), and sum_k n_k = m mean(n); divide. The covariance
    vanishes for all updates only if all n_k are equal: Delta_k = n_k gives the variance of the n_k. A `divisor` of
    one takes the covariance over m - 1.
    """
    import sympy

    def holds(m: int) -> bool:
        n, delta = sympy.symbols(f"n1:{m + 1}", positive=True), sympy.symbols(f"d1:{m + 1}")
        mean_n, mean_delta = sum(n) / m, sum(delta) / m
        products = sum((a - mean_n) * (b - mean_delta) for a, b in zip(n, delta, strict=True))
        weighted = sum(a * b for a, b in zip(n, delta, strict=True)) / sum(n)
        return bool(sympy.cancel(weighted - mean_delta - products / (m - divisor) / mean_n) == 0)

    of = f"numbers of participants from {1 + divisor} to 5"
    return enumeration(range(1 + divisor, 6), holds, of=of, show=lambda m: f"{m} participants")


FS38 = Claim(
    id="FS-38",
    place="section 3.2, third paragraph, second sentence, with Algorithms 1 and 2",
    said_by="paper",
    words="The server takes the simple average of the clients' updates of the shared parameters.",
    statement="sum_(k in S_t) (n_k Delta W_k^s) / (sum_(j in S_t) n_j) = 1/abs(S_t) sum_(k in S_t) Delta W_k^s",
    severity="unstated condition",
    assumptions="judged on the update that Algorithms 1 and 2 print, in which every client has a number of samples of "
    "its own, as in most of the paper's data sets",
    sensitivity="any difference, in exact arithmetic",
    flaw="Section 3.2 averages simply, Algorithms 1 and 2 weight by sample size; the two differ by the covariance of "
    "sample sizes and updates over the mean size.",
    corrected="FS-38c",
)


@FS38.reading("the average of Algorithms 1 and 2, any numbers of samples")
def any_samples() -> Evidence:
    return _averages(lambda r: True)


@FS38.reading("n samples at every client, as section 3.2 supposes")
def equal_samples() -> Evidence:
    return _averages(_equal_samples)


@FS38.control("any numbers of samples, where all updates are equal")
def equal_updates() -> Evidence:
    return _averages(lambda r: len(set(r.updates)) == 1)


FS38C = Claim(
    id="FS-38c",
    place="corrected statement of FS-38",
    said_by="fedstat",
    words="The average by sample size exceeds the simple one by the covariance of size and update over the mean size.",
    statement='sum_k p_k Delta_k - macron(Delta) = 1/macron(n) op("Cov")(n, Delta), quad p_k = n_k / (sum_j n_j)',
    severity="false",
    assumptions="the covariance over participants has divisor m; the proof, two sums over participants, is the same "
    "for every number m of them, so that m up to 5 stands for all",
    sensitivity="any difference of the two rational functions",
)


@FS38C.reading("as rational functions")
def covariance() -> Evidence:
    return _covariance(0)


@FS38C.mutant("the covariance taken over m − 1")
def smaller_divisor() -> Evidence:
    return _covariance(1)
