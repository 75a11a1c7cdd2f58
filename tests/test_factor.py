"""Principal-axis factor analysis against statsmodels, exact population matrices and its own definition."""

import warnings

import numpy as np
import pytest
from factor_analyzer.utils import smc
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedstat.factor import PrincipalAxis, number_of_factors
from fedstat.factor.principal_axis import squared_multiple_correlations


def population(p=12, m=3, seed=0):
    """Correlation matrix of an exact factor model, and its communalities."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(-0.6, 0.6, (p, m))
    r = loadings @ loadings.T
    h = np.diag(r).copy()
    np.fill_diagonal(r, 1.0)
    return r, h


def test_the_exact_factor_model_is_recovered():
    r, h = population()
    fit = PrincipalAxis(3, tol=1e-10).fit_correlation(r)
    assert fit.converged_
    np.testing.assert_allclose(fit.communalities_, h, atol=1e-7)
    np.testing.assert_allclose(fit.loadings_ @ fit.loadings_.T, r - np.diag(1 - h), atol=1e-7)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_statsmodels_agrees_at_tight_settings(m):
    from statsmodels.multivariate.factor import Factor

    r, _ = population(p=10, m=4, seed=2)  # one factor more than is fitted: no exact solution
    theirs = Factor(corr=r, n_factor=m, method="pa", smc=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        communality = theirs.fit(maxiter=20_000, tol=1e-12).communality
    fit = PrincipalAxis(m, tol=1e-9).fit_correlation(r)
    assert fit.converged_
    np.testing.assert_allclose(fit.communalities_, communality, atol=1e-6)


def test_the_bounded_fixed_point_on_a_heywood_case():
    """Harman's five socio-economic variables (1976, Table 2.3), a known Heywood case at two factors."""
    r = np.eye(5)
    r[np.triu_indices(5, 1)] = [
        0.00975,
        0.97245,
        0.43887,
        0.02241,
        0.15428,
        0.69141,
        0.86307,
        0.51472,
        0.12193,
        0.77765,
    ]
    r = r + r.T - np.eye(5)
    fit = PrincipalAxis(2, tol=1e-9).fit_correlation(r)
    assert fit.converged_
    assert len(fit.heywood_) >= 1
    h = np.full(5, 0.5)
    for _ in range(20_000):  # the plain bounded iteration
        reduced = r.copy()
        np.fill_diagonal(reduced, h)
        values, vectors = np.linalg.eigh(reduced)
        h = np.minimum((vectors[:, -2:] ** 2) @ np.maximum(values[-2:], 0), 1)
    np.testing.assert_allclose(fit.communalities_, h, atol=1e-5)


@given(x=arrays(np.float64, (14, 5), elements=st.floats(-3, 3)), seed=st.integers(0, 9), m=st.integers(1, 3))
def test_invariance_and_bounds(x, seed, m):
    rng = np.random.default_rng(seed)
    x = x + rng.normal(size=x.shape)  # generic position
    order, scale = rng.permutation(5), rng.choice([-1, 1], 5) * rng.uniform(0.1, 10, 5)
    fit, moved = PrincipalAxis(m).fit(x), PrincipalAxis(m).fit(x[:, order] * scale[order])
    assert ((fit.communalities_ >= 0) & (fit.communalities_ <= 1)).all()
    assert fit.residual_ >= 0
    if fit.converged_ and moved.converged_ and m == 1:  # more factors than the data identify: no single answer
        np.testing.assert_allclose(fit.communalities_[order], moved.communalities_, atol=1e-4)


def test_constant_columns_are_left_out_and_reported():
    x = np.random.default_rng(0).normal(size=(50, 6))
    x[:, 2], x[:, 4] = 7.25, 0.0
    fit = PrincipalAxis(2).fit(x)
    np.testing.assert_array_equal(fit.constant_, [2, 4])
    assert (fit.communalities_[[2, 4]] == 0).all()
    np.testing.assert_allclose(
        fit.communalities_[[0, 1, 3, 5]], PrincipalAxis(2).fit(x[:, [0, 1, 3, 5]]).communalities_, atol=1e-9
    )
    nothing = PrincipalAxis().fit(np.ones((5, 3)))
    assert nothing.communalities_.tolist() == [0, 0, 0]


def test_more_columns_than_rows_and_duplicated_columns():
    x = np.random.default_rng(1).normal(size=(6, 15))
    fit = PrincipalAxis(2).fit(x)
    assert np.isfinite(fit.communalities_).all()
    twins = PrincipalAxis(2).fit(np.repeat(np.random.default_rng(1).normal(size=(40, 4)), 2, axis=1))
    assert np.isfinite(twins.communalities_).all()


def test_the_number_of_factors_follows_the_contribution_rule():
    eigenvalues = np.array([4.0, 2.0, 1.0, 1.0, -0.5])
    assert [number_of_factors(eigenvalues, c) for c in (0.1, 0.5, 0.51, 0.75, 0.76, 0.875, 1.0)] == [
        1,
        1,
        2,
        2,
        3,
        3,
        4,
    ]
    assert number_of_factors(np.ones(3), 1.0) == 2  # at most p - 1
    r, _ = population()
    assert PrincipalAxis(contribution=0.85).fit_correlation(r).n_factors_ == number_of_factors(
        np.linalg.eigvalsh(r), 0.85
    )


def test_start_values_are_the_squared_multiple_correlations():
    r, _ = population()
    np.testing.assert_allclose(squared_multiple_correlations(r), smc(r).ravel(), atol=1e-10)
    singular = np.ones((3, 3))
    np.testing.assert_array_equal(squared_multiple_correlations(singular), np.ones(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrincipalAxis(0), "n_factors must be at least 1"),
        (lambda: PrincipalAxis(contribution=0), "contribution must lie"),
        (lambda: PrincipalAxis(9).fit(np.random.default_rng(0).normal(size=(9, 3))), "only 3 columns vary"),
        (lambda: PrincipalAxis().fit(np.ones((1, 3))), "at least two rows"),
        (lambda: PrincipalAxis().fit(np.array([[1.0, np.nan], [1, 2]])), "row 0, column 1 holds nan"),
        (lambda: PrincipalAxis().fit_correlation(np.ones((2, 3))), "finite square matrix"),
        (lambda: PrincipalAxis().fit_correlation(np.array([[1, 0.5], [0.2, 1]])), "symmetric with ones"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
