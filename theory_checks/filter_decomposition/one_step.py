"""One local step of all clients, exactly: clients at points of their own, objectives quadratic or not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from fedstat.claims import BentParabola, Sides, minimiser
from theory_checks.filter_decomposition.averaging_exactly import in_brackets

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Step:
    """Clients, their weights, the points where they are, the step size, and the constant L, which may be generous."""

    clients: tuple[BentParabola, ...]
    weights: tuple[Fraction, ...]
    points: tuple[Fraction, ...]
    eta: Fraction
    smoothness: Fraction

    def __str__(self) -> str:
        return (
            f"clients with {'; '.join(map(str, self.clients))}; weights {in_brackets(self.weights)}, points "
            f"{in_brackets(self.points)}, η = {self.eta}, L = {self.smoothness}"
        )

    def mean(self, of: Callable[[BentParabola, Fraction], Fraction]) -> Fraction:
        """Return the weighted mean of a function of a client and its point."""
        each = zip(self.weights, self.clients, self.points, strict=True)
        return sum((p * of(k, w) for p, k, w in each), Fraction(0))

    @cached_property
    def convexity(self) -> Fraction:
        """mu, the smallest curvature."""
        return min(k.convexity for k in self.clients)

    @cached_property
    def average(self) -> Fraction:
        """w^t."""
        return self.mean(lambda k, w: w)

    @cached_property
    def optimum(self) -> Fraction:
        """w*."""
        return minimiser(self.clients, self.weights)

    @cached_property
    def lowest(self) -> Fraction:
        """F*."""
        return self.mean(lambda k, w: k.value(self.optimum))

    @cached_property
    def heterogeneity(self) -> Fraction:
        """Gamma."""
        return self.lowest - self.mean(lambda k, w: Fraction(k.least))

    @cached_property
    def gradient(self) -> Fraction:
        """g_t, the mean of the clients' gradients."""
        return self.mean(lambda k, w: k.slope(w))

    @cached_property
    def squared_gradients(self) -> Fraction:
        """The mean of the clients' squared gradients."""
        return self.mean(lambda k, w: k.slope(w) ** 2)

    @cached_property
    def distance(self) -> Fraction:
        """|w^t - w*|^2."""
        return (self.average - self.optimum) ** 2

    @cached_property
    def after(self) -> Fraction:
        """|w^t - w* - eta g_t|^2."""
        return (self.average - self.optimum - self.eta * self.gradient) ** 2

    @cached_property
    def spread(self) -> Fraction:
        """The clients' mean squared distance from their average."""
        return self.mean(lambda k, w: (w - self.average) ** 2)

    @cached_property
    def above_own(self) -> Fraction:
        """The mean of F_k(w_k) - F_k*."""
        return self.mean(lambda k, w: k.value(w) - k.least)

    @cached_property
    def above_optimum(self) -> Fraction:
        """The mean of F_k(w_k) - F_k(w*)."""
        return self.mean(lambda k, w: k.value(w) - k.value(self.optimum))


def _client(near: int, far: int, centre: int, least: int = 0) -> BentParabola:
    return BentParabola(near, far, centre, HALF, least)


_FAMILIES = (
    ((_client(1, 1, 0),), (Fraction(1),)),
    ((_client(10, 10, 0),), (Fraction(1),)),
    ((_client(1, 3, 0, least=-1),), (Fraction(1),)),
    ((_client(1, 1, 0), _client(1, 1, 0)), (HALF, HALF)),
    ((_client(1, 1, 0), _client(1, 1, 1, least=2)), (HALF, HALF)),
    ((_client(1, 1, 0), _client(4, 4, 1)), (Fraction(1, 3), Fraction(2, 3))),
    ((_client(1, 1, 0), _client(50, 50, 1)), (HALF, HALF)),
    ((_client(1, 4, 0), _client(3, 1, 1)), (HALF, HALF)),
    ((_client(1, 1, 0), _client(1, 1, 1), _client(9, 2, 0)), (HALF, Fraction(1, 4), Fraction(1, 4))),
)


def steps(sizes: Callable[[Fraction], Iterable[Fraction]]) -> Iterator[Step]:
    """Yield clients together and apart, near the optimum and away from it, with the step sizes for each L."""
    for (clients, weights), away in itertools.product(_FAMILIES, (0, 1, -3)):
        optimum = minimiser(clients, weights)
        for moved in itertools.product((0, 1, -2), repeat=len(clients)):
            points = tuple(optimum + away + x for x in moved)
            largest = max(k.smoothness for k in clients)
            for smoothness in (largest, 2 * largest):
                for eta in sizes(smoothness):
                    yield Step(clients, weights, points, eta, smoothness)


def small(smoothness: Fraction) -> list[Fraction]:
    """Return step sizes up to 1/(4L)."""
    return [1 / (4 * smoothness), 1 / (40 * smoothness)]


def beside(
    cases: Iterable[Step], sides: Callable[[Step], tuple[object, object]], names: tuple[str, str]
) -> Iterator[Sides]:
    """Put two sides beside each case."""
    for case in cases:
        yield Sides(str(case), *sides(case), names)
