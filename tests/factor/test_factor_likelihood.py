"""Tests of fit against R's factanal, statsmodels, and noncentral chi-square laws."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, ncx2

from fedstat.factor import bartlett, fit_tests
from tests.support.matrices import HARMAN5, HARMAN8, HARMAN8_NAMES, HARMAN24, THURSTONE

# R's ability.cov (Bartholomew and Knott 1990): six ability tests of 112 persons
ABILITY = np.array(
    [
        [24.641, 5.991, 33.520, 6.023, 20.755, 29.701],
        [5.991, 6.700, 18.137, 1.782, 4.936, 7.204],
        [33.520, 18.137, 149.831, 19.424, 31.430, 50.753],
        [6.023, 1.782, 19.424, 12.711, 4.757, 9.075],
        [20.755, 4.936, 31.430, 4.757, 52.604, 66.762],
        [29.701, 7.204, 50.753, 9.075, 66.762, 135.292],
    ]
)
ABILITY = ABILITY / np.sqrt(np.outer(np.diag(ABILITY), np.diag(ABILITY)))


@pytest.mark.parametrize(
    ("r", "rows", "m", "statistic", "df", "p"),
    # as R's help pages of ability.cov, Harman23.cor and Harman74.cor print them by factanal
    [
        (ABILITY, 112, 1, 75.18, 9, 1.46e-12),
        (ABILITY, 112, 2, 6.11, 4, 0.191),
        (HARMAN8, 305, 1, 611.44, 20, 1.12e-116),
        (HARMAN8, 305, 2, 75.74, 13, 6.94e-11),
        (HARMAN8, 305, 3, 22.81, 7, 0.00184),  # a Heywood case
        (HARMAN8, 305, 4, 4.63, 2, 0.0988),
        (HARMAN24, 145, 4, 226.68, 186, 0.0224),
        (HARMAN24, 145, 5, 186.82, 166, 0.128),
    ],
)
def test_the_chi_square_is_that_of_factanal(r, rows, m, statistic, df, p):
    found = fit_tests(r, rows, m)
    assert found.statistic == pytest.approx(statistic, abs=0.005)
    assert found.degrees_of_freedom == df
    assert found.p == pytest.approx(p, rel=0.005)


@pytest.mark.parametrize("seed", [10, 33])
def test_with_a_factor_too_many_the_least_of_several_minima_is_taken(seed):
    """The minima of factanal's usual start lie at 0.044 and 0.028, those of others at 0.023 and 0.013."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((9, 3))
    loadings[np.arange(9), np.arange(9) // 3] = [rng.uniform(0.5, 0.85) for _ in range(9)]
    x = rng.normal(size=(200, 3)) @ loadings.T + rng.normal(size=(200, 9)) * np.sqrt(1 - (loadings**2).sum(axis=1))
    r = np.corrcoef(x.T)
    found = fit_tests(r, 200, 4)
    kept = found.loadings @ found.loadings.T + np.diag(found.uniquenesses)
    least = np.linalg.slogdet(kept)[1] - np.linalg.slogdet(r)[1] + np.trace(np.linalg.solve(kept, r)) - 9
    assert least < 0.024


def test_the_uniquenesses_are_those_of_factanal():
    found = fit_tests(ABILITY, 112, 2)
    np.testing.assert_allclose(found.uniquenesses, [0.455, 0.589, 0.218, 0.769, 0.052, 0.334], atol=5e-4)
    np.testing.assert_allclose((found.loadings**2).sum(axis=1) + found.uniquenesses, 1, atol=1e-6)
    assert fit_tests(HARMAN8, 305, 3).heywood.tolist() == [1]
    assert "Heywood cases of maximum likelihood (V2): " in str(fit_tests(HARMAN8, 305, 3))
    assert "maximum likelihood (arm span): " in fit_tests(HARMAN8, 305, 3).text(HARMAN8_NAMES)


@pytest.mark.parametrize(("r", "m"), [(ABILITY, 2), (HARMAN8, 2), (HARMAN24, 4), (THURSTONE, 3)])
def test_statsmodels_agrees_where_no_uniqueness_is_near_zero(r, m):
    from statsmodels.multivariate.factor import Factor

    found = fit_tests(r, 100, m)
    theirs = Factor(corr=r, n_factor=m, method="ml").fit(start=(found.loadings + 0.01, found.uniquenesses))
    np.testing.assert_allclose(theirs.uniqueness, found.uniquenesses, atol=1e-4)
    np.testing.assert_allclose(theirs.loadings @ theirs.loadings.T, found.loadings @ found.loadings.T, atol=1e-4)


def test_what_statsmodels_makes_of_a_heywood_case():
    """The reason why the likelihood is maximised here: theirs stops without the diagonal fitted."""
    from statsmodels.multivariate.factor import Factor

    found = fit_tests(HARMAN5, 12, 2)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        theirs = Factor(corr=HARMAN5, n_factor=2, method="ml").fit(start=(found.loadings, found.uniquenesses))
    assert "did not converge" in str(said[0].message)
    assert theirs.uniqueness.min() < 1e-4
    assert found.heywood.tolist() == [0]


def test_indices_by_their_formulas():
    found, null = fit_tests(HARMAN8, 305, 2), bartlett(HARMAN8, 305)
    x, d, x0, d0 = found.statistic, found.degrees_of_freedom, null.statistic, null.degrees_of_freedom
    assert found.rmsea == pytest.approx(np.sqrt((x - d) / (d * 304)))
    assert found.tli == pytest.approx((x0 / d0 - x / d) / (x0 / d0 - 1))
    assert found.cfi == pytest.approx(((x0 - d0) - (x - d)) / (x0 - d0))
    tails = [ncx2.cdf(x, d, d * 304 * limit**2) for limit in (found.rmsea_low, found.rmsea_high)]
    assert tails == pytest.approx([0.95, 0.05], abs=1e-8)
    good = fit_tests(THURSTONE, 213, 3)  # psych: chi square 2.82, TLI 1.026, RMSEA 0 (0 to 0)
    assert (good.rmsea, good.rmsea_low, good.rmsea_high, good.cfi) == (0, 0, 0, 1)
    assert good.tli == pytest.approx(1.026, abs=5e-4)
    fair = fit_tests(ABILITY, 112, 2)
    assert fair.rmsea_low == 0
    assert chi2.cdf(fair.statistic, 4) < 0.95


@given(st.integers(0, 99), st.floats(0.05, 0.4))
def test_an_exact_model_fits_exactly_and_noise_is_no_news(seed, noise):
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.4, 0.8, (8, 1)) * rng.choice([-1, 1], (8, 1))
    r = loadings @ loadings.T
    np.fill_diagonal(r, 1)
    found = fit_tests(r, 500, 1)
    assert (found.statistic, found.p) == pytest.approx((0, 1), abs=1e-6)
    np.testing.assert_allclose(found.uniquenesses, 1 - loadings.ravel() ** 2, atol=1e-5)
    worse = r.copy()
    worse[0, 1] = worse[1, 0] = r[0, 1] + noise * (1 - abs(r[0, 1])) * 0.5
    assert fit_tests(worse, 500, 1).statistic > found.statistic


@pytest.mark.slow
def test_p_values_are_uniform_under_the_model():
    rng = np.random.default_rng(1)
    loadings = np.kron(np.eye(2), np.full((4, 1), 0.7))
    ps = []
    for _ in range(500):
        x = rng.normal(size=(300, 2)) @ loadings.T + np.sqrt(0.51) * rng.normal(size=(300, 8))
        ps.append(fit_tests(np.corrcoef(x.T), 300, 2).p)
    assert kstest(ps, "uniform").pvalue > 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), 50, 1), "r must hold at least 4 variables to test one factor, got 3"),
        ((HARMAN8, 305, 5), "n_factors must be a whole number from 1 to 4, got 5: .* no degrees of freedom"),
        ((HARMAN8, 305, 0), "from 1 to 4, got 0"),
        ((HARMAN8, 305, 1.5), "from 1 to 4, got 1.5"),
        ((HARMAN8, 8, 1), "rows must exceed the 8 variables, got 8"),
        ((np.ones((4, 4)), 50, 1), "variable . is a combination of others"),
        ((np.full((4, 4), np.nan), 50, 1), "R must be finite"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_tests(*arguments)
