"""Intervals for skewed runs against scipy's bootstrap, closed forms, and simulation."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedstat.inference import Design, compare, plan, simultaneous
from fedstat.inference.intervals.skewed import bootstrap_t
from simulations.coverage.study import pairs_of

RUNS = Design(clients="new", data="drawn")
skewed = partial(simultaneous, design=RUNS, skewed=True)
plain = partial(simultaneous, design=RUNS, moderated=False)


def runs(methods=3, seeds=10, seed=0):
    return np.random.default_rng(seed).exponential(size=(methods, seeds, 1))


def test_quantiles_are_those_of_a_bootstrap_written_out():
    d = np.random.default_rng(2).exponential(size=12)
    low, high, p = bootstrap_t(d[None], 0.025)
    samples = d[np.random.default_rng(0).integers(0, 12, (200_000, 12))]
    t = (samples.mean(axis=1) - d.mean()) / stats.sem(samples, axis=1)
    # 10,000 resamples know a tail of 2.5% to within .16% (one standard error)
    for place, value in ((0.025, low[0]), (0.975, high[0])):
        assert abs((t <= value).mean() - place) < 4 * 0.0016
    own = d.mean() / stats.sem(d)
    assert p[0] == pytest.approx(2 / 10_001 + 2 * (t >= own).mean(), abs=2e-3)


tables = st.tuples(st.integers(2, 4), st.integers(8, 12), st.integers(0, 10**6), st.floats(-2, 2), st.booleans())


@given(tables, st.sampled_from(["bonferroni", "none"]), st.sampled_from([0.95, 0.9, 0.8]))
def test_p_and_limits_agree_and_the_interval_covers_that_of_t(size, rule, level):
    methods, seeds, seed, shift, coarse = size
    values = runs(methods, seeds, seed) + shift * np.arange(methods)[:, None, None]
    values = values.round(1) if coarse else values
    f, t = (of(values, pairs_of("all", methods), rule=rule, level=level) for of in (skewed, plain))
    known = ~np.isnan(t.low)
    assert (((f.low > 0) | (f.high < 0))[known] == (f.p < 1 - level)[known]).all()
    assert ((f.low <= t.low) & (t.high <= f.high) & (f.p >= t.p) & (f.p >= f.p_single))[known].all()
    each = (1 - level) / (1 if rule == "none" else len(f.pairs))
    np.testing.assert_allclose((2 * stats.t.isf(each / 2, f.df) * f.se)[known], (f.high - f.low)[known])
    assert np.isnan([f.low, f.p])[:, ~known].all()


def test_it_changes_with_units_and_signs_as_it_should_and_is_the_same_each_time():
    values, pairs = runs(), pairs_of("control", 3)
    f = skewed(values, pairs)
    assert (skewed(values, pairs).low == f.low).all()
    np.testing.assert_allclose(skewed(100 * values, pairs).low, 100 * f.low)
    np.testing.assert_allclose(skewed(values, pairs, level=1 - 0.05 / 2, rule="none").high, f.high, rtol=0.05)
    absent = values.copy()
    absent[2, 9] = np.nan
    np.testing.assert_allclose(skewed(absent, pairs).low[0], f.low[0])
    np.testing.assert_allclose(skewed(absent, pairs).low[1], skewed(values[[0, 2], :9], [(1, 0)], level=0.975).low[0])


def test_resamples_without_spread_make_the_limit_infinite_rather_than_narrow():
    """Seven runs alike and one below: a resample leaves it out in a third of cases, and says nothing then."""
    d = np.array([1.0] * 7 + [-5.0])
    f = skewed(np.stack([d, np.zeros(8)])[:, :, None], [(0, 1)])
    assert f.low[0] == -np.inf or f.high[0] == np.inf
    assert f.p[0] > 0.05
    assert (7 / 8) ** 8 > 0.3
    constant = skewed(np.stack([np.ones(8), np.zeros(8)])[:, :, None], [(0, 1)])
    assert np.isnan([constant.low, constant.high, constant.p]).all()


def test_what_no_interval_is_known_for_is_refused():
    with pytest.raises(ValueError, match=r"skewed=True needs at least 8 seeds, got 5: .* with 3 they always are"):
        skewed(runs(seeds=5), [(1, 0)])
    with pytest.raises(ValueError, match="moderated=True does not go with skewed=True"):
        skewed(runs(9), pairs_of("control", 9), moderated=True)
    for design in (Design("same", "drawn", over="clients"), Design("new", "resplit", test_to_train=0.25)):
        with pytest.raises(ValueError, match="skewed=True does not go with"):
            skewed(np.tile(runs(), (1, 1, 2)), [(1, 0)], design=design)


def test_equivalence_and_seeds_needed_rest_on_the_same_interval():
    d = np.random.default_rng(0).exponential(size=(2, 12)) / 100
    rows = [(m, s, 0, 0.7 + v) for m, of in zip(("A", "B"), d, strict=True) for s, v in enumerate(of)]
    table = pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])
    inner = skewed(0.7 + d[:, :, None], [(1, 0)], level=0.9)
    bound = max(-inner.low[0], inner.high[0])
    for margin, outcome in ((1.001 * bound, "equivalent"), (0.999 * bound, "undecided")):
        found = compare(table, margin=margin, skewed=True)
        assert found.differences["outcome"].tolist() == [outcome]
        row = found.differences.iloc[0]
        sd = (row["high"] - row["low"]) / 2 / stats.t.isf(0.025, 11) * np.sqrt(12)
        assert row["seeds needed"] == plan(sd, margin=margin, pilot_seeds=12).seeds
    assert any("bootstrap-t" in note for note in found.notes)
