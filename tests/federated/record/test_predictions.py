"""Predictions of single samples: what the history measures, in a run's folder as well, and of the right models."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error

import fedstat as fs
from fedstat.federated.recorder import Recorder
from tests.federated.record.test_survival import contents
from tests.support.manifests import relist

METHODS = {
    "avg": fs.FedAvg(),
    "ditto": fs.methods.Ditto(),
    "apfl": fs.methods.APFL(),
    "em": fs.methods.FedEM(components=2),
    "rod": fs.methods.FedRoD(),
}
FEW = {"avg": fs.FedAvg(), "em": fs.methods.FedEM(components=2)}
OUTPUTS = {"logistic": 1, "two": 2, "three": 3, "numbers": 4, "regression": 1}


def drawn(task):
    """A function from a seed to clients of unequal size, with names and all splits."""

    def clients(seed):
        rng = np.random.default_rng(seed)
        client = np.repeat(["north", "east", "south", "west"], rng.integers(14, 40, 4))
        x = rng.normal(size=(len(client), 3))
        cut = np.digitize(x[:, 0] + x[:, 1] * (client == "north"), np.linspace(-0.9, 0.9, OUTPUTS[task] - 1))
        names = {
            "two": np.array(["ill", "well"]),
            "three": np.array(["c", "a", "b"]),
            "numbers": np.array([7, 2, 9, 4]),
        }
        y = {"regression": x.prod(axis=1), "logistic": (x[:, 0] > 0).astype(int)}.get(task)
        return fs.data.from_arrays(x, names[task][cut] if y is None else y, client, test=0.3, validation=0.2, seed=seed)

    return clients


def go(task="logistic", methods=FEW, rounds=3, **options):
    options = {
        "participation": 0.5,
        "seed": [3, 1],
        "dtype": "float64",
        "predictions": True,
        "progress": False,
    } | options
    training = fs.Training(lr=0.3, batch_size=8)
    return fs.federate(methods, fs.models.mlp(3, 6, OUTPUTS[task]), drawn(task), training, rounds=rounds, **options)


def measured(table):
    """Metrics of scikit-learn by method, seed, estimand, split, client and metric."""
    found = {}
    for key, rows in table.groupby(["method", "seed", "estimand", "split", "client"], sort=False):
        y = rows["outcome"]
        if "value" in rows:
            found[*key, "mse"] = mean_squared_error(y, rows["value"])
            continue
        if "probability" in rows:
            p = pd.DataFrame({0: 1 - rows["probability"], 1: rows["probability"]})
        else:
            p = rows.filter(regex="^p_")
            p = p.set_axis(pd.Index([name.removeprefix("p_") for name in p]).astype(y.dtype), axis=1)
        found[*key, "accuracy"] = accuracy_score(y, p.columns.to_numpy()[p.to_numpy().argmax(axis=1)])
        found[*key, "log_loss"] = log_loss(y, p, labels=list(p.columns))
    return pd.Series(found)


def same_as_history(result, splits=("test", "validation")):
    """Predictions give the metrics of the round that each run ends with, for all methods, seeds, clients and models."""
    table = pd.concat([result.predictions(split=split) for split in splits])
    history, mine = result.history, measured(table)
    last = history["kept"] if "kept" in history else history["round"] == history["round"].max()
    rows = history[last & history["metric"].isin(["accuracy", "log_loss", "mse"]) & history["split"].isin(splits)]
    theirs = rows.astype({"method": str, "estimand": str, "split": str, "metric": str}).set_index(
        ["method", "seed", "estimand", "split", "client", "metric"]
    )["value"]
    assert len(mine) == len(theirs) > 0
    np.testing.assert_allclose(mine, theirs[mine.index], rtol=1e-9, atol=1e-12)
    return table


@pytest.mark.parametrize("task", OUTPUTS)
def test_metrics_of_predictions_are_those_of_the_history(task):
    methods = {label: m for label, m in METHODS.items() if label != "rod" or OUTPUTS[task] > 1}
    result = go(task, methods, validate=True, seed=[3, 1] if task == "three" else 3)
    table = same_as_history(result)
    assert {"personal", "global"} <= set(table["estimand"])
    told = {"logistic": ["probability"], "two": ["probability"], "regression": ["value"]}
    told |= {"three": ["p_a", "p_b", "p_c"], "numbers": ["p_2", "p_4", "p_7", "p_9"]}
    first = ["method", "seed", "estimand", "split", "client", "name", "sample", "outcome"]
    assert list(table.columns) == first + told[task]
    for seed in result.config["seeds"]:
        clients = drawn(task)(seed)
        for split, samples in (("test", clients.test), ("validation", clients.validation)):
            for label in methods:
                for _, rows in result.predictions(label, seed, split=split).groupby("estimand"):
                    y = samples.y if clients.classes is None or task == "two" else np.array(clients.classes)[samples.y]
                    np.testing.assert_array_equal(rows["outcome"], y)
                    np.testing.assert_array_equal(rows["client"], samples.owners)
                    np.testing.assert_array_equal(rows["name"], np.array(clients.names)[samples.owners])
                    own = np.concatenate([np.arange(n) for n in samples.n])
                    np.testing.assert_array_equal(rows["sample"], own if samples.row is None else samples.row)


def test_classes_that_clients_call_differently_have_the_names_of_the_data():
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.repeat(["a", "b", "c"], 20)
    dealt = fs.data.permute_labels(fs.data.iid(60, 3, seed=1), 3, seed=2)
    plain, renamed = (fs.data.from_indices(x, y, part, seed=3) for part in (replace(dealt, labels=None), dealt))
    assert not np.array_equal(plain.test.y, renamed.test.y)
    training, how = fs.Training(lr=0.1), {"rounds": 2, "dtype": "float64", "progress": False}
    result = fs.federate(fs.methods.Local(), fs.models.mlp(3, 6, 3), renamed, training, **how)
    table = same_as_history(result, ["test"])
    np.testing.assert_array_equal(table["outcome"], np.array(plain.classes)[plain.test.y])
    np.testing.assert_array_equal(table["outcome"], y[table["sample"]])


def test_early_stopping_keeps_the_predictions_of_the_models_that_it_keeps(tmp_path):
    stop = fs.Patience("accuracy", rounds=2)
    result = go(rounds=9, stop=stop, folder=tmp_path / "run")
    table = same_as_history(result)
    rounds = {key: (result.kept[key].round, state.round) for key, state in result.states.items()}
    assert any(best < last for best, last in rounds.values())
    loaded = fs.load(tmp_path / "run")
    for split in ("test", "validation"):
        pd.testing.assert_frame_equal(
            loaded.predictions(split=split), result.predictions(split=split), check_exact=True
        )
    (label, seed), (best, _) = next((key, both) for key, both in rounds.items() if both[0] < both[1])
    ended = go(rounds=best, seed=[3, 1]).predictions(label, seed)
    mine = table[(table["method"] == label) & (table["seed"] == seed) & (table["split"] == "test")]
    np.testing.assert_allclose(mine["probability"], ended["probability"], rtol=0, atol=1e-12)


def test_a_run_that_was_interrupted_continued_or_extended_has_the_same_files(tmp_path, monkeypatch):
    methods = {"avg": fs.FedAvg(), "ditto": fs.methods.Ditto()}
    how = {"task": "three", "methods": methods, "executor": "per-client", "checkpoint": 1, "rounds": 4}
    whole = go(**how, folder=tmp_path / "whole")
    files = contents(tmp_path / "whole")
    assert len([name for name in files if name.startswith("predictions/")]) == 4
    keep = Recorder.keep

    def interrupted(self, round, ending):
        if round.number == 3:
            raise KeyboardInterrupt
        keep(self, round, ending)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Recorder, "keep", interrupted)
        go(**how, folder=tmp_path / "run")
    before = fs.load(tmp_path / "run")
    with pytest.raises(ValueError, match="holds 2 of 4 rounds, and predictions come with the last one; finish it with"):
        before.predictions()
    go(**how, folder=tmp_path / "run", resume=before)
    assert contents(tmp_path / "run") == files
    go(**how | {"rounds": 2, "predictions": False}, folder=tmp_path / "late")
    early = fs.load(tmp_path / "late")
    with pytest.raises(ValueError, match=r"loaded from a folder without predictions, .* Ask for them with fs.federate"):
        early.predictions()
    go(**how, folder=tmp_path / "late", resume=early)
    assert contents(tmp_path / "late").keys() == files.keys()
    loaded = fs.load(tmp_path / "late")
    pd.testing.assert_frame_equal(loaded.predictions(), whole.predictions(), check_exact=True)
    loaded.save(tmp_path / "again")
    pd.testing.assert_frame_equal(fs.load(tmp_path / "again").predictions(), whole.predictions(), check_exact=True)
    go(**how | {"seed": 3}, folder=tmp_path / "few")
    more = fs.extend(fs.load(tmp_path / "few"), [3, 1], clients=drawn("three"), folder=tmp_path / "few", progress=False)
    for name, content in files.items():
        if name.startswith("predictions/"):
            assert contents(tmp_path / "few")[name] == content, name
    for one in (more, fs.load(tmp_path / "few")):
        pd.testing.assert_frame_equal(one.predictions(), whole.predictions(), check_exact=True)


def test_executors_make_the_same_predictions():
    one, other = (
        go("three", FEW | {"apfl": fs.methods.APFL()}, executor=name).predictions()
        for name in ("stacked", "per-client")
    )
    pd.testing.assert_frame_equal(one, other, check_exact=False, rtol=0, atol=1e-9)


def test_what_there_is_not_is_refused_with_what_there_is(tmp_path):
    live = go(folder=tmp_path / "run")
    for result, splits in ((live, "train, validation, test"), (fs.load(tmp_path / "run"), "test")):
        for given, words in (
            ({"method": "prox"}, "method must be one of avg, em, got 'prox'"),
            ({"seed": 0}, "seed must be one of 3, 1, got 0"),
            ({"estimand": "local"}, "estimand must be one of global, personal, got 'local'"),
            ({"method": "avg", "estimand": "personal"}, "estimand must be one of global, got 'personal'"),
            ({"split": "common"}, f"split must be one of {splits}, got 'common'"),
        ):
            with pytest.raises(ValueError, match=words):
                result.predictions(**given)
    assert set(live.predictions(split="train")["split"]) == {"train"}
    relist(tmp_path / "run", lambda listed: listed["sha256"].pop("predictions/00002.parquet"))
    (tmp_path / "run" / "predictions" / "00002.parquet").unlink()
    with pytest.raises(ValueError, match="lists predictions of other methods and seeds than the run has"):
        fs.load(tmp_path / "run")

    def pair(outputs, y):
        return (outputs[:, 0] - y).square() + (outputs[:, 1] - 1).square()

    two, training = fs.models.mlp(3, 6, 2), fs.Training(lr=0.1, loss=pair)
    with pytest.raises(ValueError, match="predictions of a regression need a network with 1 output, this one has 2"):
        fs.federate(fs.FedAvg(), two, drawn("regression"), training, rounds=1, predictions=True)
    result = fs.federate(fs.FedAvg(), two, drawn("regression"), training, rounds=1, progress=False)
    with pytest.raises(ValueError, match="predictions of a regression need a network with 1 output, this one has 2"):
        result.predictions()


def test_seeds_whose_clients_lack_a_split_are_absent():
    def clients(seed):
        return replace(drawn("logistic")(seed), **{"validation": None} if seed == 1 else {})

    how = {"rounds": 1, "seed": [3, 1], "progress": False}
    result = fs.federate(fs.FedAvg(), fs.models.mlp(3, 6, 1), clients, fs.Training(lr=0.1), **how)
    assert set(result.predictions(split="validation")["seed"]) == {3}
    assert set(result.predictions()["seed"]) == {3, 1}


@pytest.mark.slow
def test_predictions_of_one_method_and_seed_at_a_time_are_held_while_they_are_written(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40_000, 2)).astype(np.float32)
    clients = fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), np.arange(len(x)) % 4, test=0.9)
    peaks = {}
    for seeds in (1, 12):
        methods, how = {"a": fs.FedAvg(), "b": fs.FedAvg()}, {"seed": range(seeds), "rounds": 1, "progress": False}
        training = fs.Training(lr=0.1, batch_size=1000)
        result = fs.federate(methods, fs.models.mlp(2, 4, 1), clients, training, predictions=True, **how)
        tracemalloc.start()
        result.save(tmp_path / str(seeds))
        peaks[seeds] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    table = result.predictions("a", 0).memory_usage(index=False).sum()
    assert len(list((tmp_path / "12" / "predictions").iterdir())) == 24
    assert peaks[12] < peaks[1] + table
    assert peaks[1] > table / 2
