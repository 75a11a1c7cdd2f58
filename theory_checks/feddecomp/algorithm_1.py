"""FedDecomp's algorithm box on linear clients with squared error: in fractions exactly, or in floating point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Literal, NamedTuple

import numpy as np

from fedstat.claims import Sides, exact

Phase = Literal["low-rank", "full", "both"]
_STEP, _ROUNDS = Fraction(1, 2), 2


class Client(NamedTuple):
    """One client's inputs (n, I) and targets (n, O)."""

    x: np.ndarray
    y: np.ndarray

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of the mean of half the squared errors of the linear model x' theta."""
        return np.asarray(self.x.T @ (self.x @ theta - self.y) / len(self.x))

    def __str__(self) -> str:
        return "; ".join(f"{written(x)} to {written(y)}" for x, y in zip(self.x, self.y, strict=True))


class Trained(NamedTuple):
    """What a federation ends with: each client's weights; by round, each client's sigma; and numbers sent up."""

    weights: list[np.ndarray]
    shared: list[list[np.ndarray]]
    sent: list[int]


def in_fractions(values: Any) -> np.ndarray:
    """Return an array of fractions."""
    return np.vectorize(Fraction, otypes=[object])(np.array(values))


def written(values: Any) -> str:
    """Write numbers in brackets."""
    return f"({', '.join(exact(v) for v in np.ravel(values))})"


def feddecomp(
    clients: Sequence[Client],
    sigma: np.ndarray,
    a: np.ndarray,
    phases: Sequence[Phase],
    *,
    step: Any = _STEP,
    rounds: int = _ROUNDS,
    sends: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, ...]] = lambda sigma, b, a: (sigma,),
) -> Trained:
    """Run Algorithm 1 with full-batch gradient steps as epochs, each in the named part, and B = 0 at the start."""
    shared: list[list[np.ndarray]] = []
    sent = []
    low = [(np.zeros((len(sigma), len(a)), dtype=int), a) for _ in clients]
    for _ in range(rounds):
        shared.append([])
        for k, client in enumerate(clients):
            own, (b, a_) = sigma, low[k]
            for phase in phases:
                g = client.gradient(own + b @ a_)
                if phase != "full":
                    b, a_ = b - step * g @ a_.T, a_ - step * b.T @ g
                if phase != "low-rank":
                    own = own - step * g
            low[k] = (b, a_)
            shared[-1].append(own)
            sent.append(sum(part.size for part in sends(own, b, a_)))
        sigma = sum(shared[-1][1:], shared[-1][0]) / len(clients)
    return Trained([sigma + b @ a_ for b, a_ in low], shared, sent)


def fedavg(clients: Sequence[Client], theta: np.ndarray, epochs: int, *, by_size: bool = True) -> Trained:
    """Run FedAvg in fractions, weighted by sample sizes or equally."""
    sizes, sent = [len(c.x) if by_size else 1 for c in clients], []
    shared: list[list[np.ndarray]] = []
    for _ in range(_ROUNDS):
        shared.append([])
        for client in clients:
            own = theta
            for _ in range(epochs):
                own = own - _STEP * client.gradient(own)
            shared[-1].append(own)
            sent.append(own.size)
        theta = np.asarray(sum(Fraction(n, sum(sizes)) * w for n, w in zip(sizes, shared[-1], strict=True)))
    return Trained([theta] * len(clients), shared, sent)


def alone(client: Client, base: np.ndarray, a: np.ndarray, epochs: int) -> np.ndarray:
    """Run one client's low-rank training around a fixed base in fractions, without a server."""
    b = np.zeros((len(base), len(a)), dtype=int)
    for _ in range(_ROUNDS * epochs):
        g = client.gradient(base + b @ a)
        b, a = b - _STEP * g @ a.T, a - _STEP * b.T @ g
    return np.asarray(base + b @ a)


class Federation(NamedTuple):
    """Clients with the starting values of sigma and of A."""

    clients: tuple[Client, ...]
    sigma: np.ndarray
    a: np.ndarray

    def __str__(self) -> str:
        data = ", ".join(f"client {k} has {client}" for k, client in enumerate(self.clients, start=1))
        return f"σ = {written(self.sigma)}, A = {written(self.a)}, {data}"


def federations(sizes: tuple[int, int]) -> Iterator[Federation]:
    """Yield clients in fractions: all combinations of scalars, then 2 x 2 weights of inner dimension one."""
    points = [((x,), (y,)) for x in (1, 2) for y in (0, 1)]

    def client(samples: Any) -> Client:
        return Client(in_fractions([x for x, _ in samples]), in_fractions([y for _, y in samples]))

    for first in combinations_with_replacement(points, sizes[0]):
        for second in combinations_with_replacement(points, sizes[1]):
            yield Federation((client(first), client(second)), in_fractions([[0]]), in_fractions([[1]]))
    rng = np.random.default_rng(3)
    for _ in range(3):
        draw = [rng.integers(-1, 2, size=(n, 2, 2)).tolist() for n in sizes]
        sigma = in_fractions(rng.integers(-2, 3, size=(2, 2)))
        yield Federation(tuple(map(client, draw)), sigma, in_fractions([[1, -2]]))


def entries(case: Federation, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], *, by: str) -> Iterator[Sides]:
    """Yield every weight that the clients end with under FedDecomp, beside that of another method."""
    for k, pair in enumerate(zip(found, wanted, strict=True), start=1):
        for ours, theirs in zip(*map(np.ravel, pair), strict=True):
            yield Sides(f"{case}: a weight of client {k}", ours, theirs, names=("under FedDecomp", by))
