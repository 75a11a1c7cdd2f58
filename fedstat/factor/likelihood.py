"""Maximum-likelihood factor analysis, for its tests of fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fedstat._in_words import counted
from fedstat._threads import one_thread
from fedstat.factor.components import positive_sums
from fedstat.factor.correlation import squared_multiple_correlations
from fedstat.factor.diagnostics import bartlett
from fedstat.factor.retention import ledermann_bound
from fedstat.factor.table import variable_names
from fedstat.inference.formatting import first_of, p_value

#: The least uniqueness, as in R's factanal; a variable that ends here is a Heywood case.
_LEAST = 0.005
#: Where all uniquenesses begin in turn, beside what squared multiple correlations say: there may be several minima.
_STARTS = (0.2, 0.5, 0.8)


@dataclass(frozen=True, eq=False)
class FitTests:
    """How well m factors fit, by maximum likelihood; ``print`` it for two lines.

    Attributes
    ----------
    n_factors : int
        m.
    statistic : float
        The chi square of the hypothesis that m factors suffice, with Bartlett's (1951) correction.
    degrees_of_freedom : int
        ``((p - m)^2 - p - m) / 2``.
    p : float
        Its p-value. Where there are Heywood cases the chi-square law does not hold, and it is a rough guide.
    rmsea, rmsea_low, rmsea_high : float
        The root mean square error of approximation and its 90% interval.
    tli, cfi : float
        The Tucker-Lewis index, which can pass 1, and the comparative fit index, in [0, 1]. NaN if the variables are
        no more correlated than by chance, so that there is nothing to fit.
    loadings : ndarray, shape (p, m)
        Unrotated maximum-likelihood loadings.
    uniquenesses : ndarray, shape (p,)
        The variances that the factors do not explain, 0.005 at least.
    heywood : ndarray of int
        Variables whose uniqueness stands at its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.factor import fit_tests
    >>> r = np.full((5, 5), 0.36) + 0.64 * np.eye(5)  # one factor with loadings of 0.6
    >>> found = fit_tests(r, rows=200, n_factors=1)
    >>> found.degrees_of_freedom, round(found.p, 3), found.loadings[:, 0].round(3)
    (5, 1.0, array([0.6, 0.6, 0.6, 0.6, 0.6]))
    """

    n_factors: int
    statistic: float
    degrees_of_freedom: int
    p: float
    rmsea: float
    rmsea_low: float
    rmsea_high: float
    tli: float
    cfi: float
    loadings: np.ndarray
    uniquenesses: np.ndarray
    heywood: np.ndarray

    def __str__(self) -> str:
        return self.text()

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the tests for people, with Heywood cases by these names of the variables."""
        lines = [
            f"Maximum likelihood, {counted(self.n_factors, 'factor')}: chi square "
            f"{self.statistic:.2f} with {self.degrees_of_freedom} degrees of freedom, p-value {p_value(self.p)}",
            f"RMSEA {self.rmsea:.3f} (90% interval {self.rmsea_low:.3f} to {self.rmsea_high:.3f}), "
            f"TLI {self.tli:.3f}, CFI {self.cfi:.3f}",
        ]
        if len(self.heywood):
            labels = variable_names(names, len(self.uniquenesses))
            variables = first_of([labels[j] for j in self.heywood])
            lines.append(f"Heywood cases of maximum likelihood ({variables}): the chi-square law does not hold there")
        return "\n".join(lines)


def fit_tests(r: np.ndarray, rows: float, n_factors: int) -> FitTests:
    """Fit m factors by maximum likelihood and test whether they suffice.

    The likelihood is maximised over the uniquenesses alone, the loadings given them being known (Lawley and Maxwell
    1971), bounded at 0.005 from below: the algorithm of R's factanal. (statsmodels' ``Factor(method="ml")`` ends at the
    same point where no uniqueness is near zero; at a Heywood case it does not converge.) There may be several maxima,
    mostly with a factor too many: the best of four starts is taken. With F its least discrepancy
    ``log det S - log det R + tr(S^{-1} R) - p`` from ``S = L L' + diag(u)``, the statistic is
    ``(n - 1 - (2 p + 5) / 6 - 2 m / 3) F``, about chi-square distributed if n independent rows come from a
    normal distribution with m factors. The same statistic X, its degrees of freedom d, and those of the
    `bartlett` test, X_0 and d_0, give

    * ``RMSEA = sqrt(max(X - d, 0) / (d (n - 1)))`` (Steiger 1990), with the interval in which X is neither in the upper
      nor in the lower 5% of a noncentral chi-square law;
    * ``TLI = (X_0 / d_0 - X / d) / (X_0 / d_0 - 1)`` (Tucker and Lewis 1973);
    * ``CFI = 1 - max(X - d, 0) / max(X_0 - d_0, X - d, 0)`` (Bentler 1990).

    With many rows the test rejects every model, since none is exact: RMSEA says by how much.

    Parameters
    ----------
    r : ndarray, shape (p, p)
        Sample correlation matrix, not singular.
    rows : float
        Number of independent rows that it was computed from, more than p.
    n_factors : int
        m, at least 1 and so small that degrees of freedom are left, ``(p - m)^2 > p + m``.

    Raises
    ------
    ValueError
        If `r` is no correlation matrix, is singular or of a single variable; if there are too few rows, or `n_factors`
        leaves no degrees of freedom.

    Examples
    --------
    Two factors of three variables each, and then one factor for all six:

    >>> import numpy as np
    >>> from fedstat.factor import fit_tests
    >>> loadings = np.kron(np.eye(2), [[0.8], [0.7], [0.6]])
    >>> r = loadings @ loadings.T
    >>> np.fill_diagonal(r, 1.0)
    >>> print(fit_tests(r, rows=200, n_factors=2))
    Maximum likelihood, 2 factors: chi square 0.00 with 4 degrees of freedom, p-value 1.000
    RMSEA 0.000 (90% interval 0.000 to 0.000), TLI 1.059, CFI 1.000
    >>> print(fit_tests(r, rows=200, n_factors=1))
    Maximum likelihood, 1 factor: chi square 133.41 with 9 degrees of freedom, p-value < 0.001
    RMSEA 0.264 (90% interval 0.225 to 0.304), TLI 0.180, CFI 0.508
    """
    from scipy.stats import chi2

    null = bartlett(r, rows)  # checks r and rows
    r = np.asarray(r, dtype=np.float64)
    p = len(r)
    most = max((m for m in range(1, ledermann_bound(p) + 1) if (p - m) ** 2 > p + m), default=0)
    if not isinstance(n_factors, Integral) or isinstance(n_factors, bool) or not 1 <= n_factors <= most:
        raise ValueError(
            f"n_factors must be a whole number from 1 to {most}, got {n_factors!r}: more factors of {p} variables "
            "leave no degrees of freedom to test."
            if most
            else f"r must hold at least 4 variables to test one factor, got {p}."
        )
    m = int(n_factors)

    u, loadings, minimum = _maximised(r, m)
    d = ((p - m) ** 2 - p - m) // 2
    x = max(0.0, (rows - 1 - (2 * p + 5) / 6 - 2 * m / 3) * minimum)
    excess, of_null = max(x - d, 0.0), null.statistic - null.degrees_of_freedom
    low, high = (np.sqrt(_noncentrality(x, d, tail) / (d * (rows - 1))) for tail in (0.95, 0.05))
    tli = cfi = float("nan")
    if of_null > 0:
        ratio = null.statistic / null.degrees_of_freedom
        tli, cfi = (ratio - x / d) / (ratio - 1), 1 - excess / max(of_null, excess)
    tail, rmsea = float(chi2.sf(x, d)), float(np.sqrt(excess / (d * (rows - 1))))
    heywood = np.flatnonzero(u <= _LEAST * (1 + 1e-6))
    return FitTests(m, x, d, tail, rmsea, float(low), float(high), float(tli), float(cfi), loadings, u, heywood)


def _maximised(r: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the uniquenesses, loadings and discrepancy of greatest likelihood."""
    from scipy.optimize import minimize

    p = len(r)

    def loadings(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the best loadings given u, and the eigenvalues that they leave."""
        root = np.sqrt(u)
        values, vectors = np.linalg.eigh(r / root / root[:, None])
        kept = vectors[:, : -m - 1 : -1] * np.sqrt(np.maximum(values[: -m - 1 : -1] - 1, 0))
        return kept * root[:, None], values[: p - m]

    def discrepancy(u: np.ndarray) -> tuple[float, np.ndarray]:
        kept, left = loadings(u)
        gradient = ((kept**2).sum(axis=1) + u - 1) / u**2
        return float((left - np.log(left)).sum()) - (p - m), gradient

    usual = np.clip((1 - 0.5 * m / p) * (1 - squared_multiple_correlations(r)), _LEAST, 1)
    starts = (usual, *(np.full(p, share) for share in _STARTS))
    options: Any = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9}
    with one_thread(p):
        how: Any = {"jac": True, "method": "L-BFGS-B", "bounds": [(_LEAST, 1)] * p, "options": options}
        found = min((minimize(discrepancy, start, **how) for start in starts), key=lambda one: float(one.fun))
        u, slope = found.x, found.jac
        slope = np.where(u <= _LEAST, np.minimum(slope, 0), np.where(u >= 1, np.maximum(slope, 0), slope))
        if np.abs(slope).max() > 1e-3:
            warnings.warn(
                f"maximum likelihood with {m} factors has not converged (gradient {np.abs(slope).max():.1e}), so the "
                "chi square is too large; ask for fewer factors.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return u, positive_sums(loadings(u)[0]), float(found.fun)


def _noncentrality(x: float, d: int, probability: float) -> float:
    """Return the noncentrality at which the chance to stay below x is `probability`; 0 if there is none."""
    from scipy.optimize import brentq
    from scipy.stats import chi2, ncx2

    if chi2.cdf(x, d) <= probability:
        return 0.0
    return float(brentq(lambda nc: ncx2.cdf(x, d, nc) - probability, 1e-12, 4 * x + 100, xtol=1e-10))
