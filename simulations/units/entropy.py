"""Estimate the entropy of a unit's outputs over clients (Kozachenko and Leonenko 1987)."""

from __future__ import annotations

import numpy as np


def entropy_nearest_neighbour(values: np.ndarray, *, k: int = 3) -> np.ndarray:
    """Return the Kozachenko-Leonenko estimate of the differential entropy of each row, in nats.

    It is ``psi(n) - psi(k) + log 2 + mean_i log(distance of value i to its k-th nearest neighbour)``.

    Parameters
    ----------
    values : ndarray, shape (units, n)
        n > k observations of each unit, e.g. its mean output at n clients.
    k : int
        Which nearest neighbour the distance is measured to.

    Returns
    -------
    ndarray, shape (units,)
        Minus infinity where more than k observations coincide: the law has an atom there, as in a unit that is
        dead at several clients, or that several never moved from a common start.
    """
    from scipy.special import digamma

    x = np.sort(np.asarray(values, dtype=np.float64), axis=1)
    n = x.shape[1]
    if not 1 <= k < n:
        raise ValueError(f"k must lie between 1 and n - 1 = {n - 1}, got {k}.")
    # the k nearest neighbours of a sorted value lie in one of k + 1 windows around it
    distance = np.full_like(x, np.inf)
    for left in range(k + 1):
        right = k - left
        i = np.arange(left, n - right)
        reach = np.maximum(x[:, i] - x[:, i - left], x[:, i + right] - x[:, i])
        distance[:, i] = np.minimum(distance[:, i], reach)
    with np.errstate(divide="ignore"):
        return digamma(n) - digamma(k) + np.log(2) + np.log(distance).mean(axis=1)
