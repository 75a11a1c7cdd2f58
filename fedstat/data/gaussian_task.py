"""The two-dimensional toy task of the filter-decomposition paper (section 6.7, Figure 1b)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedstat._checks import array, number, whole
from fedstat._random import stream
from fedstat.data.clients import Clients, Samples


@dataclass(frozen=True, eq=False)
class GaussianTruth:
    """Where the clients' classes lie, and the least-squares solution over all clients that could have been drawn.

    Attributes
    ----------
    centres : ndarray, shape (K, 2)
        Centre of each client's positive class; the negative one lies opposite.
    moment : ndarray, shape (2, 2)
        Second moments of the inputs, ``Sigma + spread^2 I + mu mu'``.
    weights : ndarray, shape (2,)
        Minimiser of the expected squared error, ``moment^{-1} mu``.
    risk : float
        The smallest expected squared error, ``1 - mu' weights``.

    Examples
    --------
    >>> import fedstat as fs
    >>> truth = fs.data.gaussian_task(mean=(1.0, 0.0), seed=0).truth
    >>> truth.weights.round(2), truth.excess([[0.5, 0.0], [0.0, 0.0]]).round(2)
    (array([0.5, 0. ]), array([0. , 0.5]))
    """

    centres: np.ndarray
    moment: np.ndarray
    weights: np.ndarray
    risk: float

    def excess(self, w: ArrayLike) -> np.ndarray:
        """Return how far the expected squared error of weights w, (..., 2), lies above the smallest."""
        away = np.asarray(w, dtype=float) - self.weights
        return np.asarray(np.einsum("...i,ij,...j->...", away, self.moment, away))


def gaussian_task(
    *,
    clients: int = 5,
    samples: int = 100,
    test: int = 2000,
    mean: tuple[float, float] = (2.0, 2.0),
    covariance: ArrayLike | None = None,
    spread: float = 0.0,
    seed: int | np.random.Generator = 0,
) -> Clients:
    """Draw clients with targets +1 around a centre and -1 around its opposite.

    The paper fits one linear layer without bias, ``w = alpha D``, by squared error
    (`fedstat.models.atom_linear`).

    Parameters
    ----------
    clients, samples, test : int
        Number of clients; training and test samples at each. Without test samples there is no test split.
    mean : tuple of float
        mu, the centre of the positive class, averaged over clients.
    covariance : array_like, shape (2, 2), optional
        Sigma, common to both classes (unstated in the paper; the identity by default).
    spread : float
        How far centres differ between clients: client k's is ``mean + spread z_k`` with z_k from N(0, I). At zero
        the clients are alike, as in the paper.
    seed : int or Generator
        Seed, of which the data are a pure function; or a generator to draw from.

    Raises
    ------
    ValueError
        If a count is too small, shapes do not fit, `spread` is negative, or `covariance` is not positive definite.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.gaussian_task(clients=3, samples=50, seed=0)
    >>> clients.truth.weights.round(3), round(clients.truth.risk, 3)
    (array([0.222, 0.222]), 0.111)
    """
    for name, count, least in (("clients", clients, 1), ("samples", samples, 1), ("test", test, 0)):
        whole(name, count, least)
    mu = array("mean", mean, (2,))
    sigma = np.eye(2) if covariance is None else array("covariance", covariance, (2, 2))
    if not np.allclose(sigma, sigma.T) or np.linalg.eigvalsh(sigma).min() <= 0:
        raise ValueError(f"covariance must be symmetric and positive definite, got {sigma.tolist()}.")
    number("spread", spread, "[0, inf)")
    rng = seed if isinstance(seed, np.random.Generator) else stream(seed, "data")
    root = np.linalg.cholesky(sigma)
    centres = np.broadcast_to(mu, (clients, 2))
    if spread > 0:
        centres = mu + spread * rng.normal(size=(clients, 2))

    def split(n: int) -> Samples:
        y = rng.choice([-1.0, 1.0], size=(clients, n))
        x = y[..., None] * centres[:, None] + rng.normal(size=(clients, n, 2)) @ root.T
        return Samples.from_rows(x.astype(np.float32), y.astype(np.float32))

    moment = sigma + spread**2 * np.eye(2) + np.outer(mu, mu)
    weights = np.linalg.solve(moment, mu)
    truth = GaussianTruth(centres, moment, weights, float(1 - mu @ weights))
    return Clients(train=split(samples), test=split(test) if test else None, truth=truth)
