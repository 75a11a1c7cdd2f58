"""Factor scores: what rows score on factors as they were rotated, and how well that is determined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.linalg import sqrtm

from fedstat._checks import choice
from fedstat._threads import one_thread
from fedstat.factor.rotation import Rotation

if TYPE_CHECKING:
    from fedstat.factor.principal_axis import PrincipalAxis

ScoreMethod = Literal["regression", "bartlett", "tenberge"]
METHODS = ("regression", "bartlett", "tenberge")


@dataclass(frozen=True, eq=False)
class Scores:
    """Factor scores of rows.

    Attributes
    ----------
    values : ndarray, shape (n, m)
        A row's score on each factor.
    weights : ndarray, shape (p, m)
        ``values = Z @ weights`` with standardised columns Z; zero for columns that do not vary.
    determinacy : ndarray, shape (m,)
        Correlation of a factor with its scores, by the model. Below 0.9 or so, rows may rank differently on the factor
        and on its scores (Grice 2001); below 0.71 equally good scores of a factor may correlate negatively
        (Guttman 1955).
    method : str
        "regression", "bartlett" or "tenberge".

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import PrincipalAxis, factor_scores
    >>> rng = np.random.default_rng(0)
    >>> ability = rng.normal(size=(400, 1))
    >>> answers = 0.8 * ability + 0.6 * rng.normal(size=(400, 5))
    >>> scores = factor_scores(PrincipalAxis(1).fit(answers), answers)
    >>> print(f"{scores.determinacy[0]:.2f} by the model, {np.corrcoef(scores.values.T, ability.T)[0, 1]:.2f} in truth")
    0.94 by the model, 0.95 in truth
    """

    values: np.ndarray
    weights: np.ndarray
    determinacy: np.ndarray
    method: str


def factor_scores(
    fit: PrincipalAxis,
    X: np.ndarray,
    rotation: Rotation | None = None,
    *,
    method: ScoreMethod = "regression",
    missing: Literal["likelihood"] | None = None,
) -> Scores:
    """Estimate the scores of rows on the factors of a fit, rotated or not.

    With pattern L, correlations of factors Phi, structure S = L Phi and uniquenesses U: "regression" (Thurstone 1935)
    takes the weights ``R^+ S``, closest to the factors in mean square; "bartlett" (Bartlett 1937) ``U^-1 L (L' U^-1
    L)^-1``, whose scores of a factor do not depend on the other factors; "tenberge" (ten Berge et al. 1999) those whose
    scores correlate as the factors do. Eigenvalues of R up to 1e-7 p, which R may owe to rounding in single precision,
    count as zero.

    With ``missing="likelihood"`` a row is scored by the values o that it has: by the factors' mean given these,
    ``S_o' Sigma_oo^-1 z_o``. Here the model's ``Sigma = L Phi L' + U`` stands for R, as in lavaan, in all rows.

    Parameters
    ----------
    fit : PrincipalAxis
        A fitted analysis.
    X : ndarray, shape (n, p)
        Rows, standardised here by the fitted means and deviations; after `fit_correlation` they are taken to be
        standardised.
    rotation : Rotation, optional
        Of ``fit.loadings_``, as it was shown; None for the unrotated factors.
    method : {"regression", "bartlett", "tenberge"}
        How factors are estimated.
    missing : {"likelihood"}, optional
        Score rows with gaps (NaN) too, by regression; a row that has nothing stays NaN. `weights` and `determinacy`
        are then those of rows without gaps. By default `X` must have no gaps.

    Raises
    ------
    ValueError
        If `rotation` has another shape than the fit; if the method is "bartlett" and a uniqueness is zero (a Heywood
        case); if it is not "regression" and R or the loadings are singular, or gaps are to be scored.

    Examples
    --------
    Two correlated factors: ten Berge's scores correlate as the factors do, and those by regression more strongly.

    >>> import numpy as np
    >>> from fedstat.factor import PrincipalAxis, factor_scores, rotate
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=2000)
    >>> second = 0.5 * first + 0.75**0.5 * rng.normal(size=2000)
    >>> answers = np.repeat([first, second], 4, axis=0).T + rng.normal(size=(2000, 8))
    >>> fit = PrincipalAxis(2).fit(answers)
    >>> turned = rotate(fit.loadings_, "oblimin")
    >>> print(f"factors {turned.correlations[0, 1]:.2f}")
    factors 0.47
    >>> for method in ("regression", "tenberge"):
    ...     scores = factor_scores(fit, answers, turned, method=method)
    ...     print(f"{method} {np.corrcoef(scores.values.T)[0, 1]:.2f}")
    regression 0.56
    tenberge 0.47
    """
    choice("method", method, METHODS)
    if missing is not None:
        choice("missing", missing, ("likelihood",))
        if method != "regression":
            raise ValueError(f'missing="likelihood" has scores by method "regression" alone, got {method!r}.')
    z, varies = fit.standardised(X, gaps=missing is not None)
    if rotation is not None and rotation.loadings.shape != fit.loadings_.shape:
        raise ValueError(
            f"rotation must be of the fit's loadings, shape {fit.loadings_.shape}, got {rotation.loadings.shape}."
        )
    loadings = (fit.loadings_ if rotation is None else rotation.loadings)[varies]
    phi = np.eye(loadings.shape[1]) if rotation is None or rotation.correlations is None else rotation.correlations
    structure = loadings @ phi
    r = fit.correlation_ if missing is None else structure @ loadings.T + np.diag(fit.uniquenesses_[varies])
    with one_thread(len(r)):
        if method == "regression":
            w = _inverse(r, 1, singular=True) @ structure
        elif method == "bartlett":
            if len(fit.heywood_):
                raise ValueError(
                    f"method 'bartlett' divides by uniquenesses, and those of columns {fit.heywood_.tolist()} are "
                    "zero; take fewer factors, or the method 'regression' or 'tenberge'."
                )
            scaled = loadings / fit.uniquenesses_[varies, None]
            w = np.linalg.solve(scaled.T @ loadings, scaled.T).T
        else:
            root = sqrtm(phi)
            turned = _inverse(r, 0.5) @ loadings @ root
            w = _inverse(r, 0.5) @ turned @ _inverse(turned.T @ turned, 0.5) @ root
        spread = np.sqrt(np.einsum("pj,pq,qj->j", w, r, w))
    determinacy = np.divide((w * structure).sum(axis=0), spread, out=np.zeros(len(spread)), where=spread > 0)
    weights = np.zeros(fit.loadings_.shape)
    weights[varies] = w
    values, known = z @ w, ~np.isnan(z)
    for has in np.unique(known[~known.all(axis=1)], axis=0):
        if has.any():
            rows = (known == has).all(axis=1)
            own = _inverse(r[np.ix_(has, has)], 1, singular=True) @ structure[has]
            values[rows] = z[np.ix_(rows, has)] @ own
    return Scores(values, weights, determinacy, method)


def _inverse(a: np.ndarray, power: float, *, singular: bool = False) -> np.ndarray:
    """Return a symmetric matrix to the power of minus `power`, on the space where its eigenvalues are positive."""
    values, vectors = np.linalg.eigh(a)
    kept = values > 1e-7 * len(values)
    if not (singular or kept.all()):
        raise ValueError('the correlations or the loadings are singular; method="regression" has scores all the same.')
    return np.asarray((vectors[:, kept] / values[kept] ** power) @ vectors[:, kept].T)
