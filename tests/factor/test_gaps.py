"""Moments of tables with gaps: against pandas, a closed form, the likelihood itself and the truth behind the gaps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.correlation_tools import corr_clipped

from fedstat.factor import Moments, PrincipalAxis, bootstrap_loadings, moments_with_gaps
from fedstat.factor.correlation import smoothed
from fedstat.factor.gaps import MISSING


def table(n=400, p=4, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) + rng.normal(size=(n, p)) * rng.uniform(0.5, 2, p) + 3
    x[rng.random((n, p)) < share] = np.nan
    return x


def covariance(moments):
    return moments.scatter / moments.rows


@pytest.mark.parametrize("how", MISSING)
def test_without_gaps_nothing_changes(how):
    x = table(share=0)
    found, plain = moments_with_gaps(x, how), Moments.of(x)
    np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-10)
    np.testing.assert_allclose(found.correlation(), plain.correlation(), atol=1e-8)
    np.testing.assert_allclose(covariance(found), covariance(plain), rtol=1e-7)


@given(st.integers(0, 100), st.floats(0.05, 0.4))
def test_pairwise_correlations_are_those_of_pandas(seed, share):
    x = table(200, 4, share, seed)
    np.testing.assert_allclose(moments_with_gaps(x, "pairwise").correlation(), pd.DataFrame(x).corr(), atol=1e-12)


@pytest.mark.parametrize("how", MISSING)
def test_a_constant_column_changes_nothing(how):
    x = table(100)
    found, with_constant = moments_with_gaps(x, how), moments_with_gaps(np.insert(x, 2, 7.0, axis=1), how)
    assert with_constant.varies().tolist() == [True, True, False, True, True]
    np.testing.assert_allclose(with_constant.correlation(), found.correlation(), atol=1e-12)


def test_of_a_monotone_pattern_the_likelihood_has_a_closed_form():
    """Anderson (1957): the regression on the complete column, from the rows that have both, and its law from all."""
    x = table(300, 2, 0)
    x[200:, 1] = np.nan
    slope, intercept, *_ = stats.linregress(x[:200, 0], x[:200, 1])
    rest = np.var(x[:200, 1] - intercept - slope * x[:200, 0])
    mean, spread = x[:, 0].mean(), x[:, 0].var()
    found = moments_with_gaps(x)
    np.testing.assert_allclose(found.mean, [mean, intercept + slope * mean], rtol=1e-7)
    wanted = [[spread, slope * spread], [slope * spread, rest + slope**2 * spread]]
    np.testing.assert_allclose(covariance(found), wanted, rtol=1e-6)


def test_the_likelihood_of_five_columns_is_that_of_mvnmle():
    """R's mvnmle, ``mlest(missvals, iterlim = 400)``: batches of cement, some of their values left out."""
    x = np.full((13, 5), np.nan)
    x[:9, 0] = 7, 1, 11, 11, 7, 11, 3, 1, 2
    x[:9, 1] = 26, 29, 56, 31, 52, 55, 71, 31, 54
    x[:, 2] = 6, 15, 8, 8, 6, 9, 17, 22, 18, 4, 23, 9, 8
    x[:6, 3] = 60, 52, 20, 47, 33, 22
    x[:, 4] = 78.5, 74.3, 104.3, 87.6, 95.9, 109.2, 102.7, 72.5, 93.1, 115.9, 83.8, 113.3, 109.4
    found = moments_with_gaps(x)
    np.testing.assert_allclose(found.mean, [6.65518, 49.96526, 11.76923, 27.04709, 95.42308], atol=5e-5)
    np.testing.assert_allclose(np.diag(covariance(found)), [21.8256, 238.0124, 37.8698, 294.1830, 208.9053], rtol=1e-5)


def likelihood(x, mean, s):
    """The log-likelihood of what was observed, row by row."""
    total = 0.0
    for row in x:
        has = ~np.isnan(row)
        if has.any():
            total += stats.multivariate_normal(mean[has], s[np.ix_(has, has)]).logpdf(row[has])
    return total


def test_no_neighbour_is_likelier():
    x = table(80, 3, 0.25)
    found = moments_with_gaps(x)
    best, rng = likelihood(x, found.mean, covariance(found)), np.random.default_rng(0)
    for _ in range(20):
        turn = np.eye(3) + 0.01 * rng.normal(size=(3, 3))
        moved = found.mean + 0.02 * rng.normal(size=3)
        assert likelihood(x, moved, covariance(found)) < best
        assert likelihood(x, found.mean, turn @ covariance(found) @ turn.T) < best


@pytest.mark.parametrize("how", MISSING)
def test_weights_count_rows(how):
    x, counts = table(100), np.random.default_rng(1).integers(0, 4, 100)
    weighted, repeated = moments_with_gaps(x, how, weights=counts), moments_with_gaps(np.repeat(x, counts, axis=0), how)
    np.testing.assert_allclose(weighted.scatter, repeated.scatter, rtol=1e-6)
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-8)


def test_gaps_that_depend_on_answers_bias_pairs_and_not_the_likelihood():
    rng = np.random.default_rng(0)
    first = rng.normal(size=40_000)
    x = np.c_[first, 0.6 * first + 0.8 * rng.normal(size=40_000)]
    x[first < 0.3, 1] = np.nan
    pair, likely = (moments_with_gaps(x, how).correlation()[0, 1] for how in MISSING)
    assert pair < 0.5
    assert likely == pytest.approx(0.6, abs=0.02)


def test_the_bootstrap_takes_gaps():
    x = table(200, 4, 0.1)
    fit = PrincipalAxis(1).fit_moments(moments_with_gaps(x))
    found = bootstrap_loadings(x, 1, missing="likelihood", draws=50)
    np.testing.assert_allclose(found.loadings.estimate, fit.loadings_)
    assert (found.loadings.low < found.loadings.estimate).all()
    whole = bootstrap_loadings(table(200, 4, 0), 1, draws=50)
    assert found.loadings.error.mean() > whole.loadings.error.mean()  # gaps cost precision


def indefinite():
    """A table of few rows, whose correlations pair by pair belong to no table."""
    return table(50, 12, 0.4, seed=1)


def test_correlations_of_no_table_are_refused_and_smoothed_as_in_psych():
    """``cor.smooth``: eigenvalues below 1e-12 are raised to 1e-10, and all are scaled to their sum."""
    moments = moments_with_gaps(indefinite(), "pairwise")
    r = moments.correlation()
    with pytest.raises(ValueError, match=r"has the eigenvalue -0\..* fit_correlation\(corr_nearest\(R\)\)"):
        PrincipalAxis(1).fit_moments(moments)
    values, vectors = np.linalg.eigh(r)
    raised = np.where(values < 1e-12, 1e-10, values)
    raised *= len(r) / raised.sum()
    theirs = vectors @ np.diag(raised) @ vectors.T
    theirs /= np.sqrt(np.outer(np.diag(theirs), np.diag(theirs)))
    found, change = smoothed(r)
    np.testing.assert_allclose(found, theirs, atol=1e-8)
    np.testing.assert_allclose(found, corr_clipped(r, 0), atol=1e-12)
    assert change == np.abs(found - r).max() > 0.01
    assert smoothed(found)[0] is found


def test_the_bootstrap_smooths_what_belongs_to_no_table():
    x = indefinite()
    found = bootstrap_loadings(x, 1, missing="pairwise", draws=50)
    r, _ = smoothed(moments_with_gaps(x, "pairwise").correlation())
    np.testing.assert_allclose(found.loadings.estimate, PrincipalAxis(1).fit_correlation(r).loadings_)
    assert (found.draws, found.lost) == (50, 0)


@pytest.mark.parametrize(
    ("x", "how", "message"),
    [
        ([[1, np.nan], [np.nan, 2], [2, np.nan], [np.nan, 3]], "likelihood", "none has columns 0 and 1"),
        ([[1, np.nan], [2, np.nan]], "pairwise", "none has columns 0 and 1"),
        ([[1, 2], [3, 3], [2, np.nan]], "mean", "how must be"),
        ([[1, 5], [2, 5], [np.nan, 7]], "pairwise", "must vary in the rows that have columns 0 and 1"),
        *(
            case
            for how in MISSING
            for case in [
                ([1, np.nan, 2], how, r"x must be a matrix .* got shape \(3,\)"),
                ([[1, 2], [np.inf, 3], [2, np.nan]], how, "x must be finite, but row 1, column 0 holds inf"),
                ([[1e200, 2], [2e200, 3], [2, np.nan]], how, r"column 0 ranges from 2 to 2e\+200; multiply it by"),
            ]
        ),
    ],
)
def test_tables_without_correlations_are_refused(x, how, message):
    with pytest.raises(ValueError, match=message):
        moments_with_gaps(np.array(x, dtype=float), how)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, np.nan, 1], r"weights must be finite, but holds nan at \[1\]"),
        ([1, 1], r"weights must have shape \(3,\)"),
        ([1, -2, 1], "weights must be numbers of times, at least 0, got -2"),
    ],
)
def test_weights_are_numbers_of_times(weights, message):
    with pytest.raises(ValueError, match=message):
        moments_with_gaps([[1, 2], [2, 3], [2, np.nan]], weights=weights)


def test_a_table_of_constants_has_moments_without_correlations():
    for how in MISSING:
        found = moments_with_gaps([[1, 2], [1, 2], [1, np.nan]], how)
        assert found.mean.tolist() == [1, 2]
        assert not found.scatter.any()
        assert not found.varies().any()
