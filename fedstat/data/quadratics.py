"""Strongly convex quadratic clients, for which every quantity of a convergence theorem is known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedstat._checks import array, number, whole
from fedstat._random import stream


@dataclass(frozen=True, eq=False)
class Quadratics:
    """Clients with objectives ``F_k(w) = 1/2 (w - c_k)' H_k (w - c_k)``, weighted equally: ``F = mean_k F_k``.

    Every client's own minimum is zero.

    Attributes
    ----------
    hessians : ndarray, shape (K, d, d)
        Symmetric and positive definite.
    centres : ndarray, shape (K, d)
        The clients' minimisers c_k.

    Raises
    ------
    ValueError
        If the shapes do not fit, a number is not finite, or a Hessian is not symmetric and positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> clients = fs.data.Quadratics(np.array([[[1.0]], [[3.0]]]), np.array([[0.0], [4.0]]))
    >>> clients.hessians.shape
    (2, 1, 1)
    """

    hessians: np.ndarray
    centres: np.ndarray

    def __post_init__(self) -> None:
        h, c = self.hessians, self.centres
        array("centres", c, ("clients", "dimension"))
        array("hessians", h, (*c.shape, c.shape[1]))
        if not np.allclose(h, h.swapaxes(1, 2), rtol=1e-12, atol=0) or self._eigenvalues.min() <= 0:
            raise ValueError("hessians must be symmetric and positive definite: every client strongly convex.")

    @cached_property
    def _eigenvalues(self) -> np.ndarray:
        return np.linalg.eigvalsh(self.hessians)

    @property
    def convexity(self) -> float:
        """The constant mu, the smallest eigenvalue of all Hessians."""
        return float(self._eigenvalues.min())

    @property
    def smoothness(self) -> float:
        """The constant L, the largest eigenvalue of all Hessians."""
        return float(self._eigenvalues.max())

    @cached_property
    def optimum(self) -> np.ndarray:
        """The minimiser w* of F, shape (d,)."""
        weighted = np.einsum("kij,kj->i", self.hessians, self.centres)
        return np.linalg.solve(self.hessians.sum(axis=0), weighted)

    @cached_property
    def minimum(self) -> float:
        """The smallest value F* of F."""
        return float(self.value(self.optimum))

    @property
    def gamma(self) -> float:
        """The heterogeneity Gamma, ``F* - mean_k F_k*``; here F* itself, since the clients' own minima are zero."""
        return self.minimum

    def value(self, w: np.ndarray) -> np.ndarray:
        """Return F at points of shape (..., d), shape (...)."""
        away = np.asarray(w)[..., None, :] - self.centres
        return np.einsum("...ki,kij,...kj->...", away, self.hessians, away, optimize=True) / (2 * len(self.centres))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Return every client's gradient at its own point.

        Parameters
        ----------
        w : ndarray, shape (..., K, d)
            One point per client; ``w[..., None, :]`` puts all clients at the same point.

        Returns
        -------
        ndarray, shape (..., K, d)
            Its mean over K, with all clients at a common point, is the gradient of F.
        """
        return np.einsum("kij,...kj->...ki", self.hessians, np.asarray(w) - self.centres)


def random_quadratics(
    *, clients: int, dimension: int, smoothness: float, convexity: float, heterogeneity: float, seed: int
) -> Quadratics:
    """Draw quadratic clients with given constants.

    Eigenvalues are uniform between `convexity` and `smoothness`, both of which occur (the smallest at the first
    client, the largest at the last), in uniformly distributed bases. Centres are normal, and scaled so that Gamma
    is the wanted value; without heterogeneity they are all at the origin.

    Parameters
    ----------
    clients, dimension : int
        K and d.
    smoothness, convexity : float
        L and mu, ``L >= mu > 0``. A single client in one dimension has one eigenvalue, so that L = mu.
    heterogeneity : float
        Gamma, not negative; zero for a single client.
    seed : int
        Seed; the clients are a pure function of it.

    Raises
    ------
    ValueError
        If an argument lies outside the range above.

    Examples
    --------
    >>> import fedstat as fs
    >>> constants = {"smoothness": 4, "convexity": 1, "heterogeneity": 0.5}
    >>> found = fs.data.random_quadratics(clients=3, dimension=2, **constants, seed=0)
    >>> found.hessians.shape, found.centres.shape
    ((3, 2, 2), (3, 2))
    """
    for name, count in (("clients", clients), ("dimension", dimension)):
        whole(name, count, 1)
    number("convexity", convexity, "(0, inf)")
    if not convexity <= smoothness < np.inf:
        raise ValueError(f"smoothness must be finite and at least convexity = {convexity}, got {smoothness}.")
    number("heterogeneity", heterogeneity, "[0, inf)")
    if clients == 1 and heterogeneity > 0:
        raise ValueError(f"heterogeneity must be 0 for a single client, got {heterogeneity}; draw at least two.")
    if clients * dimension == 1 and smoothness > convexity:
        raise ValueError(
            f"smoothness must equal convexity = {convexity} for a single client in one dimension, got {smoothness}."
        )
    rng = stream(seed, "data")
    values = rng.uniform(convexity, smoothness, (clients, dimension))
    values[0, 0], values[-1, -1] = convexity, smoothness
    basis = np.linalg.qr(rng.normal(size=(clients, dimension, dimension))).Q
    hessians = (basis * values[:, None, :]) @ basis.swapaxes(1, 2)
    hessians = (hessians + hessians.swapaxes(1, 2)) / 2
    centres = rng.normal(size=(clients, dimension))
    if heterogeneity == 0:
        return Quadratics(hessians, np.zeros_like(centres))
    unit = Quadratics(hessians, centres).gamma  # Gamma is a quadratic form of the centres
    return Quadratics(hessians, centres * np.sqrt(heterogeneity / unit))
