"""Times to a target against brute force, scipy's log-rank test and exact coverage."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.duration.survfunc import SurvfuncRight

from fedstat.inference import to_target

paths = st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), min_size=2, max_size=8)


def curves(by_method, axis="round"):
    rows = [
        (method, seed, at, value)
        for method, runs in by_method.items()
        for seed, run in enumerate(runs)
        for at, value in enumerate(run, start=1)
    ]
    return pd.DataFrame(rows, columns=["method", "seed", axis, "value"])


def rising(times, rounds=10):
    """Runs that are at 1 from the given rounds on; rounds beyond the last are never."""
    return [[float(at >= time) for at in range(1, rounds + 1)] for time in times]


@given(paths, st.integers(1, 9), st.booleans(), st.booleans())
def test_first_time_by_brute_force(runs, target, smaller, stays):
    found = to_target(curves({"A": runs}), target, smaller=smaller, stays=stays).runs
    for run, (_, row) in zip(runs, found.iterrows(), strict=True):
        good = [value <= target if smaller else value >= target for value in run]
        times = [i + 1 for i in range(5) if good[i] and (not stays or all(good[i:]))]
        assert row["reached"] == bool(times)
        assert row["time"] == (times[0] if times else 5)


@settings(max_examples=10)  # scipy's test takes a while
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=3, max_size=9))
def test_log_rank_and_restricted_means(pairs):
    a, b = np.array(pairs).T
    result = to_target(curves({"A": rising(a), "B": rising(b)}), 1)
    sides = [stats.CensoredData(uncensored=t[t <= 10], right=np.full((t > 10).sum(), 10)) for t in (a, b)]
    if len(np.unique(np.minimum(np.concatenate([a, b]), 11))) > 1:
        assert result.log_rank_p == pytest.approx(stats.logrank(*sides).pvalue, abs=1e-9)
    else:
        assert result.log_rank_p == 1
    for name, t in (("A", a), ("B", b)):
        # the area under Kaplan and Meier's curve up to the horizon
        estimate = SurvfuncRight(np.minimum(t, 10), (t <= 10).astype(int))
        steps = np.concatenate([[0], estimate.surv_times, [10]])
        area = (np.diff(steps) * np.concatenate([[1], estimate.surv_prob])).sum()
        assert result.summary.loc[name, "restricted mean"] == pytest.approx(area)
        assert result.summary.loc[name, "reached"] == (t <= 10).sum()
        at_least_half = np.sort(t)[(len(t) + 1) // 2 - 1]
        assert result.summary.loc[name, "median"] == (at_least_half if at_least_half <= 10 else np.inf)
    d = np.minimum(a, 10) - np.minimum(b, 10)
    row = result.differences.iloc[0]
    assert row["difference"] == pytest.approx(d.mean())
    if d.std() > 0 and max((a > 10).mean(), (b > 10).mean()) <= 0.3:
        theirs = stats.ttest_1samp(d, 0)
        np.testing.assert_allclose([row["low"], row["high"]], theirs.confidence_interval(0.95))
        assert row["p (Holm)"] == pytest.approx(theirs.pvalue)
    else:
        assert np.isnan(row["low"])


@pytest.mark.parametrize("n", [5, 6, 9, 20])
def test_limits_of_the_median_cover_exactly(n):
    """Which order statistics are the limits is read off; how often they enclose a median is binomial."""
    times = np.arange(1, n + 1)
    summary = to_target(curves({"A": rising(times, rounds=n)}), 1).summary.loc["A"]
    if n < 6:
        assert (summary["median low"], summary["median high"]) == (0, np.inf)
        return
    low, high = int(summary["median low"]), int(summary["median high"])
    coverage = stats.binom.cdf(high - 1, n, 0.5) - stats.binom.cdf(low - 1, n, 0.5)
    narrower = stats.binom.cdf(high - 2, n, 0.5) - stats.binom.cdf(low, n, 0.5)
    assert narrower < 0.95 <= coverage


def test_many_pairs_have_simultaneous_limits():
    rng = np.random.default_rng(0)
    times = {name: rng.integers(1, 9, 6) for name in "ABCD"}
    table = curves({name: rising(t) for name, t in times.items()})
    result = to_target(table, 1)
    assert len(result.differences) == 6
    theirs = stats.ttest_1samp(times["A"] - times["B"], 0).confidence_interval(1 - 0.05 / 6)
    np.testing.assert_allclose(result.differences.iloc[0][["low", "high"]].astype(float), theirs)
    against = to_target(table, 1, control="B").differences
    assert list(zip(against["method"], against["against"], strict=True)) == [("A", "B"), ("C", "B"), ("D", "B")]
    # an axis in other units gives the same tests, and times in those units
    other = to_target(table.assign(bytes=table["round"] * 1000), 1, "bytes")
    np.testing.assert_allclose(other.summary["restricted mean"], 1000 * result.summary["restricted mean"])
    assert other.log_rank_p == pytest.approx(result.log_rank_p)


def test_clients_are_averaged_and_bad_rounds_do_not_count():
    table = curves({"A": [[0.2, 0.5, 0.9], [0.1, 0.6, 0.8]]})
    apart = pd.concat([table.assign(client=c, value=table["value"] + (c - 0.5) / 5) for c in (0, 1)])
    pd.testing.assert_frame_equal(to_target(apart, 0.6).runs, to_target(table, 0.6).runs)
    apart.iloc[1, apart.columns.get_loc("value")] = np.nan
    assert "1 of 6 means are NaN or infinite and count as not at the target" in str(to_target(apart, 0.6))
    assert "Means are over the clients that were evaluated: 1 to 2" in str(to_target(apart.iloc[1:], 0.6))


def test_unequal_ends_set_a_horizon():
    runs = [*rising([3, 9, 11, 4]), *rising([4, 11], rounds=6)]
    result = to_target(curves({"A": runs}), 1)
    assert result.horizon == 6
    assert "A under seed 4 sets the horizon" in str(result)
    assert "Reached 1: A 4 of 6." in str(result)
    assert result.summary.loc["A", "restricted mean"] == np.mean([3, 6, 6, 4, 4, 6])


def test_nobody_reaches_it():
    result = to_target(curves({"A": rising([11] * 3), "B": rising([11] * 3)}), 1)
    assert result.log_rank_p == 1
    assert np.isinf(result.summary["median"]).all()
    assert "Reached 1: A 0 of 3, B 0 of 3" in str(result)
    assert "The same difference under every seed, so no limits and no t test: A and B" in str(result)


def test_limits_are_withheld_where_they_do_not_hold():
    """Under a ceiling that most runs hit, t limits cover 84 to 91%; where at most three in ten do, they are given."""
    for never, given_limits in ((3, True), (4, False)):
        a, b = [*range(1, 11 - never), *[11] * never], [*range(3, 13 - never), *[11] * never]
        result = to_target(curves({"A": rising(a), "B": rising(b)}), 1)
        assert np.isfinite(result.summary.loc["A", "low"]) == given_limits
        assert np.isfinite(result.differences["low"]).all() == given_limits
        assert np.isfinite(result.differences["p (sign flip)"]).all()
        assert ("Too many seeds under which one is not at the target" in str(result)) != given_limits


def test_methods_without_common_seeds_have_no_difference():
    table = curves({"A": rising([3, 4]), "B": rising([5, 6])})
    table.loc[table["method"] == "B", "seed"] += 10
    result = to_target(table, 1)
    assert result.differences["difference"].isna().all()
    assert "Fewer than two seeds in common" in str(result)


def test_each_method_may_have_a_model_of_its_own():
    table = curves({"A": rising([3, 4]), "B": rising([5, 6])})
    own = table.assign(estimand=np.where(table["method"] == "A", "global", "personal"))
    assert str(to_target(own, 1)) == str(to_target(table, 1))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"axis": "bytes"}, r"curves lacks the columns \['bytes'\]"),
        ({"metric": ["accuracy", "loss"] * 5}, {}, "mixes values of metric"),
        ({"estimand": ["global", "personal"] * 5}, {}, "mixes values of estimand: .* of A"),
        ({"round": [1.0] * 9 + [np.nan]}, {}, "NaN or infinite"),
        ({"round": 1}, {}, "several values at .* and no column client"),
        ({}, {"control": "Local"}, "control must be a method of the table"),
        ({}, {"target": np.nan}, "target must be a number"),
        ({}, {"level": 95}, "level must be a number in"),
    ],
)
def test_bad_curves(change, options, message):
    table = curves({"A": rising([3])}).assign(**change)
    with pytest.raises(ValueError, match=message):
        to_target(table, **{"target": 1, **options})


def test_sign_flips_are_those_of_the_restricted_times():
    a, b = [1, 2, 3, 4], [3, 5, 3, 11]
    d = np.array(a) - np.minimum(b, 10)
    sums = [abs(np.dot(signs, d)) for signs in itertools.product([-1, 1], repeat=4)]
    row = to_target(curves({"A": rising(a), "B": rising(b)}), 1).differences.iloc[0]
    assert row["p (sign flip)"] == np.mean(np.array(sums) >= abs(d.sum()))
