"""The plane of trajectories: two directions that hold most of where networks went, in units of their filters' norms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

#: Weights of a network by name; a weight and its bias belong to one layer.
Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane through a network, in coordinates that are relative to the norms of its filters.

    Attributes
    ----------
    origin : ndarray, shape (d,)
        The network.
    norms : ndarray, shape (d,)
        For every weight the norm of its filter at the origin.
    directions : ndarray, shape (2, d)
        Orthonormal directions, in units of these norms.
    held : float
        Share of the networks' squared relative distances from the origin that the plane holds, in [0, 1].
    """

    origin: np.ndarray
    norms: np.ndarray
    directions: np.ndarray
    held: float

    def coordinates(self, weights: np.ndarray) -> np.ndarray:
        """Project networks (n, d) on the plane, (n, 2)."""
        return (weights - self.origin) / self.norms @ self.directions.T

    def weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the networks (n, d) at points (n, 2) of the plane."""
        return self.origin + self.norms * (coordinates @ self.directions)


def plane_of(origin: np.ndarray, norms: np.ndarray, networks: np.ndarray) -> Plane:
    """Return the plane through `origin` that holds most of where `networks` are.

    Distances are measured after every filter was divided by its norm, as Li et al. (2018, section 4) scale directions:
    a filter that is ten times as large counts no more, since with ReLU the next layer can undo its size. The directions
    are the first two right singular vectors of the networks minus the origin in these units.

    Parameters
    ----------
    origin : ndarray, shape (d,)
        Where all start.
    norms : ndarray, shape (d,)
        See `filter_norms`.
    networks : ndarray, shape (n, d)
        The iterates of all methods together, n >= 2.
    """
    moved = (networks - origin) / norms
    _, singular, directions = np.linalg.svd(moved, full_matrices=False)
    signs = np.sign((moved @ directions[:2].T)[-1])  # the last network lies to the upper right
    signs[signs == 0] = 1.0
    energy = singular**2
    return Plane(origin, norms, signs[:, None] * directions[:2], float(energy[:2].sum() / energy.sum()))


def filter_norms(weights: Weights) -> np.ndarray:
    """Return for every weight the norm of its filter, flat in the order of `flat`.

    A filter is one output of a convolution or of a dense layer, with its bias.

    Raises
    ------
    ValueError
        If a filter is zero: it has no scale.
    """
    squares: dict[str, np.ndarray] = {}
    for name, value in weights.items():
        layer = name.rpartition(".")[0]
        own = (value.reshape(len(value), -1).astype(np.float64) ** 2).sum(axis=1)
        squares[layer] = squares.get(layer, 0.0) + own
    if zero := [layer for layer, square in squares.items() if not np.all(square > 0)]:
        raise ValueError(f"weights must have no filter that is zero, got one in {', '.join(zero)}; start elsewhere.")
    shaped = [
        np.broadcast_to(np.sqrt(squares[name.rpartition(".")[0]]).reshape(-1, *[1] * (value.ndim - 1)), value.shape)
        for name, value in weights.items()
    ]
    return np.concatenate([norm.reshape(-1) for norm in shaped])


def flat(weights: Weights) -> np.ndarray:
    """Return all weights as one vector of float64, in the order of their names."""
    return np.concatenate([value.reshape(-1) for value in weights.values()]).astype(np.float64)


def shaped(vector: np.ndarray, like: Weights) -> dict[str, np.ndarray]:
    """Undo `flat`: return the weights by name, in float32."""
    sizes = [value.size for value in like.values()]
    pieces = np.split(vector.astype(np.float32), np.cumsum(sizes)[:-1])
    return {name: piece.reshape(value.shape) for (name, value), piece in zip(like.items(), pieces, strict=True)}


def grid(points: Sequence[np.ndarray], count: int, margin: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    """Return the axes of a grid around points (n, 2), `count` each, with a margin on every side."""
    every = np.concatenate(points)
    low, high = every.min(axis=0), every.max(axis=0)
    edge = margin * (high - low)
    x, y = (np.linspace(low[i] - edge[i], high[i] + edge[i], count) for i in (0, 1))
    return x, y
