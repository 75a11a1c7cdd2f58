"""Closed forms for averaged products against enumeration of everything that can be drawn."""

from fractions import Fraction as F
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstat.theory.product_average import product_average_moments
from theory_checks.filter_decomposition.drawn_clients import Drawn

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
    found = Drawn(tuple(clients), m).moments()
    assert (found.plain_mean, found.plain_variance) == moments(plain)[:2]
    expected = moments(decomposed, everyone)
    assert (found.decomposed_mean, found.decomposed_variance, found.decomposed_mse) == expected


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
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
