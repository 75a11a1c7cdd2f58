"""Tell whether a table of independent rows is worth factoring, and how much of it the factors explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedstat._threads import one_thread
from fedstat.factor.correlation import check_correlation
from fedstat.factor.rotation import Rotation, with_correlations
from fedstat.inference import p_value

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class SamplingAdequacy:
    """The Kaiser-Meyer-Olkin measure; ``print`` it for one line.

    Attributes
    ----------
    overall : float
        The measure of all variables together, in [0, 1].
    variables : ndarray, shape (p,)
        The measure of each variable; NaN for a variable that is uncorrelated with all others.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import kmo
    >>> found = kmo(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> found.variables  # 1/2 for two variables alone; the third is uncorrelated
    array([0.5, 0.5, nan])
    """

    overall: float
    variables: np.ndarray

    def __str__(self) -> str:
        low, high = np.fmin.reduce(self.variables), np.fmax.reduce(self.variables)
        return f"Kaiser-Meyer-Olkin measure {self.overall:.3f} (single variables {low:.3f} to {high:.3f})"


@dataclass(frozen=True)
class Sphericity:
    """Bartlett's test of sphericity; ``print`` it for one line.

    Attributes
    ----------
    statistic : float
        The chi square.
    degrees_of_freedom : int
        p (p - 1) / 2.
    p : float
        The p-value.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import bartlett
    >>> found = bartlett(np.eye(3), rows=100)
    >>> abs(found.statistic), found.degrees_of_freedom, found.p  # no correlation at all
    (0.0, 3, 1.0)
    """

    statistic: float
    degrees_of_freedom: int
    p: float

    def __str__(self) -> str:
        return (
            f"Bartlett's test of sphericity: chi square {self.statistic:.2f} with {self.degrees_of_freedom} degrees of "
            f"freedom, p-value {p_value(self.p)}"
        )


def kmo(r: np.ndarray) -> SamplingAdequacy:
    """Measure how much of the correlation of pairs is due to the other variables (Kaiser and Rice 1974).

    The measure is ``sum r^2 / (sum r^2 + sum q^2)`` over pairs, with q the correlation of a pair given all other
    variables. It is near 1 where common factors account for the correlations, 1/2 for two variables; below 1/2 Kaiser
    and Rice find a table unacceptable.

    Parameters
    ----------
    r : ndarray, shape (p, p)
        Correlation matrix, not singular; of data `x` it is ``Moments.of(x).correlation()``.

    Raises
    ------
    ValueError
        If `r` is no correlation matrix, is singular, or is of a single variable.

    Examples
    --------
    With correlations of 1/2 among four variables each pair's partial correlation is 1/4, so the measure is
    ``0.25 / (0.25 + 0.0625)``:

    >>> import numpy as np
    >>> from fedstat.factor import kmo
    >>> print(kmo(np.full((4, 4), 0.5) + np.eye(4) / 2))
    Kaiser-Meyer-Olkin measure 0.800 (single variables 0.800 to 0.800)
    """
    r = check_correlation(r)
    # computed from R: factor_analyzer needs the rows, and inverts covariances, which depend on units
    values, vectors = _regular(r)
    inverse = (vectors / values) @ vectors.T
    scale = np.sqrt(np.diag(inverse))
    off_diagonal = 1 - np.eye(len(r))
    simple = (r**2 * off_diagonal).sum(axis=0)
    partial = ((inverse / scale / scale[:, None]) ** 2 * off_diagonal).sum(axis=0)
    total = float(simple.sum())
    return SamplingAdequacy(
        total / (total + float(partial.sum())) if total > 0 else float("nan"),
        np.divide(simple, simple + partial, out=np.full(len(r), np.nan), where=simple > 0),
    )


def bartlett(r: np.ndarray, rows: float) -> Sphericity:
    """Test whether variables are uncorrelated in the population (Bartlett 1950).

    ``-(n - 1 - (2 p + 5) / 6) log det R`` is about chi-square distributed with p (p - 1) / 2 degrees of freedom if n
    independent rows come from one normal distribution without correlations. A small p-value says that some variables
    are correlated, not that factors describe how.

    The rows must be independent. Those of a network's weights are not: training ties all weights of a layer together,
    and clients start from common ones. Their p-value means nothing.

    Parameters
    ----------
    r : ndarray, shape (p, p)
        Sample correlation matrix, not singular; of data `x` it is ``Moments.of(x).correlation()``.
    rows : float
        Number of rows n that it was computed from, more than p.

    Raises
    ------
    ValueError
        If `r` is no correlation matrix, is singular, or is of a single variable, or there are too few rows.

    Examples
    --------
    Four variables with all correlations 1/2 have ``det R = 0.5^3 2.5``:

    >>> import numpy as np
    >>> from fedstat.factor import bartlett
    >>> r = np.full((4, 4), 0.5) + np.eye(4) / 2
    >>> print(bartlett(r, rows=50))
    Bartlett's test of sphericity: chi square 54.47 with 6 degrees of freedom, p-value < 0.001
    >>> print(round(-(50 - 1 - 13 / 6) * np.log(0.5**3 * 2.5), 2))  # by the formula
    54.47
    """
    from scipy.stats import chi2

    r = check_correlation(r)
    p = len(r)
    if not p < rows < np.inf:
        raise ValueError(f"rows must exceed the {p} variables, got {rows}; with fewer rows drop variables.")
    values, _ = _regular(r)
    # not by the determinant, which underflows from some hundred variables on
    statistic = max(0.0, -(rows - 1 - (2 * p + 5) / 6) * float(np.log(values).sum()))
    degrees_of_freedom = p * (p - 1) // 2
    return Sphericity(statistic, degrees_of_freedom, float(chi2.sf(statistic, degrees_of_freedom)))


def root_mean_square_residual(r: np.ndarray, loadings: np.ndarray | Rotation) -> float:
    """Return the root mean square of the correlations that the factors leave.

    The mean is over the p (p - 1) entries of ``R - L Phi L'`` off the diagonal, which the communalities do not touch.
    In psych it is called ``rms``.

    Parameters
    ----------
    r : ndarray, shape (p, p)
        Correlation matrix R.
    loadings : ndarray, shape (p, m), or Rotation
        L; after an oblique rotation the Rotation, which holds the factors' correlations Phi too.

    Raises
    ------
    ValueError
        If `r` is no correlation matrix, is of a single variable, or shapes do not match.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import root_mean_square_residual
    >>> r = np.full((4, 4), 0.49) + 0.51 * np.eye(4)
    >>> print(round(root_mean_square_residual(r, np.full((4, 1), 0.7)), 6))  # the model that made them
    0.0
    >>> print(round(root_mean_square_residual(r, np.full((4, 1), 0.6)), 6))  # 0.49 - 0.36
    0.13
    """
    r = check_correlation(r)
    loadings, phi = with_correlations(loadings)
    p = len(r)
    if len(loadings) != p or p < 2:
        raise ValueError(
            f"loadings must have as many rows as r has, at least two, got {len(loadings)} and {p}; columns that do "
            "not vary have no correlations, so leave out their loadings."
        )
    residual = r - loadings @ phi @ loadings.T
    np.fill_diagonal(residual, 0.0)
    return float(np.sqrt((residual**2).sum() / (p * (p - 1))))


def explained_variance(loadings: np.ndarray | Rotation) -> pd.DataFrame:
    """Return the variance that each factor explains.

    Parameters
    ----------
    loadings : ndarray, shape (p, m), or Rotation
        L; after an oblique rotation the Rotation, which holds the factors' correlations Phi too.

    Returns
    -------
    DataFrame
        One column per factor, and the rows that psych prints. "SS loadings" is the diagonal of ``Phi L'L``, which sums
        to the communalities' sum; "Proportion Var" and "Cumulative Var" are its shares of p, the variance of all
        variables; "Proportion Explained" and "Cumulative Proportion" those of its sum.

    Raises
    ------
    ValueError
        If `loadings` is no finite matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import explained_variance
    >>> explained_variance(np.array([[0.8, 0.0], [0.6, 0.0], [0.0, 0.5], [0.0, 0.5]])).round(3)
                             PA1    PA2
    SS loadings            1.000  0.500
    Proportion Var         0.250  0.125
    Cumulative Var         0.250  0.375
    Proportion Explained   0.667  0.333
    Cumulative Proportion  0.667  1.000
    """
    import pandas as pd

    loadings, phi = with_correlations(loadings)
    squares = (phi * (loadings.T @ loadings)).sum(axis=0)
    total = squares.sum()
    of_all = squares / len(loadings)
    of_common = squares / total if total > 0 else np.zeros_like(squares)
    rows = {
        "SS loadings": squares,
        "Proportion Var": of_all,
        "Cumulative Var": np.cumsum(of_all),
        "Proportion Explained": of_common,
        "Cumulative Proportion": np.cumsum(of_common),
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=factor_names(len(squares)))


def factor_names(m: int) -> list[str]:
    """Return the names of m factors."""
    return [f"PA{j + 1}" for j in range(m)]


def _regular(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues and eigenvectors of a correlation matrix; refuse one without an inverse."""
    if len(r) < 2:
        raise ValueError("r must hold at least two variables: a single one has no correlations.")
    with one_thread(len(r)):
        values, vectors = np.linalg.eigh(r)
    if values[0] < 1e-12 * values[-1]:
        variable = int(np.abs(vectors[:, 0]).argmax())
        raise ValueError(
            f"r must have an inverse, but its least eigenvalue is {values[0]:.2g}: variable {variable} is a "
            "combination of others (counted from 0). Leave it out, or use more rows than variables."
        )
    return values, vectors
