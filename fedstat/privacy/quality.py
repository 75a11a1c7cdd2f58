"""How close reconstructed images come to their originals."""

from __future__ import annotations

import math

import numpy as np

from fedstat.theory.image import psnr

__all__ = ["match", "psnr", "psnr_printed", "ssim"]


def psnr_printed(x: np.ndarray, y: np.ndarray) -> float:
    """Return the ratio as FedDecomp's section 4.6 prints it: squared errors over width times height, range one.

    For images (channels, height, width) with values in [0, 1] it is ``10 log10(channels)`` below `psnr`, which is
    4.77 dB for three channels (claim DC-10).

    Parameters
    ----------
    x, y : ndarray, shape (channels, height, width)
        The two images, with values in [0, 1].

    Returns
    -------
    float
        In decibels.

    Raises
    ------
    ValueError
        If an image has another number of axes, and as `psnr`.

    Examples
    --------
    Three channels cost what their sum costs:

    >>> import numpy as np
    >>> import fedstat as fs
    >>> x = np.zeros((3, 8, 8))
    >>> round(fs.privacy.psnr(x, x + 0.1), 1), round(fs.privacy.psnr_printed(x, x + 0.1), 1)
    (20.0, 15.2)
    """
    if np.ndim(x) != 3:
        raise ValueError(f"x must be one image (channels, height, width), got shape {np.shape(x)}.")
    return psnr(x, y) - 10 * math.log10(len(x))


def ssim(x: np.ndarray, y: np.ndarray) -> float:
    """Return the structural similarity of two images (Wang et al. 2004), as scikit-image computes it.

    Windows are squares of 7 pixels, or as many as a smaller image has (an odd number); channels are averaged.

    Parameters
    ----------
    x, y : ndarray, shape (channels, height, width)
        The two images, with values in [0, 1].

    Returns
    -------
    float
        1 for equal images.

    Raises
    ------
    ImportError
        If scikit-image is not installed.
    ValueError
        If the shapes differ, or an image has other than three axes or fewer than three pixels on a side.

    Examples
    --------
    >>> import numpy as np
    >>> import fedstat as fs
    >>> x = np.linspace(0, 1, 64).reshape(1, 8, 8)
    >>> round(fs.privacy.ssim(x, x), 3), fs.privacy.ssim(x, 1 - x) < 0
    (1.0, True)
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 3 or min(x.shape[1:]) < 3:
        raise ValueError(
            f"x and y must be images (channels, height, width) of one shape, with three pixels a side at least; got "
            f"{x.shape} and {y.shape}."
        )
    try:
        from skimage.metrics import structural_similarity
    except ImportError:
        raise ImportError("structural similarity needs scikit-image: pip install 'fedstat[privacy]'.") from None
    side = min(x.shape[1:])
    window = min(7, side if side % 2 else side - 1)
    return float(structural_similarity(x, y, win_size=window, data_range=1.0, channel_axis=0))


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
