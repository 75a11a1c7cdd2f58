"""``fedstat run``: the folder it leaves, in which words it refuses, and that a killed run ends with the same bytes."""

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedstat as fs
from fedstat.cli import app
from fedstat.experiment.config import to_table
from tests.support.experiments import contents

CONFIG = """
rounds = 12
seed = [3, 4]
participation = 0.5
checkpoint = 1

[data]
name = "digits"

[partition]
kind = "dirichlet"
clients = 6
alpha = 0.5
new_clients = 0.3

[model]
name = "mlp"
widths = [8]

[method.FedAvg]

[method."kept head"]
name = "FedPer"

[training]
lr = 0.1
local_epochs = 2

[evaluation]
last = 4
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "small.toml").write_text(CONFIG)
    return tmp_path / "small.toml"


def fedstat(*arguments):
    return CliRunner().invoke(app, ["run", *map(str, arguments)])


def test_a_run_leaves_a_folder_that_holds_what_it_prints(config, tmp_path):
    out = tmp_path / "out"
    done = fedstat(config, "--out", out, "--set", "training.lr=0.2")
    assert done.exit_code == 0, done.output
    names = {file.name for file in out.iterdir() if not file.name.startswith(".")}
    pictures = {f"partition-{seed}.{kind}" for seed in (3, 4) for kind in ("npz", "svg")}
    assert names == {
        "experiment.toml",
        "run",
        "clients.csv",
        "summary.csv",
        "pairs.csv",
        "new-clients.csv",
        "new-clients.json",
        *pictures,
    }
    with pytest.raises(ValueError, match=r"manifest\.json is missing\. The run lies in .*run"):
        fs.load(out)
    result = fs.load(out / "run")
    for place in (out, out / "run", result):  # the run's own design, whoever asks
        assert str(fs.compare(place, last=4)) in done.output
    assert "other clients to whom other samples like these are dealt" in " ".join(done.output.split())
    again = fs.experiment.read(out / "experiment.toml")
    assert to_table(again) == to_table(fs.experiment.read(config, {"training.lr": 0.2}))
    for word in ("4 clients", "overlap:", "12 rounds, 2 methods, 2 seeds: ", "majority_share", "FedFac: best"):
        assert word in done.output

    clients = pd.read_csv(out / "clients.csv")
    assert len(clients) == 2 * 4 * 2
    summary = pd.read_csv(out / "summary.csv")
    for method, mine in clients.groupby("method"):
        primary = summary[(summary["summary"] == "primary") & (summary["method"] == method)]
        np.testing.assert_allclose(primary["mean"], mine["accuracy"].mean())
        traffic = result.traffic.query("method == @method")[["bytes_up", "bytes_down"]].to_numpy().sum()
        np.testing.assert_allclose(mine["bytes_up"].sum() + mine["bytes_down"].sum(), traffic)
    partitions = {seed: fs.data.Partition.load(out / f"partition-{seed}.npz") for seed in (3, 4)}
    for row in clients.itertuples():
        assert row.train_samples + row.test_samples == len(partitions[row.seed].train[int(row.name)])
    new = pd.read_csv(out / "new-clients.csv")
    for seed, of in new.groupby("seed"):
        assert {*of["name"].map(str)} == set(partitions[seed].names) - set(
            clients.query("seed == @seed")["name"].map(str)
        )


@pytest.mark.slow
def test_only_the_same_experiment_is_continued(config, tmp_path):
    out = tmp_path / "out"
    short = ("--set", "rounds=2", "--seeds", 1)
    out.mkdir()
    (out / ".experiment.new.toml").write_text("killed before anything was fin")
    assert fedstat(config, "--out", out, *short, "--resume").exit_code == 0  # nothing lies there: it starts
    before = contents(out)
    for arguments, message in (
        (short, "holds a run already; continue it with --resume"),
        ((*short, "--resume", "--set", "training.lr=0.2"), "training.lr was 0.1 and is 0.2"),
        (("--set", "rounds=2", "--set", "seed=[4, 3]", "--resume"), "seed was [3] and is [4, 3]"),
        (("--set", "rounds=1", "--seeds", 1, "--resume"), "holds 2 rounds already, more than rounds = 1"),
    ):
        refused = fedstat(config, "--out", out, *arguments)
        assert refused.exit_code == 1
        assert message in refused.stderr
        assert contents(out) == before
    (out / "summary.csv").unlink()
    assert fedstat(config, "--out", out, *short, "--resume", "--quiet").exit_code == 0  # finished: summarised again
    assert contents(out) == before
    assert fedstat(config, "--out", out, "--set", "rounds=3", "--seeds", 1, "--resume").exit_code == 0
    assert fs.load(out / "run").config["rounds"] == 3


def test_a_dry_run_estimates_and_writes_nothing(config, tmp_path):
    done = fedstat(config, "--out", tmp_path / "out", "--dry-run", "--set", "rounds=1_000_000")
    assert done.exit_code == 0, done.output
    assert "kappa" not in done.output
    assert "fine_tune = 0" in done.output
    assert "1000000 rounds, 2 methods, 2 seeds: about" in done.output
    assert list(tmp_path.iterdir()) == [config]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "round=3"], "there is no key round (did you mean rounds?)"),
        (["--set", "rounds"], "'rounds' should read KEY=VALUE"),
        (["--set", "partition.alpha=0"], "partition.alpha must be greater than 0"),
        (["--set", "partition.min_size=400"], "partition: no Dirichlet(0.5) partition of 1797 samples over 6 clients"),
        (["--set", "training.lr=1e30", "--set", 'training.optimizer="sgd"'], "became infinite or NaN"),
        (["--out", "small.toml"], "small.toml exists and is no run folder"),
        (["--out", "small.toml/a/b"], "--out small.toml/a/b cannot be written: nothing can be made in"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(config, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    refused = fedstat(config, *arguments)
    assert refused.exit_code == 1
    assert isinstance(refused.exception, SystemExit)  # no traceback
    assert message in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [config]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no SIGKILL")
def test_a_killed_run_is_continued_to_the_same_bytes(config, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-c", "from fedstat.cli import app; app()", "run", str(config), "--quiet", "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(whole)], check=True, capture_output=True, env=environment)
    process = subprocess.Popen([*command, str(killed)], env=environment)
    while not (killed / "run" / "config.toml").exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "summary.csv").exists()
    assert fs.load(killed / "run").config["rounds"] < 12
    subprocess.run([*command, str(killed), "--resume"], check=True, capture_output=True, env=environment)
    assert contents(killed) == contents(whole)


def started(config, out, awaited, *arguments):
    """A run of a million rounds in a process of its own, as soon as `awaited` is there."""
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # even where a parent ignores it
    command = [sys.executable, "-c", f"{heard}; from fedstat.cli import app; app()", "run", str(config), "--quiet"]
    command += ["--out", str(out), "--seeds", "1", "--set", "rounds=1_000_000", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not (out / awaited).exists():
        assert process.poll() is None
        time.sleep(0.002)
    return process


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no SIGINT")
@pytest.mark.parametrize(
    ("checkpoint", "message"), [(1, "continue with --resume"), (10**6, "nothing to continue from")]
)
def test_an_interrupted_run_says_what_it_left(config, tmp_path, checkpoint, message):
    out = tmp_path / "out"
    awaited = "run/config.toml" if checkpoint == 1 else "partition-3.npz"
    process = started(config, out, awaited, "--set", f"checkpoint={checkpoint}")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert len(said.splitlines()) == 1
    assert message in said
    if checkpoint == 1:
        assert f"holds round {fs.load(out / 'run').config['rounds']} of 1000000," in said


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no SIGTERM")
def test_a_terminated_run_says_what_it_saved_and_continues_to_the_same_bits(config, tmp_path):
    out = tmp_path / "out"
    process = started(config, out, "run/config.toml")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 143
    assert len(said.splitlines()) == 1
    done = fs.load(out / "run").config["rounds"]
    assert f"holds round {done} of 1000000, continue with --resume" in said
    short = ("--seeds", 1, "--set", f"rounds={done + 1}")
    assert fedstat(config, "--out", out, *short, "--resume").exit_code == 0
    assert fedstat(config, "--out", tmp_path / "whole", *short, "--set", "checkpoint=5").exit_code == 0
    assert contents(out / "run") == contents(tmp_path / "whole" / "run")


@pytest.mark.slow
def test_a_run_that_finds_nothing_to_continue_says_so(config, tmp_path):
    short = ("--set", "rounds=1", "--seeds", 1, "--quiet", "--resume", "--out", tmp_path / "out")
    assert "no finished round to continue from: the run starts with round 1" in fedstat(config, *short).stderr
    assert fedstat(config, *short).stderr == ""


def test_a_warning_is_one_line_and_said_once(config, tmp_path, monkeypatch):
    def warn(*_):
        for _ in range(2):
            warnings.warn("two\nlines", UserWarning, stacklevel=1)
        raise ValueError("enough")

    monkeypatch.setattr("fedstat.experiment.build.set_up", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert fedstat(config, "--out", tmp_path / "out").stderr == "warning: two lines\nerror: enough\n"


def test_more_seeds_of_a_finished_run_end_in_the_folder_of_one_run_of_all(config, tmp_path):
    options = ("--set", "rounds=5", "--quiet")
    assert fedstat(config, "--out", tmp_path / "more", "--seeds", 2, *options).exit_code == 0
    few = fs.load(tmp_path / "more/run")
    assert fedstat(config, "--out", tmp_path / "more", "--seeds", 4, "--resume", *options).exit_code == 0
    assert fedstat(config, "--out", tmp_path / "whole", "--seeds", 4, *options).exit_code == 0
    more, whole = (fs.load(tmp_path / name / "run") for name in ("more", "whole"))
    assert whole.config["seeds"] == [3, 4, 5, 6]
    assert more.config == whole.config | {"looks": [2, 4]}
    old = more.history[more.history["seed"] < 5].reset_index(drop=True)
    pd.testing.assert_frame_equal(old, few.history, check_categorical=False)
    for name in ("history", "traffic"):
        here, there = getattr(more, name), getattr(whole, name)
        pd.testing.assert_frame_equal(here, there, rtol=0, atol=1e-5, check_categorical=False)
    folders = [contents(tmp_path / name) for name in ("more", "whole")]
    outside, others = ({name for name in held if not name.startswith("run/clients/")} for held in folders)
    assert outside == others
    for name in ("experiment.toml", "new-clients.json", "partition-6.npz", "run/clients.parquet"):
        assert folders[0][name] == folders[1][name], name
    for name in ("summary.csv", "clients.csv", "new-clients.csv"):
        here, there = (pd.read_csv(tmp_path / which / name) for which in ("more", "whole"))
        pd.testing.assert_frame_equal(here, there, rtol=0, atol=1e-4)
    fewer = fedstat(config, "--out", tmp_path / "more", "--seeds", 3, "--resume", *options)
    assert "seed was [3, 4, 5, 6] and is [3, 4, 5]" in " ".join(f"{fewer.exception} {fewer.output}".split())


def test_a_margin_that_nothing_exceeds_and_a_control_that_does_not_run_are_refused_before_the_run(config, tmp_path):
    for arguments, message in (
        (("--margin", 1), "evaluation.margin must be below 1 for accuracies, got 1. A point is 0.01."),
        (("--control", "Local"), "evaluation.control must be one of"),
    ):
        refused = fedstat(config, "--out", tmp_path / "out", *arguments)
        assert refused.exit_code == 1
        assert message in " ".join(refused.output.split())
    assert not (tmp_path / "out").exists()
