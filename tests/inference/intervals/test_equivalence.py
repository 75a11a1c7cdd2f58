"""Equivalence against statsmodels, exact cases and simulation of families."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_paired

from fedstat.inference import equivalence, equivalences

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


def table(seed=0, seeds=8):
    rng = np.random.default_rng(seed)
    base = rng.normal(0.7, 0.03, (seeds, 1))
    return pd.DataFrame(base + rng.normal(0, 0.006, (seeds, 4)), columns=["FedAvg", "A", "B", "C"])


def test_each_of_a_family_is_tested_at_its_share_of_the_level():
    runs = table().assign(C=lambda t: t["C"] + 0.1)
    found = equivalences(runs, margin=0.02, control="FedAvg")
    for label in "ABC":
        alone = equivalence(runs[label], runs["FedAvg"], margin=0.02, alpha=0.05 / 3)
        row = found.table.loc[label]
        assert list(row[["difference", "low", "high", "p", "outcome"]]) == [
            alone.mean, alone.low, alone.high, alone.p, alone.outcome,
        ]  # fmt: skip
        assert row["p (adjusted)"] == min(1, 3 * alone.p)
    assert found.table.loc["C", "outcome"] == "different"
    assert not found.all_equivalent
    assert "each by itself: A, B equivalent" in str(found)
    pairs = equivalences(runs, margin=0.02)
    assert list(pairs.table.index[:2]) == ["FedAvg − A", "FedAvg − B"]
    assert len(pairs.table) == 6


def test_all_at_once_is_another_claim_than_each():
    # each p lies between a third of the level and the level: all at once is shown, none by itself
    runs = table(seed=3)
    margin = next(
        m for m in np.linspace(0.004, 0.02, 200) if equivalences(runs, margin=m, control="FedAvg").all_equivalent
    )
    found = equivalences(runs, margin=margin, control="FedAvg")
    assert (found.table["p"] < 0.05).all()
    assert (found.table["outcome"] != "equivalent").any()
    assert "all at once: shown" in str(found)


def test_identical_runs_are_printed_without_limits():
    found = equivalences(table().assign(A=lambda t: t["FedAvg"]), margin=0.02, control="FedAvg")
    assert found.table.loc["A", "outcome"] == "undecided"
    assert not found.all_equivalent
    assert "no interval and no test where all pairs differ by the same amount" in str(found)
    assert "nan" not in str(found).lower()


@pytest.mark.slow
def test_a_family_keeps_its_level_where_every_error_is_possible():
    """Methods at the margin (only "equivalent" is wrong) and at zero (only "different" is), four of each."""
    rng = np.random.default_rng(5)
    seeds, margin, repeats, wrong = 5, 1.0, 1000, 0
    truth = np.array([0.0] + [margin] * 4 + [0.0] * 4)
    for _ in range(repeats):
        runs = pd.DataFrame(truth + rng.normal(0, 0.4, (seeds, 9)))
        outcomes = equivalences(runs, margin=margin, control=0).table["outcome"].to_numpy()
        wrong += (outcomes[:4] == "equivalent").any() or (outcomes[4:] == "different").any()
    assert 0.005 < wrong / repeats < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)


@pytest.mark.parametrize("margin", [0, -1, float("inf"), float("nan"), "1"])
def test_a_margin_is_positive_and_finite(margin):
    with pytest.raises(ValueError, match=r"margin must be a number in \(0, inf\), got .* counts as none"):
        equivalence([1.0, 2.0], [1.0, 2.5], margin=margin)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: equivalence([1.0, 2.0], [1.0, 2.5], margin=1, alpha=0.5), r"alpha must be a number in \(0, 0.5\)"),
        (lambda: equivalences(table()[["A"]], margin=1), "at least 2 methods as columns"),
        (lambda: equivalences(table(), margin=1, control="Z"), "control must be one of FedAvg, A, B, C, got 'Z'"),
        (lambda: equivalences(table().mask(lambda t: t == t["B"].max()), margin=1), "B lacks 1 of 8 values"),
        (lambda: equivalences(table()[:1], margin=1), "at least 2 seeds as rows, got 1. Run more seeds"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
