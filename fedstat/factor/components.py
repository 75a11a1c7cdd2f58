"""Principal components: the FedFac paper's loop, read to the letter, returns their loadings."""

from __future__ import annotations

import numpy as np

from fedstat._checks import array, whole
from fedstat._threads import one_thread


def principal_components_loadings(r: np.ndarray, m: int) -> np.ndarray:
    """Return the loadings of the m leading principal components of a correlation matrix.

    The FedFac paper's iteration takes the specific variances to be all of ``R - A A'``, not its diagonal; then the
    reduced matrix is ``A A'`` itself and the loop stands still after one step, at these loadings.

    Parameters
    ----------
    r : ndarray, shape (p, p)
        Correlation matrix, or one that is reduced by specific variances; symmetric.
    m : int
        Number of components, from 1 to p.

    Returns
    -------
    ndarray, shape (p, m)
        Eigenvectors times the roots of their eigenvalues, descending; signs make each column's sum non-negative.

    Raises
    ------
    ValueError
        If `r` is not symmetric, or `m` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import PrincipalAxis, principal_components_loadings
    >>> r = np.full((4, 4), 0.49) + 0.51 * np.eye(4)  # one factor with loadings of 0.7
    >>> principal_components_loadings(r, 1)[:, 0].round(3), PrincipalAxis(1).fit_correlation(r).loadings_[:, 0].round(3)
    (array([0.786, 0.786, 0.786, 0.786]), array([0.7, 0.7, 0.7, 0.7]))

    Principal components take a share of the specific variance as well, so their loadings are too large.
    """
    r = array("r", r, ("variables", "variables"))
    if (most := np.abs(r - r.T).max()) > 1e-6:  # rounding in single precision
        raise ValueError(f"r must be symmetric, but differs from its transpose by up to {most:.3g}.")
    if not 1 <= whole("m", m) <= len(r):
        raise ValueError(f"m must lie between 1 and the {len(r)} variables, got {m}.")
    with one_thread(len(r)):
        values, vectors = np.linalg.eigh(r)
    return positive_sums(vectors[:, : -m - 1 : -1] * np.sqrt(np.maximum(values[: -m - 1 : -1], 0.0)))


def positive_sums(loadings: np.ndarray) -> np.ndarray:
    """Flip columns whose sum is negative: signs of factors are arbitrary."""
    return np.asarray(loadings * np.where(loadings.sum(axis=0) < 0, -1.0, 1.0))
