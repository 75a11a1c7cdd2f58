"""The study of burdens: who counts on both sides of a cost, what a planted cost comes to, and what is not judged."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedstat as fs
from fedstat._tables import read_tables
from simulations.burdens import compared, numbers, study
from simulations.burdens.effects import ACCURACY, COST, effects, not_trained
from simulations.burdens.loads import NONE, Burden, burdens, of_world, planned
from simulations.burdens.runs import Arm, Job, draw, measure, method, network, reference, summaries, training
from simulations.burdens.study import SCALES, account, arms
from simulations.parts import Part, run_parts

FLIP = Burden("robustness", "sign flip", 0.2)
MEDIAN = replace(FLIP, rule="geometric median")
SIGN, SLOW = Burden("compression", "sign"), Burden("absence", "stragglers", 0.5)
TINY = replace(SCALES["smoke"].settings[0], rounds=3, last=2, burdens=(FLIP, MEDIAN, SIGN, SLOW))


def test_a_run_without_a_burden_is_restricted_to_the_clients_of_the_run_with_it():
    rng = np.random.default_rng(0)
    whole = pd.DataFrame(
        [(s, c, rng.random()) for s in (1, 2) for c in range(4)], columns=["seed", "client", "accuracy"]
    )
    honest = whole[
        [(s, c) not in {(1, 0), (1, 3), (2, 2)} for s, c in whole[["seed", "client"]].itertuples(index=False)]
    ]
    of = {key: value for *key, value in whole.itertuples(index=False) for key in [tuple(key)]}
    by_hand = {1: (of[1, 1] + of[1, 2]) / 2, 2: (of[2, 0] + of[2, 1] + of[2, 3]) / 3}
    assert reference(whole, honest.assign(accuracy=0)).to_dict() == pytest.approx(by_hand)
    gone = reference(whole[whole["client"] != 1], honest)  # a client that is missing there is missing, not left out
    assert gone.isna().all()


@pytest.mark.slow
def test_costs_are_those_of_the_honest_clients_in_real_runs():
    seeds, every = (5, 6), [Arm("Local"), Arm("FedPer"), Arm("FedPer", FLIP), Arm("FedPer", SLOW)]
    measured = [measure(Job(TINY, arm, 0.3, seeds, "cpu")) for arm in every]
    tables = {name: pd.concat([some[name] for some in measured]) for name in measured[0]}
    runs = summaries(tables, every, TINY).set_index(["method", "burden", "seed"]).sort_index()

    def last(arm, **world):
        result = fs.federate({"a": method(TINY, arm)}, network(TINY), partial(draw, TINY), training(TINY, 0.3),
                             rounds=3, seed=seeds, progress=False, **world)  # fmt: skip
        rows = result.history.query("metric == 'accuracy' and round > 1")
        return rows.groupby(["seed", "client"])["value"].mean()

    attacked, free, alone = last(Arm("FedPer"), **of_world(FLIP)), last(Arm("FedPer")), last(Arm("Local"))
    for seed in seeds:
        honest = list(attacked[seed].index)
        assert len(honest) == 4
        row = runs.loc[("FedPer", FLIP.label, seed)]
        assert row["honest"] == 4
        for column, values in (("accuracy", attacked), ("without", free), ("local", alone)):
            assert row[column] == pytest.approx(np.mean([values[seed][client] for client in honest]))
        assert runs.loc[("FedPer", SLOW.label, seed), "without"] == pytest.approx(free[seed].mean())
    # whoever trains alone is not attacked: the same numbers at the honest clients
    same = last(Arm("Local"), **of_world(FLIP))
    pd.testing.assert_series_equal(same, alone[same.index])


def planted(cost, seeds=8, rise=0.0, noise=0.003):
    """Return tables in which a burden costs each method so many points on digits, by method and burden."""
    rng, rows = np.random.default_rng(1), []
    for seed in range(300, 300 + seeds):
        level = 0.8 + 0.02 * rng.standard_normal()
        local = level - 0.05
        for name, burden in [(m, b) for m in ("Local", "FedAvg", "FedPer") for b in (NONE, FLIP, MEDIAN, SIGN, SLOW)]:
            if name == "Local" and burden != NONE:
                continue
            without = local if name == "Local" else level
            lost = cost.get((name, burden), 0.0) / 100
            reached = without if burden == NONE else without + lost + noise * rng.standard_normal()
            gain = rise if (name, burden) == ("FedPer", SIGN) else 0.0
            rows.append(
                {"setting": "digits", "method": name, **vars(burden), "burden": burden.label, "seed": seed,
                 "accuracy": reached, "balanced_accuracy": reached, "log_loss": 1.0, "majority_share": 0.4,
                 "without": without, "local": local, "gain": gain + 0.1 * rng.standard_normal(), "honest": 20}
            )  # fmt: skip
    runs = pd.DataFrame(rows)
    labels = runs[["method", "burden"]].drop_duplicates()
    told = [{"setting": "digits", "arm": f"{m}, {b}", "lr": 0.3, "up": 100.0, "down": 100.0} for m, b in labels.values]
    return {"runs": runs, "arms": pd.DataFrame(told), "tuning": pd.DataFrame(), "account": pd.DataFrame()}


def test_planted_costs_and_their_differences_are_found():
    tables = planted({("FedAvg", FLIP): -20, ("FedPer", FLIP): -8, ("FedPer", SIGN): -15, ("FedAvg", MEDIAN): -2})
    found = numbers.findings(tables)
    for key, wanted in (
        ("cost digits FedAvg " + FLIP.label, -20),
        ("cost digits FedPer " + FLIP.label, -8),
        ("beside digits FedPer " + FLIP.label, 12),
        ("beside digits FedPer " + SIGN.label, -15),
        ("alone digits FedPer " + FLIP.label, -3),
        ("alone digits FedPer " + SLOW.label, 5),
        ("rule digits FedAvg " + MEDIAN.label, 18),
    ):
        assert found[key].mean == pytest.approx(wanted, abs=0.5), key
        assert found[key].sign == ("more" if wanted > 0 else "less"), key
    assert found["beside digits FedPer " + SLOW.label].sign == "unclear"
    told = numbers.numbers(tables, {})
    families = {(f["kind"], f["rule"]): f for f in told["families"]}
    assert set(families) == {("robustness", "mean"), ("robustness", "geometric median"), ("compression", "mean"),
                             ("absence", "mean")}  # fmt: skip
    assert [r["burden"] for r in families["robustness", "mean"]["beside"][0]["more"]] == ["20% flip signs, mean"]
    assert [r["burden"] for r in families["compression", "mean"]["beside"][0]["less"]] == ["signs"]
    assert families["absence", "mean"]["within"] == {"FedAvg": 1, "FedPer": 1}
    assert {effect.together for effect in effects(tables).among("what robustness costs (digits)")} == {2}


def test_an_effect_is_the_corrected_paired_interval_of_its_family_by_hand():
    tables = planted({("FedAvg", SIGN): -3, ("FedPer", SIGN): -1})
    found, wide = effects(tables), compared.points(tables, "digits")
    runs = tables["runs"].set_index(["method", "burden", "seed"]).sort_index()
    for name in ("FedAvg", "FedPer"):
        own = runs.loc[name, SIGN.label]
        by_hand = 100 * (own["accuracy"] - own["without"])
        effect = found[ACCURACY, "digits", compared.named(name, SIGN), compared.without(name, SIGN)]
        assert (effect.mean, effect.together) == (pytest.approx(by_hand.mean()), 2)
    # the difference of costs is alone in its family: Nadeau and Bengio's correction, 20% tested and 60% trained on
    d = 100 * (
        runs.loc["FedPer", SIGN.label][["accuracy", "without"]] @ [1, -1]
        - runs.loc["FedAvg", SIGN.label][["accuracy", "without"]] @ [1, -1]
    )
    half = stats.t.isf(0.025, 7) * d.std() * np.sqrt(1 / 8 + 0.2 / 0.6)
    effect = found[COST, "digits", compared.cost("FedPer", SIGN), compared.cost("FedAvg", SIGN)]
    assert (effect.mean, effect.low, effect.high) == pytest.approx((d.mean(), d.mean() - half, d.mean() + half))
    assert wide[compared.cost("FedPer", SIGN)].to_numpy() == pytest.approx(
        100 * (runs.loc["FedPer", SIGN.label][["accuracy", "without"]] @ [1, -1]).to_numpy()
    )


def test_what_still_rises_is_not_judged_and_what_collapsed_is():
    tables = planted({("FedAvg", FLIP): -60, ("FedPer", SIGN): -5}, rise=4.0)
    assert set(not_trained(tables, "digits")) == {
        compared.named("FedPer", SIGN), compared.cost("FedPer", SIGN)
    }  # fmt: skip
    found = numbers.findings(tables)
    assert found["cost digits FedAvg " + FLIP.label].sign == "less"
    for what in ("cost", "beside", "alone"):
        assert found[f"{what} digits FedPer {SIGN.label}"].text == "not judged"
    (listed,) = numbers.numbers(tables, {})["settings"][0]["untrained"]
    assert listed["arm"] == "FedPer, signs"
    # without the burden not above the share of the largest class: no cost of the method is judged
    runs = tables["runs"]
    low = {**tables, "runs": runs.assign(majority_share=0.4 + 0.55 * (runs["method"] == "FedPer"))}
    judged = {key for key, f in numbers.findings(low).items() if f.sign != "undefined"}
    assert judged
    assert not any(" FedPer " in key for key in judged)


def test_a_run_that_diverged_leaves_its_cost_undefined():
    tables = planted({})
    runs = tables["runs"]
    lost = (runs["method"] == "FedPer") & (runs["burden"] == FLIP.label) & (runs["seed"] == 300)
    runs.loc[lost, ["accuracy", "without", "local"]] = np.nan
    found = numbers.findings(tables)
    assert found["cost digits FedPer " + FLIP.label].sign == "undefined"
    assert found["cost digits FedAvg " + FLIP.label].sign != "undefined"
    (lost,) = numbers.numbers(tables, {})["settings"][0]["lost"]
    assert (lost["arm"], lost["count"]) == ("FedPer, 20% flip signs, mean", "1 of 8")
    assert float(lost["guess"].replace("−", "-")) == pytest.approx(-70, abs=5)


@pytest.mark.slow
def test_an_arm_that_diverges_under_all_seeds_has_rows_without_values(tmp_path):
    every = {arm: Job(TINY, arm, lr, (5, 6), "cpu") for arm, lr in ((Arm("Local"), 0.3), (Arm("FedAvg"), 1e30))}
    parts = [Part(arm.label, job, partial(measure, job)) for arm, job in every.items()]
    tables = run_parts(parts, tmp_path, "burdens")
    runs = summaries(tables, [*every], TINY).set_index("method")
    assert runs.loc["Local", "accuracy"].notna().all()
    assert runs.loc["FedAvg", ["accuracy", "without", "local", "gain"]].isna().all(axis=None)
    assert runs.loc["FedAvg", "seed"].tolist() == [5, 6]


def test_honest_clients_accuracy_over_attackers_is_tabulated_with_its_intervals():
    tables = planted({("FedAvg", FLIP): -20, ("FedPer", FLIP): -8, ("FedPer", MEDIAN): -2}, noise=0.02)
    runs = tables["runs"]
    lost = (runs["method"] == "FedAvg") & (runs["burden"] == FLIP.label) & (runs["seed"] == 302)
    runs.loc[lost, ["accuracy", "without", "local"]] = np.nan
    (setting,) = numbers.numbers(tables, {})["settings"]
    told = setting["honest"]
    assert told["shares"] == ["0%", "20%"]
    shown = {(row["method"], row["rule"]): [*row["at"].values()] for row in told["rows"]}
    assert list(shown) == [("Local", "–"), *((m, r) for m in ("FedAvg", "FedPer") for r in ("mean", MEDIAN.rule))]

    def by_hand(method, burden):
        x = 100 * runs[(runs["method"] == method) & (runs["burden"] == burden.label)]["accuracy"]
        low, high = stats.t.interval(0.95, len(x) - 1, x.mean(), stats.sem(x))
        return f"{x.mean():.1f} [{low:.1f}, {high:.1f}]"

    assert shown["FedPer", "mean"] == [by_hand("FedPer", NONE), by_hand("FedPer", FLIP)]
    assert shown["FedPer", MEDIAN.rule] == ["–", by_hand("FedPer", MEDIAN)]  # without an attack it did not run
    assert shown["FedAvg", "mean"] == [by_hand("FedAvg", NONE), "–"]
    # what honest clients reach alone is known under all seeds, from the arms that did not diverge
    assert shown["Local", "–"] == [by_hand("Local", NONE)] * 2


def test_accuracy_stands_beside_the_bytes_of_each_codec():
    tables = planted({("FedPer", SIGN): -15})
    tables["arms"].loc[tables["arms"]["arm"].str.endswith(SIGN.label), "up"] = 4.0
    (setting,) = numbers.numbers(tables, {})["settings"]
    codecs = {(row["method"], row["codec"]): row for row in setting["codecs"]}
    assert list(codecs) == [(m, codec) for m in ("FedAvg", "FedPer") for codec in ("none", "signs")]
    assert (codecs["FedPer", "none"]["up"], codecs["FedPer", "signs"]["up"]) == ("100", "4")
    assert codecs["FedPer", "signs"]["times"] == "25"
    runs = tables["runs"]
    x = 100 * runs[(runs["method"] == "FedPer") & (runs["burden"] == SIGN.label)]["accuracy"]
    low, high = stats.t.interval(0.95, len(x) - 1, x.mean(), stats.sem(x))
    assert codecs["FedPer", "signs"]["accuracy"] == f"{x.mean():.1f} [{low:.1f}, {high:.1f}]"


def test_the_committed_account_is_recomputed_with_delta_relation_and_sampling():
    held = read_tables(Path(__file__).parents[2] / "reports/results/burdens")["account"]
    anew = pd.concat([account(setting) for setting in SCALES["desk"].settings], ignore_index=True)
    pd.testing.assert_frame_equal(held, anew, rtol=1e-5, check_dtype=False)
    for setting in SCALES["desk"].settings:
        who = f"all {setting.clients} clients in each of {setting.rounds} rounds"
        assert set(held.loc[held["setting"] == setting.name, "sampling"]) == {who}
    config = {"settings": [vars(setting) for setting in SCALES["desk"].settings]}
    for told in numbers.numbers(planted({}) | {"account": held}, config)["settings"]:
        assert {e["sampling"] for e in told["epsilons"]} == {"all 20 clients in each of 120 rounds"}


def test_rates_are_tuned_for_what_is_chosen_and_not_for_what_befalls():
    assert {planned(b) for b in (FLIP, SLOW, Burden("absence", "dropout", 0.3))} == {NONE}
    assert planned(MEDIAN) == Burden("robustness", "no attack", 0.0, "geometric median")
    assert planned(SIGN) == SIGN
    for scale in SCALES.values():
        for setting in scale.settings:
            every = arms(setting)
            labels = [arm.label for arm in every]
            assert len(set(labels)) == len(labels)
            assert {Arm(arm.method, planned(arm.burden)).label for arm in every} <= set(labels)
            assert all(method(setting, arm).weighting == "uniform" for arm in every if arm.method != "Local")
    assert len(burdens((0.1,), (0.2,), {"half": 0}, (), (), ())) == 6


@pytest.mark.slow
def test_the_smoke_run_tells_its_chapter(tmp_path):
    scale = SCALES["smoke"]
    tables = study.run(scale, tmp_path)
    (setting,) = scale.settings
    assert len(tables["runs"]) == setting.seeds * len(arms(setting))
    free = tables["runs"].query("kind in ('compression', 'absence', 'privacy')")
    assert (free["honest"] == setting.clients).all()
    up = tables["arms"].set_index("arm")["up"]
    assert up["FedPer, sign"] < up["FedPer, no burden"] / 25
    pd.testing.assert_frame_equal(account(setting), tables["account"])
    told = numbers.numbers(tables, {})
    assert {f["kind"] for f in told["families"]} == {"robustness", "compression", "absence", "privacy"}
    again = measure(Job(setting, Arm("FedPer", FLIP), 0.3, (1400, 1401), "cpu"))["clients"]
    rows = tables["runs"].query("method == 'FedPer' and burden == @FLIP.label").set_index("seed")
    assert again.groupby("seed")["accuracy"].mean().to_dict() == pytest.approx(rows["accuracy"].to_dict())
