"""Configurations: what is read, what is refused and in which words; what they build; what a run amounts to."""

import copy
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

import fedstat as fs
from fedstat.experiment.build import set_up
from fedstat.experiment.config import to_table
from fedstat.experiment.dealing import KINDS
from fedstat.experiment.keys import setting
from fedstat.experiment.parsing import parse
from fedstat.experiment.summaries import summarise
from fedstat.report.sources import read_source, settings_of
from tests.support.experiments import BASE, changed, images, own


def written(folder, table):
    (folder / "experiment.toml").write_text(tomli_w.dumps(table))
    return folder / "experiment.toml"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": None}, r"^rounds is missing\.$"),
        ({"rounds": 0}, r"^rounds must be greater than or equal to 1, got 0\.$"),
        ({"rounds": True}, r"^rounds must be a whole number, got true\.$"),
        ({"round": 3}, r"^there is no key round \(did you mean rounds\?\); the file may hold .*seed.*$"),
        ({"seed": [1, 1]}, r"^seed must be one or several different non-negative integers, got \[1, 1\]\.$"),
        ({"seed": -1}, r"^seed must be greater than or equal to 0 or a list, got -1\.$"),
        ({"seed": []}, r"^seed must be a whole number or a list that is not empty, got \[\]\.$"),
        ({"participation": 2}, r"^participation must be a number in \(0, 1\], got 2\.0\.$"),
        ({"dtype": "float16"}, r'^dtype must be "float32", "float64", "tf32" or "bf16-mixed", got "float16"\.$'),
        ({"data": None}, r"^\[data\] is missing\.$"),
        ({"data": 3}, r"^data must be a table, got 3\.$"),
        ({"data__name": "cifra10"}, r'^data\.name must be one of "cifar10".*"cifra10" \(did you mean cifar10\?\)\.$'),
        ({"data__file": "a.csv"}, r"^data: give either name .* or file"),
        ({"data__drop": ["a"]}, "^data: drop names columns of a .csv, and the data are digits"),
        (
            {"data": {"file": "a.csv", "inputs": ["a"], "drop": ["b"]}},
            "^data: inputs names .* give one of them, not both",
        ),
        ({"data": {"file": "a.csv", "inputs": []}}, r"^data.inputs must be a list that is not empty, got \[\]"),
        ({"partition__kind": None}, r'^partition\.kind is missing; it is one of "iid", "dirichlet".*$'),
        ({"partition__kind": "dirichlet"}, r"^partition\.alpha is missing\.$"),
        ({"partition__alpha": 1.0}, r"^there is no key partition\.alpha; \[partition\] may hold kind, .*clients.*$"),
        ({"partition__test": "own"}, r'^partition\.test must be a number or "own classes" or "all", got "own"\.$'),
        ({"partition__test": 0.6, "partition__validation": 0.4}, r"^partition: test \+ validation must be less than 1"),
        ({"model__name": "rsnet8"}, r'^model\.name must be one of .*"resnet8".*mine\.py:name"; got "rsnet8"'),
        ({"model__width": 3}, r"^there is no key model\.width \(did you mean widths\?\)"),
        ({"model__widths": "5"}, r'^model\.widths must be a list, got "5"\.$'),
        ({"method": {}}, r"^\[method\] is empty; name at least one, such as \[method\.FedAvg\]\.$"),
        (
            {"method": {"FedAvgg": {}}},
            r'^method\.FedAvgg\.name must be one of .*"FedAvgg" \(did you mean FedAvg\?\)\.$',
        ),
        ({"method": {"a b": {"name": "FedFac"}}}, r'^method\."a b"\.layers is missing\.$'),
        ({"method": {"FedProx": {"mu": "x"}}}, r'^method\.FedProx\.mu must be a number, got "x"\.$'),
        (
            {"method": {"FedProx": {"server": {"name": "sgd", "lr": -1}}}},
            r"^method\.FedProx\.server: lr must be a number in",
        ),
        ({"method": {"F": {"name": "FedFac", "layers": ["a"], "tau": {"q": 2}}}}, r"^method\.F\.tau: a quantile must"),
        ({"method": {"F": {"name": "no.py:F"}}}, r"^method\.F: .*no\.py does not exist"),
        ({"training__lr": -1}, r"^training: lr must be a number in \[0, inf\), got -1\.0\.$"),
        ({"training__optimiser": "sgd"}, r"^there is no key training\.optimiser \(did you mean optimizer\?\)"),
        ({"evaluation": {"every": 4}}, r"^evaluation\.every must be at most rounds = 3, got 4\.$"),
        ({"evaluation": {"last": 0}}, r"^evaluation\.last must be greater than or equal to 1, got 0\.$"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_that_names_the_key(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(changed(**changes), Path())
    assert len(str(caught.value).splitlines()) == 1


def test_everything_that_is_wrong_is_said_at_once_with_the_file(tmp_path):
    file = written(tmp_path, changed(rounds=0, training__lr=None, model__name=3))
    with pytest.raises(ValueError, match=r"rounds must") as caught:
        fs.experiment.read(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{file}: ") for line in lines)


@pytest.mark.parametrize("text", ["rounds = 1\nrounds = 2", "rounds =", "[data]\nname = 'a'\n[data]\n", '"\\u00"=1'])
def test_what_is_no_toml_is_refused_with_file_and_line(tmp_path, text):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.toml is no TOML: .*(line \d+|end of document)"):
        fs.experiment.read(tmp_path / "bad.toml")


def test_defaults_are_filled_in_and_what_is_written_is_read_again(tmp_path):
    method = {"split": {"name": "FedFac", "layers": ["hidden"], "tau": {"units": 3}}, "FedProx": {"mu": 1}}
    experiment = fs.experiment.read(written(tmp_path, changed(method=method, seed=[2, 5])))
    table = tomllib.loads(tomli_w.dumps(to_table(experiment)))
    assert table["method"]["split"]["kappa"] == 0.85
    assert table["method"]["FedProx"] == {"name": "FedProx", "weighting": "samples", "fine_tune": 0,
                                          "part": "all", "mu": 1.0}  # fmt: skip
    assert table["partition"]["test"] == 0.2
    assert experiment.seeds == (2, 5)
    assert to_table(parse(table, tmp_path)) == to_table(experiment)


def test_changes_are_set_by_dotted_keys(tmp_path):
    file = written(tmp_path, BASE)
    changes = dict(map(setting, ["partition.kind=one-label", "training.lr=1e-3", 'method."a.b"={name="Local"}']))
    changed = fs.experiment.read(file, changes)
    assert type(changed.partition) is KINDS["one-label"]
    assert changed.training.lr == 1e-3
    assert list(changed.method) == ["FedAvg", "a.b"]
    for text in ("rounds", "rounds=[1", "rounds=", "rounds = 3 4 = 5"):
        with pytest.raises(ValueError, match=re.escape(repr(text))):
            setting(text)
    with pytest.raises(ValueError, match="'a b' is no key"):
        fs.experiment.read(file, {"a b": 1})


KEYS = [
    *(f"{name}.{key}" for name, of in to_table(parse(BASE, Path())).items() if isinstance(of, dict) for key in of),
    *BASE, "seed", "vary", "participation", "device", "dtype", "executor", "checkpoint", "evaluation",
    "partition.alpha", "partition.groups", "partition.by", "data.root", "data.file", "method.FedFac.layers",
    "method.FedFac.tau", "method.FedDecomp.variant", "method.x.name", "model.classes",
    "model.side", "training.loss", "evaluation.lasst",
    "plan", "plan.margin", "plan.arms", "plan.estimand",
]  # fmt: skip
WORDS = [
    "FedAvg",
    "FedFac",
    "FedDecomp",
    "digits",
    "resnet8",
    "lstm",
    *KINDS,
    "sgd",
    "all",
    "a.csv",
    "b.py:C",
    "name",
    "q",
]
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner),
    max_leaves=6,
)  # fmt: skip


def fuzzed(table, folder):
    """Read a table: an experiment that survives being written, or sentences that each name a key."""
    try:
        experiment = parse(table, folder)
    except ValueError as error:
        for line in str(error).splitlines():
            tables = r"\[?(data|partition|model|method|training|evaluation|plan|vary)\b"
            assert re.match(rf"there is no key |{tables}", line) or (
                line.split()[0] in ("rounds", "seed", "participation", "device", "dtype", "executor", "checkpoint")
            ), line
        return False
    written = tomli_w.dumps(to_table(experiment))
    assert tomli_w.dumps(to_table(parse(tomllib.loads(written), folder))) == written
    return True


RIGHT = [
    ("rounds", 7), ("seed", [4, 2]), ("partition.test", 0.3), ("partition.clients", 9), ("training.momentum", 0.9),
    ("method.FedFac.layers", ["hidden"]), ("method.FedDecomp.variant", "reverse"), ("model.widths", [3, 4]),
    ("dtype", "bf16-mixed"), ("evaluation.every", 2), ("data.pool", True), ("method.x.name", "Local"),
    ("executor", "stacked"), ("method.F", {"name": "FedFac", "layers": [], "tau": 0.5, "dynamic": True}),
    ("partition", {"kind": "dirichlet", "clients": 3, "alpha": 0.1}), ("model", {"name": "lstm", "hidden": 4}),
    ("method.FedFac", {"layers": ["hidden"], "tau": {"q": 0.25}}), ("partition", {"kind": "domains", "clients": 5}),
]  # fmt: skip


@pytest.mark.slow
@given(
    st.lists(st.sampled_from(RIGHT), max_size=5),
    st.lists(st.tuples(st.sampled_from(KEYS) | st.text(max_size=6), VALUES), max_size=3),
)
def test_any_table_is_an_experiment_or_refused_by_key(right, changes):
    table = copy.deepcopy(BASE)
    for key, value in copy.deepcopy(right) + changes:
        *path, last = key.split(".")
        inner = table
        for step in path:
            inner[step] = inner.get(step) if isinstance(inner.get(step), dict) else {}
            inner = inner[step]
        inner[last] = value
    fuzzed(table, Path("/nowhere"))


@given(
    st.text()
    | st.lists(st.sampled_from([*"[]{}=\".,'#\n", "rounds", "[data]\n", "name", "1", "'''", "1979-05-27"])).map("".join)
)
def test_any_text_is_an_experiment_or_refused_by_file(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "fuzzed.toml"
    file.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(ValueError, match=re.escape(str(file))):
        fs.experiment.read(file)


def held(samples):
    """What identifies each sample of each client."""
    return [[bytes(row) for row in samples.client(k)[0]] for k in range(len(samples.n))]


def test_new_clients_stay_away_and_nobody_is_lost(tmp_path):
    x, _, test = images(tmp_path)
    setup = set_up(own(tmp_path, partition={"kind": "iid", "clients": 10, "new_clients": 0.25}, seed=[0, 1]))
    away = []
    for seed in (0, 1):
        sides = [setup.clients[seed], setup.unseen[seed]]
        assert [len(side) for side in sides] == [7, 3]
        assert sorted(sides[0].names + sides[1].names) == sorted(map(str, range(10)))
        rows = [row for side in sides for split in side.splits.values() for client in held(split) for row in client]
        assert sorted(rows) == sorted(bytes(row) for row in x[~test])  # the official test part is kept aside
        away.append(setup.unseen[seed].names)
    assert away[0] != away[1]


@pytest.mark.parametrize(
    "partition",
    [
        {"kind": "shards", "clients": 5, "classes_per_client": 2, "test": "own classes"},
        {"kind": "group", "test": "all"},
        {"kind": "dirichlet-draws", "clients": 5, "alpha": 0.5, "train": 12, "held_out": 6},
        {"kind": "one-label", "clients": 4, "test": "own classes", "most_test": 3, "permute_labels": True},
    ],
)
def test_official_test_samples_test_and_others_train(tmp_path, partition):
    x, y, test = images(tmp_path)
    setup = set_up(own(tmp_path, partition=partition))
    clients, part = setup.clients[0], setup.partitions[0]
    official = {bytes(row): label for row, label in zip(x[test], y[test], strict=True)}
    for k in range(len(clients)):
        names = np.arange(4) if part.labels is None else part.labels[k]
        trained, tested = (clients.splits[split].client(k) for split in ("train", "test"))
        assert not {bytes(row) for row in trained[0]} & official.keys()
        assert [names[official[bytes(row)]] for row in tested[0]] == tested[1].tolist()
        if partition.get("test") == "own classes":
            assert set(tested[1]) <= set(trained[1])
            assert len(tested[1]) <= partition.get("most_test", 240)
        if partition.get("test") == "all":
            assert len(tested[1]) == test.sum()


def test_csv_and_npz_make_the_same_clients(tmp_path):
    rng = np.random.default_rng(1)
    x, y, client = rng.normal(size=(40, 3)).astype(np.float32), rng.choice(["no", "yes"], 40), np.arange(40) % 4
    np.savez(tmp_path / "mine.npz", x=x, answer=y, who=client)
    pd.DataFrame(x.astype(float), columns=[*"abc"]).assign(answer=y, who=client).to_csv(
        tmp_path / "mine.csv", index=False
    )
    for name in ("mine.npz", "mine.csv"):
        data = {"file": name, "client": "who", "target": "answer"}
        setup = set_up(own(tmp_path, data=data, partition={"kind": "group", "test": 0.5}))
        clients = setup.clients[0]
        assert clients.classes == ("no", "yes")
        for k in range(4):
            mine = [clients.splits[split].client(k) for split in ("train", "test")]
            got = {
                (*row.tolist(), clients.classes[label])
                for rows, labels in mine
                for row, label in zip(rows, labels, strict=True)
            }
            assert got == {(*row.tolist(), label) for row, label in zip(x[client == k], y[client == k], strict=True)}


TOKENS = """
from torch import nn
from torch.nn import functional as F

def net(classes, width: int):
    return nn.Sequential(nn.Embedding(50, width), nn.Flatten(), nn.Linear(4 * width, classes))

def focal(outputs, y):
    return F.cross_entropy(outputs, y, reduction="none") * 0.5
"""


def test_a_file_may_hold_tokens_and_a_report_names_a_loss_of_ones_own(tmp_path):
    rng = np.random.default_rng(2)
    x, client = rng.integers(0, 50, (40, 4)), np.arange(40) % 4
    np.savez(tmp_path / "tokens.npz", x=x, y=rng.integers(0, 2, 40), client=client)
    (tmp_path / "mine.py").write_text(TOKENS)
    of = {"partition": {"kind": "group"}, "model": {"name": "mine.py:net", "width": 3}, "evaluation": {}, "rounds": 1}
    of["training"] = {"lr": 0.1, "loss": "mine.py:focal"}
    with pytest.raises(ValueError, match=r"make clients with tokens=True \(a key of \[data\], too\)"):
        set_up(own(tmp_path, data={"file": "tokens.npz"}, **of))
    with pytest.raises(ValueError, match=r"tokens keeps whole numbers of an \.npz, and the data are digits"):
        own(tmp_path, data={"name": "digits", "tokens": True}, **of)
    experiment = own(tmp_path, data={"file": "tokens.npz", "tokens": True}, **of)
    assert set_up(experiment).clients[0].train.x.dtype.kind == "i"
    fs.experiment.run(experiment, tmp_path / "out", progress=False)
    told = dict(settings_of([read_source(tmp_path / "out")]))["local training of FedAvg"]
    assert told.endswith("; loss mine.py:focal")
    assert told.count("loss") == 1


NETWORKS = """
from torch import nn

def net(classes, inputs, width: int):
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.Linear(width, classes))

class Fixed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 4))
"""


@pytest.mark.parametrize(
    ("model", "layer", "shape"),
    [
        ({"name": "mlp", "widths": [7, 6]}, "hidden1.weight", (7, 64)),
        ({"name": "cnn", "channels": [3, 5]}, "head.bias", (4,)),
        ({"name": "two_conv", "padding": 2, "widths": [2, 3]}, "conv1.weight", (2, 1, 5, 5)),
        ({"name": "mine.py:net", "width": 9}, "1.weight", (9, 64)),
        ({"name": "mine.py:Fixed"}, "1.weight", (4, 64)),
    ],
)
def test_networks_are_told_about_the_data(tmp_path, model, layer, shape):
    images(tmp_path)
    (tmp_path / "mine.py").write_text(NETWORKS)
    setup = set_up(own(tmp_path, model=model))
    assert tuple(setup.network.weights[layer]) == shape


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition": {"kind": "iid", "clients": 500}}, r"^partition: clients must be between 1 and"),
        ({"partition": {"kind": "group", "by": "town"}}, r"^partition: by must be one of client for mine\.npz"),
        ({"partition": {"kind": "iid", "clients": 3, "test": 0}}, r"^partition: test = 0 leaves clients without"),
        ({"partition": {"kind": "iid", "clients": 2, "new_clients": 0.9}}, r"^partition: new_clients = 0\.9 leaves no"),
        ({"partition": {"kind": "shards", "clients": 3, "classes_per_client": 9}}, "^partition: classes_per_client"),
        ({"data": {"file": "mine.npz", "pool": True}, "evaluation": {"common": True}}, "^evaluation.common needs an"),
        ({"data": {"file": "mine.npz", "target": "z"}}, r"mine\.npz has no array 'z'"),
        ({"data": {"file": "other.csv"}}, r"other\.csv"),
        ({"model": {"name": "lstm"}}, r"^model\.vocabulary is missing, and mine\.npz does not tell it"),
        ({"model": {"name": "mine.py:broken"}}, r"^model: .*mine\.py:broken builds no network: division by zero"),
        ({"model": {"name": "mine.py:noisy"}}, r"^model: the network would be trained wrongly: layer '1' draws random"),
        ({"model": {"name": "cnn", "classes": 2}}, r"^model: 4 classes need .* has 2\. The classes of mine\.npz are "),
        ({"model": {"name": "resnet8", "channels": 3}}, r"^model: resnet8 does not take inputs of shape \(8, 8\): "),
        ({"method": {"Local": {}, "FedFac": {"layers": ["no"]}}}, r"^method\.FedFac: the network has no layer 'no'"),
        ({"device": "tpu9"}, '^device must be one that torch finds here, such as "cpu"; got \'tpu9\''),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_fails_before_anything_is_written(tmp_path, changes, message):
    images(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def broken():\n    return 1 / 0\n\n\ndef noisy():\n    from torch import nn\n\n"
        "    class Noise(nn.Module):\n        def forward(self, x):\n            return x + x.clone().normal_()\n\n"
        "    return nn.Sequential(nn.Flatten(), Noise(), nn.Linear(64, 4))\n"
    )
    with pytest.raises((ValueError, OSError), match=message):
        fs.experiment.run(own(tmp_path, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_papers_summaries_are_what_they_say():
    rng = np.random.default_rng(2)
    sizes = {0: np.array([10, 30, 60]), 1: np.array([20, 20, 5])}
    accuracy = {split: rng.random((2, 14, 3)) for split in ("test", "validation")}  # seed, round, client
    rows = [
        ("A", seed, t + 1, k, estimand, split, "accuracy", values[seed, t, k] * scale)
        for split, values in accuracy.items() for estimand, scale in (("personal", 1), ("global", 0.5))
        for seed in (0, 1) for t in range(14) for k in range(3)
    ]  # fmt: skip
    rows += [("A", seed, 14, -1, "global", "common", "accuracy", 0.3 + seed / 10) for seed in (0, 1)]
    sent = [("A", seed, t, 0, 10**6, 0) for seed in (0, 1) for t in range(1, 15)]
    traffic = pd.DataFrame(sent, columns=["method", "seed", "round", "client", "bytes_up", "bytes_down"])
    history = pd.DataFrame(rows, columns=["method", "seed", "round", "client", "estimand", "split", "metric", "value"])
    comparison = fs.compare(history, last=5)
    summary = summarise(history, traffic, sizes, np.array([4, 9]), comparison, last=5)
    found = summary.papers.set_index("summary")

    def window(curve, start):
        return np.mean([curve[t] for t in range(start, start + 10)])

    weighted = {split: [values[s] @ sizes[s] / sizes[s].sum() for s in (0, 1)] for split, values in accuracy.items()}
    equal = {split: [values[s].mean(1) for s in (0, 1)] for split, values in accuracy.items()}
    best = {s: max(range(5), key=lambda start: window(weighted["test"][s], start)) for s in (0, 1)}
    chosen = {s: max(range(5), key=lambda start: window(weighted["validation"][s], start)) for s in (0, 1)}
    expected = {
        "FedFac: best 10 consecutive rounds, by samples": [window(weighted["test"][s], best[s]) for s in (0, 1)],
        "FedFac: last 10 rounds, by samples": [window(weighted["test"][s], 4) for s in (0, 1)],
        "FedFac: best round, by samples": [max(weighted["test"][s]) for s in (0, 1)],
        "FedDecomp, Factorized-FL: best round": [max(equal["test"][s]) for s in (0, 1)],
        "FilterDecomp (personal), Factorized-FL: last round": [equal["test"][s][-1] for s in (0, 1)],
        "FilterDecomp (global): last round, all official test samples": [0.3, 0.4],
    }
    assert list(found.index) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found.loc[name, "mean"], np.mean(values), err_msg=name)
        np.testing.assert_allclose(found.loc[name, "sd over seeds"], np.std(values, ddof=1), err_msg=name)
        assert found.loc[name, "optimistic"] == ("best" in name)
    fresh = found["chosen on validation"]
    np.testing.assert_allclose(
        fresh["FedFac: best 10 consecutive rounds, by samples"],
        np.mean([window(weighted["test"][s], chosen[s]) for s in (0, 1)]),
    )
    np.testing.assert_allclose(
        fresh["FedDecomp, Factorized-FL: best round"],
        np.mean([equal["test"][s][np.argmax(equal["validation"][s])] for s in (0, 1)]),
    )
    assert fresh.notna().sum() == 3
    assert summary.beside.loc["A", "megabytes"] == 14
    np.testing.assert_allclose(summary.comparison.summary.loc["A", "mean"], accuracy["test"][:, -5:].mean())

    sparse = summarise(history[history["round"] % 2 == 0], traffic, sizes, np.array([4]), comparison, last=5)
    assert not [name for name in sparse.papers["summary"] if "10" in name]  # never ten rounds in a row
    short = summarise(history[history["round"] <= 10], traffic, sizes, np.array([4]), comparison, last=5)
    marked = short.papers.set_index("summary")["optimistic"]
    assert list(marked[marked].index) == ["FedFac: best round, by samples", "FedDecomp, Factorized-FL: best round"]
    assert not any("all seeds have the same clients" in note for note in short.notes)
    assert "mean over seeds; standard deviations in summary.csv" in str(short)


MEMORY = r"""
import re, sys, torch
from pathlib import Path
torch.set_num_threads(1)
from fedstat.experiment.build import set_up
from fedstat.experiment.estimate import estimate
from fedstat.experiment.parsing import read
from fedstat.experiment.run import carry_out
folder = Path(sys.argv[1])
# not getrusage, whose peak is also that of the process which started this one
used = lambda: int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
def go(name, changes):
    setup = set_up(read(folder / "experiment.toml", changes))
    expected = estimate(setup)
    carry_out(setup, folder / name, False)
    return expected.memory
go("small", {"model.widths": [2], "rounds": 1})
before = used()
expected = go("large", {})
print(expected, used() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="bytes of memory are told otherwise elsewhere")
def test_the_memory_estimate_is_right_within_a_factor_of_two(tmp_path):
    images(tmp_path, samples=1200, side=28)
    table = {
        "data": {"file": "mine.npz"},
        "method": {"FedAvg": {}, "Local": {}},
        "model": {"name": "mlp", "widths": [900]},
    }
    written(tmp_path, changed(partition={"kind": "iid", "clients": 20}, seed=[0, 1], rounds=1, **table))
    code = [sys.executable, "-c", MEMORY, str(tmp_path)]
    done = subprocess.run(code, capture_output=True, text=True, check=True)
    expected, used = map(int, done.stdout.split()[-2:])
    assert used > 2**28  # else what is compared is noise
    assert 1 / 2 < expected / used < 2
