"""The recipes for trackers run as printed: with a tracker that takes notes, and with the real one where it is there."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
KEYS = [(method, seed) for method in ("FedAvg", "FedPer") for seed in range(2)]


def blocks(text, head):
    return re.findall(rf"^```{re.escape(head)}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def beginning():
    """Return the names that the page's first block defines."""
    names = {"__name__": "recipes"}
    exec(compile(blocks(PAGE, "{code-cell} python")[0], "recipes.md", "exec"), names)
    return names


@pytest.fixture
def run(beginning, tmp_path, monkeypatch):
    """Return a function that runs the block of a section in an empty folder, and returns its names."""
    monkeypatch.chdir(tmp_path)

    def play(section):
        (code,) = blocks(SECTIONS[section], "python")
        names = dict(beginning)
        exec(compile(code, f"recipes.md, {section}", "exec"), names)
        return names

    return play


def expected(names):
    """Return what a tracker must have been told: of each run, metric and round, in order."""
    fs, found = names["fs"], {}
    given = (names[name] for name in ("methods", "network", "clients", "training"))
    for round in fs.rounds(*given, seed=names["seeds"]):
        for key, values in names["numbers"](round).items():
            for name, value in values.items():
                found.setdefault((*key, name), []).append((round.number, value))
        if round.number == 5:
            return found


def module(monkeypatch, name, **contents):
    for part in [name[:i] for i, letter in enumerate(name) if letter == "."]:
        if part not in sys.modules:
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
    made = ModuleType(name)
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, name, made)


def test_what_is_sent_is_right(beginning):
    sent = expected(beginning)
    assert {key[:2] for key in sent} == set(KEYS)
    assert {len(values) for values in sent.values()} == {5}
    # every client sends all of FedAvg's weights, and all but the head's of FedPer's, in float32
    assert {value for _, value in sent["FedAvg", 0, "bytes_up"]} == {10 * 4 * (64 * 32 + 32 + 32 * 10 + 10)}
    assert {value for _, value in sent["FedPer", 1, "bytes_up"]} == {10 * 4 * (64 * 32 + 32)}
    assert sent["FedAvg", 0, "accuracy"][-1][1] > sent["FedAvg", 0, "accuracy"][0][1]


def test_tensorboard_with_notes(run, monkeypatch):
    told, closed = {}, []

    class SummaryWriter:
        def __init__(self, log_dir):
            self.log_dir = log_dir

        def add_scalar(self, tag, scalar_value, global_step):
            told.setdefault((self.log_dir, tag), []).append((global_step, scalar_value))

        def close(self):
            closed.append(self.log_dir)

    module(monkeypatch, "torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    names = run("TensorBoard")
    assert told == {(f"tensorboard/{m}-seed{s}", name): values for (m, s, name), values in expected(names).items()}
    assert closed == [f"tensorboard/{method}-seed{seed}" for method, seed in KEYS]


def test_mlflow_with_notes(run, monkeypatch):
    told, done = {}, []

    class MlflowClient:
        def __init__(self, tracking_uri):
            pass

        def create_experiment(self, name):
            return "0"

        def create_run(self, experiment_id, *, run_name):
            return SimpleNamespace(info=SimpleNamespace(run_id=run_name))

        def log_param(self, run_id, key, value):
            told[run_id, key] = value

        def log_metric(self, run_id, key, value, *, step):
            told.setdefault((run_id, key), []).append((step, value))

        def set_terminated(self, run_id):
            done.append(run_id)

    module(monkeypatch, "mlflow", MlflowClient=MlflowClient)
    names = run("MLflow")
    assert told.pop(("FedPer-seed1", "method")) == repr(names["fs"].methods.FedPer())
    metrics = {key: value for key, value in told.items() if isinstance(value, list)}
    assert metrics == {(f"{m}-seed{s}", name): values for (m, s, name), values in expected(names).items()}
    assert done == [f"{method}-seed{seed}" for method, seed in KEYS]


def test_wandb_with_notes(run, monkeypatch):
    told, done = {}, []

    def init(*, project, group, name, config, mode, reinit):
        assert (mode, reinit, config["seed"]) == ("offline", "create_new", int(name[-1]))  # nothing is sent anywhere

        def log(values, *, step):
            for metric, value in values.items():
                told.setdefault((name, metric), []).append((step, value))

        return SimpleNamespace(log=log, finish=lambda: done.append(name))

    module(monkeypatch, "wandb", init=init)
    names = run("wandb")
    assert told == {(f"{m}-seed{s}", name): values for (m, s, name), values in expected(names).items()}
    assert done == [f"{method}-seed{seed}" for method, seed in KEYS]


@pytest.mark.slow
def test_tensorboard_itself(run):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    names = run("TensorBoard")
    for (method, seed, name), values in expected(names).items():
        events = EventAccumulator(f"tensorboard/{method}-seed{seed}")
        events.Reload()
        found = [(event.step, event.value) for event in events.Scalars(name)]
        assert found == [(step, pytest.approx(value, rel=1e-6)) for step, value in values]


@pytest.mark.slow
def test_mlflow_itself(run):
    mlflow = pytest.importorskip("mlflow")
    names = run("MLflow")
    tracker = mlflow.MlflowClient("sqlite:///mlflow.db")
    for (method, seed, name), values in expected(names).items():
        found = tracker.get_metric_history(names["ids"][method, seed], name)
        assert [(one.step, one.value) for one in found] == [(step, pytest.approx(value)) for step, value in values]


@pytest.mark.slow
def test_wandb_itself(run):
    pytest.importorskip("wandb")
    names = run("wandb")
    written = [path.read_bytes() for path in Path("wandb").glob("offline-run-*/run-*.wandb")]
    assert len(written) == len(KEYS)
    for (method, seed, name), values in expected(names).items():  # values lie in these files as JSON
        (own,) = (content for content in written if f"{method}-seed{seed}".encode() in content)
        assert all(name.encode() in own and json.dumps(value).encode() in own for _, value in values)
