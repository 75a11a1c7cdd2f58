"""Scores of rotated factors against least squares and conditional means; alpha and omega against their definitions."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from fedstat.factor import PrincipalAxis, factor_scores, reliability, rotate
from fedstat.factor.scores import METHODS


def rows(n=300, seed=0, noise=1.0):
    """Answers to eight items of two correlated factors."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=n)
    factors = np.array([first, 0.5 * first + 0.75**0.5 * rng.normal(size=n)]).T
    loadings = np.array([[0.9, 0], [0.8, 0.1], [-0.7, 0], [0.6, 0.2], [0, 0.9], [0, 0.8], [0.2, 0.7], [0.1, -0.6]])
    return factors, factors @ loadings.T + noise * 0.5 * rng.normal(size=(n, 8))


@pytest.fixture(scope="module")
def oblique():
    _, x = rows()
    fit = PrincipalAxis(2).fit(x)
    return fit, x, rotate(fit.loadings_, "oblimin")


def test_regression_scores_are_conditional_means(oblique):
    fit, x, turned = oblique
    z = (x - x.mean(0)) / x.std(0, ddof=1)
    wanted = z @ np.linalg.solve(fit.correlation_, turned.structure)
    np.testing.assert_allclose(factor_scores(fit, x, turned).values, wanted, atol=1e-8)
    np.testing.assert_allclose(fit.transform(x) @ np.linalg.inv(turned.rotation).T, wanted, atol=1e-8)


def test_bartletts_scores_are_weighted_least_squares_row_by_row(oblique):
    fit, x, turned = oblique
    z = (x - x.mean(0)) / x.std(0, ddof=1)
    found = factor_scores(fit, x, turned, method="bartlett").values
    for i in (0, 7, 99):
        model = sm.WLS(z[i], turned.loadings, weights=1 / fit.uniquenesses_)
        np.testing.assert_allclose(found[i], model.fit().params, rtol=1e-8)


def test_ten_berges_scores_correlate_as_the_factors_do(oblique):
    fit, x, turned = oblique
    found = factor_scores(fit, x, turned, method="tenberge").values
    np.testing.assert_allclose(np.corrcoef(found.T), turned.correlations, atol=1e-10)
    np.testing.assert_allclose(found.std(0, ddof=1), 1, rtol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_determinacy_is_the_correlation_with_the_factor(method):
    factors, x = rows(40_000)
    fit = PrincipalAxis(2).fit(x)
    turned = rotate(fit.loadings_, "oblimin")
    found = factor_scores(fit, x, turned, method=method)
    between = np.abs(np.corrcoef(found.values.T, factors.T)[:2, 2:])
    np.testing.assert_allclose(found.determinacy, between.max(axis=1), atol=0.02)


@given(seed=st.integers(0, 50), noise=st.floats(0.5, 3))
def test_no_scores_are_closer_to_the_factors_than_those_by_regression(seed, noise):
    _, x = rows(200, seed, noise)
    fit = PrincipalAxis(2).fit(x)
    turned = rotate(fit.loadings_, "varimax")
    best = factor_scores(fit, x, turned).determinacy
    others = METHODS if not len(fit.heywood_) else ("regression", "tenberge")
    for method in others:
        assert (factor_scores(fit, x, turned, method=method).determinacy <= best + 1e-9).all()


def test_constant_columns_have_no_weight_and_bad_input_is_named(oblique):
    fit, x, turned = oblique
    with_constant = np.insert(x, 3, 7.0, axis=1)
    again = PrincipalAxis(2).fit(with_constant)
    found = factor_scores(again, with_constant)
    np.testing.assert_allclose(found.values, fit.transform(x), atol=1e-8)
    assert (found.weights[3] == 0).all()
    with pytest.raises(ValueError, match=r"rotation must be of the fit's loadings, shape \(9, 2\), got \(8, 2\)"):
        factor_scores(again, with_constant, turned)
    with pytest.raises(ValueError, match="got 'anderson'"):
        factor_scores(fit, x, method="anderson")
    heywood = PrincipalAxis(1).fit_correlation(np.array([[1, 0.9, 0.9], [0.9, 1, 0.65], [0.9, 0.65, 1]]))
    with pytest.raises(ValueError, match=r"those of columns \[0\] are zero"):
        factor_scores(heywood, np.zeros((2, 3)), method="bartlett")


def cronbach(answers):
    """Cronbach's alpha of standardised answers, by variances of items and of their sum."""
    z = (answers - answers.mean(0)) / answers.std(0)
    k = z.shape[1]
    return k / (k - 1) * (1 - z.var(0).sum() / z.sum(1).var())


def test_alpha_is_cronbachs_of_each_scale_and_omega_the_share_that_is_common(oblique):
    fit, x, turned = oblique
    table = reliability(fit.correlation_, turned).set_index("scale")
    assert table.loc["all", "items"] == list(range(8))
    for name, items in table["items"].items():
        keyed = np.where(np.isin(items, table.loc[name, "reversed"]), -1, 1)
        assert table.loc[name, "alpha"] == pytest.approx(cronbach(x[:, items] * keyed), rel=1e-10)
    loadings = np.array([[0.8], [0.7], [-0.6], [0.3]])
    r = loadings @ loadings.T + np.diag(1 - loadings[:, 0] ** 2)
    sign = np.sign(loadings[:, 0])
    assert reliability(r, loadings)["omega"][0] == pytest.approx((sign @ loadings[:, 0]) ** 2 / (sign @ r @ sign))


@given(st.lists(st.floats(0.1, 0.95), min_size=2, max_size=8))
def test_alpha_is_at_most_omega_and_equal_where_items_load_alike(values):
    for loadings in (np.array(values)[:, None], np.full((len(values), 1), values[0])):
        r = loadings @ loadings.T
        np.fill_diagonal(r, 1)
        alpha, omega = reliability(r, loadings).loc[0, ["alpha", "omega"]]
        assert alpha <= omega + 1e-12
    assert alpha == pytest.approx(omega, abs=1e-12)
