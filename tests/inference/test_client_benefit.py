"""Who benefits: mixed models of statsmodels, closed forms, symmetries, and coverage by simulation."""

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.anova import anova_lm

import fedstat as fs
from fedstat.inference import Design, compare, who_benefits
from fedstat.inference.intervals.crossed import crossed_law

FIXED, NEW = Design("same", "fixed"), Design("new", "drawn")


def table(d, metric="mse", base=None):
    """Two methods B and A whose difference is d (S, K)."""
    base = np.zeros_like(d) if base is None else base
    return pd.DataFrame(
        [(m, s, k, v) for m, of in (("A", base), ("B", base + d)) for (s, k), v in np.ndenumerate(of)],
        columns=["method", "seed", "client", metric],
    )


def ask(d, design=FIXED, **how):
    return who_benefits(table(d), method="B", against="A", design=design, **how)


def crossed(seed, seeds=6, clients=8, sds=(0.5, 1.0, 0.7)):
    rng = np.random.default_rng(seed)
    a, b, e = (sd * rng.standard_normal(n) for sd, n in zip(sds, ((seeds, 1), clients, (seeds, clients)), strict=True))
    return 0.3 + a + b + e


def mixed_model(d, formula="d ~ 1", **columns):
    data = pd.DataFrame(d).melt(ignore_index=False, var_name="client", value_name="d").reset_index(names="seed")
    data = data.assign(all=1, **{name: np.asarray(x)[data["client"].astype(int)] for name, x in columns.items()})
    parts = {"seed": "0 + C(seed)", "client": "0 + C(client)"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm(formula, data, groups="all", vc_formula=parts).fit(reml=True)
    return fit, dict(zip(fit.model.exog_vc.names, fit.vcomp, strict=True)), data


def test_which_way_is_better_is_what_the_comparison_was_told():
    for smaller, words in ((True, "minutes (less is better): 8"), (False, "minutes: 8")):
        read = fs.read_results(table(crossed(0), "minutes"), columns={"minutes": "minutes"})
        compared = compare(read, design=FIXED, smaller=smaller)
        assert words in who_benefits(compared, method="B", against="A").sentences[0]


def test_crossed_effects_and_the_test_are_those_of_a_mixed_model():
    d = crossed(0)
    found = ask(d)
    fit, part, data = mixed_model(d)
    sds = found.effects["estimate"][["sd between clients", "sd of client and seed"]]
    np.testing.assert_allclose(sds, np.sqrt([part["client"], fit.scale]), rtol=1e-3)
    assert found.effects.loc["mean", "estimate"] == pytest.approx(fit.params["Intercept"])
    anova = anova_lm(smf.ols("d ~ C(seed) + C(client)", data).fit())
    assert (found.f, found.p) == pytest.approx(tuple(anova.loc["C(client)", ["F", "PR(>F)"]]))
    assert found.df == (7, 35)


def test_the_prediction_is_students_where_only_clients_vary_and_averages_over_variances_otherwise():
    one = np.random.default_rng(0).standard_normal(7)
    law = crossed_law(np.tile(one, (4, 1)), new_client=True)
    half = stats.t.ppf(0.95, 6) * one.std(ddof=1) * np.sqrt(1 + 1 / 7)
    assert law.half_width(0.1) == pytest.approx(half, rel=1e-5)
    assert law.p(half) == pytest.approx(0.1, rel=1e-5)
    d, rng = crossed(4, 4, 6), np.random.default_rng(0)
    rest = d - d.mean(axis=0) - d.mean(axis=1)[:, None] + d.mean()
    squares = 6 * d.mean(axis=1).var(ddof=1), 4 * d.mean(axis=0).var(ddof=1), (rest**2).sum() / 15
    a, b, e = (square * df / rng.chisquare(df, 400_000) for square, df in zip(squares, (3, 5, 15), strict=True))
    # splits of the same data: the seeds' part is larger
    variance = (1 / 4 + 0.5) * np.maximum(a - e, 0) / 6 + np.maximum(b, e) / 24
    for new in (False, True):
        error = np.sqrt(variance + new * np.maximum(b - e, 0) / 4) * rng.standard_normal(400_000)
        half = crossed_law(d, 0.5, new_client=new).half_width(0.05)
        assert half == pytest.approx(np.quantile(np.abs(error), 0.95), rel=0.01)


def test_the_mean_is_what_compare_gives_for_the_same_question():
    d = crossed(1)
    for data, ratio in (("fixed", None), ("resplit", 0.25), ("drawn", None)):
        design = Design("same", data, "clients", ratio)
        row = compare(table(d), control="A", design=design).differences.iloc[0]
        np.testing.assert_allclose(ask(d, dataclasses.replace(design, over="runs")).effects.loc["mean"],
                                   row[["difference", "low", "high"]].astype(float))  # fmt: skip
    for design in (NEW, Design("new", "resplit", test_to_train=0.25)):
        row = compare(table(d), control="A", design=design).differences.iloc[0]
        np.testing.assert_allclose(ask(d, design).effects.loc["mean"], row[["difference", "low", "high"]].astype(float))


def test_slopes_are_those_of_a_mixed_model_and_hold_together():
    d, rng = crossed(2), np.random.default_rng(2)
    x, other = rng.normal(5, 3, 8), rng.normal(size=8)
    alone = ask(d, modifiers=pd.DataFrame({"x": x})).modifiers.loc["x"]
    fit, *_ = mixed_model(d, "d ~ x", x=x)
    assert alone["slope"] / x.std(ddof=1) == pytest.approx(fit.params["x"])
    half = stats.t.ppf(0.975, 6) * fit.bse["x"] * x.std(ddof=1)
    assert (alone["high"] - alone["low"]) / 2 == pytest.approx(half, rel=1e-3)
    assert alone["p"] == pytest.approx(stats.linregress(x, d.mean(axis=0)).pvalue)
    both = ask(d, modifiers=pd.DataFrame({"x": x, "other": other}, index=range(8))).modifiers
    np.testing.assert_allclose(
        both["p"], np.minimum(1, [2 * alone["p"], 2 * stats.linregress(other, d.mean(axis=0)).pvalue])
    )
    t = stats.t.ppf([1 - 0.05 / 4, 0.975], 6)
    constant = ask(d, modifiers=pd.DataFrame({"x": x, "one": np.ones(8)}))
    pd.testing.assert_series_equal(constant.modifiers.loc["x"], alone)
    assert "no slope on one" in str(constant)
    tiny = ask(d, modifiers=pd.DataFrame({"x": 1e-12 * x})).modifiers.loc["x"]  # in other units
    np.testing.assert_allclose(tiny.drop("sd"), alone.drop("sd"), rtol=1e-9)
    late = ask(d, modifiers=pd.DataFrame({"x": 1.7e9 + 60 * np.arange(8)})).modifiers  # Unix time, a minute apart
    assert list(late.index) == ["x"]
    assert (both["high"] - both["low"])["x"] == pytest.approx((alone["high"] - alone["low"]) * t[0] / t[1])


def test_new_clients_have_no_test_and_are_predicted_by_their_one_run():
    d = crossed(3, 5, 7)
    found = ask(d, NEW)
    assert np.isnan(found.p)
    assert "sd between clients" not in found.effects.index
    between, within = d.mean(axis=1).var(ddof=1), d.var(axis=1, ddof=1).mean()
    # a new run's seed and client, and the error of the mean
    variance = (between - within / 7) + within + between / 5
    low, high = found.effects.loc["new client in a new run", ["low", "high"]]
    t = (high - low) / 2 / np.sqrt(variance)
    assert stats.t.ppf(0.975, 30 + 4) < t < stats.t.ppf(0.975, 4)
    row = found.effects.loc["sd between clients, noise included"]
    limits = np.sqrt(30 * within / stats.chi2.ppf([0.975, 0.025], 30))
    np.testing.assert_allclose(row, [np.sqrt(within), *limits])
    assert "cannot be told" in " ".join(str(found).split())
    # numbers of clients mean nothing: dealing them out anew in each seed changes nothing
    mixed = np.random.default_rng(0).permuted(d, axis=1)
    pd.testing.assert_frame_equal(ask(mixed, NEW).effects, found.effects)
    x = np.random.default_rng(1).normal(size=d.shape)
    rows = pd.MultiIndex.from_product([range(5), range(7)])
    slope = ask(d, NEW, modifiers=pd.DataFrame({"x": x.ravel()}, index=rows)).modifiers.loc["x"]
    each = np.array([stats.linregress(one, of).slope for one, of in zip(x, d, strict=True)]) * slope["sd"]
    assert slope["slope"] == pytest.approx(each.mean())
    assert slope["p"] == pytest.approx(stats.ttest_1samp(each, 0).pvalue)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from([FIXED, NEW, Design("same", "resplit", test_to_train=0.5)]), st.data())
def test_symmetries(seed, design, data):
    d = crossed(seed, data.draw(st.integers(2, 5)), data.draw(st.integers(3, 6)))
    rng = np.random.default_rng(seed)
    x = pd.DataFrame({"x": rng.normal(size=d.size)}, index=pd.MultiIndex.from_product(map(range, d.shape)))
    here = ask(d, design, modifiers=x)
    spread = [name for name in here.effects.index if name.startswith("sd")]
    # a swap of the methods turns signs and limits, and leaves spreads and tests
    there = who_benefits(table(d), method="A", against="B", design=design, modifiers=x)
    turned = here.effects.copy()
    means = [name for name in turned.index if name not in spread]
    turned.loc[means] = -turned.loc[means, ["estimate", "high", "low"]].to_numpy()
    np.testing.assert_allclose(there.effects, turned, atol=1e-12)
    np.testing.assert_allclose(there.modifiers["slope"], -here.modifiers["slope"], atol=1e-12)
    np.testing.assert_allclose([there.f, there.p], [here.f, here.p])
    # a constant that is added to one method moves the mean and what is centred on it
    moved = ask(d + 10, design, modifiers=x)
    np.testing.assert_allclose(moved.effects.loc[spread], here.effects.loc[spread], atol=1e-9)
    np.testing.assert_allclose(moved.effects.loc[means], here.effects.loc[means] + 10, atol=1e-9)
    np.testing.assert_allclose(moved.modifiers, here.modifiers, atol=1e-9)
    # the order of clients is none
    order = rng.permutation(d.shape[1])
    renamed = x.unstack().iloc[:, order].set_axis(x.unstack().columns, axis=1).stack(future_stack=True)
    permuted = ask(d[:, order], design, modifiers=renamed)
    np.testing.assert_allclose(permuted.effects, here.effects, atol=1e-9)
    np.testing.assert_allclose(permuted.modifiers, here.modifiers, atol=1e-9)


@pytest.mark.parametrize(("seeds", "clients", "sds", "least"), [
    (3, 5, (0.5, 1.0, 1.0), 0.95), (3, 20, (0.5, 0.3, 1.0), 0.95), (10, 5, (0.0, 0.3, 1.0), 0.95),
    (5, 20, (1.0, 0.5, 0.3), 0.95), (10, 20, (0.0, 0.3, 1.0), 0.93),
])  # fmt: skip
def test_prediction_intervals_hold_the_effect_at_a_new_client(seeds, clients, sds, least):
    rng, draws, inside = np.random.default_rng(seeds * clients), 400, 0
    for _ in range(draws):
        a, b, e = (
            sd * rng.standard_normal(shape)
            for sd, shape in zip(sds, ((seeds, 1), clients, (seeds, clients)), strict=True)
        )
        d = a + b + e
        inside += crossed_law(d, new_client=True).p(abs(d.mean() - sds[1] * rng.standard_normal())) > 0.05
    assert stats.binomtest(inside, draws, least, alternative="less").pvalue > 0.01


def small_tests(rng, clients=20, seeds=4, n=40, spread=0.0):
    """Compare two methods on n test samples that are the same under every seed, so that their noise repeats."""
    gain = 0.05 + spread * rng.standard_normal(clients)
    a, b = (rng.binomial(n, np.clip(p, 0, 1)) / n for p in (np.full(clients, 0.7), 0.7 + gain))
    values = np.clip(np.stack([a, b])[:, None] + 0.01 * rng.standard_normal((2, seeds, clients)), 0, 1)
    found = compare(table(values[1] - values[0], "accuracy", values[0]), control="A", design=FIXED)
    samples = np.full((seeds, clients), n)
    return who_benefits(dataclasses.replace(found, scores=dataclasses.replace(found.scores, samples=samples)))


def test_noise_of_test_samples_that_repeats_is_not_taken_for_clients():
    rng, least = np.random.default_rng(0), "sd between clients, at least"
    equal, unequal = ([small_tests(rng, spread=spread) for _ in range(40)] for spread in (0.0, 0.2))
    assert np.mean([one.p < 0.05 for one in equal]) > 0.95
    assert stats.binomtest(sum(one.p_beyond_noise < 0.05 for one in equal), 40, 0.05, "greater").pvalue > 0.01
    assert np.mean([one.p_beyond_noise < 0.05 for one in unequal]) > 0.8
    # methods err at samples of their own here, so that all of the noise there may be is there
    assert np.median([one.effects.loc[least, "estimate"] for one in unequal]) == pytest.approx(0.2, abs=0.04)
    assert "repeats under every seed" in " ".join(equal[0].sentences)


@pytest.mark.parametrize(("change", "message"), [
    ({"d": np.zeros((1, 4)) + np.arange(4)}, "two clients under each of two common seeds, got 1"),
    ({"d": np.arange(4.0)[:, None]}, "two clients under each of two common seeds, got 0"),
    ({"d": np.ones((3, 4))}, "differ by the same amount at all clients under all seeds"),
    ({"modifiers": [1, 2]}, "modifiers must be a DataFrame"),
    ({"modifiers": pd.DataFrame({"x": [1.0, 2.0]})}, "'x' lacks client 2"),
    ({"modifiers": pd.DataFrame({0: range(4), "0": range(4)})}, "different names, got two named '0'"),
    ({"modifiers": pd.DataFrame({"x": list("abcd")})}, "modifiers must be numbers, got 'x'"),
    ({"modifiers": pd.DataFrame({"x": [1.0] * 5}, index=[0, 1, 2, 3, 3])}, "one row for each client, got two for 3"),
    ({"modifiers": pd.DataFrame({"x": [1.0] * 4}), "design": NEW}, "rows named by seed and client"),
    ({"design": "same"}, "design must be a fedstat.inference.Design"),
    ({"method": "C"}, "method must be one of A, B, got 'C'"),
])  # fmt: skip
def test_questions_without_an_answer_are_refused(change, message):
    asked = {"method": "B", "against": "A", "design": FIXED, **change}
    d = asked.pop("d", crossed(0, 3, 4))
    with pytest.raises(ValueError, match=message):
        who_benefits(table(d), **asked)


def test_a_number_for_each_run_has_no_clients():
    rows = table(crossed(0, 3, 1)).drop(columns="client")
    with pytest.raises(ValueError, match="must hold a value for each client"):
        who_benefits(rows, method="B", against="A")


def test_runs_of_fedstat_carry_design_samples_and_majority_shares():
    x, y = fs.data.digits()
    clients = fs.data.from_indices(x, y, fs.data.dirichlet(y, 5, 0.3, min_size=20, seed=0), test=0.25, seed=0)
    training, methods = fs.Training(lr=0.1), [fs.FedAvg(), fs.methods.Local()]
    result = fs.federate(methods, fs.models.mlp(64, 4, 10), clients, training, rounds=2, seed=range(3))
    found = who_benefits(result)
    assert found.same_clients
    assert "is not told" not in str(found)
    d = compare(result).scores.values
    i, j = (["FedAvg", "Local"].index(name) for name in (found.method, found.against))
    assert found.effects.loc["mean", "estimate"] == pytest.approx((d[i] - d[j]).mean())
    assert found.modifiers.index.tolist() == ["log test samples", "majority share"]
    assert found.modifiers.loc["log test samples", "sd"] == pytest.approx(np.log(clients.test.n).std(ddof=1))
    assert 0 <= found.p_beyond_noise <= 1
    # an absent client is left out of all
    rows = result.history[["method", "seed", "round", "client", "metric", "value"]]
    less = rows[(rows["metric"] == "accuracy") & ~((rows["seed"] == 1) & (rows["client"] == 2))]
    assert "1 of 5 clients are left out" in str(who_benefits(less, design=FIXED))
