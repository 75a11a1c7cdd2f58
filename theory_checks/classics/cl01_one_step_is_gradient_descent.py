"""CL-01: one local step with all clients is gradient descent on the pooled loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared, exact

CL01 = Claim(
    id="CL-01",
    place="McMahan, Moore, Ramage, Hampson and Agüera y Arcas (2017), section 2, 'The FederatedAveraging Algorithm', "
    "the two updates said to be equivalent",
    link="https://arxiv.org/abs/1602.05629",
    said_by="paper",
    words="One full-batch step at every client, averaged with weights n_k / n, is a step of gradient descent on the "
    "pooled loss.",
    statement="sum_k n_k / n (w - eta nabla F_k (w)) = w - eta nabla f(w), quad f = sum_k n_k / n F_k",
    severity="false",
    assumptions="the pooled loss is the mean over all samples",
    sensitivity="any difference of the new weights, exact",
)

Sample = tuple[int, int]
_Weights = tuple[Fraction, ...]
_Gradient = Callable[[_Weights, Sample], _Weights]


def _line(w: _Weights, sample: Sample) -> _Weights:
    """Return the gradient of half the squared error of ``w[0] + w[1] x``."""
    x, y = sample
    error = w[0] + w[1] * x - y
    return error, error * x


def _product(w: _Weights, sample: Sample) -> _Weights:
    """Return the gradient of half the squared error of the two-layer network ``w[0] w[1] x``, not convex in w."""
    x, y = sample
    error = w[0] * w[1] * x - y
    return error * w[1] * x, error * w[0] * x


class Round(NamedTuple):
    """Clients' samples (x, y), the start, the step size, and how many steps the clients make."""

    gradient: _Gradient
    clients: tuple[tuple[Sample, ...], ...]
    start: _Weights
    rate: Fraction
    steps: int

    def __str__(self) -> str:
        model = "a line" if self.gradient is _line else "a network of two layers"
        samples = ", ".join("{" + ", ".join(map(str, client)) + "}" for client in self.clients)
        start = ", ".join(exact(w) for w in self.start)
        return f"{model}, clients with the samples {samples}, w = ({start}), η = {self.rate}"


def _step(w: _Weights, samples: tuple[Sample, ...], case: Round) -> _Weights:
    """Make a gradient step on the mean loss of the samples."""
    each = [case.gradient(w, sample) for sample in samples]
    return tuple(v - case.rate * sum(g[i] for g in each) / len(samples) for i, v in enumerate(w))


def _averaged(case: Round, shares: list[Fraction]) -> list[_Weights]:
    """Return the clients' shares of FedAvg's weights after one round."""
    weighted = []
    for client, share in zip(case.clients, shares, strict=True):
        w = case.start
        for _ in range(case.steps):
            w = _step(w, client, case)
        weighted.append(tuple(share * v for v in w))
    return weighted


def _descended(case: Round) -> _Weights:
    """Return the weights after as many steps of gradient descent on all samples together."""
    pooled, w = sum(case.clients, ()), case.start
    for _ in range(case.steps):
        w = _step(w, pooled, case)
    return w


def _rounds(steps: int) -> Iterator[Round]:
    points = [(1, 0), (1, 1), (2, 1)]
    starts = [(Fraction(0), Fraction(0)), (Fraction(1), Fraction(-1, 2))]
    sizes = ((1, 1), (1, 2), (1, 3), (1, 1, 2))
    for several, gradient, start, rate in product(sizes, (_line, _product), starts, (Fraction(1, 2), Fraction(3))):
        for clients in product(*(combinations_with_replacement(points, n) for n in several)):
            yield Round(gradient, clients, start, rate, steps)


def _is_descent(*, by_size: bool = True, steps: int = 1) -> Evidence:
    """Compare in fractions.

    The mean over all samples is ``sum_k n_k / n`` times client k's mean, the gradient is linear in the loss, and the
    shares sum to one: so the averaged step is the step on the pooled loss, whatever the model.
    """

    def cases() -> Iterator[Sides]:
        for case in _rounds(steps):
            sizes = [len(client) if by_size else 1 for client in case.clients]
            averaged = _averaged(case, [Fraction(n, sum(sizes)) for n in sizes])
            for i, wanted in enumerate(_descended(case)):
                parts = {f"share of client {k}": w[i] for k, w in enumerate(averaged, start=1)}
                yield Sides(f"{case}: entry {i + 1} of w", parts, wanted, names=("averaged", "by gradient descent"))

    return compared(cases(), of="weights after rounds of a line and of a network, in fractions", relation="==")


@CL01.reading("weights n_k / n, clients of any size")
def weights_by_size() -> Evidence:
    return _is_descent()


@CL01.mutant("equal weights, clients of any size")
def equal_weights() -> Evidence:
    return _is_descent(by_size=False)


@CL01.mutant("two local steps, against two steps of gradient descent")
def two_steps() -> Evidence:
    return _is_descent(steps=2)
