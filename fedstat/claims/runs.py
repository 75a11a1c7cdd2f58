"""A run of a federated method as a pure function of its clients, and the quantities that theorems compare."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from fedstat.claims.rounds import local_steps as descent

#: A model: an array, a number, or a symbol of which only inner products will be known.
Vector = Any
#: A squared length, a value of a function, or a sum of such.
Quantity = Any


class Functions(NamedTuple):
    """The class of functions that a client's objective comes from, in every dimension.

    Attributes
    ----------
    convexity : float
        mu: strongly convex if positive, convex if 0; minus the smoothness for functions that need not be convex, of
        which nothing can be asked that depends on the optimum or on a client's minimiser.
    smoothness : float
        L: gradients differ by at most L times the distance; infinite for functions that need not be smooth.
    gradient : float
        The largest norm of a gradient anywhere; infinite if there is none.

    Examples
    --------
    >>> from fedstat.claims import Functions
    >>> Functions(convexity=0.1, smoothness=1)
    Functions(convexity=0.1, smoothness=1, gradient=inf)
    """

    convexity: float = 0.0
    smoothness: float = math.inf
    gradient: float = math.inf


class Client(ABC):
    """A client as a method sees it: what it can ask of the client's function F.

    Derive from it to run a method on functions of your own, as the example of `Run` does.

    Attributes
    ----------
    weight : float
        The client's share p in ``sum p F``.
    visited : list
        The gradients that were asked for, in order.

    Examples
    --------
    >>> from fedstat.claims import Client
    >>> class Parabola(Client):
    ...     def at(self, w):
    ...         return w, w**2 / 2
    >>> client = Parabola(weight=1)
    >>> client.gradient(3.0), client.value(3.0), client.visited
    (3.0, 4.5, [3.0])
    """

    weight: float

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.visited: list[Vector] = []

    @abstractmethod
    def at(self, model: Vector) -> tuple[Vector, Quantity]:
        """Return gradient and value of F at a model."""

    def gradient(self, model: Vector) -> Vector:
        """Return the gradient of F at a model, as a step of the method does."""
        self.visited.append(self.at(model)[0])
        return self.visited[-1]

    def value(self, model: Vector) -> Quantity:
        """Return F at a model."""
        return self.at(model)[1]

    def proximal(self, model: Vector, step: float) -> Vector:
        """Return the minimiser of ``F(w) + |w - model|^2 / (2 step)``."""
        raise NotImplementedError

    def minimiser(self) -> Vector:
        """Return a minimiser of F."""
        raise NotImplementedError

    def chosen(self) -> Vector:
        """Return a vector that the worst case may choose, such as gradient noise or a model of the client's own."""
        raise NotImplementedError


#: A method: from the clients and the first model to the last one, or to a list of equally likely ones.
Method = Callable[[Sequence[Client], Vector], Any]


def square(vector: Vector) -> Quantity:
    """Return the squared length of an array, of a number, or of a symbol.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.claims import square
    >>> float(square(np.array([3.0, 4.0]))), square(-2)
    (25.0, 4)
    """
    squared = vector**2
    return squared.sum() if isinstance(squared, np.ndarray) else squared


def average(clients: Sequence[Client], models: Sequence[Vector]) -> Vector:
    """Return the average of the clients' models by their weights, which are scaled to add up to one.

    Examples
    --------
    Of symbols ``sum`` knows nothing; this does:

    >>> from types import SimpleNamespace
    >>> from fedstat.claims import average
    >>> average([SimpleNamespace(weight=1), SimpleNamespace(weight=3)], [0.0, 4.0])
    3.0
    """
    whole = sum(client.weight for client in clients)
    parts = [client.weight / whole * model for client, model in zip(clients, models, strict=True)]
    return reduce(operator.add, parts)


def fedavg(step: float, local_steps: int, rounds: int = 1) -> Method:
    """Federated averaging: every client makes local gradient steps, and the ends are averaged by the clients' weights.

    Parameters
    ----------
    step : float
        Size of a local step.
    local_steps, rounds : int
        E, the steps of a client in a round, and the number of rounds.

    Examples
    --------
    Two steps on ``w^2 / 2``, each of which halves the model:

    >>> from fedstat.claims import Client, fedavg
    >>> class Parabola(Client):
    ...     def at(self, w):
    ...         return w, w**2 / 2
    >>> fedavg(step=0.5, local_steps=2)([Parabola(weight=1)], 8.0)
    2.0
    """

    def method(clients: Sequence[Client], model: Vector) -> Vector:
        for _ in range(rounds):
            ends = [descent(model, client.gradient, steps=local_steps, lr=step) for client in clients]
            model = average(clients, ends)
        return model

    return method


@dataclass(frozen=True)
class Run:
    """A run of a method, and the quantities that theorems compare; expectations are over equally likely outcomes.

    Attributes
    ----------
    clients : sequence of Client
        The clients, after the run.
    first, optimum : vector
        The first model, and the minimiser of F, the weighted sum of the clients' functions; in a worst case over
        functions that need not be convex no more than a stationary point of F.
    models : sequence of vectors
        The last model, or the equally likely ones.
    visited : sequence of vectors
        The gradients that the clients computed during the run.

    Examples
    --------
    Two clients ``h (w - c)^2 / 2`` whose optimum is 0, and two local steps from 1:

    >>> from fedstat.claims import Client, Run, fedavg
    >>> class Parabola(Client):
    ...     def __init__(self, h, c):
    ...         super().__init__(weight=0.5)
    ...         self.h, self.c = h, c
    ...     def at(self, w):
    ...         return self.h * (w - self.c), self.h * (w - self.c) ** 2 / 2
    >>> found = Run.of(fedavg(step=0.5, local_steps=2), [Parabola(1.0, 1.0), Parabola(0.5, -2.0)], 1.0, 0.0)
    >>> found.start, found.models, found.heterogeneity
    (1.0, [0.34375], 1.0)
    """

    clients: Sequence[Client]
    first: Vector
    optimum: Vector
    models: Sequence[Vector]
    visited: Sequence[Vector]
    conditions: list[Any] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, method: Method, clients: Sequence[Client], first: Vector, optimum: Vector) -> Run:
        """Run a method."""
        end = method(clients, first)
        visited = [gradient for client in clients for gradient in client.visited]
        return cls(clients, first, optimum, end if isinstance(end, list) else [end], visited)

    @cached_property
    def start(self) -> Quantity:
        """Squared distance of the first model from the optimum."""
        return square(self.first - self.optimum)

    @cached_property
    def distance(self) -> Quantity:
        """Expected squared distance of the last model from the optimum."""
        return self._expected(square(model - self.optimum) for model in self.models)

    @cached_property
    def gap(self) -> Quantity:
        """Expected excess of F at the last model over its minimum."""
        return self._expected(self.value(model) - self.value(self.optimum) for model in self.models)

    @cached_property
    def heterogeneity(self) -> Quantity:
        """Weighted mean of the squared gradients of the clients at the optimum."""
        return sum(client.weight * square(client.at(self.optimum)[0]) for client in self.clients)

    @cached_property
    def excess(self) -> Quantity:
        """F at the optimum minus the weighted mean of the clients' own minima (Gamma)."""
        own = sum(client.weight * client.value(client.minimiser()) for client in self.clients)
        return self.value(self.optimum) - own

    @cached_property
    def largest_gradient(self) -> Quantity:
        """Largest squared gradient among those that clients computed during the run."""
        return self.largest(square(gradient) for gradient in self.visited)

    def largest(self, quantities: Iterable[Quantity]) -> Quantity:
        """Return the largest of several quantities, for a bound that grows with it."""
        of = list(quantities)
        if all(isinstance(quantity, int | float | np.floating) for quantity in of):
            return max(of)
        from PEPit import Expression

        largest = Expression()
        self.conditions.extend(quantity <= largest for quantity in of)
        return largest

    def value(self, model: Vector) -> Quantity:
        """Return F at a model."""
        return sum(client.weight * client.value(model) for client in self.clients)

    def _expected(self, values: Iterable[Quantity]) -> Quantity:
        return sum(values) * (1 / len(self.models))
