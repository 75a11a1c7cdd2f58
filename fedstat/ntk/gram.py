"""Gram matrices of the two-layer ReLU network (FedSplit, Definitions 1 and 2).

In the limit of infinite width ``H_ij = x_i . x_j (pi - theta_ij) / (2 pi)`` with theta the angle between the
inputs. Near cosine one an arc-cosine loses half the digits, and with them the smallest eigenvalue of nearly
parallel data; the angle is therefore taken from the chord, ``2 atan2(|u - v|, |u + v|)`` for unit vectors.
"""

from __future__ import annotations

import numpy as np

_BLOCK = 512


def infinite_gram(x: np.ndarray) -> np.ndarray:
    """Kernel of infinitely many shared units, E[x_i . x_j 1{w . x_i >= 0, w . x_j >= 0}] for w ~ N(0, I).

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs of any norm. A zero row gives a zero row; proportional rows give a singular matrix, which is a
        result and no error.

    Returns
    -------
    ndarray, shape (N, N)
        Symmetric; the diagonal is exactly ``|x_i|^2 / 2``.

    Raises
    ------
    ValueError
        If `x` is no matrix of finite numbers.

    References
    ----------
    FedSplit, Definition 1 (shared kernel).
    """
    x = _inputs(x)
    norm = np.sqrt((x**2).sum(axis=1))
    unit = x / np.where(norm > 0, norm, 1.0)[:, None]
    gram = np.empty((len(x), len(x)))
    for i in range(0, len(x), _BLOCK):
        for j in range(0, i + 1, _BLOCK):
            rows, columns = slice(i, i + _BLOCK), slice(j, j + _BLOCK)
            cosine = np.clip(unit[rows] @ unit[columns].T, -1.0, 1.0)
            angle = np.arccos(cosine)
            near = np.argwhere(np.abs(cosine) > 0.99)
            u, v = unit[rows][near[:, 0]], unit[columns][near[:, 1]]
            angle[near[:, 0], near[:, 1]] = 2 * np.arctan2(
                np.sqrt(((u - v) ** 2).sum(axis=1)), np.sqrt(((u + v) ** 2).sum(axis=1))
            )
            block = (x[rows] @ x[columns].T) * (np.pi - angle) / (2 * np.pi)
            gram[rows, columns] = block
            gram[columns, rows] = block.T
    np.fill_diagonal(gram, norm**2 / 2)
    return gram


def personal_gram(x: np.ndarray, client: np.ndarray) -> np.ndarray:
    """Kernel of infinitely many personal units: `infinite_gram` within clients, zero between them.

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs.
    client : ndarray, shape (N,)
        Which client holds each sample, in any order.

    References
    ----------
    FedSplit, Definition 1 (personal kernel), with the indicator read as "the same client".
    """
    x, client = _inputs(x), np.asarray(client)
    if client.shape != (len(x),):
        raise ValueError(f"client must have one entry per row of x, got shape {client.shape} for {len(x)} rows.")
    gram = np.zeros((len(x), len(x)))
    for label in np.unique(client):
        own = np.flatnonzero(client == label)
        gram[np.ix_(own, own)] = infinite_gram(x[own])
    return gram


def finite_gram(x: np.ndarray, w: np.ndarray, w_start: np.ndarray | None = None) -> np.ndarray:
    """Gram matrix of m given units, ``H_ij = x_i . x_j (1/m) sum_r 1{w0_r . x_i >= 0} 1{w_r . x_j >= 0}``.

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs.
    w : ndarray, shape (m, d)
        The units' weights.
    w_start : ndarray, shape (m, d), optional
        The same units at the start of the round (w0 in the formula), for the two-point matrices of Definition
        2; by default `w` itself, which makes the matrix symmetric.

    References
    ----------
    FedSplit, Definition 2.
    """
    x = _inputs(x)
    now = np.asarray(w, dtype=np.float64)
    before = now if w_start is None else np.asarray(w_start, dtype=np.float64)
    for name, weights in (("w", now), ("w_start", before)):
        if weights.shape != now.shape or weights.ndim != 2 or weights.shape[1] != x.shape[1] or len(weights) == 0:
            raise ValueError(f"{name} must have shape (m, {x.shape[1]}) with m >= 1, got {weights.shape}.")
        if not np.isfinite(weights).all():
            raise ValueError(f"{name} must be finite.")
    active = (x @ now.T >= 0).astype(np.float64)
    active_before = active if w_start is None else (x @ before.T >= 0).astype(np.float64)
    return (x @ x.T) * (active_before @ active.T) / len(now)


def _inputs(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"x must be a matrix with one input per row, got shape {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(f"x must be finite; row {np.argwhere(~np.isfinite(x))[0][0]} is not.")
    return x
