"""Intervals for many looks against integration, and by simulation with a look after every seed."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from fedstat.inference import looks, plan
from fedstat.inference.intervals.sequential import _factor, _prior, added_seeds, crossing, levels_of_looks

differences = st.lists(st.integers(-50, 50), min_size=2, max_size=12, unique=True).map(lambda d: np.array(d) / 50)


def evidence(d, mean, c):
    """The likelihood ratio of the t statistic: noncentral t's mixed over effects, by integration, against the t."""
    n = len(d)
    t = np.sqrt(n) * (d.mean() - mean) / d.std(ddof=1)

    def mixed(effect):
        return stats.nct.pdf(t, n - 1, np.sqrt(n) * effect) * stats.norm.pdf(effect, 0, np.sqrt(c))

    return integrate.quad(mixed, -8 * np.sqrt(c), 8 * np.sqrt(c), limit=400)[0] / stats.t.pdf(t, n - 1)


@pytest.mark.parametrize("n", [2, 3, 6, 12])
def test_p_is_one_over_the_mixture_of_noncentral_ts(n):
    d = np.random.default_rng(n).normal(0.8, 1, n)
    c = _prior(10, 0.05)
    found = [max(evidence(d[:k], 0, c), 1) for k in range(2, n + 1)]
    np.testing.assert_allclose(looks(d).table["p"], np.r_[1, 1 / np.maximum.accumulate(found)], rtol=1e-6)


def test_limits_are_where_the_evidence_reaches_its_bound():
    d = np.random.default_rng(3).normal(0.2, 1, 9)
    row = looks(d, planned=6, level=0.9).table.loc[9]
    for limit in (row["low"], row["high"]):
        assert evidence(d, limit, _prior(6, 0.1)) == pytest.approx(10, rel=1e-6)


@given(differences, st.floats(-3, 3), st.floats(0.1, 50))
def test_looks_do_not_know_of_later_seeds_nor_of_units(d, shift, scale):
    whole, early = looks(d).table, looks(d[:-1]).table
    np.testing.assert_allclose(whole[:-1], early, rtol=1e-9, atol=1e-12)
    other = looks(shift + scale * d).table
    np.testing.assert_allclose(other[["low", "high"]], shift + scale * whole[["low", "high"]], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("planned", "level"), [(3, 0.95), (5, 0.95), (10, 0.9), (30, 0.99)])
def test_the_sequence_is_narrowest_where_planned(planned, level):
    n, c = np.array([planned]), _prior(planned, 1 - level)
    width = _factor(n, c, 1 - level)[0]
    assert np.isfinite(width)
    assert all(_factor(n, c * f, 1 - level)[0] > width for f in (0.5, 0.9, 1.1, 2))
    # a single look is narrower
    assert width > stats.t.ppf((1 + level) / 2, planned - 1) / np.sqrt(planned * (planned - 1))


@pytest.mark.slow
@pytest.mark.parametrize("planned", [3, 5, 10, 30])
def test_error_with_a_look_after_every_seed(planned):
    """No look of 3 to 30 excludes the mean in 95% of runs; t intervals exclude it in a quarter of them."""
    rng = np.random.default_rng(6)
    repeats = 1500
    d = 0.7 + rng.normal(size=(repeats, 30))
    tables = [looks(row, planned=planned).table for row in d]
    wrong = np.mean([((t["low"] > 0.7) | (t["high"] < 0.7)).any() for t in tables])
    assert wrong < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert wrong > 0.01  # not empty
    n = np.arange(2, 31)
    means = np.cumsum(d, axis=1)[:, 1:] / n
    sd = np.stack([d[:, :k].std(axis=1, ddof=1) for k in n], axis=1)
    plain = (np.abs(means - 0.7) > stats.t.ppf(0.975, n - 1) * sd / np.sqrt(n))[:, 1:].any(axis=1).mean()
    assert plain > 0.2


# a few planned looks


@pytest.mark.parametrize(("looks_planned", "published"), [(2, 1.977), (3, 2.004), (4, 2.024), (5, 2.040)])
def test_boundaries_are_obrien_and_flemings(looks_planned, published):
    """Critical values at the last of equally spaced looks, two-sided at 5% (Jennison and Turnbull 2000, Table 2.3)."""
    levels = levels_of_looks(tuple(range(7, 7 * looks_planned + 1, 7)), 0.05)
    assert stats.norm.isf(levels[-1] / 2) == pytest.approx(published, abs=6e-4)
    # the same for sums: the critical value of look k is larger by the root of K / k
    heights = stats.norm.isf(np.array(levels) / 2) * np.sqrt(np.arange(1, looks_planned + 1) / looks_planned)
    np.testing.assert_allclose(heights, heights[-1])


@pytest.mark.parametrize("sizes", [(5, 6), (3, 10, 12), (4, 5, 20, 40), (1000, 1001)])
def test_the_boundary_is_crossed_as_often_as_the_multivariate_normal_says(sizes):
    times = np.array(sizes) / sizes[-1]
    law = stats.multivariate_normal(cov=np.minimum.outer(times, times), allow_singular=True, seed=0)
    for height in (0.8, 2.0, 3.0):
        inside = law.cdf(np.full(len(sizes), height), lower_limit=np.full(len(sizes), -height))
        assert crossing(height, sizes) == pytest.approx(1 - inside, abs=2e-4)
    assert crossing(50, sizes) == pytest.approx(0, abs=1e-12)


@given(
    st.lists(st.floats(-1, 1), min_size=12, max_size=12).filter(lambda d: np.std(d[:3]) > 0.01), st.floats(0.1, 0.99)
)
def test_planned_looks_are_ts_at_their_levels_and_p_says_when_they_decide(d, level):
    d, planned = np.array(d), (3, 7, 12)
    table = looks(d, planned=planned, level=level).table
    for n, alpha in zip(planned, levels_of_looks(planned, 1 - level), strict=True):
        own = stats.t.interval(1 - alpha, n - 1, d[:n].mean(), stats.sem(d[:n]))
        np.testing.assert_allclose(table.loc[n, ["low", "high"]], own, rtol=1e-7, atol=1e-9)
    clear = ((table["low"] > 0) | (table["high"] < 0)).cummax()
    close = np.abs(table["p"] - (1 - level)) < 1e-9
    assert (clear == (table["p"] < 1 - level))[~close].all()
    # looks do not know of later ones, but for their plan
    early = looks(d[:9], planned=planned, level=level)
    pd.testing.assert_frame_equal(early.table, table[:2], rtol=1e-9)


def test_p_of_planned_looks_is_the_level_at_which_they_just_decide():
    d = np.random.default_rng(2).normal(0.9, 1, 10)
    for seen in (5, 10):
        p = looks(d[:seen], planned=[5, 10]).table["p"].iloc[-1]
        row = looks(d[:seen], planned=[5, 10], level=1 - p).table.iloc[-1]
        assert row["low"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("between", "most"), [(1, 0.059), (2, 0.058), (5, 0.054), (10, 0.053), (20, 0.052)])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_error_of_a_few_planned_looks_at_few_seeds(count, between, most):
    planned = tuple(between * (look + (between == 1)) for look in range(1, count + 1))
    repeats = 20_000
    d = np.random.default_rng(5).normal(size=(repeats, planned[-1]))
    wrong = np.zeros(repeats, bool)
    for n, alpha in zip(planned, levels_of_looks(planned, 0.05), strict=True):
        wrong |= stats.ttest_1samp(d[:, :n], 0, axis=1).pvalue < alpha
    error = 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert 0.05 - error < wrong.mean() < most + error


@pytest.mark.parametrize(("effect", "planned"), [(0.9, (6, 12)), (0.65, (7, 14, 22)), (0.45, (10, 21, 32, 42))])
def test_planned_looks_cost_a_seed_at_most_and_save_some_on_average(effect, planned):
    single, repeats = plan(1.0, pilot_seeds=9, margin=effect).seeds, 10_000
    assert planned[-1] <= single + 1
    d = np.random.default_rng(8).normal(effect, 1, (repeats, planned[-1]))
    used = np.full(repeats, np.inf)
    for n, alpha in zip(planned, levels_of_looks(planned, 0.05), strict=True):
        used[np.isinf(used) & (stats.ttest_1samp(d[:, :n], 0, axis=1).pvalue < alpha)] = n
    assert np.isfinite(used).mean() > 0.8 - 2 * np.sqrt(0.16 / repeats)
    assert np.minimum(used, planned[-1]).mean() < 0.97 * single


def test_what_planned_looks_say():
    d = [0.031, 0.012, 0.024, 0.015, 0.041, 0.022, 0.019]
    assert str(looks(d[:3], planned=[4, 7, 10])) == "No look yet: the first is planned after 4 seeds."
    assert "0.070]; undecided so far; the next look is planned after 7 seeds." in str(looks(d[:6], planned=[4, 7, 10]))
    assert str(looks(d, planned=[4, 7, 10])).endswith(
        "different from zero since 7 seeds. The 95% intervals hold at the 3 planned looks together."
    )
    same = looks([0.1, 0.1, 0.1, 0.1], planned=[3, 4])
    assert np.isinf(same.table["high"]).all()
    assert (same.table["p"] == 1).all()


def test_a_look_at_equal_differences_decides_nothing():
    found = looks([0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert found.decided_at is None
    assert np.isinf(found.table[["low", "high"]]).all(axis=None)
    assert (found.table["p"] == 1).all()
    assert "no interval yet; undecided so far" in str(found)
    assert str(looks([0.1])).startswith("After 1 seed: mean difference 0.1, no interval yet")


def test_the_decision_is_kept():
    d = np.r_[np.full(8, 1.0) + 0.01 * np.arange(8), np.full(8, -3.0)]
    found = looks(d)
    assert found.decided_at == 5
    assert (found.table["p"].diff().dropna() <= 0).all()
    assert "; above zero after 5 seeds, and no longer. The 95% intervals" in str(found)
    assert str(looks(d[:5], planned=np.array([3, 5]))) == str(looks(d[:5], planned=[3, 5]))


def test_the_sentence_gives_the_error_of_looking_twice():
    # two looks at 1000 and 2000 are nearly normal, with correlation sqrt(1/2)
    law = stats.multivariate_normal(cov=[[1, np.sqrt(0.5)], [np.sqrt(0.5), 1]])
    z = 1.959964
    inside = law.cdf([z, z]) - law.cdf([-z, z]) - law.cdf([z, -z]) + law.cdf([-z, -z])
    assert 1 - inside == pytest.approx(0.0831, abs=1e-3)
    words = added_seeds([60, 120])
    assert "With looks at 60 and 120 seeds the 95% interval excludes zero at one of them in 8% of runs" in words
    assert "in 5% of runs without any difference, in place of 5%" in added_seeds([10])
    assert "each of 3 to 30 seeds" in added_seeds(range(3, 31))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: looks([0.1, np.nan]), r"differences must be finite, but holds nan at \[1\]"),
        (lambda: looks([[0.1]]), r"differences must have shape \(seeds,\)"),
        (lambda: looks([0.1, 0.2], planned=2), "planned must be a whole number, at least 3"),
        (lambda: looks([0.1, 0.2], level=95), "For 95% write 0.95"),
        (
            lambda: looks([0.1, 0.2], planned=[5]),
            r"planned must hold 2 to 4 rising numbers of seeds such as .* got \[5\]",
        ),
        (lambda: looks([0.1, 0.2], planned=[5, 4]), "planned must hold 2 to 4 rising"),
        (lambda: looks([0.1, 0.2], planned=[1, 4]), "planned must be a whole number, at least 2"),
        (lambda: looks([0.1, 0.2, 0.3, 0.4], planned=[2, 3]), "planned ends at 3 seeds, got 4 differences"),
        (lambda: added_seeds([5, 5]), "rising numbers of seeds"),
        (lambda: added_seeds([1, 5]), "looked_at must be a whole number, at least 2"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
