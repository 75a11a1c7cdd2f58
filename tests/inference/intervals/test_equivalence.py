"""Equivalence against statsmodels, exact cases and simulation of families."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_paired

from fedstat.inference import compare, equivalence

values = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=9)


@given(values, st.floats(0.1, 3))
def test_equivalence_is_two_one_sided_tests(pairs, margin):
    a, b = np.round(np.array(pairs), 3).T
    e = equivalence(a, b, margin=margin)
    if np.std(a - b) > 1e-6:
        p = ttost_paired(a, b, -margin, margin)[0]
        assert e.p == pytest.approx(p, abs=1e-7)
        if abs(p - 0.05) > 1e-6:
            assert (e.outcome == "equivalent") == (p < 0.05)


def test_three_outcomes():
    rng = np.random.default_rng(1)
    base, noise = rng.normal(size=12), 0.1 * rng.normal(size=12)
    assert equivalence(base + noise, base, margin=0.5).outcome == "equivalent"
    assert equivalence(base + noise + 1, base, margin=0.5).outcome == "different"
    assert equivalence(base + 20 * noise, base, margin=0.5).outcome == "undecided"
    # a difference known to be smaller than the margin is equivalent, zero or not
    assert equivalence(base + 0.1 * noise + 0.2, base, margin=0.5).outcome == "equivalent"


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), st.floats(-1, 1))
def test_nothing_is_decided_without_spread(shares, shift):
    e = equivalence(np.array(shares) + shift, shares, margin=2.0)
    assert e.outcome == "undecided"
    assert np.isnan([e.p, e.low, e.high]).all()
    assert "all pairs differ by the same amount: no spread to judge by" in str(e)
    assert "nan" not in str(e)


@pytest.mark.slow
def test_a_family_keeps_its_level_where_every_error_is_possible():
    """Methods at the margin (only "equivalent" is wrong) and at zero (only "different" is), four of each."""
    rng = np.random.default_rng(5)
    seeds, margin, repeats, wrong = 5, 0.1, 100, 0
    truth = 0.5 + np.array([0.0] + [margin] * 4 + [0.0] * 4)
    labels = list("ABCDEFGHI")
    for _ in range(repeats):
        runs = pd.DataFrame(truth + rng.normal(0, 0.04, (seeds, 9)), columns=labels).rename_axis("seed").reset_index()
        found = compare(runs.melt("seed", var_name="method", value_name="accuracy"), control="A", margin=margin)
        outcomes = found.differences["outcome"].to_numpy()
        wrong += (outcomes[:4] == "equivalent").any() or (outcomes[4:] == "different").any()
    assert 0.005 < wrong / repeats < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.parametrize("margin", [0, -1, float("inf"), float("nan"), "1"])
def test_a_margin_is_positive_and_finite(margin):
    with pytest.raises(ValueError, match=r"margin must be a number in \(0, inf\), got .* counts as none"):
        equivalence([1.0, 2.0], [1.0, 2.5], margin=margin)


def test_a_level_lies_below_a_half():
    with pytest.raises(ValueError, match=r"alpha must be a number in \(0, 0.5\)"):
        equivalence([1.0, 2.0], [1.0, 2.5], margin=1, alpha=0.5)
