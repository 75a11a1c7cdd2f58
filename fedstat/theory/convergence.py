"""Compute how fast FedSplit converges: the factor that Theorem 1 claims, and the exact trajectory in the wide limit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedstat._checks import array, number, whole
from fedstat.ntk import extreme_eigenvalues


def convergence_factor(
    h_shared: np.ndarray, h_personal: np.ndarray, *, eta_g: float, eta_l: float, local_steps: int, clients: int
) -> float:
    """Return Theorem 1's factor per round for the squared residual, ``1 - (rho1 ls + rho2 lp) / 2``.

    Here ``rho1 = eta_g eta_l G / C``, ``rho2 = eta_l G``, and ls, lp are the smallest eigenvalues of the kernels.

    Parameters
    ----------
    h_shared, h_personal : ndarray, shape (N, N)
        Limit kernels of the shared and the personal units.
    eta_g, eta_l : float
        Global and local step sizes, in the convention of the accumulated updates (without 1/n).
    local_steps, clients : int
        G and C.

    Raises
    ------
    ValueError
        If the kernels are not symmetric matrices of one shape, a step size is negative or a count below one.

    References
    ----------
    FedSplit, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.theory import convergence_factor
    >>> kernel = np.eye(4) / 2  # smallest eigenvalue 1/2
    >>> convergence_factor(kernel, kernel, eta_g=1.0, eta_l=0.1, local_steps=5, clients=2)
    0.8125

    The claim is that a round takes off 18.75% of the squared residual: ``(1/4 + 1/2) / 2 / 2``.
    """
    kernels(h_shared, h_personal)
    number("eta_g", eta_g, "[0, inf)")
    number("eta_l", eta_l, "[0, inf)")
    whole("local_steps", local_steps, 1)
    whole("clients", clients, 1)
    shared, personal = extreme_eigenvalues(h_shared)[0], extreme_eigenvalues(h_personal)[0]
    return 1 - eta_l * local_steps * (eta_g / clients * shared + personal) / 2


def prescribed_step(h_shared: np.ndarray, h_personal: np.ndarray, *, local_steps: int) -> float:
    """Return Theorem 1's local step size with the constant hidden in its O taken to be one.

    ``(ls + lp) / (gs gp G N^2)`` with condition numbers gs, gp; zero if a kernel is singular to working precision.

    Parameters
    ----------
    h_shared, h_personal : ndarray, shape (N, N)
        Limit kernels of the shared and the personal units.
    local_steps : int
        G.

    References
    ----------
    FedSplit, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.theory import prescribed_step
    >>> prescribed_step(np.eye(100), np.eye(100), local_steps=5)  # tiny even for the best kernels: 2 / (5 * 100^2)
    4e-05
    """
    kernels(h_shared, h_personal)
    whole("local_steps", local_steps, 1)
    (low_s, high_s), (low_p, high_p) = extreme_eigenvalues(h_shared), extreme_eigenvalues(h_personal)
    rounding = len(h_shared) * np.finfo(float).eps
    if low_s <= rounding * high_s or low_p <= rounding * high_p:
        return 0.0
    return (low_s + low_p) * (low_s / high_s) * (low_p / high_p) / (local_steps * len(h_shared) ** 2)


def limit_trajectory(
    h_shared: np.ndarray,
    h_personal: np.ndarray,
    residual: np.ndarray,
    blocks: Sequence[slice],
    *,
    eta_g: float,
    steps: Sequence[float],
    local_steps: int,
    rounds: int,
) -> np.ndarray:
    """Return the squared norm of the residual after each round at infinite width, where training is linear.

    At client c the local residual takes G steps ``r <- (I - s_c K_c) r`` with ``K_c`` the sum of the client's own
    blocks of both kernels. With R the sums of the residuals before each step, the round moves the predictions of
    all clients: ``r(t + 1) = r(t) - (eta_g / C) H_shared s R - H_personal s R``.

    `residual` (N,) holds predictions minus labels at the start, and `blocks` the rows of each client. A client's step
    in `steps` is eta_l where its loss is a sum over its samples, and eta_l / n where it is a mean. See FedSplit,
    section 3.2 (local and global update) and (4), with the kernels of Definition 1 held fixed.
    """
    residual = array("residual", residual, (len(h_shared),))
    whole("rounds", rounds, 0)
    inside = np.zeros(h_personal.shape, dtype=bool)
    for rows in blocks:
        inside[rows, rows] = True
    if np.abs(np.where(inside, 0.0, h_personal)).max() > 0:
        raise ValueError("h_personal must be zero between clients: sort the rows by client.")
    local = [
        np.eye(rows.stop - rows.start) - s * (h_shared + h_personal)[rows, rows]
        for rows, s in zip(blocks, steps, strict=True)
    ]
    norms = [float(residual @ residual)]
    for _ in range(rounds):
        moved = np.empty_like(residual)
        for rows, step, s in zip(blocks, local, steps, strict=True):
            here, total = residual[rows], np.zeros(rows.stop - rows.start)
            for _ in range(local_steps):
                total += here
                here = step @ here
            moved[rows] = s * total
        residual = residual - eta_g / len(blocks) * (h_shared @ moved) - h_personal @ moved
        norms.append(float(residual @ residual))
    return np.array(norms)


def kernels(h_shared: np.ndarray, h_personal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both kernels as float64 matrices, checked for one square shape, finite entries and symmetry."""
    h_shared = array("h_shared", h_shared, ("samples", "samples"))
    h_personal = array("h_personal", h_personal, h_shared.shape)
    for name, kernel in (("h_shared", h_shared), ("h_personal", h_personal)):
        if (most := np.abs(kernel - kernel.T).max()) > 1e-10 * np.abs(kernel).max():
            raise ValueError(f"{name} must be symmetric, but differs from its transpose by up to {most:.3g}.")
    return h_shared, h_personal
