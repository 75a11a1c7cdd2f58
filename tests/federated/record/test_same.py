"""A run is continued, or summarised again, on nothing but the same data, network and code, and on its own files."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedstat as fs
from fedstat.data import Samples
from fedstat.experiment.build import set_up
from fedstat.experiment.run import carry_out, run
from fedstat.federated.fingerprint import digest
from tests.support.experiments import contents, images, own

GAIN = 1.0


def gain():
    return GAIN


class Scaled(nn.Linear):
    """A layer with code and a constant of one's own."""

    def __init__(self, factor=1.0, bend=torch.tanh):
        super().__init__(3, 2)
        self.factor, self.bend = factor, bend

    def forward(self, x):
        return self.factor * self.bend(super().forward(x))


class Doubled(Scaled):
    """The same weights and constants."""

    def forward(self, x):
        return 2 * super().forward(x)


@dataclass(frozen=True, kw_only=True)
class Louder(fs.Method):
    """A method whose code refers to more code."""

    def objective(self, learner, params, batch, context):
        return gain() * super().objective(learner, params, batch, context)


def population():
    """Clients with all splits."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = (x[:, 0] > 0).astype(int)
    common = Samples(x[:9], y[:9], np.array([9]))
    return replace(fs.data.from_arrays(x, y, np.arange(60) % 4, test=0.3, validation=0.2), common=common)


def layers(act):
    return nn.Sequential(nn.Linear(3, 4), act, nn.Linear(4, 2))


def go(rounds, clients=None, model=partial(layers, nn.ReLU()), method=fs.FedAvg(), **options):  # noqa: B008
    data = population() if clients is None else clients
    options = {"seed": 3, "progress": False} | options
    return fs.federate({"it": method}, lambda: model(), data, fs.Training(lr=0.1), rounds=rounds, **options)


def edited(split, **arrays):
    """Clients of whom one sample of a split is another one."""
    clients = population()
    samples = getattr(clients, split)
    changed = {name: array.copy() for name, array in (("x", samples.x), ("y", samples.y))}
    for name in arrays:
        changed[name][0] = arrays[name]
    return replace(clients, **{split: replace(samples, **changed)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clients": edited("train", x=0.5)}, "other training samples of seed 3;"),
        ({"clients": edited("test", x=0.5)}, "other test samples of seed 3;"),
        ({"clients": edited("test", y=1 - population().test.y[0])}, "other test samples of seed 3;"),
        ({"clients": edited("validation", x=0.5)}, "other validation samples of seed 3;"),
        ({"clients": edited("common", x=0.5)}, "other common test samples of seed 3;"),
        ({"clients": replace(population(), test=None)}, r"test samples of seed 3 \(none here\);"),
        ({"clients": replace(population(), names=tuple("abcd"))}, "other names or classes of clients of seed 3;"),
        ({"clients": replace(population(), truth=np.ones(2))}, "no truth about the clients of seed 3;"),
        ({"model": partial(layers, nn.Tanh())}, "other layers, or code of the network, of seed 3;"),
        ({"model": partial(layers, nn.LeakyReLU(0.3))}, "other layers, or code of the network, of seed 3;"),
        ({"validate": True}, r"validate = False \(True here\);"),
    ],
)
def test_another_experiment_is_refused_in_words(changes, words):
    first = go(1)
    with pytest.raises(ValueError, match=f"resume holds a run with {words} only rounds may differ"):
        go(2, resume=first, **changes)


def test_padding_and_another_process_are_no_difference():
    clients, first = population(), go(1)
    k, most = len(clients), clients.test.n.max() + 5
    x, y = np.full((k, most, 3), 7.0), np.zeros((k, most), int)
    for row in range(k):
        x[row, : clients.test.n[row]], y[row, : clients.test.n[row]] = clients.test.client(row)
    wide = Samples.from_rows(x, y, clients.test.n)
    assert go(2, clients=replace(clients, test=wide), resume=first).config["rounds"] == 2
    assert first.config["fingerprint"]["3"].keys() == {
        "train", "validation", "test", "common", "fit_on", "names", "pool", "train_pool", "held", "sketch", "network",
        "weights",
    }  # fmt: skip


@pytest.mark.parametrize("model", [partial(layers, nn.Tanh()), nn.Linear(3, 2), fs.models.mlp(3, 4, 2)])
def test_a_model_that_is_not_the_runs_is_refused_where_it_is_loaded(tmp_path, monkeypatch, model):
    first = go(1)
    first.save(tmp_path / "run")
    again = fs.load(tmp_path / "run", model=partial(layers, nn.ReLU()))
    assert torch.equal(again.personal(0)[0].weight, first.personal(0)[0].weight)
    words = r"model must build the network of the run in .*run, but its layers, or their code, are others"
    with pytest.raises(ValueError, match=f"{words}; pass the model that the run was made with"):
        fs.load(tmp_path / "run", model=model)
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    with pytest.warns(UserWarning, match=rf"{words}, unless Python's version .*3\.99\.0 here"):
        fs.load(tmp_path / "run", model=model)


@pytest.mark.parametrize("model", [partial(Scaled, 2.0), partial(Scaled, bend=torch.sigmoid), Doubled])
def test_constants_and_code_of_a_network_count(model):
    first = go(1, model=Scaled)
    with pytest.raises(ValueError, match="other layers, or code of the network, of seed 3"):
        go(2, model=model, resume=first)


def test_code_that_a_method_refers_to_counts(monkeypatch):
    first = go(1, method=Louder())
    assert go(2, method=Louder(), resume=first).config["rounds"] == 2
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="with other code of the method 'it';"):
        patch.setitem(globals(), "GAIN", 2.0)
        go(2, method=Louder(), resume=first)
    with pytest.raises(ValueError, match=r"a run with methods.it.weighting = 'samples' \('uniform' here\);"):
        go(2, method=Louder(weighting="uniform"), resume=first)


CODE = '''
import functools
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

import fedstat as fs
import helper

LIMIT = 3

def outer(k):
    def inner(x, *, add=1):
        return x + k if x in {"a", "b", 7} else helper.times(x) + add + LIMIT
    return inner

@functools.lru_cache
def cached(x):
    return math.sqrt(x)

@dataclass(frozen=True, kw_only=True)
class Mine(fs.Method):
    """A method."""
    rules: object = None
    names: list = field(default_factory=list)

    def finish(self, learner, params, data, context):
        """What it does."""
        class Local:
            size = 4
        return {} if cached(Local.size) else [helper.times(v) for v in params]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.act = lambda x: torch.relu(x)
        self.made = {"set", "of", "words"}
    def forward(self, x):
        return self.act(self.lin(x))

torch.manual_seed(0)
RULES = [outer(2), functools.partial(outer, 1), Mine.finish, np.arange(3), outer, float("nan"), torch.float64, np.tanh]
'''
SHOWN = "\nfrom fedstat.federated.fingerprint import digest\nprint(digest([Mine(rules=RULES), Net()]))\n"
HELPER = "FACTOR = 5\ndef times(x):\n    return FACTOR * x\n"


def shown(folder, code, helper=HELPER, *, prompt=False, hashing=0):
    """The digest that a fresh process computes, of a file or of what is typed."""
    folder.mkdir(exist_ok=True)
    (folder / "helper.py").write_text(helper)
    (folder / "mine.py").write_text(code + SHOWN)
    paths = os.pathsep.join([str(folder), *sys.path])
    environment = {**os.environ, "PYTHONHASHSEED": str(hashing), "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-B", *(["-"] if prompt else [str(folder / "mine.py")])]
    typed = code + SHOWN if prompt else ""
    done = subprocess.run(command, input=typed, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_code_has_one_hash_in_every_process_and_another_after_every_edit(tmp_path, monkeypatch, capsys):
    first = shown(tmp_path / "a", CODE)
    moved = "# a comment\n\n\n" + CODE.replace('"""What it does."""', '"""What it does, in other words."""')
    assert shown(tmp_path / "b", moved, "# one\n" + HELPER, hashing=1) == first
    assert shown(tmp_path / "c", CODE, prompt=True, hashing=2) == first
    edits = [
        ("outer(2)", "outer(3)"),  # what is enclosed
        ("add=1", "add=2"),  # a default
        ("LIMIT = 3", "LIMIT = 4"),  # a global number
        ('"b", 7', '"b", 8'),  # a constant
        ("math.sqrt", "math.exp"),  # a function of a function that is called
        ("size = 4", "size = 5"),  # in a class inside a function
        ("torch.relu", "torch.tanh"),  # in a lambda
        ("np.tanh", "np.exp"),
        ("torch.float64", "torch.float32"),
        ('"words"', '"word"'),
        ("manual_seed(0)", "manual_seed(1)"),  # weights of a network
    ]

    def here(folder, code, helper=HELPER):
        """The same in this process, which has imported all that takes long."""
        folder.mkdir()
        (folder / "helper.py").write_text(helper)
        (folder / "mine.py").write_text(code + SHOWN)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            patch.delitem(sys.modules, "helper", raising=False)
            runpy.run_path(str(folder / "mine.py"), run_name="__main__")
        return capsys.readouterr().out.strip()

    assert here(tmp_path / "d", CODE) == first
    found = [here(tmp_path / f"e{k}", CODE.replace(*edit)) for k, edit in enumerate(edits)]
    found.append(here(tmp_path / "f", CODE, HELPER.replace("FACTOR = 5", "FACTOR = 6")))
    assert len({first, *found}) == len(found) + 1


class Hostile:
    """An object that may not be looked at."""

    def __getattribute__(self, name):
        raise RuntimeError("go away")

    def __repr__(self):
        raise RuntimeError("go away")


def test_nothing_is_refused_a_hash():
    around = []
    around.append(around)
    deep = ()
    for _ in range(10**5):
        deep = (deep,)

    def empty():
        return later

    before = digest(empty)
    later = 1
    assert digest(empty) != before
    for thing in (around, deep, Hostile(), threading.Lock(), (i for i in ()), sys, object(), torch.Generator()):
        assert digest(thing) == digest(thing)
    assert digest(iter([1])) == digest(iter([2]))  # nobody can look into it
    assert digest(torch.zeros(2, dtype=torch.bfloat16)) != digest(torch.zeros(2, dtype=torch.float16))
    assert digest((1, 2)) != digest([1, 2]) != digest({1: 2}) != digest("12")


def of_two(folder, rounds, **options):
    """A run of two seeds with rows of clients."""
    return go(rounds, method=fs.methods.Local(), seed=[0, 1], folder=folder, checkpoint=1, **options)


def test_files_of_another_checkpoint_or_seed_are_named(tmp_path):
    of_two(tmp_path / "run", 1)
    shutil.copytree(tmp_path / "run", tmp_path / "before")
    of_two(tmp_path / "run", 2, resume=fs.load(tmp_path / "run"))
    rows = Path("clients", "0")
    first = next((tmp_path / "run" / rows).glob("*.safetensors"))

    def restored(broken, name):
        shutil.rmtree(broken / name)
        shutil.copytree(tmp_path / "before" / name, broken / name)

    def swapped(broken):
        for old, new in (("0", "x"), ("1", "0"), ("x", "1")):
            (broken / "clients" / old).rename(broken / "clients" / new)

    def copied(broken, name):
        shutil.copy(tmp_path / "before" / name, broken / name)

    for spoil, named in (
        (
            lambda run: restored(run, rows),
            "clients/0/index.json is damaged: it is not the file that manifest.json lists",
        ),
        (lambda run: copied(run, "clients/1/index.json"), "clients/1/index.json is damaged"),
        (swapped, "clients/[01]/index.json is damaged"),
        (lambda run: copied(run, "metrics/00000.parquet"), "metrics/00000.parquet is damaged"),
        (lambda run: (run / "environment.json").write_text("{}"), "environment.json is damaged"),
        (lambda run: (run / "environment.json").unlink(), "environment.json is missing"),
        (lambda run: (run / "clients/0/index.json").unlink(), "clients/0/index.json is missing"),
        (lambda run: (run / rows / first.name).unlink(), f"{first.name} is missing"),
        (lambda run: (run / "more.txt").touch(), "more.txt is not a file of this run"),
        (lambda run: shutil.copy(first, run / rows / f"{'0' * 40}.safetensors"), "0{40}.safetensors is not a file of"),
        (lambda run: (run / "layout.json").touch(), "was saved by an earlier fedstat"),
    ):
        shutil.rmtree(tmp_path / "broken", ignore_errors=True)
        shutil.copytree(tmp_path / "run", tmp_path / "broken")
        spoil(tmp_path / "broken")
        with pytest.raises(ValueError, match=named):
            fs.load(tmp_path / "broken")
    (tmp_path / "run" / ".DS_Store").touch()
    assert fs.load(tmp_path / "run").config["rounds"] == 2
    listed = json.loads((tmp_path / "run" / "manifest.json").read_text())["sha256"]
    files = {p.relative_to(tmp_path / "run").as_posix() for p in (tmp_path / "run").rglob("[!.]*") if p.is_file()}
    assert files - listed.keys() == {
        "manifest.json",
        *(f for f in files if f.startswith("clients/") and "index" not in f),
    }


MINE = """
import torch
from torch import nn

import fedstat as fs

class Mine(fs.Method):
    def objective(self, learner, params, batch, context):
        return 1.0 * super().objective(learner, params, batch, context)

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 4))

    def forward(self, x):
        return torch.tanh(super().forward(x))
"""


@pytest.mark.slow
def test_a_finished_run_is_checked_like_one_that_is_continued(tmp_path):
    def written(old, new):
        (tmp_path / "mine.py").write_text(MINE.replace(old, new))

    def relabelled():
        arrays = dict(np.load(tmp_path / "mine.npz"))
        test = np.flatnonzero(arrays["test"])
        arrays["y"][test] = np.roll(arrays["y"][test], 1)
        np.savez(tmp_path / "mine.npz", **arrays)

    def experiment(rounds=2):
        method, model = {"mine": {"name": "mine.py:Mine"}}, {"name": "mine.py:Net"}
        partition = {"kind": "group", "test": "all"}
        return own(tmp_path, method=method, model=model, partition=partition, rounds=rounds, seed=3)

    images(tmp_path)
    written("", "")
    run(experiment(), tmp_path / "out", progress=False)
    before = contents(tmp_path / "out")
    written("import torch", "# a comment\nimport torch")
    run(experiment(), tmp_path / "out", resume=True, progress=False)
    for spoil, words in (
        (lambda: written("1.0 *", "2.0 *"), "other code of the method 'mine'"),
        (lambda: written("torch.tanh", "torch.sin"), "other layers, or code of the network, of seed 3"),
        (lambda: (written("", ""), relabelled()), "other test samples of seed 3"),
    ):
        spoil()
        for rounds in (2, 3):
            with pytest.raises(ValueError, match=f"resume holds a run with {words}; only rounds may differ"):
                run(experiment(rounds), tmp_path / "out", resume=True, progress=False)
            assert contents(tmp_path / "out") == before


def test_new_clients_of_a_finished_run_stay_the_same(tmp_path):
    images(tmp_path)
    experiment = own(tmp_path, partition={"kind": "iid", "clients": 4, "new_clients": 0.25}, rounds=1)
    run(experiment, tmp_path / "out", progress=False)
    before, arrays = contents(tmp_path / "out"), dict(np.load(tmp_path / "mine.npz"))
    setup = set_up(experiment)
    (new,) = setup.unseen[0].names
    arrays["x"][setup.partitions[0].train[int(new)][0]] += 1
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ValueError, match="samples: those of new clients have changed since"):
        run(experiment, tmp_path / "out", resume=True, progress=False)
    assert contents(tmp_path / "out") == before


def test_of_two_experiments_in_one_folder_one_runs_and_the_other_leaves_nothing(tmp_path, monkeypatch):
    images(tmp_path)
    winner, loser = (own(tmp_path, partition={"kind": "iid", "clients": k}, rounds=1) for k in (3, 4))
    setup, train, met = set_up(loser), fs.federate, []

    def while_training(*arguments, **options):
        if not met:
            met.append(contents(tmp_path / "out"))
            with suppress(ValueError), pytest.raises(BlockingIOError, match="out is being written by another process"):
                carry_out(setup, tmp_path / "out", False)
            met.append(contents(tmp_path / "out"))
        return train(*arguments, **options)

    def overtaken(setup):
        if setup.experiment == loser:  # whose folder was free a moment ago
            monkeypatch.setattr(fs, "federate", while_training)
            run(winner, tmp_path / "out", progress=False)
            met.append(contents(tmp_path / "out"))

    monkeypatch.setattr(sys.modules["fedstat.experiment.run"], "estimate", overtaken)
    with pytest.raises(ValueError, match="holds a run already; continue it with --resume"):
        run(loser, tmp_path / "out", progress=False)
    assert met[0] == met[1]
    assert contents(tmp_path / "out") == met[2]
    assert fs.load(tmp_path / "out" / "run").config["clients"] == {"0": 3}


def test_seeds_that_no_table_holds_are_refused_before_training(tmp_path):
    last = 2**63 - 1
    result = go(1, seed=[last, 0], folder=tmp_path / "run")
    back = fs.load(tmp_path / "run")
    assert set(back.history["seed"]) == {last, 0}
    assert go(2, seed=[last, 0], resume=back).states.keys() == result.states.keys()
    for seed in (2**63, [0, 2**64]):
        with pytest.raises(ValueError, match=r"seed must lie in 0\.\.2\^63 - 1, .*, got (9223372036854775808|1844674)"):
            go(1, seed=seed, method=Louder())
    with pytest.raises(ValueError, match=r"seed must lie in 0\.\.2\^63 - 1"):
        own(tmp_path, seed=2**63)
    with pytest.raises(ValueError, match=r"seed must lie in 0\.\.2\^63 - 1"):
        replace(own(tmp_path, seed=last), seed=(last, last + 1))


def test_a_further_method_runs_alone_and_is_paired_with_what_ran_before(tmp_path):
    images(tmp_path)

    def experiment(*labels):
        methods = {label: {} for label in labels}
        return own(tmp_path, method=methods, seed=[1, 2], partition={"kind": "iid", "clients": 4})

    run(experiment("FedAvg", "Local"), tmp_path / "out", progress=False)
    more = experiment("FedAvg", "Local", "FedPer")
    with pytest.raises(
        ValueError, match=r"experiment: method\.FedPer is new\..* Run FedPer alone: from a file without"
    ):
        run(more, tmp_path / "out", resume=True, progress=False)
    run(experiment("FedPer"), tmp_path / "alone", progress=False)
    together = run(more, tmp_path / "together", progress=False)
    found = fs.compare([tmp_path / "out", tmp_path / "alone"])
    pd.testing.assert_frame_equal(found.summary, fs.compare(together).summary)
    pd.testing.assert_frame_equal(found.differences, fs.compare(together).differences)


def test_a_result_in_memory_takes_no_further_method():
    first = go(1)
    methods = {"it": fs.FedAvg(), "more": fs.Local()}
    with pytest.raises(
        ValueError, match=r"only rounds may differ\. Run more alone under the same seeds, and give both"
    ):
        fs.federate(
            methods, partial(layers, nn.ReLU()), population(), fs.Training(lr=0.1), rounds=2, seed=3, resume=first
        )
