"""The round loop as its users write it, early stopping, and what is measured in a round."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

import fedstat as fs
from tests.support.clients import vector_clients
from tests.support.runs import TRAINING

MODEL = fs.models.mlp(3, 6, 2)
METHODS = {"avg": fs.FedAvg(), "per": fs.methods.FedPer()}
OPTIONS = {"participation": 0.5, "seed": (0, 5), "dtype": "float64"}
RATE = fs.Training(lr=0.3, batch_size=5, local_epochs=3)


def held_out():
    """Clients with validation samples."""
    rng = np.random.default_rng(3)
    client = np.repeat(np.arange(6), 30)
    x = rng.normal(size=(180, 3))
    y = (x[:, 0] + 0.8 * rng.normal(size=180) > 0).astype(int)
    return fs.data.from_arrays(x, y, client, test=0.3, validation=0.3)


def federate(rounds, **options):
    return fs.federate(METHODS, MODEL, held_out(), RATE, rounds=rounds, progress=False, **OPTIONS, **options)


def same_states(here, there):
    for key, state in here.items():
        for group in ("server", "clients", "memory"):
            one, other = dict(getattr(state, group)), dict(getattr(there[key], group))
            assert one.keys() == other.keys()
            assert all(torch.equal(leaf, other[name]) for name, leaf in one.items())


def test_the_loop_is_the_run():
    result = fs.federate(METHODS, MODEL, vector_clients(), TRAINING, rounds=3, progress=False, **OPTIONS)
    tables, traffic = [], []
    for round in itertools.islice(fs.rounds(METHODS, MODEL, vector_clients(), TRAINING, **OPTIONS), 3):
        tables.append(round.evaluate())
        traffic.append(round.traffic)
    same_states(round.states, result.states)
    for mine, whole in ((tables, result.history), (traffic, result.traffic)):
        joined = pd.concat([table.astype({"method": object}) for table in mine], ignore_index=True)
        pd.testing.assert_frame_equal(
            joined, whole.astype(joined.dtypes.to_dict()), check_dtype=False, check_categorical=False
        )


def test_a_round_stays_what_it_was_and_runs_stop_one_by_one():
    loop = fs.rounds(METHODS, MODEL, vector_clients(), TRAINING, **OPTIONS)
    first = next(loop)
    before = first.evaluate()
    first.stop("avg", 0)
    second = next(loop)
    assert set(second.states) == {("avg", 5), ("per", 0), ("per", 5)}
    pd.testing.assert_frame_equal(first.evaluate(), before)
    with pytest.raises(ValueError, match="at hand until the next round begins"):
        first.evaluate(trained=True)
    second.stop()
    assert next(loop, None) is None


def test_what_clients_hold_after_local_training_is_an_estimand():
    clients = vector_clients()
    run = {"rounds": 2, "participation": 0.5, "dtype": "float64", "progress": False}
    local = fs.federate(fs.Local(), MODEL, clients, TRAINING, trained=True, **run).history
    key = ["round", "client", "metric"]
    mine = local[local["estimand"] == "personal"].set_index(key)["value"]
    trained = local[local["estimand"] == "trained"].set_index(key)["value"]
    assert 0 < len(trained) < len(mine)
    pd.testing.assert_series_equal(mine[trained.index], trained)  # nobody averages
    avg = fs.federate(fs.FedAvg(), MODEL, clients, TRAINING, trained=True, **run).history
    first = avg[(avg["estimand"] == "trained") & (avg["round"] == 1)].set_index(key)["value"]
    pd.testing.assert_series_equal(first, trained[first.index])  # in the first round FedAvg's clients train as alone
    assert avg["estimand"].iloc[0] == "global"


@pytest.mark.parametrize(("metric", "best"), [("accuracy", 2), ("one's own", 2), ("mse", 1), ("brier", 1)])
def test_patience_knows_by_the_name_whether_less_is_better(metric, best):
    assert fs.Patience(metric).best({1: 0.2, 2: 0.3}) == best


def test_patience_ends_each_run_by_itself_and_keeps_its_best_round():
    stop = fs.Patience("log_loss", rounds=3)
    plain = federate(25, validate=True).history
    stopped = federate(25, validate=True, stop=stop)
    curves = plain[(plain["split"] == "validation") & (plain["metric"] == "log_loss")]
    curves = curves[curves["estimand"] == curves["method"].map({"avg": "global", "per": "personal"}).astype(object)]
    ends = {}
    for key, rows in curves.groupby(["method", "seed"], observed=True):
        curve = rows.groupby("round")["value"].mean()
        last = next((t for t in curve.index if t - curve[:t].idxmin() >= 3), 25)
        ends[key] = int(curve[:last].idxmin()), last
    assert len({last for _, last in ends.values()}) > 1, "the runs should end in different rounds"
    history = stopped.history
    for key, (best, last) in ends.items():
        mine = history[(history["method"] == key[0]) & (history["seed"] == key[1])]
        assert mine["round"].max() == last
        assert set(mine.loc[mine["kept"], "round"]) == {best}
        assert stopped.final(key).round == best
        assert stopped.states[key].round == last
        theirs = plain[(plain["method"] == key[0]) & (plain["seed"] == key[1]) & (plain["round"] <= last)]
        np.testing.assert_array_equal(mine["value"], theirs["value"])
        same_states({key: stopped.final(key)}, federate(best, validate=True).states)
    table = fs.compare(stopped)
    kept = history[history["kept"] & (history["split"] == "test") & (history["metric"] == "accuracy")]
    kept = kept[kept["estimand"] == kept["method"].map({"avg": "global", "per": "personal"}).astype(object)]
    for label in METHODS:
        mean = kept[kept["method"] == label].groupby("seed")["value"].mean().mean()
        assert table.summary.loc[label, "mean"] == pytest.approx(mean)
    assert "the round that each run kept" in table.estimand


def test_a_run_that_stops_early_is_saved_continued_and_loaded_as_it_is(tmp_path):
    stop = fs.Patience("accuracy", rounds=2)
    whole = federate(12, stop=stop, folder=tmp_path / "whole")
    federate(3, stop=stop, folder=tmp_path / "parts")
    parts = federate(12, stop=stop, folder=tmp_path / "parts", resume=fs.load(tmp_path / "parts", MODEL))
    for other in (parts, fs.load(tmp_path / "parts", MODEL), fs.load(tmp_path / "whole", MODEL)):
        pd.testing.assert_frame_equal(other.history, whole.history, check_categorical=False)
        pd.testing.assert_frame_equal(other.traffic, whole.traffic, check_categorical=False)
        same_states(other.states, whole.states)
        same_states(other.kept, whole.kept)
    x = torch.randn(4, 3, dtype=torch.float64)
    kept = fs.load(tmp_path / "parts", MODEL).personal(2, "per", 5)
    last = federate(whole.final(("per", 5)).round).personal(2, "per", 5)
    assert torch.equal(kept(x), last(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": "log_loss"}, "stop must be a Patience"),
        ({"stop": fs.Patience("auc")}, "stop: metric must be one of accuracy, .*got 'auc'"),
        ({"metrics": ["f1"]}, "metrics must be names among macro_f1, .*, or a mapping, got 'f1'"),
        ({"metrics": {"accuracy": len}}, "metrics must have names of their own, got 'accuracy'"),
        (
            {"metrics": {"odd": lambda outputs, y: outputs}},
            r"metrics\['odd'\] breaks the law 'number': .* shape \(\d+, 2\)",
        ),
    ],
)
def test_what_cannot_be_measured_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        federate(1, **options)
    with pytest.raises(ValueError, match=r"stop: Patience watches validation .* only train, test\. .*validation=0.2"):
        fs.federate(fs.FedAvg(), MODEL, vector_clients(), TRAINING, rounds=1, stop=fs.Patience("accuracy"))
