"""Gram matrices of the two-layer ReLU network (FedSplit, Definitions 1 and 2).

In the limit of infinite width ``H_ij = x_i . x_j (pi - theta_ij) / (2 pi)`` with theta the angle between the
inputs. Near cosine one an arc-cosine loses half the digits, and with them the smallest eigenvalue of nearly
parallel data; there the angle comes from the chord, ``2 atan2(|u - v|, |u + v|)`` for unit vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from fedstat._checks import array
from fedstat._threads import one_thread

#: Rows and columns formed at once: the temporaries of a block stay in the processor's cache.
_BLOCK = 256
#: Rows and columns formed at once on an accelerator, which a block must be large enough to occupy.
_DEVICE_BLOCK = 4096
#: Numbers gathered at once for pairs of inputs near parallel.
_GATHER = 2**23
#: Cosines beyond which the angle comes from the chord.
_NEAR = 0.99


def infinite_gram(x: np.ndarray, *, device: str = "cpu") -> np.ndarray:
    """Return the kernel of infinitely many shared units.

    Its entries are ``E[x_i . x_j 1{w . x_i >= 0, w . x_j >= 0}]`` for w ~ N(0, I).

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs of any norm whose square is a finite number. A zero row gives a zero row; rows that are positive
        multiples of one another give a singular matrix, without an error.
    device : str
        "cpu", or a torch device such as "cuda" that computes the blocks in float64. Either way the matrix itself
        is built in the host's memory, block by block: 8 N^2 bytes and little more.

    Returns
    -------
    ndarray, shape (N, N)
        Symmetric; the diagonal is ``|x_i|^2 / 2``.

    Raises
    ------
    ValueError
        If `x` is no matrix of finite numbers, or the square of a norm is beyond them.

    References
    ----------
    FedSplit, Definition 1 (shared kernel).

    Examples
    --------
    Two unit vectors at 60 degrees: a unit is active at both with probability 1/3, and their product is 1/2.

    >>> import numpy as np
    >>> from fedstat.ntk import infinite_gram
    >>> x = np.array([[1.0, 0.0], [0.5, np.sqrt(0.75)]])
    >>> infinite_gram(x).round(4)
    array([[0.5   , 0.1667],
           [0.1667, 0.5   ]])
    """
    x = array("x", x, ("samples", "inputs"))
    largest = np.abs(x).max(axis=1)  # the largest entry is divided out first, so that no square overflows
    scaled = x / np.where(largest > 0, largest, 1.0)[:, None]
    length = np.sqrt((scaled**2).sum(axis=1))
    norm, unit = largest * length, scaled / np.where(length > 0, length, 1.0)[:, None]
    if norm.max() > np.sqrt(np.finfo(float).max):
        raise ValueError(f"x must have norms with finite squares, got a norm of {norm.max():.3g}; scale x first.")
    block, size = (partial(_block, np), _BLOCK) if device == "cpu" else (_device_block(device), _DEVICE_BLOCK)
    gram = np.empty((len(x), len(x)))
    # small blocks gain nothing from a second thread of BLAS, and lose much on a busy machine
    with one_thread() if device == "cpu" and len(x) > size else nullcontext():
        for i in range(0, len(x), size):
            for j in range(0, i + 1, size):
                rows, columns = slice(i, i + size), slice(j, j + size)
                part = block(unit[rows], unit[columns])
                part *= np.outer(norm[rows], norm[columns])
                gram[rows, columns] = part
                gram[columns, rows] = part.T
    np.fill_diagonal(gram, norm**2 / 2)
    return gram


def personal_gram(x: np.ndarray, client: np.ndarray, *, device: str = "cpu") -> np.ndarray:
    """Return the kernel of infinitely many personal units: `infinite_gram` within clients, zero between them.

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs.
    client : ndarray, shape (N,)
        The client that holds each sample, in any order.
    device : str
        As in `infinite_gram`.

    References
    ----------
    FedSplit, Definition 1 (personal kernel), with the indicator read as "the same client".

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.ntk import personal_gram
    >>> x = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> personal_gram(x, np.array(["Bonn", "Bonn", "Turin"])).round(3)  # zero between clients
    array([[0.5  , 0.211, 0.   ],
           [0.211, 0.5  , 0.   ],
           [0.   , 0.   , 0.5  ]])
    """
    x = array("x", x, ("samples", "inputs"))
    client = labels(client, len(x))
    gram = np.zeros((len(x), len(x)))
    for label in np.unique(client):
        rows = np.flatnonzero(client == label)
        gram[np.ix_(rows, rows)] = infinite_gram(x[rows], device=device)
    return gram


def finite_gram(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the Gram matrix of m given shared units.

    Its entries are ``H_ij = x_i . x_j (1/m) sum_r 1{w_r . x_i >= 0} 1{w_r . x_j >= 0}``.

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs.
    w : ndarray, shape (m, d)
        The units' weights.

    Raises
    ------
    ValueError
        If shapes do not fit, or numbers are not finite.

    References
    ----------
    FedSplit, Definition 2 (shared Gram matrices), at the start of a round.

    Examples
    --------
    More units come closer to the kernel of infinitely many, at the rate of a Monte-Carlo error:

    >>> import numpy as np
    >>> from fedstat.ntk import finite_gram, infinite_gram
    >>> x, rng = np.array([[1.0, 0.0], [0.6, 0.8]]), np.random.default_rng(0)
    >>> few, many = rng.normal(size=(100, 2)), rng.normal(size=(100_000, 2))
    >>> [float(np.abs(finite_gram(x, units) - infinite_gram(x)).max().round(3)) for units in (few, many)]
    [0.02, 0.001]
    """
    x = array("x", x, ("samples", "inputs"))
    w = array("w", w, ("units", x.shape[1]))
    active = (x @ w.T >= 0).astype(np.float64)
    return (x @ x.T) * (active @ active.T) / len(w)


def finite_personal_gram(x: np.ndarray, client: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the Gram matrix of m personal units at each client: `finite_gram` within clients, zero between them.

    Parameters
    ----------
    x : ndarray, shape (N, d)
        Inputs.
    client : ndarray of int, shape (N,)
        Which client, from 0 to C - 1, holds each sample.
    w : ndarray, shape (C, m, d)
        Each client's units.

    References
    ----------
    FedSplit, Definition 2 (personal Gram matrices), at the start of a round, columns of all clients combined.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.ntk import finite_personal_gram
    >>> x = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> units = np.random.default_rng(0).normal(size=(2, 1000, 2))  # 1000 units at each of two clients
    >>> finite_personal_gram(x, np.array([0, 0, 1]), units).round(2)
    array([[0.48, 0.2 , 0.  ],
           [0.2 , 0.48, 0.  ],
           [0.  , 0.  , 0.49]])
    """
    x = array("x", x, ("samples", "inputs"))
    w = array("w", w, ("clients", "units", x.shape[1]))
    client = labels(client, len(x))
    if client.dtype.kind not in "iu" or client.min() < 0 or client.max() >= len(w):
        raise ValueError(f"client must number the clients of w from 0 to {len(w) - 1}, got {np.unique(client)}.")
    gram = np.zeros((len(x), len(x)))
    for c in np.unique(client):
        rows = np.flatnonzero(client == c)
        gram[np.ix_(rows, rows)] = finite_gram(x[rows], w[c])
    return gram


def _block(xp: Any, u: Any, v: Any) -> Any:
    """Return cos (pi - angle) / (2 pi) between rows of unit vectors; `xp` is numpy or torch."""
    cosine = u @ v.T
    i, j = xp.where(xp.abs(cosine) > _NEAR)
    xp.clip(cosine, -1.0, 1.0, out=cosine)
    angle = xp.arccos(cosine)
    size = max(1, _GATHER // u.shape[1])
    for start in range(0, len(i), size):
        rows, columns = i[start : start + size], j[start : start + size]
        p, q = u[rows], v[columns]
        angle[rows, columns] = 2 * xp.arctan2(xp.linalg.norm(p - q, axis=1), xp.linalg.norm(p + q, axis=1))
    return cosine * (np.pi - angle) / (2 * np.pi)


def _device_block(device: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return `_block` computed by torch on a device."""
    import torch

    def block(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, b = torch.from_numpy(u).to(device), torch.from_numpy(v).to(device)
        return np.asarray(_block(torch, a, b).cpu().numpy())

    return block


def labels(client: np.ndarray, samples: int) -> np.ndarray:
    """Return the client of each sample, checked."""
    client = np.asarray(client)
    if client.shape != (samples,):
        raise ValueError(f"client must have one entry per row of x, got shape {client.shape} for {samples} rows.")
    if client.dtype.kind == "f" and not np.isfinite(client).all():
        raise ValueError("client must be finite: NaN names no client.")
    return client
