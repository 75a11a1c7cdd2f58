"""Measure how close a reconstructed image comes to its original."""

from __future__ import annotations

import numpy as np

from fedstat._checks import array, number


def psnr(x: np.ndarray, y: np.ndarray, *, data_range: float = 1.0) -> float:
    """Return the peak signal-to-noise ratio ``10 log10(data_range^2 / mean((x - y)^2))`` in decibels.

    The mean runs over all entries, channels included.

    Parameters
    ----------
    x, y : ndarray
        Images, or stacks of them, of one shape.
    data_range : float
        Largest minus smallest possible value: 1 for images in [0, 1], 255 for bytes.

    Returns
    -------
    float
        Infinite for equal images.

    Raises
    ------
    ValueError
        If the shapes differ, an image is empty or not finite, or `data_range` is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.theory import psnr
    >>> image = np.full((8, 8), 0.5)
    >>> round(psnr(image, image + 0.1), 6)  # a mean squared error of 1/100 is 20 dB
    20.0
    >>> round(psnr(255 * image, 255 * image + 25.5, data_range=255.0), 6)
    20.0
    """
    x = array("x", x, np.shape(x))
    y = array("y", y, x.shape)
    number("data_range", data_range, "(0, inf)")
    error = np.abs(x - y) / data_range
    largest = error.max()
    if largest == 0:
        return float("inf")
    # the largest error is taken out first, so that squares of tiny errors do not vanish
    return float(-20 * np.log10(largest) - 10 * np.log10(np.mean((error / largest) ** 2)))
