"""Local gradient descent, step by step, on functions of which only inner products are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedstat.claims import Client, average, square
from fedstat.claims.runs import Method, Quantity, Vector


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


def last_average(convexity: float, gamma: float, local_steps: int, last: int) -> Method:
    """Return the clients' average at t = `last`, counted from 1, after steps of 2 / (mu (gamma + t)).

    They are averaged where t is a multiple of E.
    """

    def method(clients: Sequence[Client], model: Vector) -> Vector:
        models = [model] * len(clients)
        for t in range(1, last):
            if t % local_steps == 0:
                models = [average(clients, models)] * len(clients)
            step = 2 / (convexity * (gamma + t))
            models = [w - step * client.gradient(w) for client, w in zip(clients, models, strict=True)]
        return average(clients, models)

    return method
