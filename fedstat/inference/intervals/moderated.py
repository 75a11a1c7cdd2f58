"""Variances that borrow strength from each other (empirical Bayes), as limma's do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

#: Below so many methods a prior fitted on them is a guess.
MIN_METHODS = 8
#: The goodness of fit below which the prior's shape counts as visibly broken.
MIN_FIT = 0.05


@dataclass(frozen=True, eq=False)
class Moderated:
    """Variances moved towards a common prior.

    Attributes
    ----------
    variances : ndarray, shape (..., n)
        ``(prior_df * prior_variance + df * s^2) / (prior_df + df)``; the prior variance where prior_df is infinite.
    df : ndarray, shape (...,)
        ``df + prior_df``, the degrees of freedom of a t test with them.
    prior_df, prior_variance : ndarray, shape (...,)
        Of the scaled inverse chi-square prior.

    Examples
    --------
    >>> from fedstat.inference import moderate_variances
    >>> found = moderate_variances([1.0, 2.0, 3.0, 50.0], df=4)
    >>> found.variances.round(2), round(float(found.df), 2)  # extremes are drawn in, and degrees of freedom gained
    (array([ 1.45,  2.17,  2.88, 36.48]), 5.6)
    """

    variances: np.ndarray
    df: np.ndarray
    prior_df: np.ndarray
    prior_variance: np.ndarray


def moderate_variances(variances: ArrayLike, df: float, *, most: float = np.inf) -> Moderated:
    """Fit a prior on variances, and move each towards it.

    The variances are taken as independent, ``s^2 ~ sigma^2 chi^2(df) / df`` with ``prior_df * prior_variance / sigma^2
    ~ chi^2(prior_df)``. The prior is fitted by the first two moments of ``log s^2`` (limma's ``fitFDist`` and
    ``squeezeVar``): if these logarithms vary no more than chance makes them, prior_df is infinite and the prior
    variance is the mean.

    Parameters
    ----------
    variances : array_like, shape (..., n >= 3)
        Positive sample variances. Each leading index has a prior of its own.
    df : float
        Their degrees of freedom.
    most : float
        Largest prior_df that is used; the prior variance is that of the fit without a limit.

    Raises
    ------
    ValueError
        If there are fewer than 3 variances, or one is not positive and finite.

    References
    ----------
    Smyth (2004), Linear models and empirical Bayes methods for assessing differential expression in microarray
    experiments, Statistical Applications in Genetics and Molecular Biology 3.

    Examples
    --------
    >>> from fedstat.inference import moderate_variances
    >>> found = moderate_variances([0.2, 1.0, 1.1, 0.9, 1.2, 5.0], df=3)
    >>> found.variances.round(2)  # the extremes come closer to the others
    array([1.25, 1.35, 1.37, 1.34, 1.38, 1.9 ])
    >>> round(float(found.prior_df), 1), round(float(found.prior_variance), 2)
    (19.0, 1.41)
    """
    from scipy.special import digamma, polygamma

    s2 = np.asarray(variances, dtype=float)
    if s2.ndim < 1 or s2.shape[-1] < 3:
        raise ValueError(f"variances must hold at least 3 variances to fit a prior, got shape {s2.shape}.")
    if not (np.isfinite(s2) & (s2 > 0)).all():
        raise ValueError("variances must be positive and finite. Leave out what is constant over seeds.")
    if not df > 0:
        raise ValueError(f"df must be positive, got {df}.")
    logs = np.log(s2) - digamma(df / 2) + np.log(df / 2)
    centre = logs.mean(axis=-1)
    excess = np.asarray(logs.var(axis=-1, ddof=1) - polygamma(1, df / 2))
    varies = excess > 0
    half = trigamma_inverse(np.where(varies, excess, 1.0))
    prior_df = np.where(varies, 2 * half, np.inf)
    prior = np.where(varies, np.exp(centre + digamma(half) - np.log(half)), s2.mean(axis=-1))
    used = np.minimum(prior_df, most)
    # 1 / used is 0 where the prior is all
    weight = (1 / (1 + df / used))[..., None]
    return Moderated(weight * prior[..., None] + (1 - weight) * s2, df + used, used, prior)


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


@dataclass(frozen=True, eq=False)
class MethodVariances:
    """Moderated variances of methods' errors, for contrasts of two of them.

    Attributes
    ----------
    variances : ndarray, shape (..., M)
        Each method's variance over seeds after the seeds' common part is removed, moderated.
    prior_df : ndarray, shape (...,)
        Degrees of freedom of the prior, at most those of the data: the prior never weighs more than the data.
    fit : ndarray, shape (...,)
        p-value of a Kolmogorov-Smirnov test of ``s^2 / prior variance`` against F(df, fitted prior_df).
    """

    variances: np.ndarray
    prior_df: np.ndarray
    fit: np.ndarray

    def of_pairs(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the prior variances of the differences of pairs (P, 2), shape (..., P), and what they are worth."""
        return self.variances[..., pairs].sum(axis=-1), self.prior_df


def method_variances(runs: np.ndarray) -> MethodVariances:
    """Moderate the variances of methods' errors over seeds.

    What is moderated are the variances of the residuals ``y_ms - mean_m - mean_s + mean``, which are nearly independent
    of each other; the variances of contrasts with one control are not. They lack the share 1 / M on average, which is
    made up for. The limit on prior_df is there because errors of methods may be correlated, and a control is not a
    draw from the prior: with it coverage holds also where the control varies three times as much as the others.

    Parameters
    ----------
    runs : ndarray, shape (..., M, S)
        One value per method and seed, none missing, with positive residual variance for every method.
    """
    methods, seeds = runs.shape[-2:]
    errors = runs - runs.mean(axis=-1, keepdims=True)
    errors = errors - errors.mean(axis=-2, keepdims=True)
    s2 = (errors**2).sum(axis=-1) / (seeds - 1)
    fitted = moderate_variances(s2, seeds - 1)
    found = moderate_variances(s2, seeds - 1, most=seeds - 1)
    fit = _fit(s2 / fitted.prior_variance[..., None], seeds - 1, fitted.prior_df)
    return MethodVariances(found.variances * methods / (methods - 1), found.prior_df, fit)


def _fit(ratios: np.ndarray, df: float, prior_df: np.ndarray) -> np.ndarray:
    """Return p-values of Kolmogorov and Smirnov's test of each row of ratios against F(df, prior_df)."""
    from scipy import stats

    n = ratios.shape[-1]
    finite = np.where(np.isinf(prior_df), 1.0, prior_df)[..., None]
    f = np.where(np.isinf(prior_df)[..., None], stats.chi2.cdf(df * ratios, df), stats.f.cdf(ratios, df, finite))
    f = np.sort(f, axis=-1)
    steps = np.arange(n + 1) / n
    largest = np.maximum((steps[1:] - f).max(axis=-1), (f - steps[:-1]).max(axis=-1))
    return np.asarray(stats.kstwo.sf(largest, n))
