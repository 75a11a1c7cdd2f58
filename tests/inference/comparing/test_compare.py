"""The front door: what is compared, what is refused, and what is said."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

import fedstat as fs
from fedstat.inference import Design, compare, equivalence, paired_difference, plan, primary_summary
from fedstat.inference.intervals.crossed import crossed_law
from fedstat.inference.reading.sameness import check_same, told_design
from fedstat.inference.reading.scores import better, still_changing
from tests.support.comparisons import scores

QUIET = {"progress": False}
NO_COLLAPSE = "None of any method's 5 runs collapsed; up to 45% may."  # 1 - 0.05 ** (1 / 5)


def history(values, method="A", estimand="personal", rounds=12, clients=2, metric="accuracy", **more):
    """Clients around each seed's value, in every round; rounds 1 and 2 are lower."""
    values = np.asarray(values, float)
    table = pd.MultiIndex.from_product(
        [range(len(values)), range(1, rounds + 1), range(clients)], names=["seed", "round", "client"]
    ).to_frame(index=False)
    offset = np.linspace(-0.1, 0.1, clients)
    table["value"] = values[table["seed"]] + offset[table["client"]] - 0.2 * (table["round"] <= 2)
    return table.assign(method=method, estimand=estimand, split="test", metric=metric, **more)


def several(labels, seeds=5, spread=0.02, seed=0, **more):
    """Methods of equal means under common seeds."""
    rng = np.random.default_rng(seed)
    base = 0.7 + rng.normal(0, spread, seeds)
    return pd.concat([history(base + rng.normal(0, spread, seeds), label, **more) for label in labels])


def digits(seed=0):
    x, y = fs.data.digits()
    return fs.data.from_indices(x, y, fs.data.dirichlet(y, 4, 1.0, min_size=20, seed=seed), seed=seed)


def hospitals(seed=0):
    rng = np.random.default_rng(seed)
    return fs.data.from_arrays(rng.normal(size=(120, 64)), rng.integers(0, 10, 120), np.arange(120) % 4)


def trained(method, clients, seeds=2, rounds=2, **more):
    return fs.federate(
        method,
        fs.models.mlp(64, 4, 10),
        clients,
        fs.Training(lr=0.01),
        rounds=rounds,
        seed=range(seeds),
        **QUIET,
        **more,
    )


# what is compared


def test_two_methods_have_the_paired_t_interval_of_their_seeds():
    rng = np.random.default_rng(4)
    base = rng.normal(0.7, 0.05, 6)
    better = base + rng.normal(0.02, 0.005, 6)
    found = compare([history(base, "FedAvg", "global"), history(better, "Other")])
    row = found.differences.loc["Other − FedAvg"]
    expected = paired_difference(better, base)
    np.testing.assert_allclose(
        row[["difference", "low", "high", "p (t)", "p (adjusted)", "correlation"]].astype(float),
        [expected.mean, expected.low, expected.high, expected.p, expected.p, expected.correlation],
    )
    assert row["p (sign flips)"] == pytest.approx(2 / 64)
    assert "evaluated rounds 3 to 12; differences to FedAvg, paired on seeds, 95% intervals" in found.estimand
    np.testing.assert_allclose(primary_summary(history(base, "FedAvg"), "accuracy")["FedAvg"], base)
    mean = found.summary.loc["Other"]
    t = stats.t.interval(0.95, 5, better.mean(), stats.sem(better))
    np.testing.assert_allclose(mean[["mean", "low", "high"]].astype(float), [better.mean(), *t])


def test_intervals_hold_together_unless_one_asks_for_each():
    table = several([f"M{i}" for i in range(10)])
    together, each = compare(table), compare(table, simultaneous=False)
    wide, narrow = (of.differences["high"] - of.differences["low"] for of in (together, each))
    assert (wide > 1.2 * narrow).all()
    assert "simultaneous 95% intervals" in together.estimand
    assert "simultaneous" not in each.estimand
    low, high = together.differences["low"], together.differences["high"]
    assert (((low > 0) | (high < 0)) == (together.differences["p (adjusted)"] < 0.05)).all()


@pytest.mark.slow
def test_equal_methods_are_told_apart_in_few_runs():
    """Thirty equal methods and five seeds: without adjustment some interval excluded zero in 59% of runs."""
    labels = [f"M{i:02}" for i in range(30)]
    wrong = {True: 0, False: 0}
    for seed in range(20):
        table = several(labels, seed=seed, rounds=3, clients=1)
        for simultaneous in wrong:
            found = compare(table, simultaneous=simultaneous, last=1).differences
            wrong[simultaneous] += bool(((found["low"] > 0) | (found["high"] < 0)).any())
    assert wrong[True] <= stats.binom.isf(0.001, 20, 0.05)
    assert wrong[False] > 6


def test_all_pairs_are_compared_without_a_control():
    found = compare(several(["A", "B", "C"]), control=None)
    assert list(found.differences.index) == ["A − B", "A − C", "B − C"]
    assert found.control is None
    assert "differences of all pairs" in found.estimand


def test_the_model_is_named_and_never_chosen_by_the_order_of_rows():
    rows = pd.concat(
        [history([0.5, 0.6], "FedAvg", "global"), history([0.6, 0.8], "FedAvg", "fine-tuned"), history([0.4, 0.7], "B")]
    )
    found, other = compare(rows), compare(rows.iloc[::-1], control="FedAvg")
    assert found.summary["model"].to_dict() == {"FedAvg": "fine-tuned", "B": "personal"}
    assert "fine-tuned" in str(found)
    pd.testing.assert_frame_equal(found.summary.sort_index(), other.summary.sort_index())
    pd.testing.assert_frame_equal(
        primary_summary(rows, "accuracy"), primary_summary(rows.iloc[::-1], "accuracy")[["FedAvg", "B"]]
    )
    assert compare(rows, estimand={"FedAvg": "global"}).summary.loc["FedAvg", "mean"] == pytest.approx(0.55)
    assert "each client's model (fine-tuned of FedAvg, personal of B) on its test samples" in found.estimand
    assert "each client's global model on its test" in compare(rows[rows["method"] != "B"], estimand="global").estimand
    with pytest.raises(ValueError, match="estimand of B must be one of personal in result 1, got 'global'"):
        compare(rows, estimand="global")
    # names that are not fedstat's say nothing of which model is meant; a result of fedstat's lists its own first
    unknown = rows.assign(estimand=rows["estimand"].replace("fine-tuned", "adapted"))
    with pytest.raises(ValueError, match=r"several models of FedAvg, and .*estimand='adapted' or estimand='global'"):
        compare(unknown)
    result = SimpleNamespace(history=unknown, config={"seeds": [0, 1]})
    assert compare(result).summary["model"].to_dict() == {"FedAvg": "global", "B": "personal"}


def test_results_runs_on_disk_and_their_histories_are_one(tmp_path):
    result = trained([fs.FedAvg(), fs.Local()], digits, seeds=3)
    result.save(tmp_path / "run")
    here, there = compare(result), compare(tmp_path / "run")
    assert str(here) == str(there)
    pd.testing.assert_frame_equal(here.differences, there.differences)
    result.history.to_csv(tmp_path / "history.csv", index=False)
    np.testing.assert_allclose(compare(tmp_path / "history.csv").summary["mean"], here.summary["mean"])


def test_four_columns_are_a_table():
    table = several(["A", "B"], rounds=1)[["method", "seed", "client", "value"]].rename(columns={"value": "accuracy"})
    found = compare(table)
    assert list(found.summary.index) == ["A", "B"]
    assert found.generalises.startswith("How the seeds came about is not known here")


def test_the_same_method_under_other_seeds_is_one_method():
    first, more = history([0.5, 0.6], "A"), history([0.7, 0.4], "A").assign(seed=lambda t: t["seed"] + 2)
    other = history([0.4, 0.6, 0.5, 0.5], "B")
    assert compare([first, more, other]).summary["seeds"].to_dict() == {"A": 4, "B": 4}
    with pytest.raises(ValueError, match="A ran under the same seed in result 1 and in result 2"):
        compare([first, first, other])


# what is refused, or counted


def test_runs_on_other_data_or_with_other_participants_are_refused():
    one, other = trained(fs.FedAvg(), digits()), trained(fs.Local(), hospitals())
    with pytest.raises(ValueError, match="cannot be compared: other training samples under seeds 0, 1"):
        compare([one, other])
    found = compare({"digits": one, "hospitals": other}, across="data")
    assert any("digits and hospitals differ on purpose: other training samples" in note for note in found.notes)
    half = trained(fs.Local(), digits(), participation=0.5)
    with pytest.raises(ValueError, match=r"participation 1\.0 and 0\.5.*across=\"participants\""):
        compare([one, half])
    assert len(compare([one, half], across="participants").differences) == 1
    with pytest.raises(ValueError, match='across must be "data" or "participants" or "rounds", got'):
        compare([one, half], across="seeds")


def test_settings_that_differ_are_named():
    one = trained(fs.FedAvg(), digits())
    other = fs.federate(
        fs.Local(), fs.models.mlp(64, 4, 10), digits(), fs.Training(lr=0.1), rounds=2, seed=range(2), **QUIET
    )
    assert any("differ in training.lr (0.01 and 0.1)" in note for note in compare([one, other]).notes)


def test_runs_that_end_early_are_refused_and_never_compared_over_other_rounds():
    long, short = history([0.5, 0.6], "A"), history([0.4, 0.7], "B", rounds=8)
    message = r"B under seed 0 \(and 1 more\) ends after round 8, others after round 12"
    for results in ([long, short], pd.concat([long, short])):
        with pytest.raises(ValueError, match=message):
            compare(results)
    found = compare([long, short], across="rounds")
    assert "each result's own last rounds" in found.estimand
    seed = long[(long["seed"] == 0) | (long["round"] <= 8)]
    with pytest.raises(ValueError, match="A under seed 1 ends after round 8"):
        compare([seed, history([0.4, 0.7], "B")])
    sparse = history([0.4, 0.7], "B")
    with pytest.raises(ValueError, match="evaluated after the same rounds"):
        compare([long, sparse[sparse["round"] % 2 == 0]])


def test_an_absent_client_leaves_its_method_without_a_mean():
    whole, part = history([0.5, 0.6], "A", clients=3), history([0.4, 0.7], "B", clients=3)
    part = part[~((part["seed"] == 1) & (part["client"] == 0))]  # the worst client
    found = compare([whole, part])
    assert found.summary.loc["A", "mean"] == pytest.approx(0.55)
    assert np.isnan(found.summary.loc["B", "mean"])
    assert found.summary.loc["B", "missing"].startswith("10 of 60 values of accuracy are missing (10 absent)")
    assert "client 0 under seed 1" in str(found)
    assert found.differences.empty
    late = history([0.4, 0.7], "B", clients=3)
    late = late[~((late["client"] == 2) & (late["round"] == 12))]  # one round of one client
    assert "2 of 60 values" in compare([whole, late]).gaps["B"]


def test_what_is_measured_on_training_samples_says_so_first():
    rows = pd.concat([history([0.5, 0.6, 0.4], label) for label in "AB"])
    kept = compare(rows).conclusions
    told = compare(rows.assign(split="train")).conclusions
    assert told == ("Measured on samples that clients trained on, where memorising them wins: to compare, keep test "
                    "samples apart.", *kept)  # fmt: skip


def test_short_runs_say_what_they_average():
    found = compare([history([0.5, 0.6, 0.4], label, rounds=5) for label in "AB"])
    assert "evaluated rounds 1 to 5" in found.estimand
    assert any("Rounds 1 to 5 are all that were evaluated" in note for note in found.notes)
    (rose,) = [words for words in found.conclusions if "rose" in words]
    a, b = (found.scores.curves[m, :, 3:].mean() - found.scores.curves[m, :, :2].mean() for m in range(2))
    assert rose == (f"A rose by {100 * a:.2g} points and B rose by {100 * b:.2g} points from the first half of these "
                    "rounds to the second: their means are not where they end.")  # fmt: skip
    calm = compare([history([0.5, 0.6, 0.4], label) for label in "AB"])
    assert not any("rose" in note or "all that were" in note for note in (*calm.conclusions, *calm.notes))
    for slope, said in ((5e-5, False), (5e-4, True)):  # 0.03 points, which no table shows, and 0.3
        one, other = (history([0.5, 0.6, 0.4], label) for label in "AB")
        both = [table.assign(value=table["value"] + slope * table["round"]) for table in (one, other)]
        assert any("A rose" in words for words in compare(both).conclusions) == said
    start = history([0.5, 0.6], "A", rounds=5)
    start["round"] -= 1  # the state before training
    assert "evaluated rounds 1 to 4" in compare([start]).estimand


def test_bad_arguments_are_named():
    a, b = history([0.5, 0.6], "zeta"), history([0.4, 0.7], "alpha")
    assert list(compare([a, b]).summary.index) == ["zeta", "alpha"]
    for arguments, message in (
        ({"control": "beta"}, "control must be one of zeta, alpha, or None for all pairs, got 'beta'"),
        ({"metric": "auc"}, "metric 'auc' is not in the history of result 1, split 'test'; it has accuracy"),
        ({"split": "common"}, "none of split 'common'; it has test"),
        ({"level": 95}, "level must"),
        ({"margin": np.inf}, "margin must"),
        ({"margin": 0}, "margin must"),
        ({"last": 0}, "last must be a whole number, at least 1"),
        ({"estimand": "global"}, "estimand of zeta must be one of personal"),
    ):
        with pytest.raises(ValueError, match=message):
            compare([a, b], **arguments)
    with pytest.raises(ValueError, match="at least one result"):
        compare([])
    with pytest.raises(ValueError, match="got int"):
        compare([3])
    with pytest.raises(ValueError, match="have 0 common seeds"):
        compare([a, b.assign(seed=b["seed"] + 7)])
    with pytest.raises(ValueError, match="no metric in common"):
        compare([a, b.assign(metric="mse")])


# what is said


def shifted(margin=None, control="auto", seeds=5):
    """Three methods: two that are alike, and one far below."""
    rng = np.random.default_rng(1)
    base = 0.7 + rng.normal(0, 0.01, seeds)
    runs = {"FedAvg": base - 0.2, "Ditto": base, "Local": base + rng.normal(0, 0.03, seeds)}
    runs["FedAvg"] = runs["FedAvg"] + rng.normal(0, 0.01, seeds)
    return compare([history(values, label) for label, values in runs.items()], margin=margin, control=control)


def test_every_question_has_a_plain_sentence():
    pairs = shifted(control=None, margin=0.01)
    assert pairs.conclusions[-2:] == ("FedAvg is worse than both.", NO_COLLAPSE)
    row = pairs.differences.loc["Ditto − Local"]
    found, most = (f"{100 * row[name]:.1f}" for name in ("detectable", "at most"))
    seeds, equal = (f"{row[name]:.0f}" for name in ("seeds needed", "seeds for equivalence"))
    assert pairs.conclusions[0] == (
        f"Ditto and Local cannot be told apart with 5 seeds: a difference of {found} points would have been found "
        f"with a power of 80%, and the limits allow {most} at most. About {seeds} seeds would be needed for 1 point, "
        f"and about {equal} to show equivalence within 1 point."
    )
    control = shifted()
    only, beside = control.conclusions
    assert beside == NO_COLLAPSE
    assert only.endswith("are better than FedAvg.")
    assert shifted(control="Local").conclusions[0].startswith("FedAvg (by 2")
    wide = shifted(control=None, margin=0.05)
    assert "Equivalent, to within 5 points: Ditto and Local." in wide.conclusions
    assert wide.differences.loc["Ditto − Local", "outcome"] == "equivalent"


def test_an_equivalent_pair_whose_printed_limits_leave_the_margin_has_a_note():
    a, b = history([0.7] * 6, "A"), history([0.694, 0.707, 0.71, 0.7, 0.713, 0.7], "B")
    for margin, beyond in ((0.0105, True), (0.02, False)):
        found = compare([a, b], margin=margin)
        assert found.differences["outcome"].tolist() == ["equivalent"]
        assert (found.differences["high"] > margin).tolist() == [beyond]
        said = "Equivalent pairs have limits at 90% within the margin (two one-sided tests); 95% may leave it."
        assert (said in found.notes) == beyond


def test_losses_are_better_where_they_are_lower():
    low, high = (
        history([0.1, 0.12, 0.11], "A", metric="log_loss"),
        history([0.9, 0.92, 0.9], "FedAvg", metric="log_loss"),
    )
    assert "A (by 0.797 [0.7" in compare([low, high]).conclusions[0]
    assert "is better than FedAvg" in compare([low, high]).conclusions[0]
    odd = [table.assign(metric="rank") for table in (low, high)]
    assert "is below FedAvg" in compare(odd).conclusions[0]


def test_pairs_without_spread_have_no_interval_and_no_verdict():
    base = np.array([0.61, 0.7, 0.653])
    runs = {"FedAvg": base, "Shifted": base + 0.007, "Same": base, "Other": base + np.array([0.01, 0.03, 0.02])}
    found = compare([history(values, label) for label, values in runs.items()], margin=0.05)
    table = found.differences.set_index("method")
    assert table.loc[["Shifted", "Same"], ["low", "high", "p (t)", "p (adjusted)"]].isna().all(axis=None)
    assert list(table.loc[["Shifted", "Same"], "outcome"]) == ["no spread"] * 2
    np.testing.assert_allclose(table["difference"], [0.007, 0, 0.02], atol=1e-12)
    assert "Same and FedAvg have the same mean under every seed: there is no test." in found.conclusions
    assert "nan" not in str(found).lower()
    assert "equivalent, p = 0" not in str(found)


def test_limits_of_shares_stay_shares():
    found = compare([history([0.9, 0.89, 0.6], "A"), history([0.9, 0.3, 0.35], "FedAvg")])
    assert found.summary["high"].max() == 1
    assert found.summary["low"].min() == 0
    assert found.differences["high"].max() == 1


def test_limits_of_squared_errors_are_not_negative():
    rows = [("A", 0, 9e4), ("A", 1, 100.0), ("B", 0, 80.0), ("B", 1, 90.0)]
    table = pd.DataFrame(rows, columns=["method", "seed", "mse"])
    assert fs.compare(table, control="B").summary["low"].min() == 0
    renamed = table.rename(columns={"mse": "profit"})
    renamed = fs.read_results(renamed, columns={"profit": "profit"}).history
    assert fs.compare(renamed, metric="profit", control="B").summary["low"].min() < 0


def test_a_method_with_one_seed_does_not_stop_the_others():
    rows = [(m, s, v + 0.01 * s) for m, v in (("A", 0.5), ("B", 0.6)) for s in range(3)] + [("C", 1, 0.9)]
    table = pd.DataFrame(rows, columns=["method", "seed", "accuracy"])
    found = fs.compare(table, control="A")
    assert list(found.differences["method"]) == ["B"]
    assert "C has a value under seed 1 alone: it has no difference, which takes two seeds." in found.notes
    with pytest.raises(ValueError, match="A and C have 1 common seeds"):
        fs.compare(table, control="C")


def test_a_client_that_some_seeds_lack_is_told():
    rows = [(m, s, k, 0.3 if k == 2 else 0.9) for m in "AB" for s in range(4) for k in range(3) if (s, k) != (3, 2)]
    found = fs.compare(pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"]), control="A")
    (said,) = [note for note in found.notes if "lack" in note]
    assert said.startswith("1 of 4 seeds lack clients that others have; seed 3 lacks client 2.")


def test_one_seed_has_no_interval():
    found = compare([history([0.5], "A"), history([0.6], "B")])
    assert found.differences.empty
    assert found.generalises == "The comparison speaks of this run alone: with one seed a difference may be chance."
    assert "nan" not in str(found).lower()


def test_clients_count_equally_and_by_their_samples():
    """A hospital with four test samples counts as one with sixty, or as a fifteenth of it."""
    rng = np.random.default_rng(0)
    sizes = np.array([20, 300, 40])
    site = np.repeat(np.arange(3), sizes)
    clients = fs.data.from_arrays(rng.normal(size=(360, 64)), rng.integers(0, 3, 360), site)
    result = fs.federate(
        [fs.FedAvg(), fs.Local()],
        fs.models.mlp(64, 4, 3),
        clients,
        fs.Training(lr=0.1),
        rounds=2,
        seed=range(3),
        **QUIET,
    )
    found = compare(result, last=1)
    rows = result.history.query("metric == 'accuracy' and round == 2 and split == 'test'")
    tests = clients.test.n
    for label, own in rows.groupby("method", observed=True):
        table = own.pivot(index="seed", columns="client", values="value")
        assert found.summary.loc[label, "mean"] == pytest.approx(table.to_numpy().mean())
        assert found.summary.loc[label, "by samples"] == pytest.approx((table @ tests / tests.sum()).mean())
    by_samples = rows.pivot_table(index=["seed", "client"], columns="method", values="value", observed=True)
    by_samples = ((by_samples["Local"] - by_samples["FedAvg"]).unstack("client") @ tests) / tests.sum()
    row = found.differences.loc["Local − FedAvg"]
    expected = stats.t.interval(0.95, 2, by_samples.mean(), stats.sem(by_samples))
    np.testing.assert_allclose(row[["low by samples", "high by samples"]].astype(float), np.clip(expected, -1, 1))
    assert any("what a sample drawn at random can expect" in note for note in found.notes)
    assert found.generalises == Design(clients="same", data="fixed").sentence()


def test_the_design_is_read_from_the_run():
    drawn = trained([fs.FedAvg(), fs.Local()], digits, seeds=3)
    held = drawn.clients[["train", "test"]].sum()
    design = Design(clients="new", data="resplit", test_to_train=held["test"] / held["train"])
    found = compare(drawn)
    assert found.generalises == design.sentence()
    plain = compare(drawn, design=Design(clients="new", data="fixed"))
    widths = [(of.differences["high"] - of.differences["low"]).iloc[0] for of in (found, plain)]
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(1 + 3 * design.test_to_train))


# what was planned


def test_a_plan_decides_what_is_left_open_and_what_came_after_is_said():
    plan = fs.inference.AnalysisPlan(arms=["A", "B"], control="B", margin=0.02, metric="accuracy", seeds=3, last=4)
    runs = [history([0.5, 0.6, 0.55], "A"), history([0.4, 0.7, 0.5], "B")]
    found = compare(runs, plan=plan)
    assert found.control == "B"
    assert found.margin == 0.02
    assert "evaluated rounds 9 to 12" in found.estimand
    assert found.notes[-1] == "All of it is as this plan says."
    more = compare([*runs, history([0.4, 0.7, 0.5], "C")], plan=plan, margin=0.1, control="A", simultaneous=False)
    assert more.notes[-1] == (
        "Not as this plan says: each interval for itself; margin 0.1 (planned: 0.02); control A (planned: B); C added."
    )
    ruled = compare(runs, plan=replace(plan, rule="looks at 3 and 6"))
    assert ruled.notes[-1] == "All that can be checked is as this plan says; not checked: rule (looks at 3 and 6)."
    several = replace(plan, arms=["A", "B", "C"], control=["A", "B"], estimand={"A": "personal", "B": "personal"})
    turned = compare([*runs, history([0.4, 0.7, 0.5], "C")], plan=several, control=["B", "A"])
    assert turned.notes[-1] == "All of it is as this plan says."


def test_a_plan_counts_as_earlier_only_where_the_runs_carry_it_and_a_later_margin_is_said():
    plan = fs.inference.AnalysisPlan(arms=["FedAvg", "Local"], control="FedAvg", seeds=2)
    result = trained([fs.FedAvg(), fs.Local()], digits(), plan=plan)
    own = compare(result)
    assert own.notes[-2:] == (
        f"Planned before the runs (plan {plan.digest[:12]}): 2 arms, control FedAvg.",
        "All of it is as planned.",
    )
    assert compare(result, margin=0.3).notes[-1] == "Not as planned: margin 0.3 (not planned)."
    kept = {name: getattr(result, name) for name in ("history", "config", "plan")}
    edited = SimpleNamespace(**kept, evaluation={"margin": 0.2})
    assert compare(edited).notes[-1] == "Not as planned: margin 0.2 (not planned)."  # a file that was edited since
    later = compare(result.history, plan=plan)
    assert "whether it came before them is not known here" in later.notes[-2]
    rows = result.history[(result.history["seed"] == 0) | (result.history["method"] == "FedAvg")]
    fewer = compare(pd.concat([rows.assign(seed=rows["seed"] + shift) for shift in (0, 2)]), plan=plan)
    assert fewer.notes[-1] == "Not as this plan says: 2 to 4 seeds (planned: 2)."


# what would say more than is known


def test_sentences_say_no_more_than_the_numbers():
    rng = np.random.default_rng(0)
    base, small = 0.7 + rng.normal(0, 0.02, 20), rng.normal(0, 0.01, 20)
    pair = [history(base, "FedAvg"), history(base + small, "B")]
    undecided, _ = compare(pair).conclusions
    assert re.search(r"of 0\.4\d points would have been found .* the limits allow 0\.\d\d at most\.$", undecided)
    assert compare(pair, margin=0.0125).conclusions[-2] == "Equivalent, to within 1.25 points: B and FedAvg."
    alike = compare(several([f"M{i}" for i in range(8)], spread=0.001), control=None, margin=0.05)
    assert alike.conclusions[1].endswith(
        "is better than 0 others, worse than 0, equivalent to 7, and not told apart from 0."
    )
    other = history(base, "B").assign(client=lambda t: 1 - t["client"])  # the same means, of other numbers
    assert compare([pair[0], other]).conclusions == (
        "B and FedAvg have the same mean under every seed: there is no test.",
        "None of any method's 20 runs collapsed; up to 14% may.",
    )
    apart = np.r_[rng.normal(0, 0.001, 9), -0.3]
    notes = compare([history(base[:10], "FedAvg"), history(base[:10] + apart, "B")]).notes
    assert len(notes) == len(set(notes))


def test_margins_that_nothing_exceeds_and_levels_that_leave_no_test_are_refused():
    pair = several(["FedAvg", "B"])
    with pytest.raises(ValueError, match=r"margin must be below 1 for accuracy.* A point is 0\.01"):
        compare(pair, margin=1)
    with pytest.raises(ValueError, match=r"level must exceed 0\.5 where there is a margin, got 0\.4"):
        compare(pair, margin=0.1, level=0.4)
    assert compare(pair.assign(metric="mse"), margin=1).margin == 1


def test_equivalences_are_those_of_one_sided_tests_at_their_share_of_the_level():
    """The joint quantile of both sides would err in 7% where one method lies at the upper and one at the lower edge."""
    rng = np.random.default_rng(1)
    for spread in np.linspace(0.015, 0.045, 30):
        base = 0.5 + rng.normal(0, spread, 12)
        runs = {"FedAvg": np.full(12, 0.5), **{label: base + rng.normal(0, 1e-3, 12) for label in "ABC"}}
        found = compare(
            [history(values, label, clients=1, rounds=3) for label, values in runs.items()], margin=0.02, last=1
        )
        alone = {label: equivalence(runs[label], runs["FedAvg"], margin=0.02, alpha=0.05 / 3) for label in "ABC"}
        equal = found.differences.set_index("method")["outcome"] == "equivalent"
        assert equal.to_dict() == {label: one.outcome == "equivalent" for label, one in alone.items()}


def test_runs_on_different_data_have_no_common_design_and_no_common_samples():
    """Whichever result comes first: clients of one are not those of the other."""
    runs = {"digits": trained(fs.FedAvg(), digits), "hospitals": trained(fs.Local(), hospitals())}
    for names in (["digits", "hospitals"], ["hospitals", "digits"]):
        found = compare({name: runs[name] for name in names}, across="data", control="FedAvg")
        assert found.generalises.startswith("How the seeds came about is not known here")
        assert "by samples" not in found.summary
        assert "by samples" not in found.differences


def test_limits_of_each_method_have_the_design_of_the_differences():
    rng = np.random.default_rng(0)
    table = pd.concat([history(0.5 + rng.normal(0, 0.05, 6), label, clients=3) for label in ("FedAvg", "B")])
    table["value"] += rng.normal(0, 0.05, len(table))
    runs = compare(table).scores.by_seed()[1]
    split = compare(table, design=Design(clients="new", data="resplit", test_to_train=0.25)).summary.loc["B"]
    expected = stats.t.interval(0.95, 5, runs.mean(), runs.std(ddof=1) * np.sqrt(1 / 6 + 0.25))
    np.testing.assert_allclose([split["low"], split["high"]], expected)
    crossed = compare(table, design=Design(clients="same", data="fixed", over="clients")).summary.loc["B"]
    half = crossed_law(compare(table).scores.values[1]).half_width(0.05)
    np.testing.assert_allclose(
        crossed[["mean", "low", "high"]].astype(float), runs.mean() + half * np.arange(-1, 2)[[1, 0, 2]]
    )


def test_validation_samples_are_no_training_samples_of_the_resampled_t():
    x, y = fs.data.digits()

    def drawn(seed):
        dealt = fs.data.dirichlet(y, 4, 1.0, min_size=20, seed=seed)
        return fs.data.from_indices(x, y, dealt, seed=seed, validation=0.2)

    result = trained([fs.FedAvg(), fs.Local()], drawn)
    held = result.clients[["train", "validation", "test"]].sum()
    assert held["validation"] > 0
    told = told_design({"run": result.config}, result.clients)
    assert told.test_to_train == pytest.approx(held["test"] / held["train"])


def test_methods_without_all_values_are_named_in_the_conclusions():
    rows = several(["FedAvg", "B", "C"]).reset_index(drop=True)
    gap = rows.assign(value=rows["value"].where(rows.index != rows.index[rows["method"] == "B"][-1]))
    assert compare(gap).conclusions[-2].startswith("B is not compared: values are missing. Measure them, or leave")
    assert (
        compare(gap, control="B").conclusions[0].startswith("Nothing is compared with B, of which values are missing.")
    )


def test_nobody_gains_where_values_are_missing():
    rows = several(["FedAvg", "B"]).reset_index(drop=True)
    gap = compare(rows.assign(value=rows["value"].where(rows.index != rows.index[-1])))
    with pytest.raises(ValueError, match=r"B has clients without a value \(.*\): who gains is not known"):
        gap.clients(method="B")


def test_percent_is_told_and_seeds_are_numbers():
    rows = several(["FedAvg", "B"])
    notes = compare(rows.assign(value=100 * rows["value"])).notes
    assert "result 1: values of accuracy are in percent and divided by 100; a margin of 0.01 is a point." in notes
    with pytest.raises(ValueError, match="has 's0' in column 'seed', where seed must be a whole number; number the"):
        compare(rows.assign(seed="s" + rows["seed"].astype(str)))


def test_no_method_is_marked_as_best_by_means_over_other_seeds():
    values = np.r_[0.5, 0.52, 0.51, 0.5, 0.8, 0.82, 0.81, 0.8, 0.83]
    lower = history(values - 0.02 + np.random.default_rng(0).normal(0, 0.001, 9), "B")
    found = compare([history(values, "A"), lower[lower["seed"] > 3]], control=None)
    assert found.conclusions[0] == "B is worse than A."
    assert found.summary.loc["B", "mean"] > found.summary.loc["A", "mean"]
    assert "textbf" not in found.to_latex()


def test_only_a_plan_that_the_runs_began_with_is_said_to_come_before_them(tmp_path):
    plan = fs.inference.AnalysisPlan(arms=["FedAvg", "Local"], control="Local", last=1)
    trained([fs.FedAvg(), fs.Local()], digits, seeds=2, plan=plan, folder=tmp_path / "run")
    assert any(note.startswith("Planned before the runs") for note in compare(tmp_path / "run").notes)
    other = replace(plan, margin=0.02)
    assert compare(tmp_path / "run", plan=other).notes[-2:] == (
        f"Held against plan {other.digest[:12]}: 2 arms, control Local. The runs began with another one (plan "
        f"{plan.digest[:12]}: margin None).",
        "All of it is as this plan says.",
    )
    other.write(tmp_path / "run" / "plan.toml")  # changed since
    with pytest.raises(ValueError, match=r"plan\.toml is missing or has been changed since the run began"):
        compare(tmp_path / "run")


def test_still_changing_means_more_than_noise():
    """Of twenty flat methods one is named in 5% of tables, not in each second one; one seed alone must be clear."""
    rng, named, single = np.random.default_rng(0), 0, 0
    for seed in range(40):
        flat = scores([f"M{i}" for i in range(20)], seeds=4, clients=2)
        flat = replace(flat, curves=0.7 + rng.normal(0, 0.01, flat.curves.shape))
        named += bool(still_changing(flat))
        one = scores(["A"], seeds=1, clients=2, seed=seed)
        single += bool(still_changing(replace(one, curves=0.7 + rng.normal(0, 0.01, one.curves.shape))))
    assert named <= stats.binom.isf(0.001, 40, 0.05)
    assert single == 0
    rising = replace(flat, curves=flat.curves + 0.1 * np.arange(flat.curves.shape[2]))
    assert len(still_changing(rising)) == 20


def test_which_metrics_are_better_where_lower():
    assert [better(name) for name in ("accuracy", "auc", "balanced_accuracy", "macro_f1")] == [1] * 4
    assert [better(name) for name in ("log_loss", "mse", "calibration_error", "error", "perplexity")] == [-1] * 5
    assert [better(name) for name in ("majority_share", "rank")] == [0, 0]


@pytest.mark.parametrize(
    ("prints", "design"),
    [
        # names, train, test, train_pool, pool, held under both seeds
        (("nn", "tt", "uu", "tt", "pp", "hh"), Design(clients="same", data="fixed")),
        (("nn", "ts", "uu", "tt", "pp", "hg"), Design(clients="new", data="fixed")),
        (("nm", "ts", "uu", "tt", "pp", "hh"), Design(clients="new", data="fixed")),
        (("nn", "ts", "uv", "ts", "pp", "hh"), Design(clients="same", data="resplit", test_to_train=0.25)),
        (("nn", "ts", "uv", "ts", "pp", "hg"), Design(clients="new", data="resplit", test_to_train=0.25)),
        (("nn", "ts", "uv", "ts", "pq", "hg"), Design(clients="new", data="drawn")),
    ],
)
def test_the_design_that_fingerprints_tell(prints, design):
    names = ("names", "train", "test", "train_pool", "pool", "held")
    under = {str(seed): {name: both[seed] for name, both in zip(names, prints, strict=True)} for seed in (0, 1)}
    sizes = [(seed, client, 40, 10) for seed in (0, 1) for client in (0, 1)]
    clients = pd.DataFrame(sizes, columns=["seed", "client", "train", "test"])
    assert told_design({"run": {"fingerprint": under}}, clients) == design


def test_who_holds_what_tells_the_same_clients_from_others_of_the_same_size():
    x, y = fs.data.digits()
    site = np.arange(len(y)) % 4
    natural = trained([fs.FedAvg(), fs.Local()], lambda seed: fs.data.from_arrays(x, y, site, seed=seed))
    dealt = trained(
        [fs.FedAvg(), fs.Local()], lambda seed: fs.data.from_indices(x, y, fs.data.iid(len(y), 4, seed=seed))
    )
    assert told_design({"run": natural.config}, natural.clients).clients == "same"
    assert told_design({"run": dealt.config}, dealt.clients).clients == "new"


@pytest.mark.parametrize(
    ("part", "words"), [("train", "training samples"), ("test", "test samples"), ("common", "common test samples"),
                        ("validation", "validation samples"), ("names", "names of clients")]
)  # fmt: skip
def test_every_part_of_a_fingerprint_counts(part, words):
    one, other = ({"fingerprint": {"0": {part: value}}} for value in "xy")
    with pytest.raises(ValueError, match=f"other {words} under seed 0"):
        check_same({"a": one, "b": other}, ())


def test_seeds_needed_are_those_of_plan_for_the_family_and_the_design():
    table = several(["FedAvg", "B", "C"], seeds=6)
    found = compare(table, margin=0.02).differences

    def needed(comparisons, goal="difference"):
        return [
            plan(sd, margin=0.02, comparisons=comparisons, pilot_seeds=6, goal=goal).seeds
            for sd in np.asarray(found["sd"], float)
        ]

    assert found["seeds needed"].tolist() == needed(2)
    assert found["seeds for equivalence"].tolist() == needed(2, "equivalence")
    assert compare(table).differences["seeds for equivalence"].isna().all()
    assert compare(table, margin=0.02, simultaneous=False).differences["seeds needed"].tolist() == needed(1)
    for ratio in (0.01, 0.25):
        split = Design(clients="new", data="resplit", test_to_train=ratio)
        expected = [np.ceil(1 / (1 / n - ratio)) if 1 / n > ratio else np.inf for n in needed(2)]
        assert compare(table, margin=0.02, design=split).differences["seeds needed"].tolist() == expected
    crossed = Design(clients="same", data="fixed", over="clients")
    assert compare(table, margin=0.02, design=crossed).differences["seeds needed"].isna().all()


def test_what_could_have_been_found_is_found_with_a_power_of_80_per_cent():
    rows = compare(several(["FedAvg", "B", "C"], seeds=6)).differences.astype({"detectable": float, "sd": float})
    power = [TTestPower().power(row["detectable"] / row["sd"], 6, 0.05 / 2) for _, row in rows.iterrows()]
    np.testing.assert_allclose(power, 0.8, atol=1e-6)
    table = several([f"M{i}" for i in range(9)], spread=0.01)
    table["value"] += np.random.default_rng(0).normal(0, 0.01, len(table))
    resplit = Design(clients="new", data="resplit", test_to_train=0.25)
    for design in (None, resplit, Design(clients="same", data="fixed", over="clients")):
        # the interval excludes zero where |t| exceeds its half-width in standard errors: the noncentral t's power
        rows = compare(table, design=design).differences
        half, se, df, gain = (
            np.asarray(of, float)
            for of in ((rows["high"] - rows["low"]) / 2, rows["se"], rows["df"], rows["detectable"])
        )
        law = stats.nct(df, gain / se)
        other = np.nan_to_num(law.cdf(-half / se))  # so far out that scipy has no number for some
        np.testing.assert_allclose(law.sf(half / se) + other, 0.8, atol=1e-6)
        np.testing.assert_allclose(rows["at most"].astype(float), rows["difference"].abs() + half)


def test_a_difference_that_no_shares_can_have_is_not_detectable():
    found = compare(several([f"M{i}" for i in range(5)], seeds=2, spread=0.05))
    assert found.differences["detectable"].tolist()[::3] == [np.inf, np.inf]
    assert found.differences["at most"].max() == 1
    assert "at best a difference of 29 points would have been found with" in found.conclusions[1]
    one = [history(values, label) for label, values in {"FedAvg": [0.2, 0.9], "B": [0.8, 0.3]}.items()]
    assert "told apart from FedAvg with 2 seeds: no difference would have been found" in compare(one).conclusions[0]


def test_absent_runs_are_counted_and_what_their_failure_would_mean_is_said():
    rng = np.random.default_rng(0)
    base = 0.8 + rng.normal(0, 0.01, 6)
    table = pd.concat([history(base, "FedAvg"), history(base + 0.05 + rng.normal(0, 0.003, 6), "A")])
    crashed = table[(table["method"] == "FedAvg") | ~table["seed"].isin([2, 4])]
    better, *more, collapse = compare(crashed).conclusions
    assert collapse == "None of any method's 4 to 6 runs collapsed; up to 53% may."
    assert "A (by" in better
    means = primary_summary(crashed, "accuracy").fillna(0)
    failed = 100 * (means["A"] - means["FedAvg"]).mean()
    assert failed < -20
    assert more == [
        "2 of 6 runs of A (seeds 2 and 4) are absent: a pair is compared on the seeds that both have.",
        f"Had they failed, at accuracy 0, A would be worse than FedAvg by {-failed:.4g} points.",
    ]
    assert len(compare(table).conclusions) == 2
    # no failed run is worth more than those that ended
    negative = compare(crashed.assign(metric="r2", value=crashed["value"] - 1)).conclusions
    means = primary_summary(crashed, "accuracy") - 1
    worst = means.min(axis=None)
    would = (means.fillna(worst)["A"] - means["FedAvg"]).mean()
    rest = f"the smallest mean of any run, A would be better than FedAvg by {would:.4g}."
    assert f"Had they failed, at r2 {worst:.4g}, {rest}" in negative
    # losses have no worst value: the largest that any run reached stands for it
    losses = crashed.assign(metric="log_loss", value=-np.log(crashed["value"]))
    means = primary_summary(losses, "log_loss")
    worst = means.max(axis=None)
    would = (means.fillna(worst)["A"] - means["FedAvg"]).mean()
    assert compare(losses).conclusions[-2] == (
        f"Had they failed, at log_loss {worst:.4g}, the largest mean of any run, A would be "
        f"{'worse' if would > 0 else 'better'} than FedAvg by {abs(would):.4g}."
    )
    *_, absent, unknown = compare(losses.assign(metric="depth")).conclusions
    assert absent == more[0]
    assert unknown.endswith("it is not known which way depth is worse.")
    many = pd.concat([crashed, several([f"M{i}" for i in range(7)], seeds=6)])
    assert compare(many, control="A").conclusions[-2].endswith("8 of 8 differences would change sign.")


def test_outcomes_are_those_of_the_intervals():
    rng = np.random.default_rng(3)
    tables = [history(np.full(6, 0.7), "FedAvg", clients=1)]
    for i, shift in enumerate(np.linspace(-0.004, 0.004, 9)):
        tables.append(history(0.7 + shift + rng.normal(0, 0.001, 6), f"M{i}", clients=1))
    found = compare(tables).differences
    apart = (found["low"] > 0) | (found["high"] < 0)
    assert 2 < apart.sum() < 9
    assert ((found["outcome"] == "different") == apart).all()


def test_very_many_seeds_are_not_counted_and_endless_ones_are_told():
    spread = {"FedAvg": [0.5, 0.9, 0.5, 0.9, 0.6], "B": [0.8, 0.5, 0.6, 0.7, 0.8]}
    pair = [history(values, label, rounds=3, clients=1) for label, values in spread.items()]
    assert compare(pair, last=1).conclusions[0].endswith("at most. More than 1000 seeds would be needed for 1 point.")
    split = compare(pair, last=1, design=Design(clients="new", data="resplit", test_to_train=0.25))
    assert split.conclusions[0].endswith("No number of splits of these data would do for 1 point.")
    assert "never enough" in str(split)


def test_many_methods_are_counted_from_the_best_to_the_worst():
    rng = np.random.default_rng(0)
    for metric, order in (("accuracy", range(6, -1, -1)), ("log_loss", range(7))):
        tables = [history(0.3 + 0.05 * i + rng.normal(0, 0.001, 5), f"M{i}", metric=metric) for i in range(7)]
        said = compare(tables, control=None).conclusions
        assert said[0].startswith("Of 21 pairs 21 differ")
        for place, i in enumerate(order):
            counts = {"better than": 6 - place, "worse than": place}
            first, second = counts if metric == "accuracy" else reversed(counts)
            many = f"{counts[first]} other{'s' * (counts[first] != 1)}"
            words = f"M{i} is {first} {many}, {second} {counts[second]}, and not told apart from 0."
            assert said[1 + place] == words


def test_runs_that_stopped_early_count_in_the_round_that_they_kept():
    table = history([0.5, 0.6, 0.4], "A").assign(kept=lambda rows: rows["round"] == 1 + rows["seed"])
    lower = np.array([0.3, 0.4, 0.4])  # rounds 1 and 2 are lower
    np.testing.assert_allclose(primary_summary(table, "accuracy")["A"], lower)
    np.testing.assert_allclose(compare(table).scores.by_seed()[0], lower)
    assert "the round that each run kept" in compare(table).estimand


def test_what_was_held_over_seeds_is_not_spoken_of():
    def run(method, vary):
        return fs.federate(
            method,
            fs.models.mlp(64, 4, 10),
            digits(),
            fs.Training(lr=0.01),
            rounds=2,
            seed=range(2),
            vary=vary,
            **QUIET,
        )

    batches, weights = run(fs.FedAvg(), ["batches"]), run(fs.Local(), ["initial weights"])
    fixed = Design(clients="same", data="fixed").sentence()
    assert compare(batches).generalises == (
        f"{fixed} Initial weights were the same under every seed: it does not speak of others."
    )
    both = compare([batches, weights])
    assert "Initial weights and batches were the same under every seed" in both.generalises
    assert "result 1 and result 2 vary other sources over seeds (batches; initial weights)." in both.notes
    assert compare(run(fs.FedAvg(), None)).generalises == fixed


def test_results_over_their_own_rounds_say_which():
    found = compare([history([0.5, 0.6], "A"), history([0.4, 0.7], "B", rounds=8)], across="rounds")
    assert "result 1 counts by its rounds 3 to 12." in found.notes
    learning = "all that were evaluated: a mean of learning, not of where the methods end"
    assert f"result 2 counts by its rounds 1 to 8, {learning}." in found.notes
    one = compare([history([0.5, 0.6], "A"), history([0.4, 0.7], "B", rounds=8)], across="rounds", last=1)
    assert "result 2 counts by its round 8." in one.notes


def test_what_federate_returned_is_drawn_over_bytes():
    result = trained([fs.FedAvg(), fs.Local()], digits, seeds=2)
    spent = compare(result).scores.spent
    sent = result.traffic[result.traffic["method"] == "FedAvg"].groupby(["seed", "round"])[["bytes_up", "bytes_down"]]
    np.testing.assert_array_equal(spent[0], sent.sum().sum(axis=1).unstack("round").cumsum(axis=1))
    assert not spent[1, np.isfinite(spent[1])].any()
    compare(result).curves(axis="bytes")
    with pytest.raises(ValueError, match=r"compare what fs\.federate returned"):
        compare(result.history).curves(axis="bytes")


def test_seeds_needed_come_with_how_far_off_they_may_be():
    table = several(["FedAvg", "B"], seeds=5)
    found = compare(table)
    low, high = (float(word) for word in re.search(r"allow (\S+) to (\S+) times", found.notes[0]).groups())
    of = plan(float(found.differences["sd"].iloc[0]), margin=0.01, pilot_seeds=5)
    assert of.low / of.seeds == pytest.approx(low, rel=0.2)
    assert of.high / of.seeds == pytest.approx(high, rel=0.1)
    two = compare(table[table["seed"] < 2])
    assert "limits allow 0.2 to more than 100 times as many." in two.notes[0]


def test_what_would_be_passed_over_is_refused():
    table = several(["A", "B"], seeds=2)
    with pytest.raises(ValueError, match="estimand must name methods of A, B, got 'Q'"):
        compare(table, estimand={"Q": "personal"})
    with pytest.raises(ValueError, match=r"design must be a fedstat\.inference\.Design, got 'fixed'"):
        compare(table, design="fixed")
    stopped = history([0.4, 0.7], "C").assign(kept=lambda rows: rows["round"] == 3)
    with pytest.raises(ValueError, match="result 2 stopped early, and other runs did not"):
        compare([table, stopped])
    diverged = history([0.5, 0.6], "A").assign(value=np.nan)
    with pytest.raises(ValueError, match="A ran under the same seed in result 1 and in result 2"):
        compare([table, diverged])


def test_clients_that_nobody_saw_under_a_seed_are_in_no_mean_of_it():
    table = several(["A", "B"], seeds=3, clients=3)
    part = table[~((table["seed"] == 1) & (table["client"] == 2))]
    found = compare(part)
    assert not found.gaps
    expected = part[part["round"] > 2].groupby(["method", "seed"])["value"].mean().unstack()
    np.testing.assert_allclose(found.scores.by_seed(), expected)
    np.testing.assert_allclose(found.summary["mean"], expected.mean(axis=1))


def test_one_evaluation_is_no_curve_and_two_plans_are_refused():
    once = several(["A", "B"], rounds=1, seeds=2)
    assert not any("all that were evaluated" in note for note in compare(once).notes)
    plans = [fs.inference.AnalysisPlan(arms=["FedAvg", "Local"], margin=margin) for margin in (0.01, 0.02)]
    runs = [trained([fs.FedAvg(), fs.Local()], digits(), plan=of) for of in plans]
    with pytest.raises(ValueError, match=r"under different analysis plans; choose one with plan="):
        compare({"one": runs[0], "other": runs[1]})


def test_one_weighting_is_enough_for_clients_of_one_size():
    found = compare(trained([fs.FedAvg(), fs.Local()], hospitals()))
    np.testing.assert_allclose(found.summary["by samples"], found.summary["mean"])
    assert not any("Counted equally" in note for note in found.notes)
