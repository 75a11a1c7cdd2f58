"""The study of FedFac with its authors' network has the scripts' arms, and says what its tables hold."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fedstat as fs
from fedstat.inference.intervals.design import overlap_ratio
from fedstat.methods.cut import is_shared
from simulations.fedfac import study as fedfac
from simulations.images import images
from simulations.resnet18 import numbers
from simulations.resnet18.cells import (
    ARMS,
    AVERAGED,
    CODE,
    LAYER,
    PERSONAL_MASKED,
    RANDOM,
    SHARED_MASKED,
    arms,
    network,
    personal_units,
    populate,
    started,
    trained_start,
)
from simulations.resnet18.study import SCALES, Job, federate
from simulations.studies import tell

COMMITTED = Path(__file__).parents[2] / "reports" / "results" / "resnet18"

SIZE = replace(SCALES["smoke"].experiments[0].size, quantile=0.3)


@pytest.fixture(scope="module")
def start():
    return trained_start(SIZE)["start"]


def holders(arm):
    method = arms(SIZE)[arm]
    return fs.describe(method, network(SIZE), populate(SIZE, 1)).table.set_index("leaf")["holder"]


def test_running_statistics_stay_with_clients_in_all_arms_but_one():
    for arm in ARMS:
        own = holders(arm).filter(like="running_")
        assert len(own) == 4
        assert (own == ("server" if arm == AVERAGED else "client")).all(), arm


def test_what_else_is_personal_is_what_the_scripts_keep():
    personal = {arm: set(table.index[table == "client"]) for arm in ARMS for table in [holders(arm)]}
    statistics = personal["FedAvg"]
    assert personal["FedPer"] - statistics == {"head.weight", "head.bias"}
    beside = {"conv2.bias", "norm2.weight", "norm2.bias"}
    assert personal[LAYER] - statistics == {"conv2.weight", *beside}
    assert personal[CODE] - statistics == personal[RANDOM] - statistics == beside, "of the layer itself some units"


@pytest.mark.parametrize("units", [1, 16, 512])
@pytest.mark.parametrize("q", [0.0, 0.05, 0.3, 0.5, 1.0])
def test_a_drawn_split_has_as_many_personal_units_as_the_quantile_cuts(units, q):
    statistic = np.random.default_rng(0).random(units)
    shared = is_shared(statistic, fs.Quantile(q), np.ones(units, bool))
    assert personal_units(units, fs.Quantile(q)) == (~shared).sum()


def test_the_drawn_split_stays_as_it_is(start):
    result = federate(Job(SIZE, RANDOM, (1,)), start, [1])
    (shared,) = (record for name, record in result.records[RANDOM, 1].items() if "conv2" in name)
    assert (shared == shared[0]).all()
    assert (~shared[0].astype(bool)).sum() == personal_units(16, fs.Quantile(0.3))


@pytest.mark.parametrize("arm", [SHARED_MASKED, PERSONAL_MASKED])
def test_clients_find_noise_in_the_place_of_masked_units(start, arm):
    result = federate(Job(SIZE, arm, (1,)), start, [1])
    state, method = result.states[arm, 1], result.methods[arm]
    ids = torch.arange(6)
    found, held = method.receive(state, ids), fs.FedFac.receive(method, state, ids)
    same = {name: (found[name] == held[name]).flatten(2).all(2) for name in found if found[name].ndim > 2}
    shared = state.shared["conv2.weight"].reshape(1, 16, -1).all(2).expand(6, 16)
    assert 0 < shared.sum() < shared.numel()
    assert (same["conv2.weight"] == (~shared if arm == SHARED_MASKED else shared)).all()
    assert all(values.all() for name, values in same.items() if name != "conv2.weight")


def test_all_arms_start_from_the_trained_weights_under_a_new_head(start):
    module = started(SIZE, start)
    again, other = started(SIZE, start).state_dict(), network(SIZE)().state_dict()
    own = module.state_dict()
    assert all(torch.equal(own[name], again[name]) for name in own)
    assert not torch.equal(own["conv1.weight"], other["conv1.weight"])
    own = [own[name].flatten() for name in sorted(own) if not name.startswith("head.") and own[name].ndim]
    assert np.array_equal(torch.cat(own).numpy(), start["value"])


def test_no_image_belongs_to_two_clients_or_to_training_and_test():
    x, _, _ = images(SIZE.dataset)
    for tuning in (False, True):
        clients = populate(SIZE, 1, tuning=tuning)
        every = np.concatenate([part.x.reshape(-1, x[0].size) for part in (clients.train, clients.test)])
        assert len(np.unique(every, axis=0)) == len(every) == 6 * (20 + 10)


def test_intervals_are_those_of_paired_differences_that_hold_together(monkeypatch):
    tables, record, findings = tell("resnet18", COMMITTED)
    (told,) = record["settings"][0]["compared"]
    pairs = [(pair["first"], pair["second"]) for pair in told["pairs"]]
    assert (told["table"], len(pairs)) == ("Table 2", 3)
    rows = tables["accuracy"]
    rows = rows[(rows["network"] == "resnet18") & (rows["metric"] == "accuracy")]
    wide = 100 * rows.pivot(index="seed", columns="arm", values="value")
    monkeypatch.setattr(numbers, "_SHARED", {300: 1e-12, 150: 1e-12})
    apart = numbers.findings(tables)
    wider = np.sqrt(1 + 3 * overlap_ratio(60, 300, 30 / 40))  # 30,000 of 40,000 images train under each seed
    for first, second in pairs:
        difference, key = wide[first] - wide[second], f"resnet18 accuracy {first} {second}"
        assert findings[key].mean == pytest.approx(difference.mean())
        half, alone = (of[key].high - difference.mean() for of in (findings, apart))
        assert half / alone == pytest.approx(wider)
        assert alone > 4.30265 * difference.std(ddof=1) / np.sqrt(3), "three hold together"


def test_the_outcome_is_what_the_tables_say():
    _, record, findings = tell("resnet18", COMMITTED)
    signs = {
        pair: findings[f"small_cnn accuracy {' '.join(pair)}"].sign for pair in ((CODE, "FedAvg"), (CODE, AVERAGED))
    }
    assert signs == {(CODE, "FedAvg"): "more", (CODE, AVERAGED): "less"}
    outcome = next(shown.outcome for shown in fedfac.ABOUT.shows if shown.number == "Table 2")
    assert outcome.endswith("above FedAvg's so, and below it where FedAvg averages them")
    sizes = [(of["size"]["network"], tuple(of["arms"]), of["seeds"]) for of in record["config"]["experiments"]]
    assert sizes == [(of.size.network, of.arms, of.seeds) for of in SCALES["desk"].experiments]
    assert all(not setting["untrained"] for setting in record["settings"])


def test_the_papers_summary_is_the_best_mean_of_ten_rounds_in_a_row():
    tables, record, _ = tell("resnet18", COMMITTED)
    curves = numbers.curves(tables, "resnet18").loc["FedPer"]
    windows = np.lib.stride_tricks.sliding_window_view(curves.to_numpy(), 5, axis=1).mean(2)
    assert np.allclose(numbers.best(tables, "resnet18", 5)["FedPer"], windows.max(1))
    (table,) = record["settings"][0]["paper"]
    assert [row["method"] for row in table["rows"]] == ["FedAvg", "FedPer"]
    assert table["rows"][1]["ours"].startswith(f"{windows.max(1).mean():.1f} ")
