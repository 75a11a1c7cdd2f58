"""One table over the number of factors: tests of fit, eigenvalues beside those of chance, partial correlations."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from fedstat._checks import whole
from fedstat.factor.correlation import check_correlation
from fedstat.factor.likelihood import fit_tests
from fedstat.factor.principal_axis import PrincipalAxis
from fedstat.factor.retention import minimum_average_partial, parallel_analysis


def compare_numbers(R: np.ndarray, rows: int, most: int | None = None, *, tests: bool = True) -> pd.DataFrame:
    """Set out what speaks for each number of factors, and how near each rule came to another one.

    Parameters
    ----------
    R : ndarray, shape (p, p)
        Sample correlations.
    rows : int
        Number of independent rows behind them; more than p where `tests` are asked for.
    most : int, optional
        Largest number of factors; by default two more than any of the rules asks for. At most as many as leave degrees
        of freedom to the likelihood.
    tests : bool
        Whether to fit by maximum likelihood and test: that is for Pearson's correlations of complete rows. False, for
        polychoric correlations or gaps, leaves out the columns from ``chi2`` to ``RMSEA high`` and ``BIC``.

    Returns
    -------
    DataFrame
        A row for each number of factors m, from 1:

        * ``chi2``, ``df``, ``p``, ``RMSEA`` and its 90% limits ``RMSEA low`` and ``RMSEA high``: see `fit_tests`;
        * ``SRMR``: root mean square of the residual correlations on and below the diagonal (Bentler 1995), of the
          likelihood's solution, or without tests of the principal axes; ``BIC``: ``chi2 - df log(rows)``, smaller is
          better;
        * ``eigenvalue``, the m-th of R, and ``by chance``, what `parallel_analysis` sets against it: factors are kept
          while the first is larger;
        * ``MAP``: the mean squared partial correlation left after m components; the least decides.

    Raises
    ------
    ValueError
        Those of `fit_tests`; if `most` is below 1, or no number of factors leaves degrees of freedom.

    Examples
    --------
    Two factors of four variables each: one is too few, and a third has nothing to explain.

    >>> import numpy as np
    >>> from fedstat.factor import compare_numbers
    >>> loadings = np.kron(np.eye(2), [[0.8], [0.7], [0.7], [0.6]])
    >>> r = loadings @ loadings.T
    >>> np.fill_diagonal(r, 1.0)
    >>> table = compare_numbers(r, rows=300)
    >>> print(table[["factors", "RMSEA", "SRMR", "eigenvalue", "by chance"]].head(3).round(2).to_string(index=False))
     factors  RMSEA  SRMR  eigenvalue  by chance
           1   0.23   0.2        2.47       1.34
           2   0.00   0.0        2.47       1.22
           3   0.00   0.0        0.61       1.13
    """
    r = check_correlation(R)
    chance, partial = parallel_analysis(np.linalg.eigvalsh(r), rows), minimum_average_partial(r)
    largest = max(chance.n_factors, partial.n_factors) + 2 if most is None else whole("most", most, 1)
    numbers = [m for m in range(1, largest + 1) if (len(r) - m) ** 2 > len(r) + m]
    if not numbers:
        raise ValueError(f"R has {len(r)} variables: not even one factor leaves degrees of freedom.")
    below, found = np.tril_indices(len(r)), []
    for m in numbers:
        row: dict[str, float] = {"factors": m}
        if tests:
            fit = fit_tests(r, rows, m)
            loadings, unique = fit.loadings, fit.uniquenesses
            row |= {"chi2": fit.statistic, "df": fit.degrees_of_freedom, "p": fit.p}
            row |= {"RMSEA": fit.rmsea, "RMSEA low": fit.rmsea_low, "RMSEA high": fit.rmsea_high}
        else:
            with warnings.catch_warnings(action="ignore", category=UserWarning):  # of numbers nobody need choose
                axes = PrincipalAxis(m).fit_correlation(r)
            loadings, unique = axes.loadings_, axes.uniquenesses_
        residual = r - loadings @ loadings.T - np.diag(unique)
        row["SRMR"] = float(np.sqrt(np.mean(residual[below] ** 2)))
        if tests:
            row["BIC"] = fit.statistic - fit.degrees_of_freedom * np.log(rows)
        found.append(
            row
            | {
                "eigenvalue": chance.observed[m - chance.first],
                "by chance": chance.reference[m - chance.first],
                "MAP": partial.observed[m - partial.first],
            }
        )
    return pd.DataFrame(found)
