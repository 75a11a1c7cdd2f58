"""Polychoric correlations: beside lavaan's, closed forms, and what recoding does to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fedstat._random import stream
from fedstat.factor import PrincipalAxis, bootstrap_loadings, polychoric
from fedstat.factor.ordinal import _below
from tests.support.psych import bfi


def answers(seed=0, n=400):
    """Four columns with 4, 2, 6 and 3 steps of one factor."""
    rng = np.random.default_rng(seed)
    z = 0.8 * rng.normal(size=(n, 1)) + 0.6 * rng.normal(size=(n, 4))
    cuts = ([-1, 0, 0.5], [1.2], [-1.5, -1, 0, 0.7, 2], [0.3, 1.5])
    z[:, 2] *= -1
    return np.column_stack([np.digitize(column, cut) for column, cut in zip(z.T, cuts, strict=True)]).astype(float)


def test_they_are_those_of_lavaan():
    """lavaan 0.6-13 (R 4.2.2): ``lavCor(x, ordered = names(x))``."""
    theirs = [0.6589666, -0.6298025, 0.6395484, -0.6986574, 0.6435451, -0.5583651]
    np.testing.assert_allclose(polychoric(answers())[np.triu_indices(4, 1)], theirs, atol=5e-7)


@pytest.mark.parametrize(
    ("seen", "likeliest"),
    [
        ([[0, 80, 11, 1], [0, 17, 88, 15], [0, 0, 16, 66], [1, 0, 0, 5]], 0.8088),
        ([[3, 238, 76, 0], [0, 78, 619, 0], [0, 0, 1082, 2], [1, 0, 1, 2]], 0.8443),
    ],
)
def test_one_contrary_answer_counts_as_much_as_it_is_worth(seen, likeliest):
    """Its cell has a probability of 1e-17 and less; the correlations are those of mpmath's integrals."""
    x = [cell for cell, count in np.ndenumerate(seen) for _ in range(count)]
    assert polychoric(np.array(x, float))[0, 1] == pytest.approx(likeliest, abs=1e-3)


@pytest.mark.parametrize("r", [-0.95, -0.3, 0.0, 0.5, 0.99])
def test_normal_probabilities_are_those_of_scipy(r):
    h = np.array([-38, -1.3, 0, 0.4, 2, 38.0])
    theirs = [[multivariate_normal.cdf([a, b], [0, 0], [[1, r], [r, 1]]) for b in h] for a in h]
    np.testing.assert_allclose(_below(h[:, None], h, r), theirs, atol=1e-12)


@given(st.integers(1, 40), st.integers(1, 40))
def test_of_two_halves_they_have_a_closed_form(alike, different):
    """Split at the medians, the share of one corner is 1/4 + asin(rho) / (2 pi) (Sheppard 1899)."""
    x = np.repeat([[0, 0], [1, 1], [0, 1], [1, 0]], [alike, alike, different, different], axis=0)
    rho = np.sin(2 * np.pi * (alike / (2 * alike + 2 * different) - 0.25))
    np.testing.assert_allclose(polychoric(x)[0, 1], rho, atol=1e-6)


@given(st.integers(0, 100))
def test_only_the_order_of_the_answers_counts(seed):
    x = answers(seed, n=150)
    r = polychoric(x)
    recoded = polychoric(x**3 * [1, -1, 7, 1]) * np.outer([1, -1, 1, 1], [1, -1, 1, 1])
    inner = np.abs(r) < 0.98  # beyond, correlations near one may be equally likely
    np.testing.assert_allclose(recoded[inner], r[inner], atol=1e-6)
    more = polychoric(np.vstack([x, [np.nan, 0, np.nan, np.nan]]))
    np.testing.assert_allclose(more[0, 2], r[0, 2], atol=1e-6)


def test_of_a_questionnaire_with_gaps_they_are_those_of_lavaan():
    """``lavCor(bfi[1:25], ordered = names(bfi)[1:25], missing = "pairwise")``, first row."""
    theirs = [1, -0.4084507, -0.3225350, -0.1754280, -0.2278559, 0.0033802, 0.0082388, -0.0237128, 0.1536099, 0.0605073]
    np.testing.assert_allclose(polychoric(bfi().iloc[:, :10])[0], theirs, atol=5e-7)


def test_the_bootstrap_is_of_drawn_answers():
    x = answers()
    x[::7, 2] = np.nan
    found = bootstrap_loadings(x, 1, correlation=polychoric, draws=50)
    np.testing.assert_allclose(
        found.loadings.estimate, PrincipalAxis(1).fit_correlation(polychoric(x)).loadings_, atol=1e-8
    )
    rng, n = stream(0, "bootstrap of loadings"), len(x)
    drawn = []
    for _ in range(50):
        r = polychoric(np.repeat(x, rng.multinomial(n, np.full(n, 1 / n)), axis=0))
        drawn.append(PrincipalAxis(1).fit_correlation(r).communalities_)
    np.testing.assert_allclose(found.communalities.error, np.std(drawn, axis=0, ddof=1), atol=1e-8)
    with pytest.raises(ValueError, match="missing must be None where correlation deals with gaps, got 'pairwise'"):
        bootstrap_loadings(x, 1, missing="pairwise", correlation=polychoric)


@pytest.mark.parametrize(
    ("x", "what"),
    [
        (np.zeros((5, 2)), "column 0 of x must hold 2 to 20 different values, got 1"),
        (np.arange(50.0).reshape(25, 2), "column 0 of x must hold 2 to 20 different values, got 25"),
        ([[0, np.nan], [1, np.nan], [np.nan, 0], [np.nan, 1]], "none has columns 0 and 1"),
    ],
)
def test_what_is_no_answer_in_steps_is_refused(x, what):
    with pytest.raises(ValueError, match=what):
        polychoric(x)
