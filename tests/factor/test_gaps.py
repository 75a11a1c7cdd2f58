"""Moments of tables with gaps: against pandas, a closed form, the likelihood itself and the truth behind the gaps."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedstat.factor import Moments, PrincipalAxis, bootstrap_loadings, moments_with_gaps
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


@pytest.mark.parametrize(
    ("x", "how", "message"),
    [
        ([[1, np.nan], [np.nan, 2], [2, np.nan], [np.nan, 3]], "likelihood", "none has columns 0 and 1"),
        ([[1, np.nan], [2, np.nan]], "pairwise", "none has columns 0 and 1"),
        ([[1, 2], [3, 3], [2, np.nan]], "mean", "how must be"),
        ([[1, 5], [2, 5], [np.nan, 7]], "pairwise", "must vary in the rows that have columns 0 and 1"),
    ],
)
def test_tables_without_correlations_are_refused(x, how, message):
    with pytest.raises(ValueError, match=message):
        moments_with_gaps(np.array(x, dtype=float), how)
