"""Correlations of what lies behind answers in steps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri, owens_t

STEPS = 20  # more different values are no steps of an answer
_FAR = 38.0  # beyond which a normal variable has no probability in double precision
_TAIL = 12.0  # and beyond which no cell that somebody answered has any worth counting
_SMALL = 1e-10  # cells below lose digits as differences of probabilities, and are integrated
_PANELS, (_NODES, _WEIGHTS) = 8, np.polynomial.legendre.leggauss(40)
_STEP = 0.125


def polychoric(x: np.ndarray) -> np.ndarray:
    """Return polychoric correlations: those of normal variables of which only steps are observed.

    An answer is taken as the step between two thresholds into which a normal variable falls. The thresholds are those
    of each column's shares, over all rows that have it; each correlation is then the likeliest, over the rows that have
    both (the two steps of Olsson 1979; lavaan's ``lavCor(ordered=...)``, and ``polychoric(correct=0)`` in R's psych).
    With two steps in each column they are tetrachoric correlations.

    Pearson's correlations of few steps are too small, the more so the fewer and the more skewed they are. The tests of
    fit for Pearson's correlations do not hold for these, and together they may belong to no table. Where one answer
    settles another, all correlations near one are equally likely, and one of them is returned.

    Parameters
    ----------
    x : ndarray, shape (n, p)
        Answers, numbers in whatever order their values have; NaN for gaps. At most 20 different values a column.

    Returns
    -------
    ndarray, shape (p, p)
        For `PrincipalAxis.fit_correlation`.

    Raises
    ------
    ValueError
        If a column holds one value alone or more than 20, or no row has the values of two columns.

    Examples
    --------
    A correlation of 0.6, of which three steps each are seen:

    >>> import numpy as np
    >>> from fedstat.factor import polychoric
    >>> z = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=5000)
    >>> x = np.digitize(z, [0.5, 1.5])
    >>> print(f"{np.corrcoef(x.T)[0, 1]:.2f} {polychoric(x)[0, 1]:.2f}")
    0.44 0.59
    """
    x = np.asarray(x, dtype=np.float64)
    steps, thresholds = [], []
    for j, column in enumerate(x.T):
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        if not 2 <= len(values) <= STEPS:
            raise ValueError(f"column {j} of x must hold 2 to {STEPS} different values, got {len(values)}.")
        steps.append(np.where(np.isnan(column), -1, np.searchsorted(values, column)))
        inner = ndtri(np.cumsum(counts)[:-1] / counts.sum())
        thresholds.append(np.concatenate([[-_FAR], inner, [_FAR]]))
    r = np.eye(x.shape[1])
    for i, j in combinations(range(len(r)), 2):
        both = (steps[i] >= 0) & (steps[j] >= 0)
        if not both.any():
            raise ValueError(f"x must have rows with the values of both, but none has columns {i} and {j}.")
        seen = np.zeros((len(thresholds[i]) - 1, len(thresholds[j]) - 1))
        np.add.at(seen, (steps[i][both], steps[j][both]), 1)
        r[i, j] = r[j, i] = _likeliest(seen, thresholds[i], thresholds[j])
    return r


def _likeliest(seen: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Return the correlation under which the counts `seen` between the thresholds are likeliest."""

    def loss(correlation: float) -> float:
        cells = np.diff(np.diff(_below(a[:, None], b, correlation), axis=0), axis=1)
        for i, j in np.argwhere((seen > 0) & (cells < _SMALL)):  # of differences so small rounding leaves nothing
            cells[i, j] = _cell(a[i : i + 2], b[j : j + 2], correlation)
        return -float((seen * np.log(np.maximum(cells, 1e-300))).sum())

    # contrary answers may leave more than one minimum
    near = min(np.arange(-1 + _STEP, 1, _STEP), key=loss)
    return float(
        minimize_scalar(loss, bounds=(near - _STEP, near + _STEP), method="bounded", options={"xatol": 1e-10}).x
    )


def _cell(x: np.ndarray, y: np.ndarray, correlation: float) -> float:
    """Return the probability that two standard normal variables lie between the two of x and of y, however small."""
    first, last = np.clip(x, -_TAIL, _TAIL)
    ends = np.linspace(first, last, _PANELS + 1)
    half = np.diff(ends)[:, None] / 2
    at = ends[:-1, None] + half * (1 + _NODES)
    low, high = (y[:, None, None] - correlation * at) / np.sqrt((1 - correlation) * (1 + correlation))
    between = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return float((half * _WEIGHTS * np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi) * between).sum())


def _below(h: np.ndarray, k: np.ndarray, correlation: float) -> np.ndarray:
    """Return the probability that two standard normal variables lie below h and k, by Owen's T (Owen 1956, 2.1)."""
    root = np.sqrt((1 - correlation) * (1 + correlation))
    h, k = np.broadcast_arrays(np.where(h == 0, 1e-300, h), np.where(k == 0, 1e-300, k))
    apart = np.where(h * k < 0, 0.5, 0.0)
    with np.errstate(over="ignore"):
        own = owens_t(h, (k / h - correlation) / root) + owens_t(k, (h / k - correlation) / root)
    return np.asarray((ndtr(h) + ndtr(k)) / 2 - own - apart)
