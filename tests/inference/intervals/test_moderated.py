"""Moderated variances against Smyth's formulas, solved otherwise, and against draws from the prior."""

import numpy as np
import pytest
from scipy import optimize, special, stats

from fedstat.inference.intervals.moderated import fit_prior, method_variances, trigamma_inverse


def smyth(s2, df):
    """Sections 6.2 of Smyth (2004): d0 from the variance of e, s0^2 from its mean."""
    e = np.log(s2) - special.psi(df / 2) + np.log(df / 2)
    excess = np.mean((e - e.mean()) ** 2 * len(e) / (len(e) - 1) - special.polygamma(1, df / 2))
    d0 = 2 * optimize.brentq(lambda y: special.polygamma(1, y) - excess, 1e-8, 1e8, xtol=1e-14, rtol=1e-14)
    s0 = np.exp(e.mean() + special.psi(d0 / 2) - np.log(d0 / 2))
    return d0, s0


@pytest.mark.parametrize("df", [2, 4, 9])
def test_the_prior_is_smyths(df):
    s2 = 0.3 * stats.f(df, 3).rvs(40, random_state=df)
    np.testing.assert_allclose(fit_prior(s2, df), smyth(s2, df), rtol=1e-9)


def test_the_prior_that_variances_were_drawn_from_is_found():
    s2 = 2 * stats.f(5, 8).rvs(200_000, random_state=0)
    np.testing.assert_allclose(fit_prior(s2, 5), [8, 2], rtol=0.03)


def test_variances_that_vary_less_than_by_chance_become_their_mean():
    s2 = np.array([[1.0, 1.1, 0.9, 1.0], [0.01, 1.0, 100.0, 1.0]])
    prior_df, prior = fit_prior(s2, 4)  # rows have priors of their own
    np.testing.assert_allclose([prior_df[0], prior[0]], [np.inf, 1])
    np.testing.assert_allclose([prior_df[1], prior[1]], fit_prior(s2[1], 4))


def test_trigamma_is_inverted():
    x = np.geomspace(1e-9, 1e9, 91)
    np.testing.assert_allclose(special.polygamma(1, trigamma_inverse(x)), x, rtol=1e-5)


def test_methods_variances_are_nearly_right_on_average_and_the_prior_never_outweighs_the_data():
    runs = 3 * np.random.default_rng(0).standard_normal((4000, 10, 5)) + 100
    variances, prior_df = method_variances(runs)
    # weights that are estimated follow chance a little, which the shares of `limits` allow for
    assert 0.9 * 9 < variances.mean() < 9
    assert (prior_df <= 4).all()


def test_a_noisy_method_is_left_out_and_touches_no_other():
    runs = np.random.default_rng(0).standard_normal((2000, 10, 6))
    quiet, quiet_df = method_variances(runs[:, :9])
    runs[:, 9] *= 25
    variances, prior_df = method_variances(runs)
    assert (prior_df[:, 9] == 0).mean() > 0.85
    ratio = variances[:, :9] / quiet
    np.testing.assert_allclose(np.median(ratio, axis=0), 1, atol=0.03)
    np.testing.assert_allclose(prior_df[:, :9].mean(), quiet_df.mean(), rtol=0.05)
    assert variances[:, 9].mean() == pytest.approx(625, rel=0.05)
    # of equal methods one in a hundred families loses one
    assert (quiet_df == 0).any(axis=1).mean() < 0.03
