"""A population is the same however it is named: in TOML, or in Python by the documented functions, under one seed."""

import csv
from dataclasses import replace

import numpy as np
import pytest

import fedstat as fs
from fedstat.data import datasets
from fedstat.experiment.build import set_up
from fedstat.experiment.parsing import parse
from fedstat.federated.fingerprint import of_clients
from tests.support.experiments import changed

SEED = 3
#: Twelve owners, whose order as text is another one.
OWNERS = np.random.default_rng(5).permutation(np.arange(240) % 12) + 1


def make(folder, target="classes"):
    """Write one table as .csv, as .npz, and as .npz with an official test part; return its arrays."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 3)).astype(np.float32)
    y = {
        "classes": rng.integers(3, 7, 240),
        "text": rng.choice(["b", "a", "c d"], 240),
        "numbers": rng.normal(size=240),
    }[target]
    test = np.arange(240) % 4 == 0
    with (folder / "mine.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["y", "a", "client", "b", "c"])
        rows.writerows([y[i], float(x[i, 0]), OWNERS[i], *map(float, x[i, 1:])] for i in range(240))
    np.savez(folder / "mine.npz", x=x, y=y, client=OWNERS)
    np.savez(folder / "tested.npz", x=x, y=y, client=OWNERS, test=test)
    return x, y, test


def from_toml(folder, data, partition, **more):
    """The clients of an experiment."""
    experiment = parse(changed(data=data, partition=partition, seed=SEED, **more), folder)
    clients, unseen = fs.experiment.population(experiment)
    setup = set_up(experiment)
    assert of_clients(setup.clients[SEED]) == of_clients(clients)
    assert (unseen is None) == (not setup.unseen)
    return clients


def agree(here, there):
    """Samples, names and classes are the same, and the types of the samples."""
    assert of_clients(here) == of_clients(there)
    assert here.names == there.names
    assert here.classes == there.classes
    for split, samples in here.all_splits.items():
        assert samples.x.dtype == there.all_splits[split].x.dtype
        np.testing.assert_array_equal(samples.x, there.all_splits[split].x)


@pytest.mark.parametrize("target", ["classes", "text", "numbers"])
@pytest.mark.parametrize("name", ["mine.csv", "mine.npz"])
def test_a_table_with_its_own_clients(tmp_path, name, target):
    make(tmp_path, target)
    toml = from_toml(tmp_path, {"file": name}, {"kind": "group", "test": 0.3, "validation": 0.1})
    read = fs.data.from_csv if name.endswith(".csv") else fs.data.from_npz
    agree(toml, read(tmp_path / name, test=0.3, validation=0.1, seed=SEED))
    assert toml.names == tuple(str(k) for k in range(1, 13))


def test_two_spellings_of_a_number_are_two_clients_everywhere(tmp_path):
    rows = [f"{owner},{i},{i % 2}" for i, owner in enumerate(["2", "10", "01", "1", "x9"] * 8)]
    (tmp_path / "codes.csv").write_text("\n".join(["client,a,y", *rows]))
    toml = from_toml(tmp_path, {"file": "codes.csv"}, {"kind": "group"})
    agree(toml, fs.data.from_csv(tmp_path / "codes.csv", seed=SEED))


#: Every kind but "group": what TOML says, and the function that the documentation names.
KINDS = {
    "iid": ({"clients": 5}, lambda y, _: fs.data.iid(len(y), 5, seed=SEED)),
    "dirichlet": (
        {"clients": 5, "alpha": 0.7, "min_size": 8},
        lambda y, _: fs.data.dirichlet(y, 5, 0.7, min_size=8, seed=SEED),
    ),
    "shards": ({"clients": 6, "classes_per_client": 2}, lambda y, _: fs.data.shards(y, 6, 2, seed=SEED)),
    "one-label": ({"clients": 8}, lambda y, _: fs.data.one_label_shards(y, 8, seed=SEED)),
    "domains": (
        {"clients": 4, "by": "client", "groups": {"near": ["1", "2", "12"], "far": ["3", "11"]}},
        lambda _, owner: fs.data.domains(
            owner.astype(str), {"near": ["1", "2", "12"], "far": ["3", "11"]}, 4, seed=SEED
        ),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["mine.csv", "mine.npz"])
def test_a_table_dealt_anew(tmp_path, name, kind):
    x, y, _ = make(tmp_path)
    said, deal = KINDS[kind]
    toml = from_toml(tmp_path, {"file": name}, {"kind": kind, **said, "test": 0.3})
    agree(toml, fs.data.from_indices(x, y, deal(y, OWNERS), test=0.3, seed=SEED, stratify=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("test", [0.25, "own classes", "all"])
def test_an_official_test_part(tmp_path, kind, test):
    x, y, official = make(tmp_path)
    held = np.flatnonzero(~official)
    said, deal = KINDS[kind]
    part = deal(y[held], OWNERS[held]).within(held)
    if test == "own classes":
        part = fs.data.own_test(part, y, official, most=9, seed=SEED)
        said = said | {"most_test": 9}
    elif test == "all":
        part = replace(part, test=(np.flatnonzero(official),) * len(part))
    toml = from_toml(tmp_path, {"file": "tested.npz"}, {"kind": kind, **said, "test": test, "validation": 0.1})
    agree(toml, fs.data.from_indices(x, y, part, test=0.25, validation=0.1, seed=SEED, stratify=True))
    pooled = from_toml(tmp_path, {"file": "tested.npz", "pool": True}, {"kind": kind, **KINDS[kind][0], "test": 0.25})
    agree(pooled, fs.data.from_indices(x, y, deal(y, OWNERS), test=0.25, seed=SEED, stratify=True))


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"kind": "group", "test": "own classes"}, 'test = "own classes"'),
        ({"kind": "shards", "clients": 6, "classes_per_client": 2}, 'kind = "shards"'),
    ],
)
def test_targets_that_are_numbers_have_no_classes_to_deal_by(tmp_path, said, named):
    make(tmp_path, "numbers")
    with pytest.raises(ValueError, match=f"{named} needs class labels, and the targets of tested.npz are numbers"):
        from_toml(tmp_path, {"file": "tested.npz"}, said)


def test_draws_from_both_parts_permuted_labels_and_a_common_test_set(tmp_path):
    x, y, official = make(tmp_path)
    drawn = fs.data.dirichlet_draws(y, official, 5, 0.5, train=12, held_out=6, seed=SEED)
    said = {"kind": "dirichlet-draws", "clients": 5, "alpha": 0.5, "train": 12, "held_out": 6}
    common = np.flatnonzero(official)
    toml = from_toml(tmp_path, {"file": "tested.npz"}, said, evaluation={"common": True})
    agree(toml, fs.data.from_indices(x, y, drawn, seed=SEED, common=common))
    toml = from_toml(tmp_path, {"file": "tested.npz"}, {**said, "permute_labels": True})
    agree(toml, fs.data.from_indices(x, y, fs.data.permute_labels(drawn, 4, seed=SEED), seed=SEED))
    held = np.flatnonzero(~official)
    toml = from_toml(tmp_path, {"file": "tested.npz"}, {"kind": "group"})
    agree(toml, fs.data.from_indices(x, y, fs.data.by_group(OWNERS[held]).within(held), seed=SEED, stratify=True))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "domains"])
def test_a_built_in_data_set(tmp_path, kind):
    said, deal = KINDS[kind]
    said = said | ({"clients": 10} if kind == "one-label" else {})
    x, y = fs.data.digits()
    part = fs.data.one_label_shards(y, 10, seed=SEED) if kind == "one-label" else deal(y, None)
    toml = from_toml(tmp_path, {"name": "digits"}, {"kind": kind, **said})
    agree(toml, fs.data.from_indices(x, y, part, seed=SEED))
    source = datasets.read("digits")
    agree(toml, fs.data.from_indices(source.x, source.y, part, seed=SEED, classes=source.classes))


def test_new_clients_are_those_of_the_experiment(tmp_path):
    make(tmp_path)
    table = changed(data={"file": "mine.csv"}, partition={"kind": "group", "new_clients": 0.25}, seed=[1, SEED])
    experiment = parse(table, tmp_path)
    setup, everybody = set_up(experiment), fs.data.from_csv(tmp_path / "mine.csv", seed=SEED)
    clients, unseen = fs.experiment.population(experiment, SEED)
    assert of_clients(unseen) == of_clients(setup.unseen[SEED])
    assert sorted([*clients.names, *unseen.names]) == sorted(everybody.names)
    assert of_clients(fs.experiment.population(experiment)[0]) == of_clients(setup.clients[1])


def test_a_number_beyond_float32_is_named(tmp_path):
    (tmp_path / "far.csv").write_text("client,a,y\n1,1,0\n1,1e300,1\n2,1,0\n2,2,1\n")
    with pytest.raises(
        ValueError, match=r"x must be at most 3\.403e\+38 in float32, but train sample 0 of client 1 holds 1e\+300"
    ):
        set_up(parse(changed(data={"file": "far.csv"}, partition={"kind": "group"}), tmp_path))
