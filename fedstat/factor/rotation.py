"""Rotate loadings towards simple structure."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgWarning

from fedstat._checks import array, choice
from fedstat._threads import one_thread

ORTHOGONAL = ("varimax", "quartimax", "equamax", "geomin_ort")
OBLIQUE = ("promax", "oblimin", "quartimin", "geomin_obl")

_NONE = 1e-7  # relative to the largest; roots of eigenvalues that are rounding alone are smaller


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rotated loadings, and the matrix that rotated them.

    Attributes
    ----------
    loadings : ndarray, shape (p, m)
        ``L T``; columns by descending explained variance (PA1 need not be the unrotated PA1), with
        non-negative sums.
    rotation : ndarray, shape (m, m)
        T; L are the loadings before rotation.
    correlations : ndarray, shape (m, m), or None
        Correlations of the factors, ``Phi = T^{-1} T^{-1}'``. None after an orthogonal rotation, where they are zero.
        The communalities, the diagonal of ``(L T) Phi (L T)'``, are those of L.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import rotate
    >>> simple = np.array([[0.8, 0.0], [0.7, 0.0], [0.0, 0.6], [0.0, 0.5]])
    >>> turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> found = rotate(simple @ turn)
    >>> np.allclose(found.loadings, simple @ turn @ found.rotation), (found.loadings**2).sum(1).round(2)
    (True, array([0.64, 0.49, 0.36, 0.25]))

    Communalities are what they were before the rotation.
    """

    loadings: np.ndarray
    rotation: np.ndarray
    correlations: np.ndarray | None

    @property
    def structure(self) -> np.ndarray:
        """Correlations of the variables with the rotated factors, shape (p, m): the loadings times Phi."""
        return self.loadings if self.correlations is None else self.loadings @ self.correlations


def rotate(loadings: np.ndarray, method: str = "varimax") -> Rotation:
    """Rotate loadings by factor_analyzer's `Rotator`, to convergence.

    Orthogonal methods are "varimax", "quartimax", "equamax" and "geomin_ort"; oblique ones "promax" (with power 4),
    "oblimin" and "quartimin" (the same, since gamma is 0) and "geomin_obl" (both geomins with delta 0.01). "varimax"
    and "promax" normalise by Kaiser's rule, as psych does, the others not. Each finds a stationary point, starting from
    the loadings as they are: a local optimum, but of exactly symmetric loadings, such as a model's with equal
    eigenvalues, also a saddle, where a criterion is flat. Data are never exactly symmetric.

    Two of factor_analyzer's methods do not do what their names say. Its equamax is quartimax unless it is given the
    weight m / (2 p) that defines equamax (Crawford and Ferguson 1970), so "equamax" gives it that weight. The steps of
    its oblimax lead away from the optimum, so oblimax is left out; orthogonal oblimax is quartimax.

    Variables and factors without loadings (dead units; more factors than positive eigenvalues) take no part and stay
    zero. A single factor stays as it is, up to its sign.

    Parameters
    ----------
    loadings : ndarray, shape (p, m)
        Unrotated loadings L.
    method : str
        One of the above.

    Raises
    ------
    ValueError
        If `method` is unknown, `loadings` is no finite matrix, or the method is oblique and factors are combinations
        of others.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import rotate
    >>> simple = np.array([[0.8, 0.1], [0.7, 0.2], [0.2, 0.6], [0.1, 0.5]])
    >>> mixed = simple @ np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> mixed.round(2)
    array([[ 0.56, -0.58],
           [ 0.58, -0.44],
           [ 0.6 ,  0.2 ],
           [ 0.46,  0.22]])
    >>> rotate(mixed, "varimax").loadings.round(2)
    array([[0.8 , 0.12],
           [0.69, 0.22],
           [0.18, 0.61],
           [0.08, 0.5 ]])
    """
    choice("method", method, ORTHOGONAL + OBLIQUE)
    loadings = check_loadings(loadings)
    size = np.abs(loadings)
    rows, columns = (size.max(axis=axis) > _NONE * size.max() for axis in (1, 0))
    rotation = np.eye(loadings.shape[1])
    if columns.sum() > 1:
        with one_thread(len(loadings)):
            rotation[np.ix_(columns, columns)] = _rotator(loadings[np.ix_(rows, columns)], method)

    inverse = np.linalg.inv(rotation) if method in OBLIQUE else rotation.T
    phi, rotated = inverse @ inverse.T, loadings @ rotation
    explained = (phi * (rotated.T @ rotated)).sum(axis=0)
    order = np.argsort(-explained, kind="stable")
    sign = np.where(rotated.sum(axis=0) < 0, -1.0, 1.0)[order]
    return arranged(Rotation(rotated, rotation, phi if method in OBLIQUE else None), order, sign)


def arranged(turned: Rotation, order: np.ndarray, signs: np.ndarray) -> Rotation:
    """Return a rotation with its factors in another order, and some of them with the other sign."""
    phi = turned.correlations
    if phi is not None:
        phi = phi[np.ix_(order, order)] * np.outer(signs, signs)
    return Rotation(turned.loadings[:, order] * signs, turned.rotation[:, order] * signs, phi)


def with_correlations(loadings: np.ndarray | Rotation) -> tuple[np.ndarray, np.ndarray]:
    """Return loadings (p, m) and their factors' correlations (m, m), the identity unless a rotation was oblique."""
    matrix, phi = (loadings.loadings, loadings.correlations) if isinstance(loadings, Rotation) else (loadings, None)
    matrix = check_loadings(matrix)
    return matrix, np.eye(matrix.shape[1]) if phi is None else phi


def check_loadings(loadings: np.ndarray) -> np.ndarray:
    """Return `loadings` in float64; raise an error unless they are a finite matrix with rows and columns."""
    return array("loadings", loadings, ("variables", "factors"))


def _rotator(loadings: np.ndarray, method: str) -> np.ndarray:
    """Return T for loadings without zero rows or columns, by which Kaiser's rule would divide."""
    from factor_analyzer import Rotator

    p, m = loadings.shape
    rank = int(np.linalg.matrix_rank(loadings, rtol=_NONE))
    if method in OBLIQUE and rank < m:
        raise ValueError(
            f"method {method!r} needs independent factors, but these {m} span {rank} dimensions only; ask for fewer "
            f"factors, or for one of {', '.join(ORTHOGONAL)}."
        )
    # two methods stop by their criterion, the others by its gradient; their defaults leave errors of up to 4e-4
    tol = 1e-14 if method in ("varimax", "promax") else 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LinAlgWarning)  # of promax's regression, whose result is computed anew below
        t = np.asarray(Rotator(method=method, kappa=m / (2 * p), tol=tol, max_iter=1000).fit(loadings).rotation_)
    if method not in OBLIQUE:
        return t
    # except for promax, the oblique rotator returns the matrix of the factors, not that of the loadings
    inverse = np.linalg.inv(t) if method == "promax" else t.T
    return np.linalg.inv(inverse / np.linalg.norm(inverse, axis=1, keepdims=True))
