"""Scores of rotated factors against least squares and conditional means; alpha and omega against their definitions."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.decomposition import FactorAnalysis
from statsmodels.multivariate.factor import Factor

from fedstat.factor import PrincipalAxis, factor_scores, reliability, rotate, target_rotation
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


@pytest.mark.parametrize("method", ["regression", "bartlett"])
@pytest.mark.parametrize("turn", ["varimax", "oblimin"])
def test_scores_are_those_of_statsmodels(oblique, method, turn):
    fit, x, _ = oblique
    theirs = Factor(x, 2, smc=False).fit(maxiter=5000, tol=1e-13)
    theirs.rotate(turn)
    ours = target_rotation(fit.loadings_, theirs.loadings, oblique=turn == "oblimin")
    np.testing.assert_allclose(ours.loadings, theirs.loadings, atol=1e-5)
    found = factor_scores(fit, x, ours, method=method).values
    np.testing.assert_allclose(found, theirs.factor_scoring(method=method), atol=1e-5)


def test_scores_by_the_model_are_those_of_scikit_learn(oblique):
    _, x, _ = oblique
    z = (x - x.mean(0)) / x.std(0)
    theirs = FactorAnalysis(2, tol=1e-10, max_iter=20_000, svd_method="lapack").fit(z)
    sigma = theirs.get_covariance()
    scale = np.sqrt(np.diag(sigma))
    fit = PrincipalAxis(2).fit_correlation(sigma / np.outer(scale, scale))
    turned = target_rotation(fit.loadings_, theirs.components_.T / scale[:, None])
    found = factor_scores(fit, z / scale, turned, missing="likelihood").values
    np.testing.assert_allclose(found, theirs.transform(z), atol=1e-7)


def test_rows_with_gaps_have_the_mean_of_the_normal_law_given_what_they_have(oblique):
    """Of factors and answers together: the mean of the first given some of the latter, from the inverse covariance."""
    fit, x, turned = oblique
    gaps = np.where(np.random.default_rng(0).random(x.shape) < 0.3, np.nan, x)
    gaps[5] = np.nan
    scale = x.std(0, ddof=1)
    common = turned.loadings @ turned.correlations
    law = np.block([[turned.correlations, common.T], [common, common @ turned.loadings.T + np.diag(fit.uniquenesses_)]])
    found = factor_scores(fit, gaps, turned, missing="likelihood").values
    for row, z in zip(found, (gaps - x.mean(0)) / scale, strict=True):
        has = np.flatnonzero(~np.isnan(z))
        precision = np.linalg.inv(law[np.ix_([0, 1, *has + 2], [0, 1, *has + 2])])
        wanted = -np.linalg.solve(precision[:2, :2], precision[:2, 2:] @ z[has])
        np.testing.assert_allclose(row, wanted if len(has) else np.nan, atol=1e-10)
    with pytest.raises(ValueError, match="by method \"regression\" alone, got 'bartlett'"):
        factor_scores(fit, gaps, turned, method="bartlett", missing="likelihood")
    with pytest.raises(ValueError, match="NaN"):
        factor_scores(fit, gaps, turned)


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


def test_ten_berges_scores_leave_the_smallest_error_of_all_that_correlate_as_the_factors_do(oblique):
    """Krijnen, Wansbeek and ten Berge's (1996) criterion, the determinant of the error, minimised numerically."""
    fit, x, turned = oblique
    r, phi, structure = fit.correlation_, turned.correlations, turned.structure

    def log_determinant(w):
        w = w.reshape(8, 2)
        return np.linalg.slogdet(phi - w.T @ structure - structure.T @ w + w.T @ r @ w)[1]

    def beyond(w):
        return (w.reshape(8, 2).T @ r @ w.reshape(8, 2) - phi)[np.tril_indices(2)]

    found = factor_scores(fit, x, turned, method="tenberge").weights
    for seed in range(3):
        start = 0.2 * structure + 0.1 * np.random.default_rng(seed).normal(size=(8, 2))
        best = minimize(log_determinant, start.ravel(), method="SLSQP", constraints={"type": "eq", "fun": beyond},
                        options={"ftol": 1e-14, "maxiter": 1000})  # fmt: skip
        assert np.abs(beyond(best.x)).max() < 1e-8
        assert log_determinant(found.ravel()) == pytest.approx(best.fun, abs=1e-8)
        np.testing.assert_allclose(found, best.x.reshape(8, 2), atol=1e-5)  # the trace has another minimum, 3e-4 away


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
        total = (x[:, items] / x[:, items].std(0) * keyed).sum(1).var()
        assert table.loc[name, "omega"] == pytest.approx(1 - fit.uniquenesses_[items].sum() / total, rel=1e-8)
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
