"""CL-11: the λ with which Ditto estimates best among adversaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, both, compared

PAPER = (
    "Li, Hu, Beirami and Smith, Ditto: Fair and robust federated learning through personalization (ICML 2021, "
    "arXiv:2012.04221)"
)
CODE = "the authors' code, github.com/litian96/ditto, point_estimation.ipynb, class Simulator"

CL11 = Claim(
    id="CL-11",
    place=f"{PAPER}, analysis of point estimation; our wording of the best λ and the smallest error in {CODE}, as the "
    "theorem itself could not be read",
    said_by="fedstat",
    words="Among adversaries whose points may spread more or less than the benign clients', a closed form gives "
    "the λ with which Ditto estimates the benign clients' points best, and the mean squared error that it reaches.",
    statement="lambda^* = sigma^2 / n dot K / (K tau^2 + K_a / (K - 1) (tau_a^2 - tau^2))",
    severity="false",
    assumptions="K clients, n samples each with variance σ²; points are independent with one mean and variance τ², "
    "those of K_a adversaries τ_a²; the global model is the mean of all local means",
    sensitivity="any smaller error, exact",
)


class Estimation(NamedTuple):
    """Clients' points with variances tau (adversaries first), each measured with variance s = sigma^2 / n."""

    clients: int
    adversaries: int
    benign: Fraction
    adverse: Fraction
    s: Fraction

    def covariance(self, a: Fraction, *, of_two: bool) -> Fraction:
        """Return the covariance of two benign clients' errors, or the variance of one's.

        With a = lambda / (1 + lambda) a client's estimate is ``(1 - a) m_k + a mean(m)``, m the local means.
        """
        first, second = self.clients - 1, self.clients - (2 if of_two else 1)
        total = Fraction(0)
        for j in range(self.clients):
            noise = [(1 - a) * (j == k) + a / self.clients for k in (first, second)]
            point = [weight - (j == k) for weight, k in zip(noise, (first, second), strict=True)]
            tau = self.adverse if j < self.adversaries else self.benign
            total += self.s * noise[0] * noise[1] + tau * point[0] * point[1]
        return total

    def error(self, a: Fraction) -> Fraction:
        """Return a benign client's mean squared error."""
        return self.covariance(a, of_two=False)

    def spread(self, a: Fraction) -> Fraction:
        """Return the expected variance of the benign clients' squared errors, if all is normal.

        With the variance V of an error and the covariance C of two it is ``2 (1 - 1/B) (V^2 - C^2)`` for B clients, as
        the mean of ``e_k^2 e_l^2`` is ``V^2 + 2 C^2``.
        """
        benign = self.clients - self.adversaries
        squares = self.error(a) ** 2 - self.covariance(a, of_two=True) ** 2
        return 2 * (1 - Fraction(1, benign)) * squares

    @property
    def printed(self) -> Fraction:
        """The printed lambda."""
        k = self.clients
        return self.s * k / (k * self.benign + Fraction(self.adversaries, k - 1) * (self.adverse - self.benign))

    def __str__(self) -> str:
        return (
            f"{self.clients} clients, {self.adversaries} of them adversaries, τ² = {self.benign}, "
            f"τ_a² = {self.adverse}, σ²/n = {self.s}"
        )


def problems(adversaries: Iterable[int]) -> Iterator[Estimation]:
    """Yield problems with at least two benign clients."""
    variances = [Fraction(1, 4), Fraction(1), Fraction(9)]
    for k, bad, tau, adverse, s in product(
        (3, 4, 8), adversaries, variances[:2], variances, (Fraction(1), Fraction(1, 5))
    ):
        if bad <= k - 2 and (bad or adverse == tau):
            yield Estimation(k, bad, tau, adverse, s)


def pull(lam: Fraction) -> Fraction:
    """Return the weight of the global model in a client's estimate."""
    return lam / (1 + lam)


def _errors() -> Iterator[Sides]:
    """Compare with smaller and larger lambda; the error is a quadratic in the pull, so that two neighbours decide."""
    for case in problems((0, 1, 2, 6)):
        for factor in (Fraction(99, 100), Fraction(101, 100), Fraction(1, 2), Fraction(2), Fraction(0)):
            lam = case.printed
            sides = case.error(pull(lam)), case.error(pull(lam * factor))
            yield Sides(f"{case}, λ = {lam} against {lam * factor}", *sides, names=("error", "error"))


def _reached() -> Iterator[Sides]:
    for case in problems((0, 1, 2, 6)):
        k = case.clients
        others = k * case.benign + case.s + Fraction(case.adversaries, k - 1) * (case.adverse - case.benign)
        claimed = 1 / (1 / case.s + (k - 1) / others)
        yield Sides(str(case), case.error(pull(case.printed)), claimed, names=("error", "claimed"))


@CL11.reading("error against other λ, and its value, for 3 to 8 clients")
def best() -> Evidence:
    return both(
        compared(_errors(), of="errors beside those at other λ"),
        compared(_reached(), of="errors at the printed λ", relation="=="),
    )
