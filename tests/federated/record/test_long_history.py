"""Long runs of many clients: tables that grow in files, and rounds that cost their participants alone."""

import os
import shutil
import signal
import time
from dataclasses import replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import torch

import fedstat as fs
from fedstat._files import complete_folder
from fedstat.data import Clients, Samples
from fedstat.federated import store as store_module
from fedstat.federated.record import rows as rows_module
from fedstat.federated.store import ClientStore, _RowSpace
from fedstat.inference.reading.reduction import reduce
from fedstat.methods import fedamp, fedfac
from fedstat.methods.fedpac import head_weights
from tests.federated.record.test_survival import contents, elsewhere, forked, killed_at_step, needs_fork
from tests.support.clients import vector_clients
from tests.support.manifests import relist
from tests.support.reduced import reduce_file

# the networks here are too small for kappa to leave identified factors
pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")

MODEL = fs.models.mlp(3, 4, 2)
STOP = fs.Patience("log_loss", rounds=50, split="train")


def run(rounds, method=None, clients=None, **options):
    options = {"participation": 0.5, "seed": [3, 1], "progress": False} | options
    methods = {"avg": fs.FedAvg(), "it": fs.methods.FedPer()} if method is None else method
    training = fs.Training(lr=0.05, batch_size=5)
    return fs.federate(methods, MODEL, clients or vector_clients(4), training, rounds=rounds, **options)


@pytest.fixture
def short(monkeypatch):
    """Segments of 100 rows: one or two rounds of history, five of traffic."""
    monkeypatch.setattr(rows_module, "SEGMENT", 100)


def segments(folder, table="metrics"):
    return {file.name: (file.stat().st_ino, file.read_bytes()) for file in sorted((folder / table).iterdir())}


@pytest.mark.slow
@pytest.mark.usefixtures("short")
def test_a_history_in_files_is_the_one_in_memory_and_old_files_are_never_written_again(tmp_path, monkeypatch):
    whole, most = run(12, stop=STOP, validate=False), []
    add = rows_module.Growing.add

    def watched(self, table):
        add(self, table)
        most.append(sum(map(len, self.blocks)))

    monkeypatch.setattr(rows_module.Growing, "add", watched)
    run(5, stop=STOP, folder=tmp_path / "run", checkpoint=2)
    early = segments(tmp_path / "run")
    monkeypatch.setattr(
        rows_module.Growing, "table", property(lambda _: pytest.fail("it was held whole")), raising=False
    )
    before = fs.load(tmp_path / "run")
    result = run(12, stop=STOP, folder=tmp_path / "run", checkpoint=3, resume=before)
    late = segments(tmp_path / "run")
    assert len(late) > 10
    assert max(most) < 100, "what fills a segment leaves the memory at the end of its round"
    assert all(late[name] == early[name] for name in list(early)[:-1])
    assert "table" not in vars(before.rows("history")), "a run is continued without reading its history"
    loaded = fs.load(tmp_path / "run")
    for one in (result, loaded):
        pd.testing.assert_frame_equal(one.history, whole.history)
        pd.testing.assert_frame_equal(one.traffic, whole.traffic)
    assert whole.history["kept"].any()
    run(12, stop=STOP, folder=tmp_path / "once", checkpoint=100)
    whole.save(tmp_path / "saved")
    loaded.save(tmp_path / "again")
    for name in ("once", "saved", "again"):
        assert contents(tmp_path / name) == contents(tmp_path / "run"), name
    assert {p.name for p in tmp_path.iterdir()} == {"run", "once", "saved", "again"}
    read = fs.read_results(tmp_path / "run")
    pd.testing.assert_frame_equal(read.history, whole.history, check_categorical=False)
    np.testing.assert_array_equal(reduce_file(tmp_path / "run").values, reduce([whole.history]).values)
    assert str(fs.compare(str(tmp_path / "run"))) == str(fs.compare(whole))
    extended = fs.extend(fs.load(tmp_path / "run"), [3, 1, 4], clients=vector_clients(4), folder=tmp_path / "run")
    assert set(extended.history["seed"]) == {3, 1, 4}
    pd.testing.assert_frame_equal(fs.load(tmp_path / "run").history, extended.history, check_categorical=False)
    with pytest.raises(ValueError, match=r"metrics/00000\.parquet is damaged, or has been replaced: .* load it again"):
        result.rows("history").segments[0].read(result.rows("history").dtypes)


@pytest.mark.usefixtures("short")
def test_a_run_that_is_over_is_still_written_to_another_folder_and_a_folder_that_moved_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(fs.Patience, "is_over", lambda _, curve: len(curve) >= 20)
    over = run(40, stop=STOP, folder=tmp_path / "first")
    assert over.config["rounds"] == 20
    later = run(60, stop=STOP, folder=tmp_path / "second", resume=over)
    pd.testing.assert_frame_equal(later.history, over.history)
    pd.testing.assert_frame_equal(fs.load(tmp_path / "second").history, over.history)
    (tmp_path / "second").rename(tmp_path / "moved")
    with pytest.raises(ValueError, match=r"second/metrics/00000\.parquet is gone: "):
        later.save(tmp_path / "third")
    assert not (tmp_path / "third").exists()


@pytest.mark.usefixtures("short")
def test_damage_in_any_file_of_a_table_is_named(tmp_path):
    run(30, folder=tmp_path / "run", evaluate_at=range(1, 30, 4))
    held = fs.load(tmp_path / "run")
    names = [f"{table}/{name}" for table in ("metrics", "traffic") for name in segments(tmp_path / "run", table)]
    assert len(names) > 6

    def broken(spoil):
        shutil.rmtree(tmp_path / "broken", ignore_errors=True)
        shutil.copytree(tmp_path / "run", tmp_path / "broken")
        spoil(tmp_path / "broken")
        return tmp_path / "broken"

    def flip(file):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    def one_round_more(folder):
        listed = (folder / "manifest.json").read_text()
        (folder / "manifest.json").write_text(listed.replace('"rounds": {"0": 3', '"rounds": {"0": 4'))

    for name in names:
        reads = [fs.load] + ([fs.read_results, reduce_file] if "metrics" in name else [])
        for spoil in (flip, lambda file: file.write_bytes(file.read_bytes()[:-1]), os.unlink):
            folder = broken(lambda run, spoil=spoil, name=name: spoil(run / name))
            for read in reads:
                with pytest.raises(ValueError, match=f"{name} is (damaged|missing)"):
                    read(folder)
    last = names[len(segments(tmp_path / "run")) - 2]
    for change, words in (
        (lambda m: m["sha256"].pop(last), f"lists {names[names.index(last) + 1]} where {last} should come"),
        (lambda m: m.pop("kept"), "saved by an earlier fedstat"),
        (lambda m: m.update(kept=[["it"]]), "manifest.json is damaged"),
    ):
        with pytest.raises(ValueError, match=words):
            fs.load(broken(lambda run, change=change: relist(run, change)))
    for read in (fs.load, fs.read_results):
        with pytest.raises(ValueError, match=r"manifest.json is damaged \(ValueError: it is not what its own checksum"):
            read(broken(one_round_more))
    with pytest.raises(ValueError, match=r"more.parquet is not a file of this run"):
        fs.load(broken(lambda run: shutil.copy(run / last, run / "metrics" / "more.parquet")))
    for read in (fs.load, fs.read_results):
        with pytest.raises(ValueError, match="saved by an earlier fedstat, in another form; run it again"):
            read(broken(lambda run: shutil.move(run / names[0], run / "metrics.parquet")))
    flip(tmp_path / "run" / names[0])  # after it was loaded, and before it is read
    with pytest.raises(ValueError, match=f"{names[0]} is damaged, or has been replaced"):
        held.history  # noqa: B018


def _short_run(folder, rounds, **options):
    rows_module.SEGMENT = 40
    resume = fs.load(folder) if complete_folder(folder).exists() else None
    run(rounds, seed=3, folder=folder, resume=resume, **options)


def _killed(folder):
    """Kill a run that writes segments between its checkpoints, at random moments; return how many rounds it had."""
    rows_module.SEGMENT, moments, done = 40, np.random.default_rng(0), []
    assert os.waitpid(forked(lambda: _short_run(folder / "never", 27, checkpoint=7)), 0)[1] == 0
    for _ in range(6):
        child = forked(lambda: _short_run(folder / "killed", 25, checkpoint=3))
        time.sleep(moments.uniform(0.02, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done.append(fs.load(folder / "killed").config["rounds"] if complete_folder(folder / "killed").exists() else 0)
    # two rounds more, since the last one to be killed may have been at its end already
    assert os.waitpid(forked(lambda: _short_run(folder / "killed", 27, checkpoint=3)), 0)[1] == 0
    assert contents(folder / "killed") == contents(folder / "never")
    assert {p.name for p in folder.iterdir()} == {"killed", "never"}
    first, second = folder / "first", folder / "second"
    _short_run(first, 4, checkpoint=100)
    shutil.copytree(first, second)
    _short_run(second, 5, checkpoint=100)
    old, new, steps, killed = contents(first), contents(second), 0, True
    while killed:  # before every change of the file system that a checkpoint with links to old segments makes
        shutil.rmtree(folder / "place", ignore_errors=True)
        shutil.copytree(first, folder / "place" / "run")
        killed = killed_at_step(steps, lambda: _short_run(folder / "place" / "run", 5, checkpoint=100))
        assert contents(complete_folder(folder / "place" / "run")) in ([old, new] if killed else [new])
        _short_run(folder / "place" / "run", 6)
        assert [p.name for p in (folder / "place").iterdir()] == ["run"]
        steps += killed
    return done, steps


@pytest.mark.slow
@needs_fork
def test_a_run_that_writes_segments_survives_kills_at_any_step(tmp_path):
    done, steps = elsewhere(_killed, tmp_path).result()
    assert done == sorted(done)
    assert steps > 30


def test_a_table_that_vanished_is_an_error_and_a_full_disk_one_that_says_what_stays(tmp_path, short, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = run(3, folder=tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(rows_module, "reach_disk", full)
        with pytest.raises(OSError, match=r"rows of metrics .*No space left.* The last checkpoint, .* stays"):
            run(9, folder=tmp_path / "run", resume=before)
    assert fs.load(tmp_path / "run").config["rounds"] == 3
    assert {p.name for p in tmp_path.iterdir()} == {"run"}
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(ValueError, match=r"metrics/00000\.parquet is gone"):
        before.history  # noqa: B018
    with pytest.raises(ValueError, match=r"metrics/00000\.parquet is gone"):
        run(4, folder=tmp_path / "run", resume=before)


def many(clients, inputs=3):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(clients, 2, inputs)).astype(np.float32)
    return Clients(Samples.from_rows(x, (x[..., 0] > 0).astype(np.int64)), None, classes=(0, 1))


@pytest.mark.parametrize("method", [fs.FedAvg(), fs.methods.FedPer(), fs.methods.Ditto(), fs.methods.SCAFFOLD()])
def test_a_round_touches_as_many_rows_of_many_clients_as_of_few(method, monkeypatch):
    touched, counted = [0], dict[int, list[int]]()
    for name in ("get", "put"):
        step = getattr(_RowSpace, name)

        def counting(self, slots, *rest, step=step):
            touched[0] += len(slots)
            return step(self, slots, *rest)

        monkeypatch.setattr(_RowSpace, name, counting)
    of = store_module._Slots.all
    monkeypatch.setattr(store_module._Slots, "all", lambda self: (touched.__setitem__(0, 10**9), of(self))[1])
    for clients in (100, 5000):
        counts = []
        for round in fs.rounds(
            method, MODEL, many(clients), fs.Training(lr=0.1, batch_size=2), participation=20 / clients
        ):
            counts.append(touched[0])
            touched[0] = 0
            if round.number == 4:
                break
        counted[clients] = counts[1:]
    assert counted[100] == counted[5000]
    assert max(counted[100]) <= 20 * 6


def test_pages_of_a_store_are_shared_and_every_version_reads_its_own(monkeypatch):
    monkeypatch.setattr(store_module, "_PAGE", 7)
    rng, clients = np.random.default_rng(0), 200
    model = torch.zeros(clients, 3)
    versions = [(ClientStore.filled({"w": model[0]}, clients), model)]
    for i in range(120):
        store, model = versions[int(rng.integers(len(versions)))]
        ids = torch.from_numpy(rng.choice(clients, 5, replace=False))
        new = torch.full((5, 3), float(i + 1))
        versions.append((store.write(ids, {"w": new}), model.index_copy(0, ids, new)))
        later = versions[-1][0]._slots.pages
        assert sum(a is not b for a, b in zip(store._slots.pages, later, strict=True)) <= 5
        if len(versions) > 4:
            versions.pop(int(rng.integers(len(versions))))
        for one, expected in versions:
            assert torch.equal(one["w"], expected)
            assert torch.equal(one.rows(ids)["w"], expected[ids])
    (store, model), asked = versions[-1], torch.tensor([199, 0, 199, 6, 7])
    assert torch.equal(store.rows(asked)["w"], model[asked])
    assert store.nbytes <= 5 * clients * 12


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (fs.methods.FedFOMO(), "the affinities of all pairs of clients, 640 kB"),
        (fs.methods.ClusteredFL(), "the inner products and distances of all pairs of clients, 1.6 MB"),
        (fs.methods.FedCAC(), "the masks of all clients, "),
        (fs.FedFac(layers=["hidden"], statistic="agreement"), "the models of all clients after a local round, "),
        (fs.methods.FactorizedFL(), "the uploads of all clients, "),
    ],
)
def test_what_would_not_fit_is_refused_with_its_size_before_anything_trains(method, words, monkeypatch):
    monkeypatch.setattr(import_module("fedstat.federated.plan"), "machine_memory", lambda: 10_000)
    monkeypatch.setattr(fs.federated.Stacked, "train", lambda *_, **__: pytest.fail("somebody trained"))
    first = fs.FedFac(layers=["hidden"])  # trains all clients before the first round
    options = {"method": {"first": first, "large": method}, "clients": many(200), "seed": 0}
    with pytest.raises(ValueError, match=rf"'large' .* holds {words}.* for 200 clients, and this machine has 10 kB"):
        run(1, **options)
    monkeypatch.undo()
    assert run(1, **options, evaluate_at=[]).config["rounds"] == 1


def test_clients_in_blocks_are_clients_together(monkeypatch):
    methods = {
        "amp": fs.methods.FedAMP(alpha=0.1, scale=1.0),
        "mixed": fs.methods.FedAMP(alpha=0.1, scale=1.0, start="u"),
        "fac": fs.FedFac(layers=["hidden"], kappa=0.5),
    }
    options = {"dtype": "float64", "participation": 1.0, "seed": 0, "evaluate_at": [3]}
    whole = run(3, methods, vector_clients(6), **options)
    monkeypatch.setattr(fedamp, "_MEMORY", 2 * 8 * 26)  # two models, and the weights of a few clients
    monkeypatch.setattr(fedfac, "_TRAINED", 26 * 8 * 2)
    blocks = run(3, methods, vector_clients(6), **options)
    np.testing.assert_allclose(blocks.history["value"], whole.history["value"], rtol=0, atol=1e-12)
    ids = torch.arange(6)
    for key in [("amp", 0), ("mixed", 0)]:
        xi = methods[key[0]].attention(whole.states[key], ids)
        assert torch.allclose(xi, methods[key[0]].attention(blocks.states[key], ids), atol=1e-12)
        torch.testing.assert_close(xi.sum(1), torch.ones(6, dtype=torch.float64))
    new = many(3)
    here, there = (fs.newcomers(replace(one), new)["value"] for one in (whole, blocks))
    np.testing.assert_allclose(here, there, rtol=0, atol=1e-12)


def test_head_weights_hold_no_cube_of_the_participants():
    import tracemalloc

    rng = np.random.default_rng(0)
    h, v = rng.normal(size=(60, 80)), rng.uniform(size=60)
    tracemalloc.start()
    weights = head_weights(h, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60**3 * 8 / 2
    h1, h2 = h[:2], v[:2]
    gap = np.square(h1[0] - h1[1]).sum()
    a = (h2[1] + gap) / (h2.sum() + gap)  # the minimum of a^2 v0 + (1 - a)^2 (v1 + gap) in closed form
    np.testing.assert_allclose(head_weights(h1, h2)[0], [a, 1 - a], rtol=1e-9)
    np.testing.assert_allclose(weights.sum(1), 1)
