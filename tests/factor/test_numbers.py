"""The table over the number of factors, beside the fits and rules that it sets out and a published example."""

import numpy as np
import pytest
from scipy import linalg

from fedstat.factor import PrincipalAxis, compare_numbers, fit_tests, minimum_average_partial, parallel_analysis
from tests.support.matrices import HARMAN8, HARMAN8_ROWS
from tests.support.psych import bfi


def test_each_row_is_what_the_fit_and_the_rules_say():
    table = compare_numbers(HARMAN8, HARMAN8_ROWS, most=3)
    chance = parallel_analysis(np.linalg.eigvalsh(HARMAN8), HARMAN8_ROWS)
    partial = minimum_average_partial(HARMAN8)
    assert table["factors"].tolist() == [1, 2, 3]
    np.testing.assert_allclose(table["eigenvalue"], linalg.eigvalsh(HARMAN8)[::-1][:3])
    np.testing.assert_allclose(table["by chance"], chance.reference[:3])
    np.testing.assert_allclose(table["MAP"], partial.observed[1:4])
    for row in table.itertuples():
        fit = fit_tests(HARMAN8, HARMAN8_ROWS, row.factors)
        assert (row.chi2, row.df, row.RMSEA) == (fit.statistic, fit.degrees_of_freedom, fit.rmsea)
        assert pytest.approx(fit.statistic - fit.degrees_of_freedom * np.log(HARMAN8_ROWS)) == row.BIC
        fitted = fit.loadings @ fit.loadings.T
        pairs = [(HARMAN8[i][j] - fitted[i, j]) ** 2 for i in range(8) for j in range(i)]
        own = [(1 - fitted[i, i] - fit.uniquenesses[i]) ** 2 for i in range(8)]
        assert pytest.approx(np.sqrt((sum(pairs) + sum(own)) / 36)) == row.SRMR


def test_without_tests_what_needs_none_stays():
    plain, tested = (
        compare_numbers(HARMAN8, HARMAN8_ROWS, most=3, tests=False),
        compare_numbers(HARMAN8, HARMAN8_ROWS, 3),
    )
    assert list(plain) == ["factors", "SRMR", "eigenvalue", "by chance", "MAP"]
    same = ["factors", "eigenvalue", "by chance", "MAP"]
    np.testing.assert_array_equal(plain[same], tested[same])
    for m, found in enumerate(plain["SRMR"], start=1):  # of principal axes the diagonal is fitted
        fit = PrincipalAxis(m).fit_correlation(HARMAN8)
        pairs = (HARMAN8 - fit.loadings_ @ fit.loadings_.T)[np.tril_indices(8, -1)]
        assert found == pytest.approx(np.sqrt((pairs**2).sum() / 36), abs=1e-8)


def test_nothing_is_said_where_nothing_can_be_tested():
    with pytest.raises(ValueError, match="R has 3 variables: not even one factor leaves degrees of freedom"):
        compare_numbers(np.full((3, 3), 0.5) + 0.5 * np.eye(3), 100)
    assert len(compare_numbers(HARMAN8, HARMAN8_ROWS, most=8)) == 4  # five factors leave none


def test_bfi_has_the_chi_square_of_factanal():
    """R's factanal says 1490.59 on 185 degrees of freedom for five factors of the 2,436 complete rows."""
    answers = bfi().dropna()
    found = compare_numbers(answers.corr().to_numpy(), len(answers)).set_index("factors").loc[5]
    assert (round(found.chi2, 2), found.df) == (1490.59, 185)
