"""Federated problems whose answers are exact fractions, and Hypothesis strategies that draw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from fedstat.claims.cases import exact


@dataclass(frozen=True)
class Parabolas:
    """Clients with the losses ``F_k(w) = h_k (w - c_k)^2 / 2`` and shares p_k, all of them fractions.

    Attributes
    ----------
    h : tuple of Fraction
        Curvatures.
    c : tuple of Fraction
        Minimisers; every client's smallest loss is zero.
    p : tuple of Fraction
        Shares, which add up to one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import Parabolas
    >>> half = Fraction(1, 2)
    >>> pair = Parabolas(h=(2, 1), c=(0, 1), p=(half, half))
    >>> pair.optimum, pair.limit(steps=2, lr=Fraction(1, 4))
    (Fraction(1, 3), Fraction(7, 19))
    """

    h: tuple[Fraction | int, ...]
    c: tuple[Fraction | int, ...]
    p: tuple[Fraction, ...]

    @property
    def gradients(self) -> list[Callable[[Any], Any]]:
        """The clients' gradients."""
        return [partial(_slope, h, c) for h, c in zip(self.h, self.c, strict=True)]

    def losses(self, w: Any) -> list[Any]:
        """Return every client's loss."""
        return [h * (w - c) ** 2 / Fraction(2) for h, c in zip(self.h, self.c, strict=True)]

    def loss(self, w: Any) -> Any:
        """Return the global objective, the shares' mean of the clients' losses."""
        return sum(p * loss for p, loss in zip(self.p, self.losses(w), strict=True))

    @property
    def optimum(self) -> Fraction:
        """The minimiser w* of the global objective."""
        return self._centre([Fraction(h) for h in self.h])

    @property
    def convexity(self) -> Fraction:
        """Strong convexity that all clients have, the smallest curvature."""
        return Fraction(min(self.h))

    @property
    def smoothness(self) -> Fraction:
        """Smoothness L that all clients have, the largest curvature."""
        return Fraction(max(self.h))

    @property
    def gamma(self) -> Fraction:
        """The heterogeneity Gamma of Li et al. (2020): F* minus the mean of the clients' smallest losses."""
        return Fraction(self.loss(self.optimum))

    def moves(self, steps: int, lr: Fraction) -> list[Fraction]:
        """Return the share of the way to its minimiser that each client goes in a round, ``1 - (1 - lr h_k)^steps``."""
        return [1 - (1 - lr * Fraction(h)) ** steps for h in self.h]

    def limit(self, steps: int, lr: Fraction) -> Fraction:
        """Return the fixed point of a round of FedAvg with everybody taking part."""
        return self._centre(self.moves(steps, lr))

    def _centre(self, pulls: Sequence[Fraction]) -> Fraction:
        weights = [p * a for p, a in zip(self.p, pulls, strict=True)]
        return sum((a * c for a, c in zip(weights, self.c, strict=True)), Fraction(0)) / sum(weights)

    def __str__(self) -> str:
        parts = (("h", self.h), ("c", self.c), ("p", self.p))
        return ", ".join(f"{name} = ({', '.join(map(exact, values))})" for name, values in parts)


def _slope(h: Any, c: Any, w: Any) -> Any:
    return h * (w - c)


@dataclass(frozen=True)
class BentParabola:
    """A convex function of one number: a parabola that has another curvature from some place to the right on.

    Its gradient is continuous, so that it is as smooth as the larger curvature and as strongly convex as the smaller.

    Attributes
    ----------
    near, far : Fraction
        Curvature up to the bend and from there on.
    centre : Fraction
        The minimiser.
    kink : Fraction
        How far beyond the minimiser the bend is, at least 0.
    least : Fraction
        The smallest value.

    Examples
    --------
    >>> from fedstat.claims import BentParabola
    >>> bent = BentParabola(near=1, far=3, centre=0)
    >>> bent.slope(2), bent.value(2), bent.proximal(6, step=1)
    (4, Fraction(3, 1), Fraction(2, 1))
    """

    near: Fraction | int
    far: Fraction | int
    centre: Fraction | int
    kink: Fraction | int = 1
    least: Fraction | int = 0

    @property
    def convexity(self) -> Fraction:
        """Strong convexity mu, the smaller curvature."""
        return Fraction(min(self.near, self.far))

    @property
    def smoothness(self) -> Fraction:
        """Smoothness L, the larger curvature."""
        return Fraction(max(self.near, self.far))

    def slope(self, w: Any) -> Any:
        """Return the derivative."""
        x = w - self.centre
        return self.near * min(x, self.kink) + self.far * max(x - self.kink, 0)

    def value(self, w: Any) -> Any:
        """Return the function's value."""
        x = w - self.centre
        before, beyond = min(x, self.kink), max(x - self.kink, 0)
        return self.least + (self.near * before * (before + 2 * beyond) + self.far * beyond**2) / Fraction(2)

    def proximal(self, w: Any, step: Any) -> Any:
        """Return the minimiser v of the function plus ``(v - w)^2 / (2 step)``."""
        y = Fraction(w - self.centre)
        x = y / (1 + step * self.near)
        if x > self.kink:
            x = (y + step * (self.far - self.near) * self.kink) / (1 + step * self.far)
        return self.centre + x

    def __str__(self) -> str:
        bend = f", {exact(self.far)} from {exact(self.centre + self.kink)} on" if self.far != self.near else ""
        return f"curvature {exact(self.near)}{bend}, minimum {exact(self.least)} at {exact(self.centre)}"


def minimiser(functions: Sequence[BentParabola], weights: Sequence[Fraction]) -> Fraction:
    """Return where the weighted sum of strongly convex functions is smallest.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.claims import BentParabola, minimiser
    >>> minimiser([BentParabola(near=1, far=3, centre=0), BentParabola(1, 1, 4)], [Fraction(1, 2)] * 2)
    Fraction(3, 2)
    """

    def slope(w: Fraction) -> Fraction:
        return sum((p * k.slope(w) for k, p in zip(functions, weights, strict=True)), Fraction(0))

    bends = sorted(Fraction(k.centre + k.kink) for k in functions)  # in between the slope is a line
    low = max((w for w in bends if slope(w) <= 0), default=bends[0] - 1)
    high = min((w for w in bends if slope(w) > 0), default=bends[-1] + 1)
    return low - slope(low) * (high - low) / (slope(high) - slope(low))


def shares(clients: int) -> Any:
    """Draw positive shares of `clients` clients, which add up to one; equal ones are tried first.

    Examples
    --------
    >>> from hypothesis import find
    >>> from fedstat.claims import shares
    >>> find(shares(2), lambda p: p[0] > p[1])
    (Fraction(2, 3), Fraction(1, 3))
    """
    from hypothesis import strategies as st

    sizes = st.lists(st.integers(1, 9), min_size=clients, max_size=clients)
    return sizes.map(lambda n: tuple(Fraction(size, sum(n)) for size in n))


def parabolas(
    clients: tuple[int, int] = (2, 4), *, curvatures: tuple[int, int] = (1, 8), centres: tuple[int, int] = (-4, 4)
) -> Any:
    """Draw `Parabolas`.

    Parameters
    ----------
    clients : tuple of int
        Smallest and largest number of clients.
    curvatures, centres : tuple of int
        Smallest and largest h_k and c_k; both are whole numbers.

    Examples
    --------
    The simplest pair of clients whom two local steps of 1/8 do not bring to the optimum:

    >>> from fractions import Fraction
    >>> from hypothesis import find
    >>> from fedstat.claims import parabolas
    >>> print(find(parabolas(), lambda problem: problem.limit(2, Fraction(1, 8)) != problem.optimum))
    h = (1, 2), c = (0, 1), p = (1/2, 1/2)
    """
    from hypothesis import strategies as st

    def of_size(n: int) -> Any:
        whole = [st.lists(st.integers(*ends), min_size=n, max_size=n).map(tuple) for ends in (curvatures, centres)]
        return st.builds(Parabolas, *whole, shares(n))

    return st.integers(*clients).flatmap(of_size)


def convex_pairs(*, curvatures: tuple[int, int] = (1, 8), centres: tuple[int, int] = (-4, 4)) -> Any:
    """Draw the convex losses of two clients, which need not be quadratic: pairs of `BentParabola`.

    Parameters
    ----------
    curvatures, centres : tuple of int
        Smallest and largest curvature and minimiser; these are whole numbers, as are the distances of the bends.

    Examples
    --------
    Clients with the same two curvatures, whom two local steps of 1/8 do not bring to the optimum all the same:

    >>> from fractions import Fraction
    >>> from hypothesis import find
    >>> from fedstat.claims import convex_pairs, fedavg_round, minimiser
    >>> half = [Fraction(1, 2)] * 2
    >>> def moved(pair):
    ...     optimum, alike = minimiser(pair, half), pair[0].near == pair[1].near and pair[0].far == pair[1].far
    ...     slopes = [function.slope for function in pair]
    ...     return alike and fedavg_round(optimum, slopes, lr=Fraction(1, 8), steps=2, weights=half) != optimum
    >>> print(*find(convex_pairs(), moved), sep="; ")
    curvature 2, 1 from 0 on, minimum 0 at 0; curvature 2, 1 from 1 on, minimum 0 at 1
    """
    from hypothesis import strategies as st

    curvature = st.integers(*curvatures)
    functions = st.builds(BentParabola, curvature, curvature, st.integers(*centres), st.integers(0, 4))
    return st.tuples(functions, functions)
