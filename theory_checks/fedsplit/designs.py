"""Small designs: unit inputs along whole-numbered directions, dealt in order to clients of equal size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Evidence, search
from fedstat.ntk import infinite_gram, personal_gram

#: Directions in whole numbers from -2 to 2, one of each line: no two are parallel, so the kernels are definite.
IN_SPACE = [v for v in itertools.product(range(-2, 3), repeat=3) if math.gcd(*v) == 1 and next(c for c in v if c) > 0]
#: Directions in the plane, no two parallel, some of them nearly so.
IN_PLANE = [v for v in itertools.product(range(10), range(-9, 10)) if math.gcd(*v) == 1 and (v[0] > 0 or v[1] > 0)]


class Design(NamedTuple):
    """Unit inputs along directions, dealt in order to clients of equal size, with labels where they matter."""

    clients: int
    directions: tuple[tuple[int, ...], ...]
    labels: tuple[float, ...] = ()

    def kernels(self, clients: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the shared and the personal kernel, if need be for another number of clients."""
        x = np.array(self.directions, dtype=float)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        return infinite_gram(x), personal_gram(x, np.arange(len(x)) // (len(x) // (clients or self.clients)))

    def __str__(self) -> str:
        labels = f", labels {listed(self.labels)}" if self.labels else ""
        return f"C = {self.clients}, unit inputs along {vectors(self.directions)}{labels}"


def listed(numbers: Iterable[float]) -> str:
    """Write numbers in a row."""
    return ", ".join(f"{number:g}" for number in numbers).replace("-", "−")


def vectors(several: Iterable[Iterable[float]]) -> str:
    """Write vectors in a row."""
    return ", ".join(f"({listed(vector)})" for vector in several)


def designs(clients: int = 1, n: int = 1, *, most: int = 3) -> st.SearchStrategy[Design]:
    """Draw designs with `clients` to `most` clients and `n` to four samples at each, or `n` above four."""

    def of_size(shape: tuple[int, int]) -> st.SearchStrategy[Design]:
        size = shape[0] * shape[1]
        directions = st.lists(st.sampled_from(IN_SPACE), min_size=size, max_size=size, unique=True).map(tuple)
        return st.builds(Design, st.just(shape[0]), directions)

    return st.tuples(st.integers(clients, most), st.integers(n, max(n, 4))).flatmap(of_size)


def labelled(
    clients: int = 1,
    n: int = 1,
    *,
    pool: Sequence[tuple[int, ...]] = IN_PLANE,
    largest: int = 3,
    labels: Sequence[float] = (1, -1),
) -> st.SearchStrategy[Design]:
    """Draw labelled designs with `clients` to three clients, and n to `largest` times n samples at each."""

    def of_size(shape: tuple[int, int]) -> st.SearchStrategy[Design]:
        size = shape[0] * shape[1] * n
        directions = st.lists(st.sampled_from(pool), min_size=size, max_size=size, unique=True).map(tuple)
        drawn = st.lists(st.sampled_from(labels), min_size=size, max_size=size).map(tuple)
        return st.builds(Design, st.just(shape[0]), directions, drawn)

    return st.tuples(st.integers(clients, 3), st.integers(1, largest)).flatmap(of_size)


def over_designs(
    sides: Callable[[np.ndarray, np.ndarray, int], tuple[float, float]],
    drawn: st.SearchStrategy[Design],
    names: tuple[str, str],
) -> Evidence:
    """Search designs for one in which the left of two sides, functions of the kernels and of C, exceeds the right."""

    def of_design(case: Design) -> tuple[float, float]:
        shared, personal = case.kernels()
        return sides(shared, personal, case.clients)

    return search(drawn, of_design, tolerance=1e-13, examples=150, names=names)
