"""Factorized-FL's Table 1: cells, arms, bytes, the paper's network, and that planted differences are found."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from fedstat.federated.client.network import build
from simulations.factorized import cells as dealing
from simulations.factorized import judged, numbers, pictures, runs
from simulations.factorized.arms import (
    ARMS,
    FACTORIZED,
    KIN,
    PRIVATE,
    TUNED,
    FedParaPrivateHead,
    FedProxPrivateHead,
    methods,
)
from simulations.factorized.cells import Cell, Images, population
from simulations.factorized.study import SCALES, run

STANDARD, PERMUTED = Cell("digits", "IID", "standard"), Cell("digits", "IID", "permuted")
DOMAINS = Cell("digits", "domains", "permuted")


def dealt(cell, **changes):
    return population(cell, **{"clients": 10, "samples": 20, "test": 40, "seed": 3} | changes)


@pytest.mark.parametrize("partition", ["IID", "non-IID"])
def test_permuted_cells_hold_the_same_images_under_one_bijection_of_labels_per_client(partition):
    plain, permuted = (dealt(Cell("digits", partition, labels), samples=60) for labels in ("standard", "permuted"))
    tables = []
    for k in range(10):
        pairs = set()
        for split in ("train", "test", "validation"):
            (x, y), (x2, z) = (getattr(c, split).client(k) for c in (plain, permuted))
            assert np.array_equal(x, x2)
            pairs |= set(zip(y.tolist(), z.tolist(), strict=True))
        assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
        tables.append(dict(pairs))
    assert any(tables[0][label] != tables[1][label] for label in tables[0].keys() & tables[1].keys())


def test_on_one_data_set_all_clients_test_on_the_same_images_that_nobody_trains_on():
    found = dealt(Cell("digits", "non-IID", "standard"), samples=60)
    x = [found.test.client(k)[0] for k in range(len(found))]
    assert all(np.array_equal(x[0], one) for one in x)
    trained = {image.tobytes() for k in range(10) for image in found.train.client(k)[0]}
    assert not trained & {image.tobytes() for image in x[0]}
    assert len(set(found.train.n)) > 1
    assert 540 <= found.train.n.sum() + found.validation.n.sum() <= 600


def test_in_domains_a_client_tells_apart_the_classes_of_its_domain():
    plain = dealt(Cell("digits", "domains", "standard"))
    assert runs.classes_of(DOMAINS) == 2
    images = dealing.loaded("digits")
    label = {image.tobytes(): int(y) for image, y in zip(images.x, images.y, strict=True)}
    for k in range(10):
        x, code = plain.train.client(k)
        digit = np.array([label[image.tobytes()] for image in x])
        assert set(digit) <= {2 * (k // 2), 2 * (k // 2) + 1}
        assert np.array_equal(code, digit % 2)


def test_tuning_sees_no_test_image():
    found = dealt(STANDARD)
    tested = {image.tobytes() for k in range(10) for image in found.test.client(k)[0]}
    for split in (found.train, found.validation):
        assert not tested & {image.tobytes() for k in range(10) for image in split.client(k)[0]}


def test_arms_have_the_settings_of_the_authors_code():
    one = methods(domains=False, permuted=False, clients=20, rounds=50)
    two = methods(domains=False, permuted=True, clients=20, rounds=50)
    three = methods(domains=True, permuted=True, clients=20, rounds=100)
    assert (tuple(one), tuple(two), tuple(three)) == (ARMS, PRIVATE, PRIVATE)
    for arms, (least, tau, epsilon) in ((one, (20, 0.0, 1.0)), (two, (10, 0.0, 1.0)), (three, (4, 0.95, 20.0))):
        for arm in FACTORIZED:
            method = arms[arm]
            assert (method.min_neighbours, method.tau, method.epsilon) == (least, tau, epsilon)
            assert arm == f"Factorized-FL {'α' if method.variant == 'alpha' else 'β'}, {method.reading}"
            assert method.reset_head == (arms is one and method.reading == "code")
    assert set(KIN) == set(ARMS)
    assert set(TUNED) == set(KIN.values())


def test_the_pull_of_strength_zero_leaves_fedper():
    clients, size = dealt(PERMUTED), SCALES["smoke"].size(PERMUTED)
    result = fs.federate(
        {"zero": FedProxPrivateHead(mu=0.0), "pull": FedProxPrivateHead(mu=5.0), "FedPer": fs.methods.FedPer()},
        runs.model(size, PERMUTED), clients, fs.Training(lr=0.1, local_epochs=3), rounds=2, evaluate_at=(),
        progress=False,
    )  # fmt: skip
    zero, pull, fedper = (result.states[arm, 0].server for arm in ("zero", "pull", "FedPer"))
    assert all(np.allclose(zero[leaf], fedper[leaf], atol=1e-7) for leaf in fedper)
    assert any(not np.allclose(pull[leaf], fedper[leaf], atol=1e-4) for leaf in fedper)


@pytest.mark.slow
@pytest.mark.parametrize("method", [FedProxPrivateHead(), FedParaPrivateHead()])
def test_private_heads_obey_the_laws(method):
    fs.testing.check_method(method, examples=5)


def test_private_heads_stay_with_the_clients():
    network = build(fs.models.mlp(64, 32, 32, 10), np.random.default_rng(0))
    for method, parent in ((FedParaPrivateHead(), fs.methods.FedPara(personal=True)),):
        composed = method.parameterize(network, np.random.default_rng(1))
        own, theirs = method.shared(composed, None), parent.shared(composed, None)
        assert set(own) - set(theirs) == set(composed.head_leaves)
        assert all(not mask.any() for mask in own.values())


def test_bytes_are_those_of_a_count_by_hand():
    size = SCALES["smoke"].size(PERMUTED)
    table = runs.compare(size, PERMUTED, dict.fromkeys(ARMS, 0.03), 5)["bytes"].set_index("arm")
    # 8 x 8 images: two convolutions of 25 values in u, a hidden layer with 16 inputs and 64 outputs, and biases
    u, biases, v, norms = 25 + 25 + 16, 8 + 16 + 64, 64, 2 * (8 + 16)
    assert table.loc["Factorized-FL α, text", ["up", "down"]].tolist() == [4 * (u + biases + v), 4 * (u + biases)]
    assert table.loc["Factorized-FL α, code", "down"] == 4 * (u + biases + norms)
    weights = 25 * 8 + 25 * 8 * 16 + 16 * 64
    assert table.loc["FedAvg", "up"] == 4 * (weights + biases + 2 * norms)
    assert table.loc["Local", "up"] == 0
    assert table.loc["Factorized-FL β, code", "up"] > table.loc["FedAvg", "up"]


def test_the_papers_scale_has_all_cells_and_its_network_is_that_of_the_authors(monkeypatch):
    scale = SCALES["paper"]
    cells = [Cell(*words) for words in scale.cells]
    assert {(c.data, c.partition, c.labels) for c in cells if not c.domains} == {
        (data, partition, labels)
        for data in ("cifar10", "svhn")
        for partition in ("IID", "non-IID")
        for labels in ("standard", "permuted")
    }
    assert [scale.size(c).rounds for c in cells] == [50] * 8 + [100]

    def few(name):  # as many images as a network needs to be built
        y = np.arange(20) % 10
        groups = {"one": ("0",)}
        return Images(np.zeros((20, 3, 32, 32), np.float32), y, y == 0, y.astype(str), groups)

    monkeypatch.setattr(runs, "loaded", few)
    monkeypatch.setattr(runs, "classes_of", lambda cell: 10)
    for cell in (cells[0], cells[1], cells[-1]):
        size = scale.size(cell)
        network = build(runs.model(size, cell), np.random.default_rng(0))
        assert sum(shape.numel() for shape in network.weights.values()) == 2_571_338
        for method in runs.arms(size, cell).values():
            composed = method.parameterize(network, np.random.default_rng(0))
            method.shared(composed, SimpleNamespace(training=fs.Training(lr=0.1, momentum=0.9)))


def planted(means, spread=0.5, seeds=3):
    """Make tables in which arms have these accuracies in per cent, by cell; runs of a seed share a disturbance."""
    rng, rows = np.random.default_rng(8), []
    for cell, arms in means.items():
        for seed in range(seeds):
            common = rng.normal(0, 3)
            for arm, mean in arms.items():
                value = (mean + common + rng.normal(0, spread)) / 100
                where = {**cell.columns, "seed": seed, "arm": arm, "metric": "accuracy", "value": value}
                rows.append(where)
    values = pd.DataFrame(rows)
    return {"values": values, "curves": values.rename(columns={"value": "accuracy"}).assign(round=1)}


def test_planted_advantages_are_found_where_they_are_and_nowhere_else():
    level = dict.fromkeys(PRIVATE, 40.0)
    win, lose = {**level, "Factorized-FL β, code": 60.0}, {**level, "FedAvg": 60.0, "Factorized-FL α, text": 60.0}
    tables = planted({PERMUTED: win, DOMAINS: lose})
    found = judged.works(tables)
    assert found == {**{arm: [] for arm in FACTORIZED}, "Factorized-FL β, code": [PERMUTED]}
    signs = {name: finding.sign for name, finding in numbers.findings(tables).items()}
    assert signs[f"FedAvg - Local: {judged.key(DOMAINS)}"] == "more"
    assert signs[f"Factorized-FL α, text - Local: {judged.key(DOMAINS)}"] == "more"
    assert signs[f"Factorized-FL α, text - FedAvg: {judged.key(DOMAINS)}"] == "unclear"
    assert signs[f"Factorized-FL α, code - FedAvg: {judged.key(DOMAINS)}"] == "less"


def test_what_permuting_labels_changes_is_told_from_nothing():
    level = dict.fromkeys(ARMS, 40.0)
    worse = {**level, "FedAvg": 30.0}
    tables = planted({STANDARD: level, PERMUTED: {arm: worse[arm] for arm in PRIVATE}}, spread=1e-3)
    # the two cells of a seed have disturbances of their own: give them the same
    pivot = tables["values"].pivot_table(index=["seed", "labels"], columns="arm", values="value")
    shift = pivot["Local"].rename("shift")
    joined = tables["values"].join(shift, on=["seed", "labels"])
    tables["values"] = joined.assign(value=joined["value"] - joined["shift"] + 0.4).drop(columns="shift")
    tables["values"]["value"] += np.random.default_rng(0).normal(0, 1e-4, len(joined))
    rows = {row["arm"]: row["outcome"] for row in numbers._robust(judged.effects(tables), judged.cells(tables))}
    assert rows.pop("FedAvg") == "different"
    assert set(rows.values()) == {"equivalent"}


def test_the_papers_own_numbers_agree_with_the_paper():
    cell = Cell("cifar10", "non-IID", "permuted")
    value = judged.of_paper(cell)["value"]
    assert value["Factorized-FL β"] == 56.61
    assert judged.of_paper(cell)["sd"]["Factorized-FL α"] == 1.03
    arms = {arm: value[judged.method_of(arm)] for arm in PRIVATE}
    tables = planted({cell: arms}, spread=1e-3)
    found = judged.agreement(tables, judged.effects(tables), cell, "text")
    assert {row["inside"] for row in found["rows"]} <= {"yes", "too wide to say"}
    assert found["sign"]["same"] == 5
    assert (found["order"]["same"] >= 14, found["order"]["opposite"]) == (True, 0)  # one pair is .02 points apart
    tables = planted({cell: {arm: -v for arm, v in arms.items()}}, spread=1e-3)
    upside_down = judged.agreement(tables, judged.effects(tables), cell, "text")
    assert upside_down["sign"]["same"] == 0
    assert judged.earlier_as_printed() == (22, 24)  # as FF-11 has it


def test_methods_look_different_and_their_marks_stand_at_their_means():
    means = {arm: 20.0 + 5 * place for place, arm in enumerate(ARMS)}
    tables = planted({STANDARD: means}, spread=1e-3)
    tables["bytes"] = tables["values"].assign(up=1, down=1)
    panel, legend = pictures.drawn(tables, "round").axes
    handles = legend.get_legend().legend_handles
    assert {handle.get_label() for handle in handles} == set(ARMS)
    looks = [(line.get_marker(), line.get_markerfacecolor()) for line in handles]
    assert len(set(looks)) == len(ARMS)  # even without lines and greys
    right = [line for line in panel.lines if line.get_xdata()[0] > 1 and line.get_marker() != "None"]
    assert [(line.get_marker(), line.get_markerfacecolor()) for line in right] == looks[: len(right)]
    drawn = [float(line.get_ydata()[0]) for line in right]
    planned = [means[handle.get_label()] for handle in handles[: len(right)]]
    assert len(drawn) == 6
    assert np.diff(drawn) == pytest.approx(np.diff(planned), abs=0.1)


@pytest.mark.slow
def test_the_study_runs_and_hands_over_its_numbers_and_figures(tmp_path):
    tables = run(SCALES["smoke"], tmp_path)
    found = numbers.numbers(tables, asdict(SCALES["smoke"]))
    json.dumps(found)
    assert [row["arm"] for row in found["accuracy"]] == list(ARMS)
    assert found["cells"][0]["title"] == "IID, standard labels"
    assert {row["partition"] for row in found["robust"]} == {"IID"}
    ratio = {row["arm"]: row["digits, IID, standard"]["ratio"] for row in found["costs"]}
    assert ratio["FedAvg"] == "1.00"
    assert float(ratio["Factorized-FL α, text"]) < 0.1
    assert set(numbers.figures(tables)) == {"rounds", "bytes"}
    assert len(tables["domains"]) == 5 * len(PRIVATE) * SCALES["smoke"].seeds
