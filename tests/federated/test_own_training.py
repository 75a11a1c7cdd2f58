"""Methods that train each in its own way: the same as apart, known again, continued, never taken for one another."""

import numpy as np
import pandas as pd
import pytest

import fedstat as fs

CLIENTS = fs.data.relu_mixture(clients=5, d=4, units=6, samples=20, test=40, seed=0)
NETWORK = fs.models.mlp(4, 6, 1)
SLOW, FAST = fs.Training(lr=0.01, batch_size=10), fs.Training(lr=0.2, batch_size=5, local_epochs=2)
METHODS = {"slow": fs.FedAvg(), "fast": fs.FedAvg(), "other": fs.methods.Ditto()}
OWN = {"slow": SLOW, "fast": FAST, "other": FAST}
HOW = {"rounds": 4, "seed": range(2), "progress": False}


def history(result, label):
    table = result.history[result.history["method"] == label].astype({"method": str})
    return table.sort_values(["seed", "round", "client", "estimand", "metric"], ignore_index=True)


def test_each_method_trains_as_it_would_alone():
    together = fs.federate(METHODS, NETWORK, CLIENTS, OWN, **HOW)
    for label, method in METHODS.items():
        alone = fs.federate({label: method}, NETWORK, CLIENTS, OWN[label], **HOW)
        pd.testing.assert_frame_equal(history(together, label), history(alone, label), check_categorical=False)
    means = together.history[together.history["metric"] == "log_loss"].groupby("method", observed=True)["value"].mean()
    assert means["slow"] != means["fast"]


def test_equal_trainings_are_one_stack_and_one_training():
    same = dict.fromkeys(METHODS, FAST)
    by_label, at_once = (fs.federate(METHODS, NETWORK, CLIENTS, how, **HOW) for how in (same, FAST))
    pd.testing.assert_frame_equal(by_label.history, at_once.history)
    assert by_label.config == at_once.config


def test_a_run_is_known_again_continued_extended_and_offered(tmp_path):
    whole = fs.federate(METHODS, NETWORK, CLIENTS, OWN, **HOW)
    half = fs.federate(METHODS, NETWORK, CLIENTS, OWN, **{**HOW, "rounds": 2}, folder=tmp_path / "run")
    loaded = fs.load(tmp_path / "run")
    assert loaded.training == OWN == half.training
    for swapped in ({**OWN, "other": SLOW}, FAST):
        with pytest.raises(ValueError, match="training"):
            fs.federate(METHODS, NETWORK, CLIENTS, swapped, **HOW, resume=loaded)
    done = fs.federate(METHODS, NETWORK, CLIENTS, OWN, **HOW, resume=loaded, folder=tmp_path / "run")
    pd.testing.assert_frame_equal(done.history, whole.history)
    more = fs.extend(fs.load(tmp_path / "run"), 3, clients=CLIENTS, progress=False)
    three = fs.federate(METHODS, NETWORK, CLIENTS, OWN, **{**HOW, "seed": range(3)})
    for label in METHODS:
        pd.testing.assert_frame_equal(history(more, label), history(three, label), check_categorical=False)

    unseen = fs.data.relu_mixture(clients=2, d=4, units=6, samples=20, test=40, seed=1)
    tuned = {label: fs.FedAvg(fine_tune=1) for label in ("slow", "fast")}  # trains at the client, by its own settings
    run = fs.federate(tuned, NETWORK, CLIENTS, {label: OWN[label] for label in tuned}, **HOW)
    offered = fs.newcomers(run, unseen)
    for label in tuned:
        alone = fs.federate({label: tuned[label]}, NETWORK, CLIENTS, OWN[label], **HOW)
        expected = fs.newcomers(alone, unseen)
        found = offered[offered["method"] == label].reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)
        assert "fine-tuned" in set(found["estimand"]) or len(set(found["estimand"])) > 1


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"slow": SLOW, "fast": FAST}, "'other' is missing"),
        ({**OWN, "Ditto": FAST}, "there is no method 'Ditto'"),
        ({**OWN, "other": 0.1}, "or one for each method by label, got 0.1"),
        ({**OWN, "slow": fs.Training(lr=0.1, loss=lambda out, y: (out[:, 0] - y) ** 2)}, None),
        ({**OWN, "slow": fs.Training(lr=(0.1, 0.2))}, "lr must be one number, or one for each of 5 clients, got 2"),
    ],
)
def test_trainings_that_do_not_fit_are_refused(training, message):
    if message is None:  # another loss of the same task is a training like any other
        result = fs.federate(METHODS, NETWORK, CLIENTS, training, **HOW)
        assert np.isfinite(result.history["value"]).all()
        return
    with pytest.raises(ValueError, match=message):
        fs.federate(METHODS, NETWORK, CLIENTS, training, **HOW)
