"""A finished run under more seeds is one run of all of them, and nothing is run twice."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from fedstat.federated.rounds import loop
from fedstat.inference import AnalysisPlan
from tests.support.clients import image_clients, vector_clients
from tests.support.networks import conv_net

METHODS = {
    "avg": fs.FedAvg(),
    "fac": fs.FedFac(layers=["hidden"], kappa=0.5),
    "fomo": fs.methods.FedFOMO(),
    "prox": fs.methods.FedProx(),
}
MODEL = fs.models.mlp(3, 8, 2)
TRAINING = fs.Training(lr=0.1, batch_size=4)
pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")


def drawn(seed):
    return vector_clients(seed=seed)


def go(seed, methods=METHODS, clients=drawn, model=MODEL, **options):
    options = {"rounds": 3, "participation": 0.5, "evaluate_at": [0, 2, 3], "progress": False} | options
    return fs.federate(methods, model, clients, TRAINING, seed=seed, **options)


def more(result, seeds, **options):
    options = {"clients": drawn, "progress": False} | options
    return fs.extend(result, seeds, **options)


def agree(here, there, atol=0.0):
    """Two results are one, whatever they have of tables, states and records."""
    for name in ("history", "traffic"):
        a, b = getattr(here, name), getattr(there, name)
        pd.testing.assert_frame_equal(a, b, rtol=0, atol=atol, check_categorical=False)
    pd.testing.assert_frame_equal(here.clients, there.clients)
    looks = [of.config.get("looks", [0])[-1] for of in (here, there)]
    assert set(looks) <= {0, len(here.config["seeds"])}
    assert {k: v for k, v in here.config.items() if k != "looks"} == {
        k: v for k, v in there.config.items() if k != "looks"
    }
    for name in ("states", "records", "kept"):
        assert list(getattr(here, name)) == list(getattr(there, name))
    for key, state in there.states.items():
        assert here.states[key].round == state.round
        for part in ("server", "memory", "shared"):
            for leaf, value in getattr(state, part).items():
                np.testing.assert_allclose(getattr(here.states[key], part)[leaf], value, rtol=0, atol=atol)
        for record, value in there.records[key].items():
            np.testing.assert_array_equal(here.records[key][record], value)


def test_an_extended_run_is_one_run_of_all_seeds():
    result = more(go([5, 2]), 4)
    assert result.config["seeds"] == [5, 2, 6, 7]
    agree(result, go([5, 2, 6, 7]), atol=1e-6)
    assert result.personal(1, "avg", 7) is not None


def test_clients_that_train_by_themselves_give_the_same_bits():
    options = {"clients": image_clients(), "model": conv_net, "executor": "per-client", "methods": fs.FedAvg()}
    result = more(go(0, **options), [3, 1], clients=None)
    assert result.config["seeds"] == [0, 3, 1]
    agree(result, go([0, 3, 1], **options))


def test_what_is_held_follows_the_first_seed_of_all():
    options = {"vary": ["batches"], "methods": fs.methods.FedFOMO(), "clients": vector_clients()}
    result = more(go([4, 5], **options), 4, clients=None)
    agree(result, go([4, 5, 6, 7], **options), atol=1e-6)
    assert len({str(of) for of in result.config["fingerprint"].values()}) == 1


def test_seeds_that_stop_early_and_metrics_and_a_plan_are_as_in_one_run():
    def spread(outputs, y):
        return outputs.std()

    options = {
        "rounds": 12, "stop": fs.Patience("accuracy", rounds=2, split="test"), "evaluate_at": None, "trained": True,
        "metrics": {"spread": spread, "macro_f1": fs.metrics.macro_f1}, "plan": AnalysisPlan(arms=list(METHODS)),
    }  # fmt: skip
    few = go([0], **options)
    result = more(few, 3, metrics={"spread": spread})
    whole = go([0, 1, 2], **options)
    assert few.config["rounds"] < whole.config["rounds"]
    agree(result, whole, atol=1e-6)
    assert result.plan == whole.plan
    with pytest.raises(ValueError, match="the run measured 'spread' by a function of its own; pass metrics="):
        more(few, 3)


def test_a_loaded_run_is_extended_in_its_folder(tmp_path):
    go([5], folder=tmp_path / "run")
    with pytest.raises(ValueError, match="the run's clients differ from seed to seed; pass clients="):
        fs.extend(fs.load(tmp_path / "run"), 2)
    result = more(fs.load(tmp_path / "run"), 3, folder=tmp_path / "run")
    agree(fs.load(tmp_path / "run"), result)
    agree(result, go([5, 6, 7]), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    again = more(fs.load(tmp_path / "run"), 3, folder=tmp_path / "run")
    agree(again, result)
    more(again, 4, folder=tmp_path / "other")
    assert fs.load(tmp_path / "other").config["seeds"] == [5, 6, 7, 8]
    go([0], clients=vector_clients(), folder=tmp_path / "fixed")
    with pytest.raises(ValueError, match="this result was loaded, and a run's folder does not hold the samples"):
        fs.extend(fs.load(tmp_path / "fixed"), 2)


def test_what_was_stopped_leaves_the_old_run_and_is_continued(tmp_path, monkeypatch):
    go([5], folder=tmp_path / "run")
    played = []

    def dying(runs, first, participation):
        for round in loop(runs, first, participation):
            played.append(round.number)
            yield round
            if round.number == 2 and len(played) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["fedstat.federated.federate"], "loop", dying)
    options = {"folder": tmp_path / "run", "checkpoint": 1}
    with pytest.raises(KeyboardInterrupt):
        more(fs.load(tmp_path / "run"), 3, **options)
    assert fs.load(tmp_path / "run").config["seeds"] == [5]
    with pytest.raises(ValueError, match="holds the beginning of seeds 6, 7; extend by these first, or remove it"):
        more(fs.load(tmp_path / "run"), 4, **options)
    result = more(fs.load(tmp_path / "run"), 3, **options)
    assert played == [1, 2, 3]
    agree(result, go([5, 6, 7]), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_what_is_left_after_the_last_write_is_not_run_again(tmp_path, monkeypatch):
    go([5], folder=tmp_path / "run")
    options = {"folder": tmp_path / "run"}
    with monkeypatch.context() as patch:

        def killed(part):
            raise KeyboardInterrupt

        patch.setattr("fedstat.federated.extension._remove", killed)
        with pytest.raises(KeyboardInterrupt):
            more(fs.load(tmp_path / "run"), 3, **options)
    assert (tmp_path / ".run.seeds").exists()
    result = more(fs.load(tmp_path / "run"), 4, **options)
    agree(result, go([5, 6, 7, 8]), atol=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("seeds", "options", "message"),
    [
        (1, {}, "seeds must be at least the 2 that the run has, got 1"),
        (0, {}, "seeds must be a whole number, at least 1, got 0"),
        ([3, 3], {}, "seed must be one or several different non-negative integers"),
        (3, {"clients": None}, "the run's clients differ from seed to seed; pass clients="),
        (3, {"clients": vector_clients()}, "the run's clients differ from seed to seed; pass clients="),
        (3, {"clients": lambda seed: vector_clients(seed=seed + 1)}, "the run to extend has other training samples of "
         "seed 5, other test samples of seed 5"),
        (3, {"methods": {"avg": fs.methods.FedProx()}}, r"the run to extend has methods\.avg"),
        (3, {"methods": {"x": fs.FedAvg()}}, "methods: the run has no method 'x'; it has avg, fac, fomo, prox"),
        (3, {"training": fs.Training(lr=0.2, batch_size=4)}, r"has training\.lr = 0\.1 \(0\.2 here\)"),
        (3, {"model": fs.models.mlp(3, 9, 2)}, r"the run to extend has model\.args"),
    ],
)  # fmt: skip
def test_what_is_no_extension_of_a_run(seeds, options, message):
    with pytest.raises(ValueError, match=message):
        more(go([5, 2], rounds=1, evaluate_at=None), seeds, **options)


def test_a_run_that_is_not_finished_is_finished_first(tmp_path):
    result = go([5])
    unfinished = replace(result, config=result.config | {"rounds": 2, "finished": False})
    with pytest.raises(ValueError, match=r"the run holds 2 of 3 rounds; finish it first, with fs\.federate"):
        more(unfinished, 2)
