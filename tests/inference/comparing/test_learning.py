"""Methods that are still learning are told apart from those that are trained, and are not judged."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedstat as fs
from fedstat.inference.comparing.learning import late_gain

SEEDS, CLIENTS, ROUNDS = range(6), range(4), range(1, 21)


def runs(slopes, *, share=0.3, noise=0.004):
    """Accuracies of about .6 that change by a slope a round, beside the share of each client's commonest class."""
    rng = np.random.default_rng(1)
    rows = [
        (label, seed, client, round, metric, value, "test", "personal")
        for label, slope in slopes.items()
        for seed in SEEDS
        for client in CLIENTS
        for round in ROUNDS
        for metric, value in (
            ("accuracy", 0.6 + slope * (round - 20) + noise * rng.standard_normal()), ("majority_share", share),
        )
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["method", "seed", "client", "round", "metric", "value", "split", "estimand"])


def compared(table, **how):
    return fs.compare(table, control="A", last=5, margin=0.01, **how)


def test_what_still_rises_is_not_judged_and_keeps_its_interval():
    found = compared(runs({"A": 0.0, "B": 0.0, "C": 0.01}))
    assert found.differences["outcome"].to_dict() == {"B − A": "equivalent", "C − A": "still learning"}
    assert np.isfinite(found.differences[["low", "high"]]).all(axis=None)
    (said,) = [sentence for sentence in found.conclusions if "Not judged" in sentence]
    assert said.startswith("Not judged, since still learning: C (accuracy still rises: by 4")
    assert not any(
        "C" in sentence for sentence in found.conclusions if sentence != said and "collapsed" not in sentence
    )
    # the same rise is no more than the margin, and a fall is not learning
    slow = compared(runs({"A": 0.0, "C": 0.002, "D": -0.01}))
    assert "still learning" not in set(slow.differences["outcome"])


def test_a_control_that_still_rises_leaves_nothing_to_judge():
    for control in ("A", ("A", "B")):
        found = fs.compare(runs({"A": 0.01, "B": 0.0, "C": 0.0}), control=control, last=5, margin=0.01)
        assert (found.differences.loc[found.differences["against"] == "A", "outcome"] == "still learning").all()
        assert found.above is None if control == "A" else found.above.empty
        assert "better" not in " ".join(found.conclusions)
    # what is said of the other control is said as ever, with its size
    alone, *_ = fs.compare(runs({"B": 0.0, "C": 0.0}), control="B", last=5).conclusions
    found = fs.compare(runs({"B": 0.0, "C": 0.0, "A": 0.01}), control=("A", "B"), last=5, level=0.9)
    assert found.conclusions[0].split(" with ")[0] == alone.split(" with ")[0] == "C cannot be told apart from B"


def test_a_table_for_a_paper_marks_what_is_not_judged():
    table = runs({"A": 0.0, "B": 0.0, "C": 0.01})
    for control, stars in (("A", {"B": [0], "C": [1]}), (("A", "C"), {"B": [0, 1]}), (("A", "B"), {"C": [1, 1]})):
        shown = fs.compare(table, control=control, last=5, margin=0.01).to_latex()
        lines = {line[0]: line.split(" & ") for line in shown.splitlines() if line[1:4] == " & "}
        for label, expected in stars.items():
            cells = [cell for cell in lines[label] if "[" in cell][1:]  # the first is the mean
            assert [cell.count(r"$^{\ast}$") for cell in cells] == expected
        assert shown.count("Difference to ") == len(control)
        assert "Differences with {*} are not judged, since one of the two methods is not trained enough." in shown
    assert r"\ast" not in fs.compare(table, control="A", last=1).to_latex().partition("Seeds")[0]


def test_models_below_each_client_s_commonest_class_are_not_judged():
    table = runs({"A": 0.0, "B": 0.0}, share=0.65)
    (said,) = [sentence for sentence in compared(table).conclusions if "Not judged" in sentence]
    assert "no better than the most frequent class: A (accuracy 59.9%, each client's most frequent class 65.0%)" in said
    assert "still learning" not in said
    # a model for all clients cannot know what each of them holds most
    assert not any("Not judged" in s for s in compared(table.assign(estimand="global")).conclusions)


def test_to_run_longer_is_no_promise_where_clients_attack_or_noise_is_added():
    def said(method, **how):
        methods, training = [fs.Local(), method], fs.Training(lr=1e-9)
        x = np.random.default_rng(0).normal(size=(400, 3))
        clients = fs.data.from_arrays(x, (x[:, 0] > -1.3).astype(int), np.arange(400) % 8)  # 90% of each have class 1
        run = {"rounds": 2, "seed": range(2), "progress": False, **how}
        result = fs.federate(methods, lambda: torch.nn.Linear(3, 2), clients, training, **run)
        printed = " ".join(str(fs.compare(result)).split())
        return printed.partition("Tune for these rounds")[2].partition(".")[0]

    assert said(fs.FedAvg()) == ""
    attack, noise = fs.attacks.SignFlip(share=0.25), fs.mechanisms.Gaussian(clip=1.0, noise=1.0)
    assert said(fs.FedAvg(), attack=attack).endswith("though that need not help where clients attack")
    hidden = said(fs.FedAvg(mechanism=noise, weighting="uniform"), attack=attack)
    assert "where clients attack and noise hides clients" in hidden


@given(st.integers(2, 60), st.floats(-1, 1), st.floats(-1, 1), st.integers(1, 4))
def test_the_gain_of_a_straight_line_is_its_own(last, slope, start, every):
    rounds = np.arange(last % every, last + 1, every)
    gain = late_gain(start + slope * rounds[None], rounds)
    if (rounds > 0.8 * rounds[-1]).sum() < 2:
        assert np.isnan(gain).all()
    else:
        assert gain == pytest.approx(slope * 0.2 * rounds[-1], abs=1e-9)
