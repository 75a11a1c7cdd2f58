"""The front door: what is compared, what is refused, and what is said."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedstat as fs
from fedstat.inference import Design, compare, paired_difference, primary_summary

QUIET = {"progress": False}


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
@pytest.mark.parametrize("control", ["M00", None])
def test_equal_methods_are_told_apart_in_few_runs(control):
    """Thirty equal methods and five seeds: without adjustment some interval excluded zero in 59% of runs."""
    labels = [f"M{i:02}" for i in range(30)]
    wrong = {True: 0, False: 0}
    for seed in range(60):
        table = several(labels, seed=seed, rounds=3, clients=1)
        for simultaneous in wrong:
            found = compare(table, control=control, simultaneous=simultaneous, last=1).differences
            wrong[simultaneous] += bool(((found["low"] > 0) | (found["high"] < 0)).any())
    assert wrong[True] <= stats.binom.isf(0.001, 60, 0.05)
    assert wrong[False] > 20


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
    with pytest.raises(ValueError, match="estimand of B must be one of personal in result 1, got 'global'"):
        compare(rows, estimand="global")


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
    with pytest.raises(ValueError, match=r"shares of clients in a round of 1\.0 and 0\.5.*across=\"participants\""):
        compare([one, half])
    assert len(compare([one, half], across="participants").differences) == 1
    with pytest.raises(ValueError, match="across must be of data, participants, rounds, got 'seeds'"):
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


def test_short_runs_say_what_they_average():
    found = compare([history([0.5, 0.6, 0.4], label, rounds=5) for label in "AB"])
    assert "evaluated rounds 1 to 5" in found.estimand
    assert any("Rounds 1 to 5 are all that were evaluated" in note for note in found.notes)
    assert any(note.startswith("A rose by 20 points") or note.startswith("A rose by 1") for note in found.notes)
    calm = compare([history([0.5, 0.6, 0.4], label) for label in "AB"])
    assert not any("rose" in note or "all that were" in note for note in calm.notes)
    for slope, said in ((5e-5, False), (5e-4, True)):  # 0.03 points, which no table shows, and 0.3
        one, other = (history([0.5, 0.6, 0.4], label) for label in "AB")
        both = [table.assign(value=table["value"] + slope * table["round"]) for table in (one, other)]
        assert any("A rose" in note for note in compare(both).notes) == said
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
    assert pairs.conclusions[-1] == "FedAvg is worse than both."
    assert pairs.conclusions[0].startswith("Ditto and Local cannot be told apart with 5 seeds; about ")
    assert pairs.conclusions[0].endswith("would be needed for 1 point.")
    control = shifted()
    (only,) = control.conclusions
    assert only.endswith("are better than FedAvg.")
    assert shifted(control="Local").conclusions[0].startswith("FedAvg (by 2")
    wide = shifted(control=None, margin=0.05)
    assert "Equivalent, to within 5 points: Ditto and Local." in wide.conclusions
    assert wide.differences.loc["Ditto − Local", "outcome"] == "equivalent"


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
    assert "Same and FedAvg gave the same numbers under every seed." in found.conclusions
    assert "nan" not in str(found).lower()
    assert "equivalent, p = 0" not in str(found)


def test_limits_of_shares_stay_shares():
    found = compare([history([0.9, 0.89, 0.6], "A"), history([0.9, 0.3, 0.35], "FedAvg")])
    assert found.summary["high"].max() == 1
    assert found.summary["low"].min() == 0
    assert found.differences["high"].max() == 1


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
    assert found.notes[-1] == "All of it is as planned."
    more = compare([*runs, history([0.4, 0.7, 0.5], "C")], plan=plan, margin=0.1, control="A")
    assert more.notes[-1] == "Not as planned: margin 0.1 (planned: 0.02); control A (planned: B); arms C."


def test_only_a_plan_that_the_runs_began_with_is_said_to_come_before_them(tmp_path):
    plan = fs.inference.AnalysisPlan(arms=["FedAvg", "Local"], control="Local", last=1)
    trained([fs.FedAvg(), fs.Local()], digits, seeds=2, plan=plan, folder=tmp_path / "run")
    assert any(note.startswith("Planned before the runs") for note in compare(tmp_path / "run").notes)
    afterwards = "These runs did not begin with it: whether it was written before them is not known here."
    other = replace(plan, margin=0.02)
    assert any(afterwards in note for note in compare(tmp_path / "run", plan=other).notes)
    other.write(tmp_path / "run" / "plan.toml")  # changed since
    assert any(afterwards in note for note in compare(tmp_path / "run").notes)


def test_what_federate_returned_is_drawn_over_bytes():
    result = trained([fs.FedAvg(), fs.Local()], digits, seeds=2)
    spent = compare(result).scores.spent["bytes"]
    sent = result.traffic[result.traffic["method"] == "FedAvg"].groupby(["seed", "round"])[["bytes_up", "bytes_down"]]
    np.testing.assert_array_equal(spent[0], sent.sum().sum(axis=1).unstack("round").cumsum(axis=1))
    assert not spent[1, np.isfinite(spent[1])].any()
    compare(result).curves(axis="bytes")
    with pytest.raises(ValueError, match=r"compare what fs\.federate returned"):
        compare(result.history).curves(axis="bytes")
