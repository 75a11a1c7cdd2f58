"""Compare loadings with others: Tucker's congruence, matching of factors, and rotation to a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat._threads import one_thread
from fedstat.factor.rotation import Rotation, check_loadings, with_correlations

_NONE = 1e-7  # relative to the largest loading: columns below have no direction


@dataclass(frozen=True, eq=False)
class Matching:
    """Which factor is which of the reference's.

    Attributes
    ----------
    loadings : ndarray, shape (p, m)
        The loadings with their columns in the reference's order and signs.
    order : ndarray of int, shape (m,)
        ``order[j]`` is the column that became column j.
    signs : ndarray, shape (m,)
        -1 where a column was turned, else 1.
    coefficients : ndarray, shape (m,)
        Tucker's congruence of each matched pair, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import match_factors
    >>> reference = np.array([[0.8, 0.0], [0.7, 0.0], [0.0, 0.6], [0.0, 0.5]])
    >>> found = match_factors(-reference[:, ::-1], reference)
    >>> found.order, found.signs, found.coefficients  # swapped and turned, but the same factors
    (array([1, 0]), array([-1., -1.]), array([1., 1.]))
    """

    loadings: np.ndarray
    order: np.ndarray
    signs: np.ndarray
    coefficients: np.ndarray


def congruence(a: np.ndarray | Rotation, b: np.ndarray | Rotation) -> np.ndarray:
    """Return Tucker's coefficients of congruence between the factors of `a` and those of `b` (Tucker 1951).

    The coefficient of two columns of loadings is ``sum x y / sqrt(sum x^2 sum y^2)``: a correlation about zero instead
    of the mean. Its sign is arbitrary, as that of a factor is. Lorenzo-Seva and ten Berge (2006) take 0.95 and more
    for the same factor and 0.85 to 0.94 for a fair similarity. `match_factors` pairs the factors.

    Parameters
    ----------
    a : ndarray, shape (p, m), or Rotation
        Loadings; pattern loadings after an oblique rotation.
    b : ndarray, shape (p, k), or Rotation
        Loadings of the same variables in the same order.

    Returns
    -------
    ndarray, shape (m, k)
        In [-1, 1]; NaN for a column without loadings.

    Raises
    ------
    ValueError
        If `a` or `b` is no finite matrix, or they have different numbers of variables.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import congruence
    >>> loadings = np.array([[0.8, 0.0], [0.6, 0.0], [0.0, 0.6], [0.1, 0.7]])
    >>> congruence(loadings, -2 * loadings).round(2)  # the sign and the size of a factor do not count
    array([[-1.  , -0.08],
           [-0.08, -1.  ]])

    Tucker's coefficients of -1 on the diagonal: the same two factors, turned.
    """
    left, right = with_correlations(a)[0], with_correlations(b)[0]
    if len(left) != len(right):
        raise ValueError(f"b must hold the {len(left)} variables of a, got {len(right)}.")
    norms = [np.linalg.norm(x, axis=0) for x in (left, right)]
    scale = np.outer(*(np.where(n > _NONE * max(n.max(), 1e-300), n, np.nan) for n in norms))
    return np.asarray(np.clip(left.T @ right / scale, -1, 1))


def match_factors(loadings: np.ndarray, reference: np.ndarray) -> Matching:
    """Reorder and turn the columns of `loadings` so that they match those of `reference`.

    The assignment maximises the sum of the absolute congruences of the pairs (Hungarian method).

    Parameters
    ----------
    loadings, reference : ndarray, shape (p, m)
        Loadings of the same variables and as many factors. Columns without loadings match what is left.

    Raises
    ------
    ValueError
        If shapes differ, or a matrix is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import match_factors
    >>> reference = np.array([[0.8, 0.0], [0.7, 0.1], [0.1, 0.6], [0.0, 0.5]])
    >>> again = np.array([[0.1, -0.7], [0.1, -0.8], [0.6, -0.1], [0.6, -0.2]])  # another sample's
    >>> match_factors(again, reference).loadings
    array([[0.7, 0.1],
           [0.8, 0.1],
           [0.1, 0.6],
           [0.2, 0.6]])
    """
    from scipy.optimize import linear_sum_assignment

    loadings, reference = check_loadings(loadings), check_loadings(reference)
    if loadings.shape != reference.shape:
        raise ValueError(f"reference must have the shape of loadings, {loadings.shape}, got {reference.shape}.")
    coefficients = np.nan_to_num(congruence(reference, loadings))
    rows, order = linear_sum_assignment(-np.abs(coefficients))
    paired = coefficients[rows, order]
    signs = np.where(paired < 0, -1.0, 1.0)
    return Matching(loadings[:, order] * signs, order, signs, np.abs(paired))


def target_rotation(loadings: np.ndarray, target: np.ndarray, *, oblique: bool = False) -> Rotation:
    """Rotate loadings as near as possible to a target, ``min |L T - B|^2`` (Procrustes rotation).

    Orthogonal rotations to a whole target have a closed form, by the singular value decomposition of ``L' B``
    (Schönemann 1966; `scipy.linalg.orthogonal_procrustes`). The oblique rotation keeps the factors' variances at one
    and is found by gradient projection (Browne 1972; Jennrich 2002; statsmodels' ``GPA``), as is a rotation to a
    target with free entries, which are NaN. It is a local optimum, found from the orthogonal rotation to the target
    with zeros for its free entries; with free entries also from that rotation with one factor turned, for each, and
    the best is kept.

    The loadings fit a target better than they would fit fresh data's, since T was chosen for it; with many factors and
    few variables even chance fits.

    Parameters
    ----------
    loadings : ndarray, shape (p, m)
        Unrotated loadings L.
    target : ndarray, shape (p, m)
        B; NaN where a loading is free.
    oblique : bool
        Whether factors may correlate.

    Returns
    -------
    Rotation
        Columns in the target's order and signs.

    Raises
    ------
    ValueError
        If shapes differ; if the loadings are not finite, or a target is infinite or free everywhere in a column; if
        the rotation is oblique and factors are combinations of others, or it does not converge.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import target_rotation
    >>> simple = np.array([[0.8, 0.1], [0.7, 0.2], [0.2, 0.6], [0.1, 0.5]])
    >>> mixed = simple @ np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> target = np.array([[np.nan, 0], [np.nan, 0], [0, np.nan], [0, np.nan]])  # free where a loading is expected
    >>> target_rotation(mixed, target).loadings.round(2)
    array([[0.8 , 0.08],
           [0.71, 0.18],
           [0.22, 0.59],
           [0.12, 0.5 ]])
    """
    from scipy.linalg import orthogonal_procrustes

    loadings, target = check_loadings(loadings), np.asarray(target, dtype=np.float64)
    if target.shape != loadings.shape:
        raise ValueError(f"target must have the shape of loadings, {loadings.shape}, got {target.shape}.")
    given = ~np.isnan(target)
    if np.isinf(target).any() or not given.any(axis=0).all():
        raise ValueError("target must be finite, or NaN where a loading is free, with a number in every column.")
    rank = int(np.linalg.matrix_rank(loadings, rtol=_NONE))
    if oblique and rank < loadings.shape[1]:
        raise ValueError(
            f"an oblique rotation needs independent factors, but these {loadings.shape[1]} span {rank} dimensions "
            "only; ask for fewer factors, or rotate orthogonally."
        )
    filled = np.where(given, target, 0.0)
    with one_thread(len(loadings)):
        rotation, _ = orthogonal_procrustes(loadings, filled)
        if oblique or not given.all():
            rotation = _projected(loadings, filled, given, rotation, "oblique" if oblique else "orthogonal")
        if not oblique:
            return Rotation(loadings @ rotation, rotation, None)
        # statsmodels returns the matrix of the factors, whose columns have unit length
        back = np.linalg.inv(rotation).T
        return Rotation(loadings @ back, back, rotation.T @ rotation)


def _projected(loadings: np.ndarray, target: np.ndarray, given: np.ndarray, start: np.ndarray, kind: str) -> np.ndarray:
    """Minimise the distance to the given entries by gradient projection."""
    from statsmodels.multivariate.factor_rotation._gpa_rotation import GPA

    def distance(L: np.ndarray, A: None = None, T: None = None) -> tuple[float, np.ndarray]:  # statsmodels' names
        gap = given * (L - target)
        return float((gap**2).sum()), 2 * gap

    tol = 1e-7 * max(1.0, float(np.abs(loadings).max()) ** 2)
    # orthogonal steps cannot pass from a rotation to a reflection
    turns = np.ones((1, len(start))) if given.all() else np.vstack([np.ones(len(start)), 1 - 2 * np.eye(len(start))])
    runs = [GPA(loadings, vgQ=distance, T=start * t, max_tries=5000, rotation_method=kind, tol=tol) for t in turns]
    _, _, rotation, steps = min(runs, key=lambda run: distance(run[0])[0])
    if 10 ** steps[-1][2] > 100 * tol:
        raise ValueError(
            f"the rotation to this target has not converged in {len(steps)} steps (gradient {10 ** steps[-1][2]:.1e}); "
            "give more of its entries, or rotate orthogonally."
        )
    return np.asarray(rotation)
