"""How close reconstructed images come to their originals."""

from __future__ import annotations

import numpy as np

from fedstat.theory.image import psnr

__all__ = ["match", "psnr"]


def match(originals: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Pair reconstructions with originals by the assignment of largest mean PSNR.

    A gradient does not tell the order of a batch. The pairing looks at the truth; the attacker cannot do it, and what
    is measured after it is a little better than he knows.

    Parameters
    ----------
    originals, found : ndarray, shape (n, ...)
        Originals and reconstructions.

    Returns
    -------
    ndarray of int, shape (n,)
        ``found[match(originals, found)]`` lies in the order of the originals.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> images = np.stack([np.zeros((8, 8)), np.ones((8, 8))])
    >>> fs.privacy.match(images, images[::-1])
    array([1, 0])
    """
    from scipy.optimize import linear_sum_assignment

    if originals.shape != found.shape:
        raise ValueError(f"originals and found must have one shape, got {originals.shape} and {found.shape}.")
    flat, other = (images.reshape(len(images), -1).astype(np.float64) for images in (originals, found))
    error = ((flat[:, None] - other[None]) ** 2).mean(2)
    # an exact copy has no finite PSNR; the smallest positive float stands for its error
    return np.asarray(linear_sum_assignment(np.log(np.maximum(error, np.finfo(float).tiny)))[1])
