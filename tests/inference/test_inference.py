"""Inference against scipy, statsmodels, enumeration and simulation."""

import importlib
import itertools
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from fedstat.inference import clopper_pearson, holm, interval, mean_interval, paired_difference, sign_flip_test

values = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=9)


@given(values)
def test_paired_difference_is_scipys_paired_t(pairs):
    a, b = np.round(np.array(pairs), 3).T
    ours = paired_difference(a, b)
    if ours.sd > 1e-6:
        theirs = stats.ttest_rel(a, b)
        interval = theirs.confidence_interval(0.95)
        np.testing.assert_allclose([ours.p, ours.low, ours.high], [theirs.pvalue, *interval], rtol=1e-7, atol=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_limits_of_a_mean_are_the_t_limits_within_the_range(shares):
    mean, low, high = mean_interval(shares)
    sd = np.std(shares, ddof=1) / np.sqrt(len(shares))
    if sd > 1e-6:
        np.testing.assert_allclose([low, high], stats.t.interval(0.95, len(shares) - 1, mean, sd), rtol=1e-7, atol=1e-9)
    assert mean_interval(shares, within=(0, 1)) == (mean, max(low, 0), min(high, 1))
    with pytest.raises(ValueError, match=r"values must lie in \[2, 3\], got"):
        mean_interval(shares, within=(2, 3))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.floats(-1, 1))
def test_pairs_that_differ_by_one_amount_have_no_limits(shares, shift):
    d = paired_difference(np.array(shares) + shift, shares)
    assert d.mean == pytest.approx(shift, abs=1e-15)
    assert np.isnan([d.low, d.high, d.p]).all()
    assert "no spread to judge by" in str(d)
    assert "nan" not in str(d)


@given(values)
def test_sign_flips_enumerate_all_patterns(pairs):
    a, b = np.round(np.array(pairs), 2).T
    d = a - b
    sums = [abs(np.dot(signs, d)) for signs in itertools.product([-1, 1], repeat=len(d))]
    assert sign_flip_test(a, b) == pytest.approx(np.mean(np.array(sums) >= abs(d.sum()) - 1e-9))


def test_random_sign_flips_agree_with_the_exact_test():
    rng = np.random.default_rng(0)
    d = rng.normal(0.35, 1, 20)
    exact = sign_flip_test(d, np.zeros(20))
    # a twenty-first pair without difference changes nothing but the number of patterns
    drawn = sign_flip_test(np.append(d, 0.0), np.zeros(21))
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact / 1e5))


def test_clopper_pearson_is_statsmodels_beta():
    for successes, n in ((0, 10), (3, 10), (10, 10), (59, 59)):
        np.testing.assert_allclose(
            clopper_pearson(successes, n), proportion_confint(successes, n, method="beta"), atol=1e-12
        )
    assert clopper_pearson(59, 59, level=0.9)[0] > 0.95 > clopper_pearson(58, 58, level=0.9)[0]


def test_holm_keeps_missing_tests_apart():
    np.testing.assert_allclose(holm([0.01, np.nan, 0.04, 0.03]), [0.03, np.nan, 0.06, 0.06])
    p = np.random.default_rng(0).uniform(size=50).round(1) ** 3  # with ties
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: paired_difference([1.0], [2.0]), "at least 2 values, got 1. Run more seeds"),
        (lambda: paired_difference([1.0, 2.0, 3.0], [2.0, 1.0]), "paired by seed"),
        (lambda: paired_difference([1.0, np.nan], [2.0, 1.0]), "must be finite"),
        (lambda: paired_difference([0.1, 0.2], [0.1, 0.3], level=95), r"level .* got 95. For 95% write 0.95"),
        (lambda: mean_interval([0.1, 0.2], 95), r"level .* got 95. For 95% write 0.95"),
        (lambda: mean_interval([0.1, 0.2], float("nan")), r"level must be a number in \(0, 1\), got nan"),
        (lambda: mean_interval([0.1, np.nan]), r"values must be finite, but holds nan at \[1\]"),
        (lambda: clopper_pearson(3, 10, 99.5), "For 99.5% write 0.995"),
        (lambda: clopper_pearson(2.5, 10), "successes must be a whole number"),
        (lambda: clopper_pearson(3, 2), "between 0 and n"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_intervals_print_without_a_minus_before_zero():
    assert interval((-0.001, -1.2, 0.004), 2) == "0.00 [−1.20, 0.00]"
    assert interval((-0.5, np.nan, np.nan), 1) == "−0.5 [–, –]"


@pytest.mark.parametrize("package", ["inference", "factor", "claims", "testing", "privacy"])
def test_no_file_takes_the_name_of_a_function(package):
    """Names are loaded when used: a file of the same name, once imported, would stand in the function's place."""
    package = importlib.import_module(f"fedstat.{package}")
    files = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not files & set(package.__all__)
