"""Compute FedSplit's data-dependent complexity term (Theorem 2)."""

from __future__ import annotations

import numpy as np

from fedstat._checks import array
from fedstat.theory.convergence import kernels


def complexity_term(h_shared: np.ndarray, h_personal: np.ndarray, y: np.ndarray, clients: int) -> float:
    """Return ``2 sqrt((C / n) y' (H_shared + H_personal)^{-1} y)`` with n = N / C samples per client.

    Parameters
    ----------
    h_shared, h_personal : ndarray, shape (N, N)
        Limit kernels, rows in one order.
    y : ndarray, shape (N,)
        Labels in the same order.
    clients : int
        C; for clients of unequal sizes n is their mean size.

    Returns
    -------
    float
        The term. It says something about a loss in [0, 1] only if it is below one. It is infinite if the sum of the
        kernels is singular to working precision and the labels have a part outside its range, as for proportional
        inputs with labels that no such network can give.

    Raises
    ------
    ValueError
        If shapes do not fit, numbers are not finite or a kernel is not symmetric.

    References
    ----------
    FedSplit, Theorem 2, first term of the bound.

    Examples
    --------
    Four samples at two clients whose kernels are identities, so that the term is ``2 sqrt((2 / 4) 4 / 2)``:

    >>> import numpy as np
    >>> from fedstat.theory import complexity_term
    >>> complexity_term(np.eye(4), np.eye(4), np.array([1.0, -1.0, 1.0, -1.0]), clients=2)
    2.8284271247461903
    """
    h_shared, h_personal = kernels(h_shared, h_personal)
    y = array("y", y, (len(h_shared),))
    if not 1 <= clients <= len(y):
        raise ValueError(f"clients must lie between 1 and the number of samples, {len(y)}, got {clients}.")
    values, vectors = np.linalg.eigh(h_shared + h_personal)
    parts = vectors.T @ y
    rounding = len(y) * np.finfo(float).eps
    null = values <= rounding * values[-1]
    if np.linalg.norm(parts[null]) > np.sqrt(rounding) * np.linalg.norm(y):
        return float("inf")
    energy = float((parts[~null] ** 2 / values[~null]).sum())
    return 2 * clients * float(np.sqrt(energy / len(y)))
