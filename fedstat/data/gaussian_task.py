"""The two-dimensional toy task of the filter-decomposition paper (section 6.7, Figure 1b)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat._random import stream
from fedstat.data.clients import Clients, Samples


@dataclass(frozen=True, eq=False)
class GaussianTruth:
    """The task's least-squares solution.

    Attributes
    ----------
    weights : ndarray, shape (2,)
        Minimiser of the expected squared error: ``(Sigma + mu mu')^{-1} mu``.
    risk : float
        The smallest expected squared error, ``1 - mu' weights``.

    Examples
    --------
    >>> import fedstat as fs
    >>> truth = fs.data.gaussian_task(mean=(1.0, 0.0), seed=0).truth
    >>> truth.weights.round(2)
    array([0.5, 0. ])
    """

    weights: np.ndarray
    risk: float


def gaussian_task(
    *,
    clients: int = 5,
    samples: int = 100,
    test: int = 2000,
    mean: tuple[float, float] = (2.0, 2.0),
    covariance: np.ndarray | None = None,
    seed: int = 0,
) -> Clients:
    """Draw iid clients with targets +1 around `mean` and -1 around its opposite.

    The paper fits one linear layer without bias, ``w = alpha D``, by squared error
    (`fedstat.models.atom_linear`).

    Parameters
    ----------
    clients, samples, test : int
        Number of clients; training and test samples at each.
    mean : tuple of float
        Centre of the positive class.
    covariance : ndarray, shape (2, 2), optional
        Common covariance of both classes (unstated in the paper; the identity by default).
    seed : int
        Seed; the data are a pure function of it.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.gaussian_task(clients=3, samples=50, seed=0)
    >>> clients.truth.weights.round(3), round(clients.truth.risk, 3)
    (array([0.222, 0.222]), 0.111)
    """
    mu = np.asarray(mean, dtype=float)
    sigma = np.eye(2) if covariance is None else np.asarray(covariance, dtype=float)
    if mu.shape != (2,) or sigma.shape != (2, 2):
        raise ValueError(f"mean and covariance must have shapes (2,) and (2, 2), got {mu.shape} and {sigma.shape}.")
    if not np.allclose(sigma, sigma.T) or np.linalg.eigvalsh(sigma).min() <= 0:
        raise ValueError(f"covariance must be symmetric and positive definite, got {sigma.tolist()}.")
    rng = stream(seed, "data")
    root = np.linalg.cholesky(sigma)

    def split(n: int) -> Samples:
        y = rng.choice([-1.0, 1.0], size=(clients, n))
        x = y[..., None] * mu + rng.normal(size=(clients, n, 2)) @ root.T
        return Samples.from_rows(x.astype(np.float32), y.astype(np.float32))

    weights = np.linalg.solve(sigma + np.outer(mu, mu), mu)
    return Clients(train=split(samples), test=split(test), truth=GaussianTruth(weights, float(1 - mu @ weights)))
