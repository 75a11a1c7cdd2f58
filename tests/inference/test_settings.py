"""Methods over several settings: Demsar's published example, statsmodels, enumeration and simulated coverage."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.meta_analysis import combine_effects

from fedstat.inference import (
    holm,
    interquartile_mean,
    meta_analysis,
    paired_difference,
    probability_of_improvement,
    ranks,
)

# Demsar (2006), Table 6: AUC of C4.5 without and with two tuned parameters, on 14 data sets
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975],  # printed as a tie, ranked as none
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)


def long(values, methods="ABCDEFG"):
    """A table of values (settings, seeds, methods)."""
    rows = [
        (f"data {i}", seed, methods[j], values[i][seed][j])
        for i, seed, j in itertools.product(*map(range, np.shape(values)))
    ]
    return pd.DataFrame(rows, columns=["setting", "seed", "method", "value"])


def test_demsars_example():
    result = ranks(DEMSAR)
    assert result.methods == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
    np.testing.assert_allclose(result.mean_ranks, [1.964, 2.000, 2.893, 3.143], atol=5e-4)
    assert result.critical_difference == pytest.approx(1.25, abs=0.005)
    assert ranks(DEMSAR, level=0.9).critical_difference == pytest.approx(1.12, abs=0.005)
    # the paper does not correct for ties: its numbers are those of the uncorrected formula at our mean ranks
    n, k = DEMSAR.shape
    chi2 = 12 * n / (k * (k + 1)) * ((result.mean_ranks**2).sum() - k * (k + 1) ** 2 / 4)
    assert chi2 == pytest.approx(9.28, abs=0.005)
    assert (n - 1) * chi2 / (n * (k - 1) - chi2) == pytest.approx(3.69, abs=0.005)
    assert result.friedman > chi2
    assert result.friedman_p == pytest.approx(stats.friedmanchisquare(*DEMSAR.to_numpy().T).pvalue)
    # at 10% the paper finds C4.5+m+cf and C4.5+m better than C4.5 (by 1.179 and 1.143), and nothing at 5%
    assert ranks(DEMSAR).groups == (result.methods,)
    assert ranks(DEMSAR, level=0.9).groups == (result.methods[:3], result.methods[2:])


def test_nemenyis_p_values_are_those_of_scikit_posthocs():
    # posthoc_nemenyi_friedman of scikit-posthocs 0.17.1 on these numbers
    values = np.random.default_rng(0).normal(size=(14, 4)) + np.arange(4) * 0.4
    pairs = ranks(pd.DataFrame(values, columns=list("ABCD")), smaller=True).pairs
    printed = {"AB": 0.459525, "AC": 0.226697, "AD": 0.001442, "BC": 0.971686, "BD": 0.124350, "CD": 0.294509}
    for _, row in pairs.iterrows():
        name = "".join(sorted(row["method"] + row["against"]))
        assert row["p (Nemenyi)"] == pytest.approx(printed[name], abs=1e-6)


@settings(max_examples=10)  # each pays for a garbage collection in statsmodels
@given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=2, max_size=9), st.booleans())
def test_ranks_against_brute_force(rows, smaller):
    table = pd.DataFrame(rows, columns=list("ABCD"), dtype=float)
    result = ranks(table, smaller=smaller)
    expected = {
        name: np.mean(
            [1 + sum((v < r[j]) if smaller else (v > r[j]) for v in r) + (r.count(r[j]) - 1) / 2 for r in rows]
        )
        for j, name in enumerate("ABCD")
    }
    np.testing.assert_allclose(result.mean_ranks, [expected[name] for name in result.methods])
    assert list(result.mean_ranks) == sorted(result.mean_ranks)
    assert 0 < result.p <= 1
    # groups: the maximal cliques among all subsets
    if result.p < 0.05:
        near = {
            subset
            for size in (2, 3, 4)
            for subset in itertools.combinations(result.methods, size)
            if max(expected[m] for m in subset) - min(expected[m] for m in subset) < result.critical_difference
        }
        largest = {s for s in near if not any(set(s) < set(other) for other in near)}
        assert set(result.groups) == largest
    else:
        assert result.groups == (result.methods,)


@pytest.mark.parametrize("n", [5, 9, 30])
def test_wilcoxon_is_scipys(n):
    values = np.random.default_rng(n).integers(0, 6, size=(n, 3)).astype(float)
    pairs = ranks(pd.DataFrame(values, columns=list("ABC"))).pairs
    theirs = [
        stats.wilcoxon(values[:, "ABC".index(a)], values[:, "ABC".index(b)]).pvalue
        for a, b in zip(pairs["method"], pairs["against"], strict=True)
    ]
    np.testing.assert_allclose(pairs["p (Wilcoxon, Holm)"], holm(theirs))


def test_iman_davenport_is_the_anova_of_ranks():
    tidy = DEMSAR.rank(axis=1).reset_index().melt(id_vars="index")
    anova = anova_lm(ols("value ~ C(index) + C(variable)", data=tidy).fit())
    result = ranks(DEMSAR)
    assert result.iman_davenport == pytest.approx(anova.loc["C(variable)", "F"])
    assert result.p == pytest.approx(anova.loc["C(variable)", "PR(>F)"])


def test_friedman_at_its_ends():
    same = ranks(pd.DataFrame(np.ones((5, 3)), columns=list("ABC")))
    assert (same.friedman, same.p, same.iman_davenport) == (0, 1, 0)
    assert (same.pairs["p (Wilcoxon, Holm)"] == 1).all()
    alike = ranks(pd.DataFrame(np.tile([1.0, 2.0, 3.0], (4, 1)), columns=list("ABC")))
    # by enumeration: all four settings rank alike
    orders = list(itertools.permutations(range(3)))
    exact = sum(len(set(choice)) == 1 for choice in itertools.product(orders, repeat=4)) / len(orders) ** 4
    assert alike.iman_davenport == np.inf
    assert alike.p == pytest.approx(exact)


def test_a_table_with_seeds_is_averaged_first():
    values = np.random.default_rng(1).normal(size=(5, 3, 4))
    one = ranks(long(values))
    other = ranks(pd.DataFrame(values.mean(axis=1), columns=list("ABCD")))
    assert one.methods == other.methods
    assert one.p == other.p
    shuffled = long(values).sample(frac=1, random_state=0).astype({"method": "category", "setting": "category"})
    assert ranks(shuffled).p == pytest.approx(one.p)


GAPS = long(np.random.default_rng(2).normal(size=(5, 2, 3)), methods=["FedAvg", "Ditto", "Local"])
GAPS = GAPS[~((GAPS["method"] == "Local") & GAPS["setting"].isin(["data 1", "data 3"]))]


@pytest.mark.parametrize(
    "ask",
    [
        ranks,
        interquartile_mean,
        lambda table, **options: probability_of_improvement(table, "Local", **options),
        lambda table, **options: meta_analysis(table, "Ditto", "Local", **options),
    ],
)
def test_a_control_that_is_missing_in_settings(ask):
    with pytest.raises(ValueError, match=r"Local in data 1 \(seed 0\), .*data 3 \(seed 1\).*complete=True"):
        ask(GAPS)
    assert "Left out 4 of 10 rows, which lack a method: Local in data 1" in str(ask(GAPS, complete=True))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (DEMSAR.iloc[:, :2], "at least 3 methods and 2 settings, got 2 and 14"),
        (DEMSAR.iloc[:1], "got 4 and 1"),
        (DEMSAR.assign(setting="a"), r"columns \['setting'\] do not hold numbers"),
        (GAPS.drop(columns="setting"), "lacks the column 'setting'"),
        (pd.concat([GAPS, GAPS]), "several values at .*Average over clients"),
        (DEMSAR.iloc[[0, 0]], "the setting 0 occurs twice"),
        (DEMSAR * np.nan, "give complete=True for the 0 of 14 rows"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(ValueError, match=message):
        ranks(table)


@settings(max_examples=30)
@given(st.lists(st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=3, max_size=3), min_size=1, max_size=4))
def test_probability_of_improvement_counts_pairs(values):
    row = probability_of_improvement(long(np.array(values, dtype=float)), "B").table.loc["A"]
    pairs = [pair for setting in values for pair in setting]
    assert row["probability"] == pytest.approx(np.mean([(a > b) + (a == b) / 2 for a, b in pairs]))
    assert row["low"] <= row["probability"] <= row["high"]
    other = probability_of_improvement(long(np.array(values, dtype=float)), "B", smaller=True).table.loc["A"]
    np.testing.assert_allclose(other[["low", "high"]], 1 - row[["high", "low"]].to_numpy(), atol=1e-12)


def test_probability_of_improvement_covers_where_settings_differ():
    """Exact coverage: the law of the number of wins is a convolution over settings."""
    seeds = 3
    for chances in ([0.9, 0.2, 0.5, 0.99], [0.5, 0.5], [0.05, 0.1, 0.9, 0.6, 0.3]):
        law = np.ones(1)
        for chance in chances:
            law = np.convolve(law, stats.binom.pmf(np.arange(seeds + 1), seeds, chance))
        covered = 0.0
        for wins, mass in enumerate(law):
            gain = (np.arange(seeds * len(chances)) < wins).astype(float).reshape(len(chances), seeds)
            row = probability_of_improvement(long(np.stack([gain, np.full_like(gain, 0.5)], axis=-1)), "B").table.loc[
                "A"
            ]
            covered += mass * (row["low"] <= np.mean(chances) <= row["high"])
        assert covered >= 0.95


def test_interquartile_means_are_trimmed_means_with_the_exact_error():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(4, 2, 2)) + rng.normal(size=(4, 2, 1))
    result = interquartile_mean(long(values), draws=20_000)
    np.testing.assert_allclose(
        result.summary["interquartile mean"], stats.trim_mean(values.reshape(-1, 2), 0.25, axis=0)
    )
    # with two seeds a draw takes one of them in each setting: all sixteen draws, methods together
    drawn = [
        stats.trim_mean(values[np.arange(4), list(choice)], 0.25, axis=0)
        for choice in itertools.product(range(2), repeat=4)
    ]
    t = stats.t.ppf(0.975, 4)
    half = (result.summary["high"] - result.summary["low"]) / 2
    np.testing.assert_allclose(half, t * np.std(drawn, axis=0), rtol=0.03)
    row = result.differences.iloc[0]
    assert (row["high"] - row["low"]) / 2 == pytest.approx(t * np.std(np.diff(drawn, axis=1)), rel=0.03)


def test_interquartile_means_are_repeatable_and_joint():
    values = np.random.default_rng(4).normal(size=(3, 4, 3))
    table = long(values)
    one, same, other = (interquartile_mean(table, seed=seed) for seed in (0, 0, 1))
    assert one.summary.equals(same.summary)
    assert not one.summary.equals(other.summary)
    # adding to all methods under a seed what they have in common leaves differences alone, as pairs do
    shifted = interquartile_mean(long(values + 5)).differences
    np.testing.assert_allclose(shifted[["low", "high"]], one.differences[["low", "high"]], atol=1e-9)
    single = interquartile_mean(table, control="C").differences
    assert list(single["against"]) == ["C", "C"]
    assert single.loc[0, "high"] < one.differences.loc[1, "high"]  # two joint limits are narrower than three
    constant = interquartile_mean(long(np.ones((3, 4, 2))))
    assert constant.summary["low"].isna().all()
    assert "No limits where the values of the seeds do not vary" in str(constant)
    with pytest.raises(ValueError, match="at least 2 seeds per setting, got 1"):
        interquartile_mean(long(values[:, :1]))
    with pytest.raises(ValueError, match="same number of seeds, got 'data 0' with 3 and 'data 1' with 4"):
        interquartile_mean(table[(table["setting"] != "data 0") | (table["seed"] > 0)])
    with pytest.raises(ValueError, match="control must be a method of the table"):
        interquartile_mean(table, control="Z")


@pytest.mark.slow
@pytest.mark.parametrize(("m", "seeds"), [(3, 3), (10, 3)])
def test_interquartile_limits_cover_with_few_seeds(m, seeds):
    rng = np.random.default_rng(5)
    place, spread = np.linspace(0, 3, m)[:, None], np.linspace(0.5, 1.5, m)[:, None]

    def draw():
        return place + spread * rng.normal(size=(m, seeds))

    middle = np.mean([stats.trim_mean(draw().ravel(), 0.25) for _ in range(20_000)])
    hits = 0
    for _ in range(300):
        row = interquartile_mean(long(draw()[..., None]), draws=300).summary.iloc[0]
        hits += row["low"] <= middle <= row["high"]
    # four standard errors below the 0.93 that a longer simulation found
    assert hits / 300 > 0.93 - 4 * np.sqrt(0.93 * 0.07 / 300)


def test_balanced_meta_analysis_is_statsmodels():
    rng = np.random.default_rng(6)
    # equal standard errors: all weights are equal, and all estimates of tau^2 agree
    noise = 0.5 * rng.normal(size=4)
    noise -= noise.mean()
    effects = rng.normal(0.5, 1.0, size=6)
    gain = effects[:, None] + noise
    result = meta_analysis(long(np.stack([gain, np.zeros_like(gain)], axis=-1)), "A", "B")
    variance = np.full(6, noise.var(ddof=1) / 4)
    theirs = combine_effects(effects, variance, method_re="iterated", use_t=False)
    assert result.tau2 == pytest.approx(theirs.tau2, rel=1e-4)
    assert result.i2 == pytest.approx(theirs.i2)
    assert result.mean == pytest.approx(theirs.mean_effect_re)
    half = stats.t.ppf(0.975, 5) * theirs.sd_eff_w_re_hksj
    np.testing.assert_allclose([result.low, result.high], [result.mean - half, result.mean + half], rtol=1e-4)
    assert result.p == pytest.approx(paired_difference(effects, np.zeros(6)).p)
    np.testing.assert_allclose(result.settings["standard error"], np.sqrt(variance))
    back = meta_analysis(long(np.stack([gain, np.zeros_like(gain)], axis=-1)), "B", "A")
    assert (back.mean, back.low) == pytest.approx((-result.mean, -result.high))


def test_meta_analysis_at_its_ends():
    same = np.stack([np.full((4, 3), 2.0), np.ones((4, 3))], axis=-1)
    result = meta_analysis(long(same), "A", "B")
    assert (result.mean, result.tau2, result.i2) == (1, 0, 0)
    assert np.isnan(result.low)
    assert "the same in all settings" in str(result)
    for table, message in (
        (long(same[:2]), "at least 3 settings with 2 seeds each, got 2 with 3"),
        (long(same[:, :1]), "got 4 with 1"),
    ):
        with pytest.raises(ValueError, match=message):
            meta_analysis(table, "A", "B")
    with pytest.raises(ValueError, match=r"no method \['Z'\]"):
        meta_analysis(long(same), "A", "Z")
    with pytest.raises(ValueError, match="both 'A'"):
        meta_analysis(long(same), "A", "A")


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.0, 0.5, 2.0])
def test_meta_analysis_covers_the_mean_and_a_further_setting(tau):
    rng = np.random.default_rng(7)
    m, seeds, repeats = 5, 3, 400
    sd = np.linspace(0.4, 1.6, m)[:, None]
    mean = further = 0
    for _ in range(repeats):
        gain = rng.normal(0, tau, size=(m, 1)) + sd * rng.normal(size=(m, seeds))
        result = meta_analysis(long(np.stack([gain, np.zeros_like(gain)], axis=-1)), "A", "B")
        new = rng.normal(0, tau) + rng.choice(sd[:, 0]) * rng.normal(size=seeds).mean()
        mean += result.low <= 0 <= result.high
        further += result.prediction_low <= new <= result.prediction_high
    assert mean / repeats > 0.95 - 3 * np.sqrt(0.95 * 0.05 / repeats)
    assert further / repeats > 0.95 - 4 * np.sqrt(0.95 * 0.05 / repeats)


def test_no_group_is_told_apart_where_friedman_finds_no_difference():
    rng = np.random.default_rng(67)
    values = rng.normal(size=(6, 8))
    values[:, 0] += 0.9
    values[:, 1] -= 0.9
    found = ranks(pd.DataFrame(values, columns=list("ABCDEFGH")))
    assert np.ptp(found.mean_ranks) > found.critical_difference
    assert found.p > 0.05
    assert found.groups == (found.methods,)


def test_wilcoxon_leaves_settings_without_a_difference_out():
    rng = np.random.default_rng(0)
    values = pd.DataFrame(rng.normal(size=(9, 3)), columns=list("ABC"))
    values["B"] = values["A"] + np.array([0, 0, 0.1, 0.2, -0.3, 0.4, 0.5, 0.6, 0.7])
    values["C"] = values["A"] + 10
    found = ranks(values).pairs.set_index(["method", "against"])["p (Wilcoxon, Holm)"]
    exact = stats.wilcoxon([0.1, 0.2, -0.3, 0.4, 0.5, 0.6, 0.7], method="exact").pvalue
    p = next(value for pair, value in found.items() if set(pair) == {"A", "B"})
    assert p == pytest.approx(exact)  # the largest of three by Holm


def test_limits_of_improvement_hold_together():
    rng = np.random.default_rng(0)
    rows = [(s, r, m, rng.normal()) for s in range(4) for r in range(5) for m in "ABCD"]
    found = probability_of_improvement(pd.DataFrame(rows, columns=["setting", "seed", "method", "value"]), "A").table
    for _, row in found.iterrows():
        wins, n = int(row["wins"]), int(row["pairs"])
        expected = stats.binomtest(wins, n).proportion_ci(1 - 0.05 / 3, method="exact")
        np.testing.assert_allclose([row["low"], row["high"]], expected)
