"""Compare a choice of shared units with another choice."""

from __future__ import annotations

import numpy as np


def chance_corrected(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Return the share of units on which two choices of shared units agree, and Cohen's kappa, corrected for chance.

    Parameters
    ----------
    first, second : ndarray of bool, shape (units,)
        True where a unit is shared. Two random choices of half the units agree on half of all; their kappa is zero.

    Returns
    -------
    agreement, kappa : float
        kappa is NaN if chance alone gives full agreement (both choices are all units, or both none).

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import chance_corrected
    >>> mostly = np.array([True] * 9 + [False])
    >>> agreement, kappa = chance_corrected(mostly, mostly[::-1])
    >>> agreement, round(kappa, 3)
    (0.8, -0.111)

    They agree on 80% of the units, and yet less than two random choices of nine would (82%).
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if a.shape != b.shape or a.ndim != 1 or a.size == 0:
        raise ValueError(f"first and second must be vectors of one length, got shapes {a.shape} and {b.shape}.")
    agreement = float((a == b).mean())
    chance = float(a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean()))
    return agreement, (agreement - chance) / (1 - chance) if chance < 1 else float("nan")
