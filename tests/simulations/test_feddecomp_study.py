"""The FedDecomp study: what it measures of weights, what its ablations are, and what its findings tell."""

import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import fedstat as fs
from fedstat.federated.client.network import build
from fedstat.methods import FedDecomp
from simulations.feddecomp import told
from simulations.feddecomp.cells import ARMS, CODE, TEXT, Setup, World, factory, pools, populate
from simulations.feddecomp.numbers import numbers
from simulations.feddecomp.papers import PAPER
from simulations.feddecomp.per_seed import layouts
from simulations.feddecomp.runs import BEST, METRICS, Job, distances, one_job, play, pretrained, spread, tau
from simulations.feddecomp.study import (
    FEDAVG_LOW,
    LOCAL_LOW,
    REVERSE,
    SCALES,
    SIMULTANEOUS,
    SPREAD,
    decomp,
    epochs_arm,
    evidence,
    jobs,
    rate_arm,
    tune,
    warm_arm,
)
from simulations.published import printed

WORLD = World("digits", "", "digits", "small_cnn")
(SMALL,) = SCALES["smoke"].experiments
SETUP = Setup(3, 20, 10, rounds=2, last=1, batch=10, warm_epochs=1)


def job(arm, method, **changes):
    return Job(WORLD, SETUP, arm, method, 0.5, 0.05, (7, 8), SETUP.train, SETUP.rounds, SETUP.epochs, **changes)


# --- runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_epochs_of_the_low_rank_part_figure_5_is_fedavg_to_the_bit():
    scale = SCALES["smoke"]
    rates = dict.fromkeys(ARMS, 0.03)
    small = SMALL
    of = {one.arm: one for one in jobs(scale, small, rates) if one.train == small.setup.train}
    none, fedavg = (one_job(of[arm]) for arm in (epochs_arm(0, small.setup), "FedAvg"))
    assert of[epochs_arm(0, small.setup)].method.lora_epochs == 0
    pd.testing.assert_frame_equal(none["accuracy"].drop(columns="arm"), fedavg["accuracy"].drop(columns="arm"))
    assert (none["moved"]["tau"] == 0).all()
    two = one_job(of[CODE])["accuracy"]
    assert not np.allclose(two["value"], fedavg["accuracy"]["value"])


@pytest.mark.parametrize("reading", ["code", "text"])
def test_spread_and_distances_are_those_of_the_models(reading):
    clients = populate(WORLD, SETUP, 0.5, 20, 7, validation=False)
    training = fs.Training(lr=0.05, momentum=0.9, batch_size=10, local_epochs=3)
    method, first = FedDecomp(reading=reading), {}
    for round in fs.rounds(method, factory(WORLD, (1, 8, 8), 10), clients, training, seed=7):
        ((key, update),) = round.updates.items()
        network = update.network
        first = first or {name: leaf.clone() for name, leaf in update.start.items()}
        if round.number == 2:
            break
    last, server = update.end, round.states[key].server
    shared = [name for name in network.trainable if not name.endswith((".a", ".b"))]
    off = np.sqrt(sum(((last[n] - last[n].mean(0)) ** 2).flatten(1).sum(1).numpy() for n in shared))
    assert spread(network, last) == pytest.approx(off.mean(), rel=1e-5)

    of_sigma, of_tau = distances(network, first, last)
    moved = [((server[n] - first[n][0]) ** 2).sum() for n in shared]
    assert of_sigma == pytest.approx(float(torch.sqrt(sum(moved))), rel=1e-4)
    low_rank = []  # the weights that the network has, less their full parts: tau, which was zero at the start
    for k in range(SETUP.clients):
        whole = network.compose({name: leaf[k] for name, leaf in last.items()})
        low_rank.append(sum(((whole[name] - last[f"{name}.full"][k]) ** 2).sum() for name in network.forms))
    assert of_tau == pytest.approx(float(torch.sqrt(torch.stack(low_rank)).mean()), rel=1e-3)
    assert of_tau > 0
    assert torch.equal(tau(network, first), torch.zeros_like(tau(network, first)))


def test_a_pretrained_start_is_the_trained_body_under_a_head_drawn_anew():
    module, accuracy = pretrained(WORLD, 1)
    assert 0 < accuracy <= 1
    begun = play(job("warm", decomp(WORLD, SETUP, lora_epochs=5), pretrained=True), [7])
    # with all epochs for the low-rank part sigma never moves from that start
    assert begun.moved["sigma"].iloc[0] == 0
    weights = dict(module.named_parameters())
    fresh = factory(WORLD, (1, 8, 8), 10)()
    assert weights.keys() == dict(fresh.named_parameters()).keys()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        drawn = dict(factory(WORLD, (1, 8, 8), 10)().named_parameters())
    assert torch.equal(weights["head.weight"], drawn["head.weight"])
    assert not torch.equal(weights["conv1.weight"], drawn["conv1.weight"])


def test_images_for_training_tuning_tests_and_pretraining_are_apart(monkeypatch):
    of = pools(WORLD)
    every = np.concatenate(list(of.values()))
    assert len(every) == len(set(every.tolist())) == 1797
    x, _ = fs.data.digits()
    for validation, pool in ((True, "validation"), (False, "test")):
        clients = populate(WORLD, SETUP, 0.5, 20, 3, validation=validation)
        mean, sd = x.mean(), x.std()
        shown = {row.tobytes() for row in ((x[of[pool]] - mean) / sd).astype("float32").round(3)}
        held = clients.test.x.reshape(-1, 64).astype("float32").round(3)
        assert sum(row.tobytes() in shown for row in held) / len(held) > 0.95  # rounding at a border may differ
    seen = {}

    def spy(method, grid, model, clients, training, *, seed, **how):
        seen.update({s: clients(s) for s in seed})
        raise FloatingPointError

    monkeypatch.setattr(fs, "tune", spy)
    with pytest.raises(FloatingPointError):
        tune(SCALES["smoke"], replace(SMALL, tuning_seeds=1), CODE)
    ((seed, clients),) = seen.items()
    assert seed >= 10_000
    assert clients.test is None
    np.testing.assert_array_equal(
        clients.validation.x, populate(WORLD, SMALL.setup, 0.5, 30, seed, validation=True).test.x
    )


@pytest.mark.slow
def test_where_training_diverges_there_is_no_accuracy():
    found = one_job(replace(job("FedAvg", fs.FedAvg()), lr=1e30))["accuracy"]
    assert found["value"].isna().all()
    assert set(found["seed"]) == {7, 8}
    assert set(found["metric"]) == {*METRICS, BEST}


# --- what is printed ----------------------------------------------------------------------------------------------


def test_printed_tables_hold_what_the_paper_prints():
    one = {(r["data"], r["dirichlet"], r["method"]): r for r in printed(PAPER, "table_1")}
    assert len(one) == 99
    assert one["CIFAR-10", "0.5", "FedRoD"]["accuracy"] == "72.34"
    assert one["CIFAR-10", "0.5", "FedRoD"]["sd"] == "1.77"
    assert one["CIFAR-100", "1.0", "pFedGate"]["sd"] == "0.03"
    three = {(r["data"], r["training"]): (r["accuracy"], r["sd"]) for r in printed(PAPER, "table_3")}
    assert three["Tiny ImageNet", "simultaneous"] == ("35.37", "0.71")
    four = {(r["data"], r["method"]): (r["accuracy"], r["sd"]) for r in printed(PAPER, "table_4")}
    assert four["CIFAR-10", LOCAL_LOW] == ("81.97", "2.62")
    assert four["CIFAR-100", FEDAVG_LOW] == ("35.91", "0.70")
    five = {(r["dirichlet"], r["method"]): r["accuracy"] for r in printed(PAPER, "table_5")}
    assert five["0.5", "reverse"] == "23.85"
    # the tables repeat one another
    for data in ("CIFAR-10", "CIFAR-100", "Tiny ImageNet"):
        same = one[data, "0.1", "FedDecomp"]
        assert three[data, "alternating"] == (same["accuracy"], same["sd"])
    for (data, method), value in four.items():
        if method in ("Local", "FedAvg"):
            assert value == (one[data, "0.1", method]["accuracy"], one[data, "0.1", method]["sd"])
    for alpha in ("0.1", "0.5", "1.0"):
        assert five[alpha, "FedDecomp"] == one["CIFAR-100", alpha, "FedDecomp"]["accuracy"]


# --- what is told of planted numbers ------------------------------------------------------------------------------

#: Points above FedAvg.
EFFECT = {
    "Local": 5, CODE: 10, TEXT: 3, SIMULTANEOUS: 7, REVERSE: 5, LOCAL_LOW: 5, FEDAVG_LOW: 2,
    epochs_arm(0, SETUP): 0, epochs_arm(5, SETUP): 4, warm_arm(0): 4, warm_arm(4): 12, rate_arm(CODE): -20,
}  # fmt: skip
RATIO = {SPREAD["code"][1]: 2.0, SPREAD["code"][2]: 1.0, SPREAD["text"][1]: 1.0, SPREAD["text"][2]: 0.5}


def planted(scale, noise=0.1):
    """Make the tables that a scale writes, with known differences and independent noise of `noise` points."""
    rng = np.random.default_rng(2)
    accuracy, curves, moved = [], [], []
    for one in (one for of in scale.experiments for one in jobs(scale, of, dict.fromkeys(ARMS, 0.1))):
        where = {"world": one.world.name, "arm": one.arm, "dirichlet": one.dirichlet, "train": one.train}
        for seed in one.seeds:
            base = 0.4 + seed % 7 / 100 + EFFECT.get(one.arm, 1) / 100
            values = {metric: base + noise * rng.normal() / 100 for metric in (*METRICS, BEST)}
            values["majority_share"] = 0.2
            accuracy += [{"seed": seed, "metric": m, "value": v, **where} for m, v in values.items()]
            if not one.method.__class__.__name__.startswith("FedDecomp"):
                continue
            level = RATIO.get(one.arm, 1.0) * np.exp(0.01 * rng.normal())
            curves += [{"seed": seed, "round": t, "accuracy": base, "spread": level / t, **where} for t in (1, 2, 3)]
            epochs = one.method.lora_epochs
            far = {"sigma": 10.0 - epochs + 0.1 * rng.normal(), "tau": 0.5 * epochs + 0.1 * rng.normal()}
            moved.append({"seed": seed, **far, "warm": 0.5 if one.pretrained else np.nan, **where})
    rates = [
        {"arm": arm, "lr": 0.1, "chosen": True, "end": False, "world": of.world.name}
        for of in scale.experiments
        for arm in of.arms
    ]
    tuning = pd.DataFrame(rates)
    return {
        "accuracy": pd.DataFrame(accuracy), "curves": pd.DataFrame(curves), "moved": pd.DataFrame(moved),
        "tuning": tuning,
    }  # fmt: skip


#: The desk's world in which FedDecomp is taken apart.
DESK = replace(SCALES["desk"], experiments=SCALES["desk"].experiments[1:])


def test_planted_differences_are_told_as_such():
    scale = DESK
    found = told.findings(evidence(planted(scale)))
    signs = {key: finding.sign for key, finding in found.items()}
    for a in ("0.1", "0.5"):
        assert signs[f"{CODE} − Local, {a}"] == signs[f"{CODE} − FedAvg, {a}"] == "more"
        assert signs[f"{TEXT} − Local, {a}"] == "less"
        assert signs[f"{TEXT} − FedAvg, {a}"] == "more"
        assert found[f"{CODE} − Local, {a}"].mean == pytest.approx(5, abs=0.5)
        assert signs[f"table 3, {a}"] == "more"
        assert signs[f"table 5, {CODE}, {a}"] == "less"
        assert signs[f"table 5, Local, {a}"] == "unclear"
        assert signs[f"{rate_arm(CODE)} − FedAvg, {a}"] == "less"
    assert signs["table 4, Local"] == "unclear"
    assert signs["table 4, FedAvg"] == "more"
    assert signs["table 2, choice"] == "more"
    assert (signs["figure 5, rise"], signs["figure 5, fall"]) == ("more", "less")
    assert {key: found[f"figure 6, {key}"].sign for key in ("code, in all", "code, of σ", "text, of σ")} == {
        "code, in all": "less", "code, of σ": "unclear", "text, of σ": "more",
    }  # fmt: skip
    assert found["figure 6, code, in all"].mean == pytest.approx(0.5, rel=0.05)
    assert signs["table 6, order"] == signs["table 6, σ"] == "less"
    assert signs["table 6, accuracy"] == "more"
    assert {signs[f"samples, {CODE} − Local, 0.5, {n}"] for n in (50, 100, 150)} == {"more"}


def test_limits_allow_for_the_images_that_seeds_have_in_common():
    tables = evidence(planted(DESK))
    found = told.findings(tables)["table 3, 0.1"]
    rows = tables["accuracy"].query("metric == 'accuracy' and dirichlet == 0.1 and train == 100")
    wide = 100 * rows.pivot(index="seed", columns="arm", values="value")
    d = wide[CODE] - wide[SIMULTANEOUS]
    shared = 0.25 * 80 / 180  # correlation of two seeds: a quarter of the images, times the share of test images
    half = stats.t.isf(0.05 / 2 / 2, 4) * d.std() * np.sqrt(1 / 5 + shared / (1 - shared))
    assert (found.mean, found.low, found.high) == pytest.approx((d.mean(), d.mean() - half, d.mean() + half))


@pytest.mark.parametrize("scale", ["smoke", "quick"])
def test_no_pair_is_asked_about_twice_where_ablations_coincide(scale):
    found = told.findings(evidence(planted(SCALES[scale])))
    assert found["table 6, random start"].mean == pytest.approx(found["figure 5, rise"].mean)


def test_the_chapters_numbers_follow_planted_tables_and_name_what_proves():
    scale = DESK
    tables = evidence(planted(scale))
    found = numbers(tables, asdict(scale))
    json.dumps(found, allow_nan=False)
    (layout,) = layouts(tables)
    assert (layout.main, layout.further, layout.samples) == ((0.1, 0.5), (1.0,), (50, 100, 150))
    assert len(layout.ratios) == 9
    assert layout.ratios[0.6, 0.6] == CODE
    assert list(layout.epochs) == [0, 1, 2, 3, 4, 5]
    (world,) = found["worlds"]
    assert [t["counts"]["code"]["above"] for t in world["differences"]] == [10, 10, 10]
    assert world["above_both"]["code"]["at"] == ["0.1", "0.5"]
    assert len(world["above_both"]["code"]["sizes"]) == 6
    assert world["above_both"]["text"]["at"] == []
    assert {row["other"] for row in world["above_both"]["text"]["not"]} == {"Local"}
    keys = told.findings(tables).keys()
    for line in found["proof"]:
        assert set(line["findings"]) <= keys
        assert len(line["beside"]["rows"]) == 4
        assert "Local" in line["printed"]
    for key, table in evidence(tables).items():
        pd.testing.assert_frame_equal(table, tables[key])


# --- the paper's sizes --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_papers_sizes_can_be_built():
    scale = SCALES["paper"]
    shapes = {"CIFAR-10": ((3, 32, 32), 10), "CIFAR-100": ((3, 32, 32), 100), "Tiny ImageNet": ((3, 64, 64), 200)}
    for of in scale.experiments:
        world = of.world
        assert (of.setup.clients, of.setup.rounds, of.setup.train, of.setup.batch) == (40, 300, 500, 100)
        network = build(factory(world, *shapes[world.name]), np.random.default_rng(0))
        every = list(jobs(scale, of, dict.fromkeys(ARMS, 0.1)))
        assert len({one.name for one in every}) == len(every)
        assert sum(" R_c " in one.arm for one in every) == 24
        for method in {repr(one.method): one.method for one in every}.values():
            method.parameterize(network, np.random.default_rng(0))
        whole = decomp(world, of.setup).parameterize(network, np.random.default_rng(0))
        assert whole.forms.keys() == network.kernels.keys()
        assert (world.conv_ratio, world.dense_ratio) == ((0.6, 0.6) if world.name == "CIFAR-10" else (0.8, 0.4))


def test_a_world_without_other_ranks_is_told_first_and_nothing_is_made_up_of_what_did_not_run():
    scale = SCALES["desk"]
    tables = evidence(planted(scale))
    found = numbers(tables, asdict(scale))
    first, second = found["worlds"]
    assert [a["arm"] for a in first["arms"]] == [
        "FedAvg",
        "Local",
        "FedAMP",
        "FedRep",
        "FedPer",
        "FedBN",
        "FedRoD",
        "pFedSD",
        "pFedGate",
        "FedCAC",
        CODE,
        TEXT,
    ]
    assert first["doses"] is None
    assert first["drawn"] == ["methods"]
    assert second["drawn"] == ["epochs", "spread", "samples"]
    keys = told.findings(tables)
    assert keys[f"{CODE} − Local, 1"].sign == "more"
    assert keys["table 4, FedAvg"].sign == "more"
    assert "table 2, choice" not in keys
    assert "table 4, alone" not in keys
    assert keys[f"{second['name']}: table 4, FedAvg"].sign == "more"


@pytest.mark.parametrize("how", ["below", "rising"])
def test_what_is_not_trained_enough_is_not_judged(how):
    tables = planted(DESK)
    rows = tables["accuracy"]
    if how == "below":
        rows.loc[(rows["arm"] == CODE) & (rows["metric"] == "majority_share"), "value"] = 0.9
    else:
        curves = tables["curves"]
        curves["accuracy"] += np.where(curves["arm"] == CODE, 0.1 * curves["round"] * (1 + curves["seed"] % 3 / 9), 0)
        extra = [curves.assign(round=curves["round"] + 3 * k) for k in (1, 2, 3)]
        tables["curves"] = pd.concat([curves, *extra], ignore_index=True)
    found = told.findings(evidence(tables))
    unjudged = found[f"{CODE} − Local, 0.1"]
    assert unjudged.text == "not judged"
    assert unjudged.why.startswith(f"{CODE} (accuracy ")
    assert unjudged.why.endswith(") is not trained enough")
    assert found[f"{TEXT} − Local, 0.1"].sign == "less"
