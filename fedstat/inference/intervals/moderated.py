"""Variances that borrow strength from each other (empirical Bayes), as limma's do."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

#: Below so many methods a prior fitted on them is a guess.
MIN_METHODS = 8
#: The largest weight of a method in what a seed does to all of them: no method's errors are taken for the seed's.
_CAP = 0.3
#: Turns in which variances and weights settle, and the least share of a rest's variance that is its method's own.
_TURNS, _LEAST = 20, 0.05


def fit_prior(s2: np.ndarray, df: float, where: np.ndarray | Literal[True] = True) -> tuple[np.ndarray, np.ndarray]:
    """Fit degrees of freedom and variance of the prior on the variances of the last axis that `where` marks.

    It has the first two moments of ``log s^2`` (limma's ``fitFDist``; Smyth 2004, section 6.2). If these logarithms
    vary no more than chance makes them, the degrees are infinite and the variance is the mean.
    """
    from scipy.special import digamma, polygamma

    logs = np.log(s2) - digamma(df / 2) + np.log(df / 2)
    centre = logs.mean(axis=-1, where=where)
    excess = np.asarray(logs.var(axis=-1, ddof=1, where=where) - polygamma(1, df / 2))
    varies = excess > 0
    half = trigamma_inverse(np.where(varies, excess, 1.0))
    prior = np.where(varies, np.exp(centre + digamma(half) - np.log(half)), s2.mean(axis=-1, where=where))
    return np.where(varies, 2 * half, np.inf), prior


def trigamma_inverse(x: ArrayLike) -> np.ndarray:
    """Solve ``trigamma(y) = x`` for y > 0 by Newton's steps on 1 / trigamma, which is convex; x positive."""
    from scipy.special import polygamma

    value = np.asarray(x, dtype=float)
    # the limits of trigamma at both ends
    large, small = value > 1e7, value < 1e-6
    middle = np.where(large | small, 1.0, value)
    y = 0.5 + 1 / middle
    for _ in range(50):
        tri = polygamma(1, y)
        step = tri * (1 - tri / middle) / polygamma(2, y)
        y = y + step
        if np.max(-step / y) < 1e-10:
            break
    return np.where(large, 1 / np.sqrt(value), np.where(small, 1 / value, y))


def method_variances(runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moderate the variances of methods' errors over seeds, of runs (..., methods, seeds) with none missing.

    Return them and the degrees of freedom that their prior is worth, each of shape (..., methods). Of a difference of
    two methods the variance is the sum, and the prior is worth the lesser of both.

    They are of what is left when the seeds' common part is removed, nearly independent of each other. The common part
    counts each method by its precision, so that a noisy one does not touch the others: with weights w that sum to one,
    the rest of a method with variance v has the variance ``(1 - 2 w) v + sum w^2 v`` on average, which is solved for v
    in turns. Outliers (beyond the F quantile of 0.01 / M by the prior of all others) are left out of the prior, which
    never weighs more than the data: errors may be correlated, and a control is no draw from it. To an outlier it is
    worth 0 degrees.
    """
    methods, seeds = runs.shape[-2:]
    errors = runs - runs.mean(axis=-1, keepdims=True)
    weights = np.full(errors.shape[:-1], 1 / methods)
    shared, floor = np.zeros((*errors.shape[:-2], 1)), np.zeros(errors.shape[:-1])
    for turn in range(_TURNS):
        rest = errors - (weights[..., None] * errors).sum(axis=-2, keepdims=True)
        s2 = (rest**2).sum(axis=-1) / (seeds - 1)
        floor = s2 / 1000 if turn == 0 else floor
        # chance may leave less than the common part brings in, or nothing of rounded values: a variance stays positive
        variances = np.maximum((s2 - shared) / (1 - 2 * weights), np.maximum(_LEAST * s2, floor))
        weights = _capped(1 / variances)
        shared = (weights**2 * variances).sum(axis=-1, keepdims=True)
    df, fine = seeds - 1, ~_outliers(variances, seeds - 1)
    prior_df, prior = fit_prior(variances, df, fine)
    worth = np.where(fine, np.minimum(prior_df, df)[..., None], 0.0)
    weight = worth / (df + worth)
    return weight * prior[..., None] + (1 - weight) * variances, worth


def _outliers(variances: np.ndarray, df: float) -> np.ndarray:
    """Tell which variances, shape (..., M), are too large for the prior of the others."""
    from scipy import stats

    methods = variances.shape[-1]
    others = np.broadcast_to(variances[..., None, :], (*variances.shape, methods))
    prior_df, prior = fit_prior(others, df, ~np.eye(methods, dtype=bool))
    return np.asarray(stats.f.sf(variances / prior, df, np.minimum(prior_df, 1e6)) < 0.01 / methods)


def _capped(weights: np.ndarray) -> np.ndarray:
    """Scale weights, shape (..., M), to sum to one with none above the cap."""
    weights = weights / weights.sum(axis=-1, keepdims=True)
    # at most three weights reach the cap, one more in each turn
    for _ in range(3):
        high = weights >= _CAP
        free = np.where(high, 0.0, weights)
        left = (1 - _CAP * high.sum(axis=-1, keepdims=True)) / free.sum(axis=-1, keepdims=True)
        weights = np.where(high, _CAP, free * left)
    return weights
