"""Optimisers, schedules, losses, metrics, executors and early stopping, named in a configuration."""

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from fedstat._user_code import load_object
from fedstat.experiment import run
from fedstat.experiment.build import set_up
from fedstat.experiment.config import to_table
from fedstat.experiment.parsing import parse
from fedstat.experiment.run import carry_out
from tests.support.experiments import changed, images, own

MINE = """
from dataclasses import dataclass
import torch
import fedstat as fs

@dataclass(frozen=True)
class Signs:
    scale: float = 1.0
    def start(self, params):
        return {}
    def step(self, params, grads, state):
        return {n: self.scale * g.sign() for n, g in grads.items()}, 1.0

def absolute(outputs, y):
    return (1 - outputs.softmax(-1).gather(-1, y[:, None])).squeeze(-1)

def size(outputs, y):
    return len(y)

def half(round, step):
    return 0.5

class Mine(fs.federated.PerClient):
    pass
"""

PARTS = {
    "executor": "mine.py:Mine",
    "training": {
        "lr": 0.01, "batch_size": 50, "optimizer": {"name": "mine.py:Signs", "scale": 0.5}, "loss": "mine.py:absolute",
        "schedule": "mine.py:half", "clip_norm": 2.0,
    },
    "evaluation": {"metrics": ["macro_f1", "mine.py:size"], "trained": True},
    "stop": {"metric": "log_loss", "rounds": 2},
    "partition": {"kind": "iid", "clients": 4, "test": 0.2, "validation": 0.2},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_one_file_says_all_of_it(folder):
    experiment = parse({**changed(), **PARTS, "rounds": 12}, folder)
    again = parse(to_table(experiment), folder)
    assert to_table(again) == to_table(experiment)
    result = run(experiment, folder / "out", progress=False)
    mine = {name: load_object(f"{folder}/mine.py:{name}") for name in ("Signs", "absolute", "size", "half", "Mine")}
    training = fs.Training(
        lr=0.01, batch_size=50, optimizer=mine["Signs"](scale=0.5), loss=mine["absolute"], schedule=mine["half"],
        clip_norm=2.0,
    )  # fmt: skip
    x, y = fs.data.digits()
    parts = fs.data.iid(len(y), 4, seed=0)
    clients = fs.data.from_indices(x, y, parts, test=0.2, validation=0.2, seed=0)
    by_hand = fs.federate(
        fs.FedAvg(), fs.models.mlp(64, 5, 10), clients, training, rounds=12, executor=mine["Mine"](), trained=True,
        stop=fs.Patience("log_loss", rounds=2), metrics={"macro_f1": fs.metrics.macro_f1, "size": mine["size"]},
        validate=True, progress=False,
    )  # fmt: skip
    assert result.history["round"].max() < 12 or result.history["kept"].any()
    np.testing.assert_array_equal(result.history["value"], by_hand.history["value"])
    np.testing.assert_array_equal(result.history["kept"], by_hand.history["kept"])
    summary = pd.read_csv(folder / "out" / "summary.csv")
    kept = result.history[result.history["kept"] & (result.history["split"] == "test")]
    accuracy = kept[(kept["metric"] == "accuracy") & (kept["estimand"] == "global")]["value"].mean()
    assert summary.loc[summary["summary"] == "primary", "mean"].item() == pytest.approx(accuracy)
    assert summary.set_index("metric").loc["size", "mean"] == pytest.approx(clients.test.n.mean())
    again, said = carry_out(set_up(experiment), folder / "out", False, resume=True)
    assert again.history.equals(result.history)
    (line,) = (line.split() for line in str(said).splitlines() if "log_loss" in line)
    assert {"macro_f1", "size", "loss"} <= {*line}


def test_a_cosine_takes_the_rounds_of_the_run(folder):
    slow = {"name": "FedAvg", "training": {"schedule": {"name": "cosine", "rounds": 40}}}
    changes = {"training__schedule": "cosine", "method": {"FedAvg": {}, "slow": slow}}
    experiment = parse(changed(rounds=12, **changes), folder)
    assert experiment.training.schedule == experiment.trainings["FedAvg"].schedule == fs.schedules.Cosine(rounds=12)
    assert experiment.trainings["slow"].schedule == fs.schedules.Cosine(rounds=40)
    assert to_table(experiment)["training"]["schedule"] == {"name": "cosine", "rounds": 12}
    assert parse(to_table(experiment), folder) == experiment
    run(parse(changed(rounds=2, **changes), folder), folder / "out", progress=False)
    with pytest.raises(ValueError, match=r"training\.schedule\.rounds was 2 and is 3"):
        run(parse(changed(rounds=3, **changes), folder), folder / "out", resume=True, progress=False)


def test_predictions_are_kept_on_request_and_join_when_the_run_is_continued(folder):
    def go(**changes):
        rounds, seed = changes.pop("rounds", 2), changes.pop("seed", 3)
        experiment = own_images(folder, rounds=rounds, seed=seed, executor="per-client", evaluation=changes)
        return run(experiment, folder / "out", resume=(folder / "out").exists(), progress=False)

    go()
    with pytest.raises(ValueError, match="holds a finished run without predictions, which come with the last round: "):
        go(predictions=True)
    go(predictions=True, rounds=3)
    result = go(predictions=True, rounds=3, seed=[3, 5])
    table = fs.load(folder / "out" / "run").predictions()
    pd.testing.assert_frame_equal(table, result.predictions(), check_exact=True)
    assert set(zip(table["method"], table["seed"], strict=True)) == set(result.states)
    hit = table["outcome"] == table.filter(regex="^p_").to_numpy().argmax(axis=1)
    mine = hit.groupby([table[name] for name in ("method", "seed", "client")]).mean()
    last = result.history.query("round == 3 and split == 'test' and metric == 'accuracy'").astype({"method": str})
    theirs = last.set_index(["method", "seed", "client"])["value"]
    np.testing.assert_allclose(mine, theirs[mine.index], rtol=1e-12)
    go(rounds=3, seed=[3, 5])  # not asking again throws nothing away
    assert len(fs.load(folder / "out" / "run").predictions()) == len(table)


def test_an_experiment_that_stopped_early_is_finished(folder):
    experiment = own_images(folder, rounds=40, stop={"metric": "accuracy", "rounds": 1, "split": "test"})
    first = run(experiment, folder / "out", progress=False)
    assert first.config["rounds"] < 40
    again = run(experiment, folder / "out", resume=True, progress=False)
    pd.testing.assert_frame_equal(again.history, first.history, check_categorical=False)


def own_images(folder, **changes):
    images(folder)
    return own(folder, partition={"kind": "iid", "clients": 4}, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training__optimizer": "lion"},
            r'must be "sgd", "adam" or "adamw" or one.s own, as "mine.py:Name", got "lion"',
        ),
        ({"training__optimizer": {"name": "lion"}}, r'training\.optimizer\.name must be one of "sgd", "adam", "adamw"'),
        ({"training__optimizer": {"name": "sgd", "momentun": 0.9}}, r"no key training\.optimizer\.momentun"),
        ({"training__optimizer": {"name": "sgd", "momentum": 2}}, r"training\.optimizer: momentum must be a number in"),
        ({"training__schedule": "milestones"}, r"training\.schedule\.after is missing"),
        ({"training__schedule": "warmup"}, r"training\.schedule: \"warmup\" needs rounds or steps"),
        (
            {"training__schedule": "cosin"},
            r'training\.schedule must be one of "cosine", "warmup", "milestones"; or one.s own, as "mine.py:Name"; got '
            r'"cosin" \(did you mean cosine\?\)',
        ),
        ({"training__schedule": 3}, r'training\.schedule must be one of "cosine", .*; got 3'),
        ({"training__loss": "mine.py:nothing"}, r"training\.loss: .*mine\.py defines nothing called 'nothing'"),
        ({"training__loss": "mine.py:Signs"}, r"training"),
        ({"training__clip_norm": 0}, r"training: clip_norm must be a number in \(0, inf\), got 0"),
        ({"evaluation": {"metrics": ["f1"]}}, r'evaluation\.metrics must be one of "macro_f1"'),
        ({"evaluation": {"metrics": ["mine.py:Signs"]}}, r"metrics\['Signs'\] gives no number|Signs"),
        ({"executor": "fast"}, r"executor must be one of auto, stacked, per-client"),
        ({"executor": "mine.py:Signs"}, r"executor must be one of auto, stacked, per-client, ray, or an object"),
        ({"stop": {"metric": "log_loss", "round": 3}}, r"no key stop\.round \(did you mean rounds\?\)"),
        ({"stop": {"rounds": 3}}, r"stop\.metric is missing"),
        ({"stop": {"metric": "auc", "split": "test"}}, r'stop\.metric must be one of accuracy, .*, got "auc"'),
        ({"stop": {"metric": "accuracy"}}, r"stop\.split = .validation. needs validation samples"),
    ],
)
def test_what_is_wrong_is_named(folder, changes, message):
    with pytest.raises(ValueError, match=message):
        run(parse(changed(**changes), folder), folder / "out", progress=False)
    assert not (folder / "out").exists()
