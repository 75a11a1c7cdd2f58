"""Congruence, matching and target rotation against closed forms, scipy and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import minimize
from scipy.stats import ortho_group

from fedstat.factor import PrincipalAxis, congruence, match_factors, rotate, target_rotation
from tests.support.matrices import HARMAN24, THURSTONE

CLUSTERS = np.kron(np.eye(3), np.ones((3, 1)))  # Thurstone's nine tests, three for each factor


def loadings(r=THURSTONE, m=3):
    return PrincipalAxis(m).fit_correlation(r).loadings_


def test_congruence_is_tuckers_formula():
    a, b = np.array([[3.0, 0], [4, 1]]), np.array([[4.0, 0, 0], [3, -2, 0]])
    with np.errstate(all="raise"):
        found = congruence(a, b)
    np.testing.assert_allclose(found, [[24 / 25, -4 / 5, np.nan], [3 / 5, -1, np.nan]])
    np.testing.assert_allclose(np.diag(congruence(a, rotate(a))), np.diag(congruence(a, rotate(a).loadings)))


@given(st.integers(0, 999), st.integers(1, 4))
def test_matching_is_the_best_of_all_permutations(seed, m):
    rng = np.random.default_rng(seed)
    reference, other = rng.normal(size=(2, 7, m))
    found = match_factors(other, reference)
    table = np.abs(congruence(reference, other))
    best = max(table[range(m), list(order)].sum() for order in itertools.permutations(range(m)))
    assert found.coefficients.sum() == pytest.approx(best)
    np.testing.assert_allclose(np.diag(congruence(found.loadings, reference)), found.coefficients, atol=1e-12)
    turned = (reference * rng.choice([-1, 1], m))[:, rng.permutation(m)]
    np.testing.assert_array_equal(match_factors(turned, reference).loadings, reference)


@given(st.integers(0, 999), st.integers(2, 4))
def test_an_orthogonal_target_is_reached_and_scipy_agrees(seed, m):
    rng = np.random.default_rng(seed)
    a, turn = rng.normal(size=(9, m)), ortho_group.rvs(m, random_state=rng)
    found = target_rotation(a, a @ turn)
    np.testing.assert_allclose(found.rotation, turn, atol=1e-9)
    assert found.correlations is None
    noisy = a @ turn + 0.3 * rng.normal(size=a.shape)
    np.testing.assert_allclose(target_rotation(a, noisy).rotation, orthogonal_procrustes(a, noisy)[0])


def oblique_by_brute_force(a, target, given_, start):
    """Minimise over factor matrices U with columns of unit length; loadings are A U'^-1."""
    m = a.shape[1]

    def rotated(u):
        u = u.reshape(m, m)
        return a @ np.linalg.inv(u / np.linalg.norm(u, axis=0)).T

    return minimize(lambda u: (given_ * (rotated(u) - target) ** 2).sum(), start.ravel(), tol=1e-14)


@pytest.mark.parametrize("free", [False, True])
def test_an_oblique_target_against_a_general_optimiser(free):
    a, target = loadings(), 0.8 * CLUSTERS
    target = np.where(CLUSTERS == 1, np.nan, 0.0) if free else target
    target[0, 0] = 0.9  # a column needs a number that is not zero to have a sign
    known = ~np.isnan(target)
    found = target_rotation(a, target, oblique=True)
    best = oblique_by_brute_force(a, np.nan_to_num(target), known, orthogonal_procrustes(a, np.nan_to_num(target))[0])
    assert (known * (found.loadings - np.nan_to_num(target)) ** 2).sum() == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(np.diag(found.correlations), 1)
    np.testing.assert_allclose(found.loadings, a @ found.rotation, atol=1e-12)
    np.testing.assert_allclose(found.loadings @ found.correlations @ found.loadings.T, a @ a.T, atol=1e-10)
    inverse = np.linalg.inv(found.rotation)
    np.testing.assert_allclose(found.correlations, inverse @ inverse.T, atol=1e-10)
    assert (found.correlations[np.triu_indices(3, 1)] > 0.3).all()  # three abilities, as every oblique rotation finds


def test_a_reachable_oblique_target_is_reached():
    oblimin = rotate(loadings(HARMAN24, 4), "oblimin")
    found = target_rotation(loadings(HARMAN24, 4), oblimin.loadings, oblique=True)
    np.testing.assert_allclose(found.loadings, oblimin.loadings, atol=1e-6)
    np.testing.assert_allclose(found.correlations, oblimin.correlations, atol=1e-6)


@pytest.mark.slow
@given(st.integers(0, 200))
def test_free_entries_of_an_orthogonal_target_do_not_count(seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(8, 2))
    target = a @ ortho_group.rvs(2, random_state=rng) + 0.1 * rng.normal(size=(8, 2))
    free = rng.random((8, 2)) < 0.3
    assume((~free).any(axis=0).all())
    found = target_rotation(a, np.where(free, np.nan, target))
    np.testing.assert_allclose(found.rotation @ found.rotation.T, np.eye(2), atol=1e-10)

    angle = np.linspace(0, 2 * np.pi, 721)
    c, s = np.cos(angle), np.sin(angle)
    turns = np.moveaxis([[[c, -s * sign], [s, c * sign]] for sign in (-1, 1)], 3, 1)  # (2, 721, 2, 2)
    best = (((a @ turns - target) ** 2) * ~free).sum(axis=(2, 3)).min()
    assert ((found.loadings - target) ** 2)[~free].sum() <= best + 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: congruence(np.ones((3, 2)), np.ones((4, 2))), "b must hold the 3 variables of a, got 4"),
        (lambda: congruence([[np.nan]], [[1.0]]), r"loadings must be finite, but holds nan at \[0, 0\]"),
        (lambda: match_factors(np.ones((3, 2)), np.ones((3, 1))), r"the shape of loadings, \(3, 2\), got \(3, 1\)"),
        (lambda: target_rotation(np.ones((3, 2)), np.ones((2, 3))), r"the shape of loadings, \(3, 2\), got \(2, 3\)"),
        (lambda: target_rotation(np.ones((3, 2)), np.full((3, 2), np.nan)), "with a number in every column"),
        (lambda: target_rotation(np.ones((3, 2)), np.full((3, 2), np.inf)), "target must be finite"),
        (lambda: target_rotation(np.ones((3, 2)), CLUSTERS[:3, :2], oblique=True), "these 2 span 1 dimensions only"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
