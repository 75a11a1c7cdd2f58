"""The study of updates: distances by hand, data that differ in one thing, exact limit cases, planted findings."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import fedstat as fs
from simulations.updates import numbers, study

SMOKE = study.SCALES["smoke"]


def test_distances_by_hand():
    east, north = np.array([3.0, 0.0]), np.array([0.0, 4.0])
    assert study.distances(east, east) == {"sum": 0, "reference": 0, "unit": 0}
    assert study.distances(north, east) == pytest.approx({"sum": 5 / 7, "reference": 5 / 3, "unit": 2**0.5})
    assert study.distances(-2 * east, east) == pytest.approx({"sum": 1, "reference": 3, "unit": 2})
    assert study.distances(2 * east, east)["unit"] == 0  # the length alone differs
    assert np.isnan(list(study.distances(0 * east, east).values())).all()


def test_updates_are_laid_end_to_end():
    base = {"a": torch.zeros(2, 2), "b": torch.ones(2, 1, 2)}
    moved = {"a": torch.tensor([[1.0, 2.0], [0.0, 0.0]]), "b": torch.tensor([[[3.0, 1.0]], [[1.0, 0.0]]])}
    np.testing.assert_array_equal(study.flat(moved, base, ["b", "a"]), [[2, 0, 1, 2], [0, -1, 0, 0]])


def test_data_sets_differ_in_one_thing_each():
    clients = study.deal(SMOKE, [study.REFERENCE, *study.OTHERS], seed=3)
    held = [
        {image.tobytes(): int(label) for image, label in zip(*both, strict=True)}
        for both in (clients.train.client(k) for k in range(len(clients)))
    ]
    first, same, other, permuted, domain = held
    assert first == same  # the same images with the same labels, in whatever order
    assert other.keys() == permuted.keys()
    pairs = {(label, permuted[image]) for image, label in other.items()}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})  # one to one
    assert any(a != b for a, b in pairs)
    assert len(first.keys() | other.keys() | domain.keys()) == 3 * SMOKE.train


def test_a_data_set_is_dealt_alike_in_any_company_and_tuning_sees_no_test_image():
    alone, pair = (study.deal(SMOKE, which, seed=3) for which in ([study.REFERENCE], [study.REFERENCE, "domain"]))
    np.testing.assert_array_equal(alone.train.client(0)[0], pair.train.client(0)[0])
    np.testing.assert_array_equal(alone.test.client(0)[0], pair.test.client(0)[0])
    tuning = study.deal(SMOKE, [study.REFERENCE], seed=3, tuning=True)
    train = {image.tobytes() for image in alone.train.client(0)[0]}
    assert {image.tobytes() for part in (tuning.train, tuning.test) for image in part.client(0)[0]} == train
    with pytest.raises(ValueError, match=r"ask for 2200 images .* fetch the full data sets or take fewer"):
        study.deal(replace(SMOKE, train=1000, test=100), [study.REFERENCE], seed=0)


def test_grey_images_get_the_others_size_and_channels():
    grey = np.random.default_rng(0).normal(size=(2, 1, 28, 28)).astype(np.float32)
    found = study.alike(grey, np.zeros((1, 3, 32, 32), dtype=np.float32))
    assert found.shape == (2, 3, 32, 32)
    np.testing.assert_array_equal(found[:, 2, 2:-2, 2:-2], grey[:, 0])
    assert (found[:, :, :2] == grey.min()).all()


def _end(method, rounds=2):
    clients = study.deal(SMOKE, [study.REFERENCE, "domain"], seed=0)
    result = fs.federate(
        {"it": method}, study.model(SMOKE), clients, study.training(SMOKE, 0.1), rounds=rounds, evaluate_at=(),
        progress=False,
    )  # fmt: skip
    return method.models(result.states["it", 0], torch.arange(2))["personal"].params


def test_averaging_in_every_round_is_fedper_and_never_averaging_is_local():
    often, fedper = _end(study.EveryThird(every=1)), _end(fs.methods.FedPer())
    for name, leaf in fedper.items():
        torch.testing.assert_close(often[name], leaf, rtol=0, atol=1e-6)
    never, local = _end(study.EveryThird(every=3)), _end(fs.Local())
    assert all(torch.equal(never[name], leaf) for name, leaf in local.items())
    assert not torch.equal(often["conv1.weight"], local["conv1.weight"])


def test_the_head_stays_and_all_below_it_is_averaged():
    end = _end(study.EveryThird(every=2))
    for name, leaf in end.items():
        assert torch.equal(leaf[0], leaf[1]) != name.startswith("head"), name


@pytest.mark.slow
@pytest.mark.parametrize("network", study.NETWORKS)
def test_the_papers_network_can_be_built_with_all_arms(network):
    scale = study.SCALES["paper"]
    for averaged in (False, True):
        told = str(fs.describe(study.method(scale, network, averaged), study.model(scale)))
        assert "head" in told
    assert scale.train * 2 + scale.test * 2 <= 70_000  # two partitions of MNIST
    assert scale.train + scale.test <= 60_000


# --- planted findings ------------------------------------------------------------------------------------------


def _tables(slope_u=-0.03, slope_v=0.0, order=(0.1, 0.3, 0.5, 0.7), drop=0.2):
    rng = np.random.default_rng(0)
    distance, accuracy = [], []
    for network, parts in study.PARTS.items():
        for averaged in (False, True) if network != "plain" else (False,):
            for seed in range(6):
                for epoch in range(1, 13):
                    for part in parts:
                        for since in study.SINCE:
                            for name, level in zip(study.OTHERS, order, strict=True):
                                slope = {"u": slope_u, "v": slope_v}.get(part, 0.0)
                                value = level + slope * epoch + rng.normal(scale=0.003)
                                row = {"network": network, "averaged": averaged, "part": part, "since": since}
                                row |= {"data": name, "epoch": epoch, "seed": seed}
                                distance.append(row | dict.fromkeys(study.NORMS, value))
    for arm in (study.ALONE, *numbers.PARTNERS):
        for seed in range(6):
            for epoch in range(1, 13):
                due = arm != study.ALONE and epoch % 3 == 0
                for when in ("before", "after"):
                    value = 0.9 + rng.normal(scale=0.005) - drop * (due and when == "after" and arm != "other")
                    row = {"network": "plain", "averaged": arm != study.ALONE, "seed": seed, "arm": arm, "epoch": epoch}
                    row |= {"when": when, "accuracy": value, "balanced_accuracy": value, "majority_share": 0.1}
                    accuracy.append(row | {"log_loss": 0.5 + 0.1 * (due and when == "after")})
    return {"distance": pd.DataFrame(distance), "accuracy": pd.DataFrame(accuracy)}


def test_what_is_planted_is_found():
    tables = _tables()
    found = numbers.findings(tables)
    main = " ".join(numbers.MAIN)
    assert found[f"permuted - other {main}"].mean == pytest.approx(0.2, abs=0.01)
    assert {found[f"{name} {main}"].sign for name in numbers.ORDER} == {"more"}
    counts = numbers._counted(found)
    assert all(c["as_stated"] == c["closer"] == c["of"] and c["farther"] == 0 for c in counts.values())
    assert numbers._every(tables["accuracy"]) == 3
    assert found["after permuted"].mean == pytest.approx(-20, abs=1)
    assert [found[f"after {arm}"].sign for arm in numbers.PARTNERS] == ["unclear", "less", "less"]
    assert found["between permuted"].sign == "unclear"


def test_what_is_not_there_is_not_found():
    found = numbers.findings(_tables(slope_u=0.0, order=(0.1, 0.3, 0.3, 0.3), drop=0.0))
    main = " ".join(numbers.MAIN)
    assert found[f"permuted - other {main}"].sign == found[f"domain - permuted {main}"].sign == "unclear"
    counts = numbers._counted(found)
    assert sum(c["closer"] for c in counts.values()) <= 1
    assert {found[f"after {arm}"].sign for arm in numbers.PARTNERS} == {"unclear"}


def test_epochs_with_limits():
    assert numbers.marked(12) == [1, 4, 6, 9, 12]
    assert numbers.marked(3) == [1, 2, 3]
