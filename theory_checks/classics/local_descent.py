"""Local gradient descent, step by step, on functions of which only inner products are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedstat.claims import Client, average, square
from fedstat.claims.runs import Quantity, Vector


def local_models(
    clients: Sequence[Client], model: Vector, step: float, interval: int, last: int
) -> Iterator[list[Vector]]:
    """Yield the clients' models at t = 0 to `last`, averaged where t is a multiple of the interval."""
    models = [model] * len(clients)
    yield models
    for t in range(1, last + 1):
        models = [w - step * client.gradient(w) for client, w in zip(clients, models, strict=True)]
        if t % interval == 0:
            models = [average(clients, models)] * len(clients)
        yield models


def spread(clients: Sequence[Client], models: Sequence[Vector]) -> Quantity:
    """Return the mean squared distance of the clients' models from their average."""
    middle = average(clients, models)
    return sum(client.weight * square(w - middle) for client, w in zip(clients, models, strict=True))
