"""Runs on disk: saved, loaded, continued, never half-written."""

import io
import json
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import fedstat as fs
from fedstat._files import atomic_file, atomic_folder
from fedstat.federated.record.progress import in_brief
from fedstat.federated.recorder import as_ranges, from_ranges

# the networks here are too small for kappa to leave identified factors
pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")

TRAINING = fs.Training(lr=0.05, batch_size=8, optimizer="adam")
METHODS = {"a b": fs.FedAvg(), "fac": fs.FedFac(layers=["hidden"], dynamic=True)}


def clients(seed=0):
    return fs.data.relu_mixture(clients=5, d=6, units=8, samples=20, test=40, seed=seed, balance="median")


def run(rounds, **options):
    return fs.federate(
        METHODS, fs.models.mlp(6, 8, 1), clients, TRAINING, rounds=rounds, participation=0.6, seed=[0, 3], **options
    )


def test_history_is_tidy():
    history = run(3).history
    assert list(history.columns) == ["method", "seed", "round", "client", "estimand", "split", "metric", "value"]
    assert not history.duplicated(["method", "seed", "round", "client", "estimand", "metric"]).any()
    metrics = history
    assert len(metrics) == 2 * 2 * 3 * 5 * 4
    assert set(metrics["metric"]) == {"accuracy", "balanced_accuracy", "log_loss", "majority_share"}
    assert dict(metrics.groupby("method", observed=True)["estimand"].first()) == {"a b": "global", "fac": "personal"}


def test_metrics_are_what_the_saved_network_gives():
    from sklearn.metrics import balanced_accuracy_score, log_loss

    result, drawn = run(2), clients(3)
    rows = result.history.query("method == 'fac' and seed == 3 and round == 2 and client == 4")
    found = rows.set_index("metric")["value"]
    x, y = drawn.test.client(4)
    with torch.no_grad():
        score = result.personal(4, "fac", 3)(torch.from_numpy(x)).squeeze(-1).double()
    assert found["accuracy"] == pytest.approx(float(((score > 0).numpy() == y).mean()))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, score > 0))
    assert found["log_loss"] == pytest.approx(log_loss(y, torch.sigmoid(score)), abs=1e-5)
    assert found["majority_share"] == (y == np.bincount(drawn.train.client(4)[1]).argmax()).mean()


def test_saved_and_loaded(tmp_path):
    result = run(3)
    result.save(tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "clients",
        "clients.parquet",
        "config.toml",
        "environment.json",
        "manifest.json",
        "metrics",
        "state.safetensors",
        "traffic",
    ]
    modes = {p.stat().st_mode for p in (tmp_path / "run").rglob("*") if p.is_file()}
    assert len(modes) == 1, "who may read one file may read all"
    back = fs.load(tmp_path / "run")
    pd.testing.assert_frame_equal(back.history, result.history, check_categorical=False)
    pd.testing.assert_frame_equal(back.clients, result.clients)
    np.testing.assert_array_equal(back.records["fac", 3]["shared hidden"], result.records["fac", 3]["shared hidden"])
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    for label in METHODS:
        assert torch.equal(back.personal(2, label, 3)(x), result.personal(2, label, 3)(x))
    origin = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert origin["packages"]["fedstat"] == fs.__version__
    assert origin["seeds"] == [0, 3]
    assert origin["device"]


def test_a_continued_run_ends_with_the_same_bits(tmp_path):
    whole = run(5)
    run(2).save(tmp_path / "run")
    continued = run(5, resume=fs.load(tmp_path / "run"))
    pd.testing.assert_frame_equal(continued.history, whole.history, check_categorical=False)
    for key, state in whole.states.items():
        for group in ("server", "clients"):
            for name, leaf in (getattr(state, group) or {}).items():
                assert torch.equal(leaf, getattr(continued.states[key], group)[name])
    np.testing.assert_array_equal(
        continued.records["fac", 0]["shared hidden"], whole.records["fac", 0]["shared hidden"]
    )


def test_numpy_values_and_sets_are_saved_too(tmp_path):
    method = fs.FedFac(layers={"hidden"}, tau=np.float64(0.3))
    result = fs.federate(
        method, fs.models.mlp(6, 8, 1), clients(), TRAINING, rounds=np.int64(1), participation=np.float32(0.5),
        seed=np.int64(2),
    )  # fmt: skip
    result.save(tmp_path / "run")
    config = fs.load(tmp_path / "run").config
    assert (config["rounds"], config["seeds"]) == (1, [2])
    assert "FedFac; seeds 2; 1 round;" in repr(result)


def test_only_the_rounds_may_differ_when_continuing():
    first = run(2)
    with pytest.raises(ValueError, match=r"a run with training.lr = 0.05 \(0.1 here\), .*; only rounds may differ"):
        fs.federate(
            METHODS, fs.models.mlp(6, 8, 1), clients, fs.Training(lr=0.1), rounds=3, participation=0.6, seed=[0, 3],
            resume=first,
        )  # fmt: skip
    with pytest.raises(
        ValueError, match="a run with other training samples of seeds 0, 3, other validation samples of"
    ):
        other = {"method": METHODS, "model": fs.models.mlp(6, 8, 1), "training": TRAINING, "participation": 0.6}
        fs.federate(**other, clients=lambda s: clients(s + 1), rounds=3, seed=[0, 3], resume=first)
    with pytest.raises(ValueError, match="already holds 2 rounds"):
        run(2, resume=first)


def test_the_history_of_many_checkpoints_is_that_of_one_run(tmp_path):
    often = run(5, folder=tmp_path / "run", checkpoint=1, evaluate_at=[0, 2, 5])
    once = run(5, evaluate_at=[0, 2, 5])
    pd.testing.assert_frame_equal(often.history, once.history)
    pd.testing.assert_frame_equal(fs.load(tmp_path / "run").history, once.history)
    assert (once.history["round"].diff().dropna() >= 0).all()


def test_progress_shows_the_mean_of_every_method_over_clients_and_seeds(capsys, monkeypatch):
    history = run(1, progress=False).history
    assert capsys.readouterr().err == ""
    tables = [t for _, t in history.groupby(["method", "seed"], observed=True)]
    rows = history[history["metric"] == "accuracy"].astype({"method": str})
    means = {m: t["value"].mean() for m, t in rows.groupby("method")}
    aside = tables[0].assign(client=-1, split="common", value=1e9)
    text = in_brief([pd.concat([tables[0], aside]), *tables[1:]], 3, 30, perf_counter() - 2)
    told = ", ".join(f"{m} {value:.4g}" for m, value in means.items())
    assert text == f"test accuracy after round 1: {told} (means over 2 seeds), 15 clients/s"
    many = pd.concat([tables[0].assign(method=f"m{i}", value=i / 10) for i in range(7)])
    assert "best m6 0.6, worst m0 0 of 7 methods" in in_brief([many], 1, 30, 0.0)
    assert in_brief([], 1, 30, perf_counter() - 2) == "15 clients/s"
    assert "(means over 1 to 2 seeds)" in in_brief(tables[:-1], 3, 30, 0.0)  # once a run has stopped
    screen = io.StringIO()
    monkeypatch.setattr("fedstat._progress.Console", partial(Console, file=screen, force_terminal=True))
    run(1, progress=True)
    assert "1/1" in screen.getvalue()
    assert "(means over 2 seeds)" in screen.getvalue()


def test_a_log_has_lines_where_they_are_asked_for_or_a_run_is_long(capsys, monkeypatch):
    times = iter(range(0, 10_000, 4))  # every look at the clock finds four more seconds gone
    run(4)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("fedstat.federated.record.progress.perf_counter", lambda: float(next(times)))
    run(4, progress="lines")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["a b", "fac", *(f"round {t} of 4" for t in range(1, 5))]
    assert " gone, about " in lines[2]
    assert lines[-1].endswith("about 0:00:00 left")
    run(12)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) < 12
    assert lines[-1].startswith("round 12 of 12: test accuracy: ")
    with pytest.raises(ValueError, match="progress must be True, False, None or"):
        run(1, progress="loud")


def test_saving_replaces_runs_and_nothing_else(tmp_path):
    result = run(1)
    result.save(tmp_path / "run")
    result.save(tmp_path / "run")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("ten years")
    with pytest.raises(ValueError, match="is no fedstat run; choose another folder, nothing was written"):
        result.save(tmp_path / "thesis")
    (tmp_path / "thesis" / "config.toml").write_text("title = 'a site'")  # of another program
    with pytest.raises(ValueError, match="is no fedstat run; choose another folder, nothing was written"):
        result.save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "ten years"
    (tmp_path / "run" / ".git").mkdir()
    (tmp_path / "run" / ".git" / "HEAD").write_text("ref")
    result.save(tmp_path / "run")
    assert (tmp_path / "run" / ".git" / "HEAD").read_text() == "ref"
    (tmp_path / "run" / "notes.md").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.md is no file of a run, which replaces its folder; move it away"):
        result.save(tmp_path / "run")
    (tmp_path / "run" / "notes.md").unlink()
    for name in ("metrics/00000.parquet", "state.safetensors"):
        (tmp_path / "run" / name).unlink()
    with pytest.raises(ValueError, match=r"state\.safetensors, metrics/00000\.parquet is missing"):
        fs.load(tmp_path / "run")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "thesis"]


def test_an_interrupted_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("whole")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "run") as temporary:
        (temporary / "half").write_text("half")
        raise KeyboardInterrupt
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert path.read_text() == "whole"


def test_personal_asks_for_what_it_needs(tmp_path):
    result = run(1)
    with pytest.raises(ValueError, match="name 4 runs"):
        result.personal(0)
    with pytest.raises(ValueError, match=r"client must lie in 0\.\.4, got 5"):
        result.personal(5, "fac", 0)
    own = fs.federate(fs.FedAvg(), lambda: torch.nn.Linear(6, 1), clients(), TRAINING, rounds=1)
    own.save(tmp_path / "run")
    with pytest.raises(ValueError, match=r"load it with fs.load\(folder, model=...\)"):
        fs.load(tmp_path / "run").personal(0)
    linear = fs.load(tmp_path / "run", model=lambda: torch.nn.Linear(6, 1)).personal(0)
    assert torch.equal(linear.weight.detach(), own.personal(0).weight.detach())


def test_a_row_for_every_client_counts_its_samples_by_split_in_every_seed(tmp_path):
    def drawn(seed):
        x = np.random.default_rng(seed).normal(size=(60, 3))
        owner = np.repeat(["a", "b", "ä c"], [10, 20 + seed, 30 - seed])
        return fs.data.from_arrays(x, (x[:, 0] > 0).astype(int), owner, test=0.3, validation=0.1)

    options = {"seed": [2, 0], "progress": False}
    result = fs.federate(fs.FedAvg(), fs.models.mlp(3, 4, 2), drawn, fs.Training(lr=0.1), rounds=2, **options)
    expected = [
        [2, 0, "a", 6, 1, 3], [2, 1, "b", 12, 3, 7], [2, 2, "ä c", 16, 3, 9],
        [0, 0, "a", 6, 1, 3], [0, 1, "b", 12, 2, 6], [0, 2, "ä c", 18, 3, 9],
    ]  # fmt: skip
    assert result.clients.columns.tolist() == ["seed", "client", "name", "train", "validation", "test"]
    assert result.clients.to_numpy().tolist() == expected
    result.save(tmp_path / "run")
    back = fs.load(tmp_path / "run")
    pd.testing.assert_frame_equal(back.clients, result.clients)
    longer = fs.federate(
        fs.FedAvg(), fs.models.mlp(3, 4, 2), drawn, fs.Training(lr=0.1), rounds=3, resume=back, **options
    )
    pd.testing.assert_frame_equal(longer.clients, result.clients)
    untested = replace(drawn(0), test=None, validation=None)
    alone = fs.federate(fs.FedAvg(), fs.models.mlp(3, 4, 2), untested, fs.Training(lr=0.1), rounds=1, progress=False)
    assert alone.clients[["validation", "test"]].to_numpy().tolist() == [[0, 0]] * 3
    table = tmp_path / "run" / "clients.parquet"
    pd.read_parquet(table).assign(test=1).to_parquet(table, index=False)
    with pytest.raises(ValueError, match=r"clients\.parquet is damaged"):
        fs.load(tmp_path / "run")


def test_a_run_says_which_rounds_were_measured_and_whether_it_is_finished(tmp_path):
    result = run(3, evaluate_at=[0, 2])
    assert {key: result.config[key] for key in ("rounds", "rounds_asked", "finished", "evaluated", "device")} == {
        "rounds": 3, "rounds_asked": 3, "finished": True, "evaluated": [[0, 2, 2]], "device": "cpu",
    }  # fmt: skip
    longer = run(6, evaluate_at=[2, 5], resume=result, folder=tmp_path / "run")
    assert fs.load(tmp_path / "run").config["evaluated"] == longer.config["evaluated"] == [[0, 2, 2], [5, 5, 1]]
    assert longer.history["round"].unique().tolist() == [0, 2, 5]


@given(st.sets(st.integers(0, 60)))
def test_evaluated_rounds_are_kept_as_ranges(rounds):
    ranges = as_ranges(rounds)
    assert from_ranges(ranges) == rounds
    assert as_ranges({*range(5, 90, 5), *range(90, 101)}) == [[5, 90, 5], [91, 100, 1]]
    assert len(ranges) <= len(rounds)
