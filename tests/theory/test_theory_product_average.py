"""Closed forms for averaged products against enumeration of everything that can be drawn."""

from fractions import Fraction as F
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedstat.theory.product_average import product_average_moments, product_average_report, sampled_product_average

small = st.integers(-3, 3)
pairs = st.lists(st.tuples(small, small), min_size=1, max_size=3)


def shares(n):
    return st.lists(st.integers(0, 4), min_size=n, max_size=n).filter(any).map(lambda w: [F(i, sum(w)) for i in w])


def moments(outcomes, target=None):
    """Mean, variance and mean squared error of (probability, value) outcomes."""
    mean = sum(q * x for q, x in outcomes)
    variance = sum(q * (x - mean) ** 2 for q, x in outcomes)
    return mean, variance, variance + (mean - (mean if target is None else target)) ** 2


@given(pairs.flatmap(lambda law: st.tuples(st.just(law), shares(len(law)))), st.integers(1, 4).flatmap(shares))
def test_moments_are_those_of_all_outcomes(law, weights):
    values, probabilities = law
    plain, decomposed = [], []
    for drawn in product(range(len(values)), repeat=len(weights)):
        q = np.prod([probabilities[k] for k in drawn])
        a, d = ([values[k][i] for k in drawn] for i in (0, 1))
        plain.append((q, sum(p * x * y for p, x, y in zip(weights, a, d, strict=True))))
        averages = [sum(p * x for p, x in zip(weights, xs, strict=True)) for xs in (a, d)]
        decomposed.append((q, averages[0] * averages[1]))
    found = product_average_moments(values, probabilities, weights)
    assert (found.plain_mean, found.plain_variance) == moments(plain)[:2]
    expected = moments(decomposed, found.plain_mean)
    assert (found.decomposed_mean, found.decomposed_variance, found.decomposed_mse) == expected
    assert isinstance(found.decomposed_mse, F)
    floats = product_average_moments(np.array(values, float), np.array(probabilities, float), np.array(weights, float))
    for name, exact in vars(found).items():
        assert isinstance(getattr(floats, name), float)
        assert getattr(floats, name) == pytest.approx(float(exact), abs=1e-11)


@given(
    st.lists(st.tuples(small, small), min_size=1, max_size=6).flatmap(
        lambda clients: st.tuples(st.just(clients), st.integers(1, len(clients)))
    )
)
def test_sampling_moments_are_those_of_all_subsets(case):
    clients, m = case
    subsets = [list(s) for s in combinations(clients, m)]
    q = F(1, len(subsets))
    everyone = F(sum(a * d for a, d in clients), len(clients))
    plain = [(q, F(sum(a * d for a, d in s), m)) for s in subsets]
    decomposed = [(q, F(sum(a for a, _ in s), m) * F(sum(d for _, d in s), m)) for s in subsets]
    a, d = zip(*clients, strict=True)
    found = sampled_product_average(a, np.array(d), m)
    assert (found.plain_mean, found.plain_variance) == moments(plain)[:2]
    expected = moments(decomposed, everyone)
    assert (found.decomposed_mean, found.decomposed_variance, found.decomposed_mse) == expected
    floats = sampled_product_average(np.array(a, float), np.array(d, float), m)
    for name, exact in vars(found).items():
        assert getattr(floats, name) == pytest.approx(float(exact), abs=1e-11)


def filters(alpha, atoms):
    return np.einsum("kroi,kabr->koiab", alpha, atoms)


def traces(alpha, atoms, weights):
    """Plain and decomposed variance by enumerating all draws of clients, filters formed."""
    plain, decomposed = [], []
    for drawn in product(range(len(alpha)), repeat=len(weights)):
        drawn = list(drawn)
        plain.append(np.tensordot(weights, filters(alpha[drawn], atoms[drawn]), 1))
        averages = (np.tensordot(weights, x[drawn], 1)[None] for x in (alpha, atoms))
        decomposed.append(filters(*averages)[0])
    return np.var(plain, axis=0).sum(), np.var(decomposed, axis=0).sum()


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(3, 4), st.integers(1, 3), st.sampled_from([0.1, 1.0, 10.0]))
def test_report_is_that_of_all_draws(seed, clients, rank, spread):
    rng = np.random.default_rng(seed)
    alpha = rng.normal(size=(1, rank, 2, 3)) + spread * rng.normal(size=(clients, rank, 2, 3))
    atoms = rng.normal(size=(1, 2, 1, rank)) + spread * rng.normal(size=(clients, 2, 1, rank))
    weights = rng.dirichlet(np.ones(clients))
    report = product_average_report(alpha, atoms, weights)
    plain, decomposed = traces(alpha, atoms, weights)
    assert report.plain_variance == pytest.approx(plain, rel=1e-10)
    assert report.decomposed_variance == pytest.approx(decomposed, rel=1e-10)
    average = np.tensordot(weights, filters(alpha, atoms), 1)
    parts = (np.tensordot(weights, x, 1)[None] for x in (alpha, atoms))
    np.testing.assert_allclose(report.bias, average - filters(*parts)[0], atol=1e-12 * spread**2)
    assert report.relative_bias == pytest.approx(np.linalg.norm(report.bias) / np.linalg.norm(average))

    others = [np.delete(np.arange(clients), k) for k in range(clients)]
    logs = np.log([np.divide(*traces(alpha[k], atoms[k], weights)[::-1]) for k in others])
    error = np.sqrt((clients - 1) / clients * ((logs - logs.mean()) ** 2).sum())
    t = {3: 4.302652729911275, 4: 3.182446305284263}[clients]  # two degrees of freedom, and three
    limits = np.exp(np.log(decomposed / plain) + np.array([-t, t]) * error)
    np.testing.assert_allclose(report.interval, limits, rtol=1e-7)


def test_report_of_scalars_is_the_moments_of_their_law():
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(7, 2)), rng.dirichlet(np.ones(7))
    report = product_average_report(values[:, 0].reshape(7, 1, 1, 1), values[:, 1].reshape(7, 1, 1, 1), weights)
    law = product_average_moments(values, np.full(7, 1 / 7), weights)
    assert report.plain_variance == pytest.approx(law.plain_variance)
    assert report.decomposed_variance == pytest.approx(law.decomposed_variance)
    assert report.interval[0] < report.ratio < report.interval[1]


def test_identical_clients_have_no_variance_and_no_ratio():
    report = product_average_report(np.ones((3, 1, 1, 1)), np.ones((3, 1, 1, 1)), np.full(3, 1 / 3))
    assert report.plain_variance == report.decomposed_variance == 0
    assert np.isnan([report.ratio, *report.interval]).all()


def test_jackknife_covers():
    """Over repeats the interval holds the ratio of the law that the clients come from about as often as it says."""
    rng = np.random.default_rng(2)
    truth = product_average_moments(
        *_gauss_hermite(mean=(0.5, 1.0), loading=((1.0, 0.0), (0.5, 0.8))), np.full(30, 1 / 30)
    )
    ratio = truth.decomposed_variance / truth.plain_variance
    hits = 0
    for _ in range(200):
        z = rng.normal(size=(30, 2))
        a, d = 0.5 + z[:, 0], 1.0 + 0.5 * z[:, 0] + 0.8 * z[:, 1]
        report = product_average_report(a.reshape(30, 1, 1, 1), d.reshape(30, 1, 1, 1), np.full(30, 1 / 30))
        hits += report.interval[0] < ratio < report.interval[1]
    assert hits / 200 > 0.88


def _gauss_hermite(mean, loading):
    """A law with a Gaussian's moments up to order five."""
    node = np.array([-np.sqrt(3), 0, np.sqrt(3)])
    weight = np.array([1, 4, 1]) / 6
    z = np.array(list(product(node, node)))
    return z @ np.array(loading).T + np.array(mean), np.outer(weight, weight).ravel()


def test_a_ratio_that_is_infinite_has_no_interval():
    """Clients (1, 1) and (-1, -1) all have one filter, which their separate averages do not."""
    signs = np.array([1.0, -1.0, 1.0, -1.0]).reshape(4, 1, 1, 1)
    report = product_average_report(signs, signs, np.full(4, 1 / 4))
    assert report.plain_variance == 0 < report.decomposed_variance
    assert report.ratio == np.inf
    assert np.isnan(report.interval).all()


CUBE = np.ones((3, 1, 1, 1))
CUBES = np.arange(3.0).reshape(3, 1, 1, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: product_average_moments([1, 2], [1], [1]), r"values must have shape \(k, 2\)"),
        (lambda: product_average_moments([[1, 2], [3]], [1], [1]), "values must"),
        (lambda: product_average_moments([["x", 2]], [1], [1]), "values must be a rectangular array of numbers"),
        (lambda: product_average_moments([["1", "2"]], [1], [1]), "values must be a rectangular array of numbers"),
        (lambda: product_average_moments([[F(1), "2"]], [1], [1]), "values must be a rectangular array of numbers"),
        (lambda: product_average_moments([[10**400, 0.5]], [1], [1]), "numbers within double precision"),
        (lambda: product_average_moments([[1.0, float("inf")]], [1], [1]), "values must be finite"),
        (lambda: product_average_moments([[1e160, 1e160], [0, 0]], [0.5, 0.5], [1]), "values must be small enough"),
        (lambda: product_average_moments([[1, 2]], [1, 0], [1]), "one entry per row of values"),
        (lambda: product_average_moments([[1, 2]], [1], [F(1, 2), F(1, 3)]), "weights must be non-negative and sum"),
        (lambda: product_average_moments([[1, 2]], [1], [2, -1]), "weights must be non-negative"),
        (lambda: product_average_moments([[1, 2]], [1], [[1]]), "weights must be non-negative"),
        (lambda: product_average_moments([[1, 2]], [F(999999999, 10**9)], [1]), "probabilities must"),
        (lambda: sampled_product_average([1, 2], [1], 1), "one entry per client"),
        (lambda: sampled_product_average([1, 2], [1, 2], 3), r"m must be a whole number in 1\.\.2"),
        (lambda: sampled_product_average([1, 2], [1, 2], 0.5), "m must be a whole number"),
        (lambda: sampled_product_average([1, 2], [1, 2], True), "m must be a whole number"),
        (lambda: sampled_product_average([1e200, 0.0], [1e200, 0.0], 1), "a and d must be small enough"),
        (lambda: product_average_report(np.ones((3, 1)), CUBE, np.ones(3) / 3), "coefficients must have shape"),
        (lambda: product_average_report(CUBE, np.ones((3, 1, 1, 2)), np.ones(3) / 3), r"atoms must have shape \(3, a"),
        (lambda: product_average_report(CUBE[:2], CUBE[:2], np.ones(2) / 2), "at least 3 clients"),
        (lambda: product_average_report(CUBE, CUBE, np.ones(2) / 2), "one entry per client"),
        (lambda: product_average_report(CUBE * np.nan, CUBE, np.ones(3) / 3), "coefficients must be finite"),
        (lambda: product_average_report(CUBE, CUBE, ["1", "0", "0"]), "weights must be a rectangular array of numbers"),
        (lambda: product_average_report(1e200 * CUBES, CUBES, np.ones(3) / 3), "coefficients and atoms must be small"),
        (lambda: product_average_report(CUBE, CUBE, np.ones(3)), "weights must be non-negative and sum to one"),
        (lambda: product_average_report(CUBE, CUBE, np.ones(3) / 3, level=95), "level must lie"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
