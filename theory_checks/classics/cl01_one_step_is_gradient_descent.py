"""CL-01: one local step is a step of gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

import numpy as np

from fedstat.claims import Claim, Evidence, Sides, compared, exact, fedavg_round, local_steps

CL01 = Claim(
    id="CL-01",
    place="McMahan, Moore, Ramage, Hampson and Agüera y Arcas, Communication-efficient learning of deep networks from "
    "decentralized data (AISTATS 2017), section 2, 'The FederatedAveraging Algorithm', the two updates said to be "
    "equivalent; arXiv:1602.05629",
    said_by="paper",
    words="One full-batch step at every client, averaged with weights n_k / n, is a step of gradient descent on the "
    "pooled loss.",
    statement="sum_k n_k / n (w - eta nabla F_k (w)) = w - eta nabla f(w), quad f = sum_k n_k / n F_k",
    severity="false",
    assumptions="the pooled loss is the mean over all samples",
    sensitivity="any difference of the new weights, exact",
)

Sample = tuple[int, int]


def _line(w: Any, sample: Sample) -> Any:
    """Return the gradient of half the squared error of ``w[0] + w[1] x``."""
    x, y = sample
    return (w[0] + w[1] * x - y) * np.array([1, x])


def _product(w: Any, sample: Sample) -> Any:
    """Return the gradient of half the squared error of the two-layer network ``w[0] w[1] x``, not convex in w."""
    x, y = sample
    return (w[0] * w[1] * x - y) * x * w[::-1]


class Round(NamedTuple):
    """Clients' samples (x, y), the start and the step size."""

    gradient: Callable[[Any, Sample], Any]
    clients: tuple[tuple[Sample, ...], ...]
    start: tuple[Fraction, Fraction]
    rate: Fraction

    def __str__(self) -> str:
        model = "a line" if self.gradient is _line else "a network of two layers"
        samples = ", ".join("{" + ", ".join(map(str, client)) + "}" for client in self.clients)
        start = ", ".join(exact(w) for w in self.start)
        return f"{model}, clients with the samples {samples}, w = ({start}), η = {self.rate}"


def _slope(case: Round, samples: tuple[Sample, ...]) -> Callable[[Any], Any]:
    """Return the gradient of the mean loss of the samples."""
    return lambda w: sum(case.gradient(w, sample) for sample in samples) * Fraction(1, len(samples))


def _rounds() -> Iterator[Round]:
    points = [(1, 0), (1, 1), (2, 1)]
    starts = [(Fraction(0), Fraction(0)), (Fraction(1), Fraction(-1, 2))]
    sizes = ((1, 1), (1, 2), (1, 3), (1, 1, 2))
    for several, gradient, start, rate in product(sizes, (_line, _product), starts, (Fraction(1, 2), Fraction(3))):
        for clients in product(*(combinations_with_replacement(points, n) for n in several)):
            yield Round(gradient, clients, start, rate)


def _is_descent(*, by_size: bool = True, steps: int = 1) -> Evidence:
    """Compare in fractions.

    The mean over all samples is ``sum_k n_k / n`` times client k's mean, the gradient is linear in the loss, and the
    shares sum to one: so the averaged step is the step on the pooled loss, whatever the model.
    """

    def cases() -> Iterator[Sides]:
        for case in _rounds():
            sizes = [len(client) if by_size else 1 for client in case.clients]
            start, gradients = np.array(case.start), [_slope(case, client) for client in case.clients]
            averaged = [
                fedavg_round(start, gradients, lr=case.rate, steps=steps, weights={k: Fraction(n, sum(sizes))})
                for k, n in enumerate(sizes)
            ]
            descended = local_steps(start, _slope(case, sum(case.clients, ())), lr=case.rate, steps=steps)
            for i, wanted in enumerate(descended):
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
