"""Measure how far clients agree about a unit's pattern: the consistency of its weights over clients, ICC(3,1)."""

from __future__ import annotations

import numpy as np


def intraclass_correlation(values: np.ndarray) -> np.ndarray:
    """Return the consistency over clients of each unit's incoming weights or of their changes, ICC(3,1).

    The fan-in coordinates are the targets and the clients rate them: ``ICC = (MSB - MSW) / (MSB + (K - 1) MSW)``, with
    MSB the mean square between coordinates and MSW the one within (Shrout and Fleiss 1979). It estimates the share of
    the pattern that all clients have in common in the variance of one client's pattern.

    Each client's mean over the coordinates is subtracted first, so that MSW has ``(q - 1)(K - 1)`` degrees of freedom.
    That is ICC(3,1), the intraclass correlation for consistency: it is about the pattern, whatever the clients' levels,
    and equals the mean covariance of two clients over the mean variance of one. Where studies and FedFac's
    ``statistic="agreement"`` say that clients agree about a unit, this consistency is meant; the coefficient for
    absolute agreement, in which different levels count as disagreement, is ICC(2,1),
    ``icc(values[:, unit].T, "agreement")``. The null lies exactly at zero: if each client's coordinates are permuted at
    random, the denominator stays and the numerator has mean zero.

    Replicates (batch orders) separate what a client asks for from the noise of its optimisation. With MSC the mean
    square between clients within coordinates and MSE the one between replicates, ``ICC = (MSB - MSC) / (MSB +
    (K - 1) MSC - K MSE)`` estimates the common share ``s_b^2 / (s_b^2 + s_c^2)`` of the variance of a client's
    noise-free pattern, where ``x_rki = level_rk + b_i + c_ki + e_rki``; without replicates the noise counts as
    disagreement. Estimates beyond the parameter's range ``[-1 / (K - 1), 1]`` are moved to its end.

    Parameters
    ----------
    values : ndarray, shape (K, units, q) or (R, K, units, q)
        K clients, q coordinates, R replicates. Clients count alike, however many samples they have.

    Returns
    -------
    ndarray, shape (units,)
        NaN where it is undefined: a single client or coordinate, a unit that does not vary, or one whose variance
        does not exceed that of the replicates.

    Raises
    ------
    ValueError
        If `values` has another number of axes, or entries that are not finite.

    Examples
    --------
    Units at two clients: the same pattern, the same up to the client's level, and the opposite:

    >>> import numpy as np
    >>> from fedstat.factor import intraclass_correlation
    >>> pattern = np.array([1.0, 2.0, 4.0])
    >>> first, second = [pattern, pattern, pattern], [pattern, pattern + 5, -pattern]
    >>> intraclass_correlation(np.array([first, second])).round(3)
    array([ 1.,  1., -1.])
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim not in (3, 4):
        raise ValueError(f"values must have shape (K, units, q) or (R, K, units, q), got {x.shape}.")
    if not np.isfinite(x).all():
        place = tuple(np.argwhere(~np.isfinite(x))[0].tolist())
        raise ValueError(f"values must be finite; the entry at {place} is {x[place]}.")
    x = x if x.ndim == 4 else x[None]
    replicates, clients, units, q = x.shape
    if clients < 2 or q < 2:
        return np.full(units, np.nan)

    largest = np.abs(x).max(axis=(0, 1, 3), initial=0.0)
    x = x - x.mean(axis=3, keepdims=True)
    cell = x.mean(axis=0)
    target = cell.mean(axis=0)
    between = replicates * clients * _squares(target - target.mean(axis=1, keepdims=True)) / (q - 1)
    within = replicates * _squares(cell - target) / ((q - 1) * (clients - 1))
    noise = _squares(x - cell) / ((q - 1) * clients * (replicates - 1)) if replicates > 1 else 0.0
    variance = between + (clients - 1) * within - clients * noise
    # equal values can leave rounding noise after centring
    rounding = x[:, :, 0].size * (1e-12 * largest) ** 2
    defined = (variance > 0) & (_squares(x - target.mean(axis=1, keepdims=True)) > rounding)
    icc = np.full(units, np.nan)
    np.divide(between - within, variance, out=icc, where=defined)
    return np.clip(icc, -1 / (clients - 1), 1)


def _squares(x: np.ndarray) -> np.ndarray:
    """Return each unit's sum of squares, over all axes except that of the units, the last but one."""
    return np.einsum("cui,cui->u", *[x.reshape(-1, *x.shape[-2:])] * 2)
