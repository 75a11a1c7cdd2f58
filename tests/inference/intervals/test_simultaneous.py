"""Simultaneous intervals against scipy, statsmodels, closed forms and exact limit cases."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM

from fedstat._random import stream
from fedstat.inference import Design, shape_notes, simultaneous
from fedstat.inference.intervals.crossed import crossed_law, crossed_mean
from fedstat.inference.intervals.moderated import method_variances
from simulations.coverage.study import SHAPES, Scale, cell, draw, holding, moderable, pairs_of

RUNS = Design("new", "drawn")
CLIENTS = Design("same", "drawn", over="clients")
compare = partial(simultaneous, design=RUNS)


def table(methods=4, seeds=6, clients=3, seed=0):
    return np.random.default_rng(seed).standard_normal((methods, seeds, clients))


def to_first(methods):
    return pairs_of("control", methods)


def test_alone_it_is_scipys_paired_t_on_the_means_over_clients():
    values, weights = table(), np.random.default_rng(1).uniform(1, 9, (6, 3))
    for shares in (None, weights):
        f = compare(values, to_first(4), rule="none", weights=shares)
        runs = np.average(values, axis=2, weights=None if shares is None else np.broadcast_to(shares, values.shape))
        for row, (i, j) in enumerate(to_first(4)):
            theirs = stats.ttest_rel(runs[i], runs[j])
            expected = [*theirs.confidence_interval(0.95), theirs.pvalue, np.corrcoef(runs[i], runs[j])[0, 1]]
            np.testing.assert_allclose([f.low[row], f.high[row], f.p_single[row], f.correlation[row]], expected)
        bonferroni = compare(values, to_first(4), rule="bonferroni", weights=shares)
        np.testing.assert_allclose(bonferroni.p, np.minimum(3 * f.p, 1))
        wide = compare(values, to_first(4), rule="none", weights=shares, level=1 - 0.05 / 3)
        np.testing.assert_allclose(bonferroni.low, wide.low)


tables = st.tuples(
    st.integers(2, 10), st.integers(3, 7), st.integers(1, 3), st.integers(0, 10**6), st.floats(0, 3), st.floats(0, 0.2)
)


@pytest.mark.slow
@given(tables, st.sampled_from(["bonferroni", "none"]), st.sampled_from(["auto", False]))
def test_p_lies_below_five_percent_where_the_interval_excludes_zero(size, rule, moderated):
    *shape, seed, shift, absent = size
    values = table(*shape, seed) + shift * np.arange(shape[0])[:, None, None]
    values[np.random.default_rng(seed + 1).random(values.shape) < absent] = np.nan
    for level in (0.95, 0.8):
        f = compare(values, pairs_of("all", shape[0]), rule=rule, moderated=moderated, level=level)
        known = ~np.isnan(f.low)
        assert (known == ~np.isnan(f.p)).all()
        assert (((f.low > 0) | (f.high < 0))[known] == (f.p < 1 - level)[known]).all()
        np.testing.assert_allclose(f.p, np.minimum(f.p_single * (1 if rule == "none" else len(f.pairs)), 1))
        assert (f.low <= f.estimate)[known].all()


@pytest.mark.parametrize("moderated", [False, True])
@pytest.mark.parametrize("rule", ["bonferroni", "none"])
def test_what_seeds_do_to_all_methods_does_not_matter_nor_do_units_nor_signs(rule, moderated):
    values, pairs = table(9, 6), to_first(9)
    f = compare(values, pairs, rule=rule, moderated=moderated)
    shifted = values + 50 * np.random.default_rng(1).standard_normal((1, 6, 1))
    np.testing.assert_allclose(compare(shifted, pairs, rule=rule, moderated=moderated).low, f.low, rtol=1e-4)
    np.testing.assert_allclose(compare(100 * values, pairs, rule=rule, moderated=moderated).low, 100 * f.low, rtol=1e-6)
    turned = compare(values, pairs[:, ::-1], rule=rule, moderated=moderated)
    np.testing.assert_allclose(turned.low, -f.high, rtol=1e-6)
    assert f.moderated == moderated


@given(st.integers(8, 12), st.integers(3, 8), st.integers(0, 10**6), st.floats(0, 4), st.booleans())
def test_no_interval_is_more_than_five_percent_wider_than_its_pair_alone_makes_it(methods, seeds, seed, spread, clones):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((methods, seeds, 1)) * np.exp(spread * rng.standard_normal((methods, 1, 1)))
    if clones:
        values[1] = values[0] + 0.001 * values[1]
    both = [compare(values, pairs_of("all", methods), moderated=m) for m in (True, False)]
    default, own = (f.high - f.low for f in both)
    assert (default <= 1.05 * own * (1 + 1e-12)).all()


def test_two_methods_that_nearly_agree_keep_what_pairing_gives_them():
    """FedAvg, FedProx nearly the same, and seven others: six seeds."""
    rng = np.random.default_rng(0)
    values = 0.8 + 0.01 * rng.standard_normal((9, 6, 1))
    values[1] = values[0] + 0.0003 * rng.standard_normal((6, 1))
    f = compare(values, to_first(9))
    theirs = stats.ttest_rel(values[1, :, 0], values[0, :, 0])
    assert f.p_single[0] == pytest.approx(2 * stats.t.sf(abs(theirs.statistic) / 1.05, 5))
    alone = compare(values[:2], [(1, 0)], level=1 - 0.05 / 8)
    assert f.high[0] - f.low[0] == pytest.approx(1.05 * (alone.high - alone.low)[0])


def test_a_noisy_method_widens_no_pair_of_others_by_more_than_a_tenth():
    rng, ratios = np.random.default_rng(0), []
    for _ in range(100):
        values = rng.standard_normal((10, 5, 1))
        quiet = compare(values[:9], pairs_of("all", 9), rule="none", moderated=True)
        values[9] *= 25
        noisy = compare(values, np.r_[pairs_of("all", 9), [[9, 0]]], rule="none", moderated=True)
        ratios.append((noisy.high - noisy.low)[:-1] / (quiet.high - quiet.low))
    assert np.median(ratios, axis=0).max() < 1.1


def test_resplit_data_give_the_corrected_resampled_t():
    values = table(2, 10, 1)
    f = compare(values, [(1, 0)], design=Design("same", "resplit", test_to_train=0.25))
    d = (values[1] - values[0])[:, 0]
    se = np.sqrt((1 / 10 + 0.25) * d.var(ddof=1))
    np.testing.assert_allclose([f.se[0], f.high[0]], [se, d.mean() + stats.t.ppf(0.975, 9) * se])


def test_crossed_effects_are_statsmodels_mixed_model():
    rng = np.random.default_rng(0)
    d = rng.standard_normal((5, 1)) + rng.standard_normal((1, 6)) + rng.standard_normal((5, 6))
    f = simultaneous(np.stack([d, np.zeros_like(d)]), [(0, 1)], design=CLIENTS)
    long = pd.DataFrame(d).melt(ignore_index=False, var_name="client", value_name="d").reset_index(names="seed")
    parts = {"seed": "0 + C(seed)", "client": "0 + C(client)"}
    model = MixedLM.from_formula("d ~ 1", long.assign(all=1), groups="all", vc_formula=parts).fit(reml=True)
    assert f.estimate[0] == pytest.approx(model.params["Intercept"])
    assert f.se[0] == pytest.approx(model.bse["Intercept"], rel=1e-3)
    # of splits of the same data the seeds' part is larger by test_to_train
    part = dict(zip(model.model.exog_vc.names, model.vcomp, strict=True))
    split = Design("same", "resplit", "clients", test_to_train=0.25)
    resplit = simultaneous(np.stack([d, np.zeros_like(d)]), [(0, 1)], design=split)
    expected = part["client"] / 6 + (1 / 5 + 0.25) * part["seed"] + model.scale / 30
    assert resplit.se[0] == pytest.approx(np.sqrt(expected), rel=1e-3)
    assert any("very few of the clients" in note for note in resplit.notes)


@pytest.mark.parametrize("axis", [0, 1])
def test_where_one_factor_does_nothing_crossed_effects_are_a_t_over_the_other(axis):
    one = np.random.default_rng(axis).standard_normal(7)
    d = np.broadcast_to(one[:, None] if axis == 0 else one, (7, 4) if axis == 0 else (4, 7))
    mean, se, df = crossed_mean(d)
    np.testing.assert_allclose([mean, se, df], [one.mean(), stats.sem(one), 6])
    # splits of the same data: the corrected t over seeds, and nothing to be corrected over clients
    corrected = np.sqrt(1 / 7 + 0.5) * one.std(ddof=1) if axis == 0 else stats.sem(one)
    np.testing.assert_allclose(crossed_mean(d, 0.5)[1:], [corrected, 6])
    # at levels of one and of many comparisons
    for ratio, sem in ((0.0, se), (0.5, corrected)):
        halves = [crossed_law(d, ratio).half_width(alpha) for alpha in (0.05, 1e-3)]
        np.testing.assert_allclose(halves, stats.t.isf([0.025, 5e-4], 6) * sem, rtol=1e-5)


@pytest.mark.parametrize(("seeds", "clients"), [(3, 20), (20, 3), (2, 10), (10, 2), (5, 5)])
def test_crossed_intervals_hold_at_any_level_where_satterthwaites_t_does_not(seeds, clients):
    rng, draws, alphas = np.random.default_rng(seeds), 500, np.array([0.05, 0.05 / 12])
    most = np.zeros((2, 2))
    for by_seed, by_client in ((0, 0), (0.1, 0), (0, 1), (1, 0), (0.3, 0.3), (3, 3)):  # variances
        d = rng.standard_normal((draws, seeds, clients))
        d += np.sqrt(by_seed) * rng.standard_normal((draws, seeds, 1))
        d += np.sqrt(by_client) * rng.standard_normal((draws, 1, clients))
        mean, se, df = crossed_mean(d)
        ours = [crossed_law(one).p(abs(of)) for one, of in zip(d, mean, strict=True)]
        p = np.array([ours, 2 * stats.t.sf(abs(mean) / se, df)])
        most = np.maximum(most, (p[..., None] < alphas).sum(axis=1))
    allowed = stats.binom.isf(1e-3, draws, alphas)
    assert (most[0] <= allowed).all()
    assert most[1, 1] > allowed[1] or min(seeds, clients) > 3


def test_negative_components_are_zero():
    """A table whose margins vary less than its cells make them: only the interaction is left."""
    d = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    for ratio in (0.0, 1.0):
        _, se, df = crossed_mean(d, ratio)
        np.testing.assert_allclose([se**2 * 9, df], [4 / 4, 4])


def test_what_is_absent_is_left_out_for_both_methods_and_pairs_keep_their_seeds():
    values = table(3, 6, 4)
    values[1, 2, 3] = values[2, 5] = np.nan
    f = compare(values, to_first(3), rule="none")
    assert f.n.tolist() == [6, 5]
    kept = np.where(np.isnan(values[1]), np.nan, values[0])
    d = np.nanmean(values[1], axis=1) - np.nanmean(kept, axis=1)
    np.testing.assert_allclose(f.estimate[0], d.mean())
    np.testing.assert_allclose(f.low[1], compare(values[:, :5], [(2, 0)], rule="none").low[0])
    apart = table(3, 8, 1)
    apart[:, :2] = np.nan  # seeds that no method has do not matter
    np.testing.assert_allclose(compare(apart, to_first(3)).low, compare(apart[:, 2:], to_first(3)).low)
    crossed = simultaneous(values, to_first(3), design=CLIENTS)
    assert "Up to 1 of 4 clients are left out of a pair: they have no value under some seed." in crossed.notes
    np.testing.assert_allclose(crossed.se[0], simultaneous(values[:, :, :3], [(1, 0)], design=CLIENTS).se[0])


@pytest.mark.parametrize("design", [RUNS, CLIENTS])
def test_pairs_without_spread_have_no_interval_and_no_p_and_disturb_no_other(design):
    values = table(4, 6, 3)
    values[1], values[2] = values[0], values[0] + 0.1  # equal runs; equal up to rounding
    f = simultaneous(values, to_first(4), design=design)
    assert np.isnan([f.low[:2], f.high[:2], f.p[:2], f.p_single[:2], f.se[:2]]).all()
    np.testing.assert_allclose(f.estimate[:2], [0, 0.1], atol=1e-15)
    assert np.isfinite([f.low[2], f.p[2]]).all()
    assert "2 of 3 pairs differ by the same amount under all seeds, hence have no interval." in f.notes


@pytest.mark.parametrize(("seeds", "words"), [(1, "have one common seed, hence no interval. Run more seeds.")])
def test_one_seed_gives_no_interval(seeds, words):
    for design in (RUNS, CLIENTS, Design("same", "resplit", test_to_train=1.0)):
        f = simultaneous(table(3, seeds), to_first(3), design=design)
        assert np.isfinite(f.estimate).all()
        assert np.isnan([f.low, f.high, f.p, f.correlation]).all()
        assert f"2 of 2 pairs {words}" in f.notes
    values = table(3, 2)
    values[0, 0], values[1, 1] = np.nan, np.nan
    assert "1 of 2 pairs have no common seed, hence no difference." in compare(values, to_first(3)).notes


def test_the_narrower_of_two_intervals_is_taken_as_promised():
    values = table(12, 5, 1)
    values[1] = values[0] + 0.01 * values[1]
    f, own = (compare(values, to_first(12), moderated=m) for m in ("auto", False))
    assert f.moderated
    variances, prior_df = method_variances(values[:, :, 0])
    d0 = prior_df[0]
    se = np.sqrt((d0 * (variances[1:] + variances[0]) + 4 * f.sd**2) / (d0 + 4) / 5)
    moderated = stats.t.isf(0.7 * 0.025 / 11, d0 + 4) * se
    wide = 1.05 * stats.t.isf(0.025 / 11, 4) * own.se
    np.testing.assert_allclose(f.high - f.estimate, np.minimum(moderated, wide))
    np.testing.assert_allclose(f.se, np.where(moderated < wide, se, own.se))
    np.testing.assert_allclose(f.df, np.where(moderated < wide, d0 + 4, 4))
    assert (moderated < wide)[1:].any()
    assert f.df[0] == 4
    assert any(f"worth {d0:.3g} degrees of freedom" in note for note in f.notes)


@pytest.mark.parametrize(("change", "reason"), [
    ({"values": table(7)}, "a prior on variances needs at least 8 methods"),
    ({"values": table(9, 2)}, "it takes at least 3 seeds"),
    ({"values": np.where(np.arange(9)[:, None, None] == 3, np.array([[[1.0], [np.nan], [2.0]]]), table(9, 3))},
     "not all methods ran under the same seeds"),
    ({"values": np.broadcast_to([[[0.0], [1.0], [3.0], [9.0]]], (9, 4, 1))}, "a method's errors are constant"),
])  # fmt: skip
def test_variances_are_not_moderated_without_a_reason_that_is_told(change, reason):
    asked = {"values": table(9), "design": RUNS, **change}
    pairs = to_first(len(asked["values"]))
    f = simultaneous(asked["values"], pairs, design=asked["design"])
    assert not f.moderated
    if len(pairs) > 7:
        assert f"Variances are not moderated: {reason}." in f.notes
    with pytest.raises(ValueError, match=f"moderated=True is not possible: {reason}"):
        simultaneous(asked["values"], pairs, design=asked["design"], moderated=True)


@pytest.mark.parametrize(("change", "message"), [
    ({"values": np.zeros((3, 4))}, r"values must have the shape \(methods, seeds, clients\), got \(3, 4\)"),
    ({"values": np.full((3, 4, 1), np.inf)}, "values must be finite, or NaN"),
    ({"pairs": []}, r"pairs must be rows \(i, j\)"),
    ({"pairs": [(0.0, 1.0)]}, r"pairs must be rows \(i, j\)"),
    ({"pairs": [(0, 3)]}, "pairs must name methods 0 to 2, got 0 to 3"),
    ({"pairs": [(-1, 0)]}, "pairs must name methods 0 to 2, got -1 to 0"),
    ({"pairs": [(1, 1)]}, "two different methods, each two once"),
    ({"pairs": [(0, 1), (1, 0)]}, "two different methods, each two once"),
    ({"level": 95}, r"level must be a number in \(0, 1\), got 95. For 95% write 0.95."),
    ({"rule": "holm"}, 'rule must be "bonferroni" or "none", got \'holm\''),
    ({"moderated": "yes"}, "moderated must be True, False or 'auto', got 'yes'"),
    ({"weights": np.ones((4, 2))}, r"weights must have the shape \(seeds, clients\) = \(4, 1\), got \(4, 2\)"),
    ({"weights": np.full((4, 1), np.nan)}, "weights must be finite and not negative"),
    ({"weights": np.zeros((4, 1))}, "weights must not all be zero under a seed"),
    ({"design": CLIENTS}, "over='clients' needs at least 2 clients, got 1"),
    ({"design": CLIENTS, "values": table(3, 4), "weights": np.ones((4, 3))}, "weights do not go with over='clients'"),
    ({"design": CLIENTS, "values": table(3, 4), "moderated": True}, "moderated=True does not go with over='clients'"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(change, message):
    asked = {"values": table(3, 4, 1), "pairs": [(1, 0), (2, 0)], "design": RUNS, **change}
    with pytest.raises(ValueError, match=message):
        simultaneous(asked.pop("values"), asked.pop("pairs"), **asked)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_study_measures_what_the_function_does(shape):
    scale = Scale(replicates=12)
    found = cell(scale, shape, "control", 10, 5)["coverage"].set_index("rule")
    runs = draw(shape, stream(0, "coverage", list(SHAPES).index(shape), 0, 10, 5), 12, 10, 5)
    for rule, asked in {
        "none": {"rule": "none", "moderated": False},
        "bonferroni": {"rule": "bonferroni", "moderated": False},
        "default": {},
    }.items():
        families = [compare(r[:, :, None], to_first(10), **asked) for r in runs]
        measured = holding(np.array([f.low for f in families]), np.array([f.high for f in families]))
        for name, value in measured.items():
            assert found.loc[rule, name] == pytest.approx(value), (rule, name)
    assert [f.moderated for f in families] == moderable(runs).tolist()


@pytest.mark.slow
def test_normal_families_raise_few_false_alarms_and_collapses_are_seen():
    rng = np.random.default_rng(0)
    alarms, seen = [], []
    for _ in range(600):
        d = rng.standard_normal((9, 8))
        alarms.append(bool(shape_notes(d)))
        d[4, 2] -= 60
        seen.append(bool(shape_notes(d)))
    assert np.mean(alarms) < 0.08
    assert np.mean(seen) > 0.95


def test_shapes_are_told_in_words():
    smooth, few = [1.0, 2.0, 2.9, 4.1, 5.2, 6.0], [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    collapsed = [0.01, 0.02, -50.0, 0.015, 0.012, 0.018]
    assert shape_notes(np.array([smooth, [np.nan] * 6, [2.0] * 6])) == ()
    told = shape_notes(np.array([smooth, collapsed, few]))
    assert told[0].startswith("1 of 3 differences are skewed, or some of their runs lie far from the others")
    assert told[1].startswith("1 of 3 differences take few values")
    assert shape_notes(np.array([[0.0, 0.0, 50.0]])) == ()  # with three seeds nothing can be seen


def test_alarms_are_shared_by_all_pairs():
    rng = np.random.default_rng(0)
    alarms = [bool(shape_notes(rng.standard_normal((20, 8)))) for _ in range(100)]
    assert sum(alarms) <= stats.binom.isf(0.001, 100, 0.05)
