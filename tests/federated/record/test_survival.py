"""Runs that survive: killed, out of space, out of place, damaged, read while they are written."""

import copy
import itertools
import json
import os
import shutil
import signal
import sys
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context

import pytest
import tomli_w
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedstat as fs
from fedstat._files import atomic_file, atomic_folder, complete_folder, sha256
from fedstat._random import stream
from fedstat._sealed import sealed, unsealed
from fedstat.federated.record import run_folder
from fedstat.federated.record.run_folder import _MANIFEST, _SUMMED, sole_writer
from tests.support.clients import vector_clients
from tests.support.manifests import relist

pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed quickly")

MODEL = fs.models.mlp(3, 16, 2)
METHODS = {
    "personal": fs.methods.FedPer(),
    "memory": fs.methods.FedFOMO(),
    "records": fs.FedFac(layers=["hidden"], kappa=0.5, dynamic=True),
}


def run(rounds, methods=METHODS, **options):
    options = {"participation": 0.5, "seed": 3, "progress": False, "checkpoint": 1} | options
    return fs.federate(methods, MODEL, vector_clients(4), fs.Training(lr=0.05, batch_size=5), rounds=rounds, **options)


def contents(folder):
    """Every file of a run but where it was computed, in bytes."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "environment.json"]
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def forked(work):
    """Do `work` in a process of its own, which shares what is imported; return its number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def elsewhere(work, *arguments):
    """Run `work` in a fresh process, where no thread exists that a fork could lose."""
    return ProcessPoolExecutor(1, get_context("spawn"), _start).submit(work, *arguments)


def _start():
    torch.set_num_threads(1)
    os.fsync = lambda handle: None  # a kill is no loss of power, and disks of test machines are slow


def go_on(folder, rounds):
    """What a user does after a crash."""
    run(rounds, folder=folder, resume=fs.load(folder) if complete_folder(folder).exists() else None)


def saved_rounds(folder):
    with suppress(OSError, ValueError):
        return tomllib.loads((folder / "config.toml").read_text())["rounds"]
    return 0


def killed_ten_times(folder, rounds):
    """Kill a run ten times, each kill after a further stretch of its life and at a random moment of a round."""
    begun = time.perf_counter()
    assert os.waitpid(forked(lambda: go_on(folder / "never", rounds)), 0)[1] == 0
    pace = (time.perf_counter() - begun) / rounds
    moments, saving = stream(0, "kills"), 0
    for kill in range(10):
        child = forked(lambda: go_on(folder / "killed", rounds))
        while saved_rounds(folder / "killed") < 2 * kill:
            time.sleep(pace / 20)
        time.sleep(moments.uniform(0, 2 * pace))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the run was over before it was killed"
        saving += any(p.suffix in (".new", ".old") for p in folder.iterdir())
    assert os.waitpid(forked(lambda: go_on(folder / "killed", rounds)), 0)[1] == 0
    return saving


@pytest.mark.slow
@needs_fork
def test_a_run_killed_ten_times_ends_with_the_same_bytes_and_can_be_read_at_any_time(tmp_path):
    job, read = elsewhere(killed_ten_times, tmp_path, 28), []
    while not job.done():
        if complete_folder(tmp_path / "killed").exists():
            result = fs.load(tmp_path / "killed")
            rounds = {result.config["rounds"], int(result.history["round"].max())}
            rounds |= {state.round for state in result.states.values()}
            rounds |= {len(result.records["records", 3]["shared hidden"])}
            assert len(rounds) == 1, "what was read is a mixture of checkpoints"
            read += rounds
        time.sleep(0.1)
    print(f"{job.result()} of ten kills met a checkpoint being written")
    assert len(set(read)) > 5
    assert read == sorted(read)
    assert contents(tmp_path / "killed") == contents(tmp_path / "never")
    assert {p.name for p in tmp_path.iterdir()} == {"killed", "never"}


def killed_at_step(step, work):
    """Do `work` in a process that ends, as if by SIGKILL, before the file system's `step`-th change; say if it did."""
    changes = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.chmod"}
    left = itertools.count(step, -1)

    def hook(event, arguments):
        written = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (written or event in changes) and next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched():
        sys.addaudithook(hook)
        work()

    _, status = os.waitpid(forked(watched), 0)
    assert status in (0, signal.SIGKILL)
    return bool(status)


def killed_at_every_step(folder):
    """Kill a save before each of its steps, with and without a run in its place; return how many steps there were."""
    only = {"personal": METHODS["personal"]}
    first = run(1, only)
    second = run(2, only, resume=first)
    first.save(folder / "first")
    second.save(folder / "second")
    old, new = contents(folder / "first"), contents(folder / "second")
    (place := folder / "place").mkdir()
    steps = 0
    for before in (None, folder / "first"):
        for step in itertools.count():
            shutil.rmtree(place)
            place.mkdir()
            if before is not None:
                shutil.copytree(before, place / "run")
            killed = killed_at_step(step, lambda: second.save(place / "run"))
            if (aside := place / ".run.old").exists():
                assert contents(aside) == old
            for settled in (False, True):
                if before is None and not complete_folder(place / "run").exists():
                    with pytest.raises(ValueError, match="is no fedstat run"):
                        fs.load(place / "run")
                else:
                    assert fs.load(place / "run").config["rounds"] in (1, 2)
                    assert contents(complete_folder(place / "run")) in ([old, new] if before and killed else [new])
                if not settled:
                    with sole_writer(place / "run"):  # as a run that ends before its first checkpoint
                        pass
            second.save(place / "run")
            assert contents(place / "run") == new
            assert [p.name for p in place.iterdir()] == ["run"]
            steps += killed
            if not killed:
                break
    return steps


@pytest.mark.slow
@needs_fork
def test_a_save_killed_at_any_step_leaves_the_old_run_or_the_new_and_nothing_else_for_long(tmp_path):
    assert elsewhere(killed_at_every_step, tmp_path).result() > 40


def test_a_library_that_gives_words_alone_is_quoted_beside_the_file(tmp_path):
    """Typst's errors have no number: on a full disk `fedstat report` said ``[Errno None] None``."""
    with pytest.raises(OSError, match="No space left") as found, atomic_file(tmp_path / "report.pdf"):
        raise OSError("No space left on device (os error 28)")
    assert found.value.strerror == "No space left on device (os error 28)"
    assert found.value.filename == str(tmp_path / "report.pdf")


def test_what_a_killed_writer_left_is_replaced_and_removed(tmp_path):
    for name in (".table.new.csv", ".table.csv.lock"):
        (tmp_path / name).write_text("half")
    with atomic_file(tmp_path / "table.csv") as new:
        new.write_text("whole")
    for name in (".study.new", ".study.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    with atomic_folder(tmp_path / "study") as new:
        (new / "whole").touch()
    assert {p.name for p in tmp_path.iterdir()} == {"table.csv", "study"}
    assert (tmp_path / "table.csv").read_text() == "whole"
    assert [p.name for p in (tmp_path / "study").iterdir()] == ["whole"]


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk" / "run")
    run(1, folder=tmp_path / "run")
    run(2, folder=tmp_path / "run", resume=fs.load(tmp_path / "run"))
    assert (tmp_path / "run").is_symlink()
    assert fs.load(tmp_path / "disk" / "run").config["rounds"] == 2


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path):
    run(1, folder=tmp_path / "run")
    saved = fs.load(tmp_path / "run")
    with sole_writer(tmp_path / "run"):
        for write in (lambda: run(2, folder=tmp_path / "run", resume=saved), lambda: saved.save(tmp_path / "run")):
            with pytest.raises(BlockingIOError, match="run is being written by another process; nothing was written"):
                write()
        assert fs.load(tmp_path / "run").config["rounds"] == 1
    run(2, folder=tmp_path / "run", resume=saved)


@pytest.mark.slow
def test_a_reader_that_is_never_left_in_peace_gives_up(tmp_path, monkeypatch):
    run(1, fs.FedAvg(), folder=tmp_path / "run")
    moments = itertools.count()
    monkeypatch.setattr(run_folder, "_version", lambda place: (next(moments), 0))
    with pytest.raises(OSError, match="run is replaced faster than it can be read"):
        fs.load(tmp_path / "run")


@dataclass(frozen=True, kw_only=True)
class Untrained(fs.FedAvg):
    """A method whose training is a failure of the test."""

    def init(self, network, federation):
        raise AssertionError("training began")


def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path, monkeypatch):
    def refused(error, message, folder):
        with pytest.raises(error, match=message):
            run(1, Untrained(), folder=folder)

    (tmp_path / "file").touch()
    refused(ValueError, "file exists and is no fedstat run", tmp_path / "file")
    refused(OSError, "cannot be written: .*; choose another folder, nothing was written", tmp_path / "file" / "run")
    refused(ValueError, "/ holds a disk or the working folder", "/")
    refused(ValueError, r"\. holds a disk or the working folder", ".")
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    refused(OSError, "run cannot be written: it may not be changed", tmp_path / "run")
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
    refused(OSError, "new cannot be written: .*Read-only file system", tmp_path / "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "run"]


def test_only_the_run_that_is_resumed_is_overwritten(tmp_path):
    run(1, fs.FedAvg(), folder=tmp_path / "run")
    other = run(1, fs.FedAvg(), seed=4)
    with pytest.raises(ValueError, match=r"holds another run than the one resumed, with seeds = \[3\] \(\[4\] here\)"):
        run(2, fs.FedAvg(), folder=tmp_path / "run", seed=4, resume=other)
    assert fs.load(tmp_path / "run").config["seeds"] == [3]


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_leaves_nothing(tmp_path):
    resource = pytest.importorskip("resource")
    run(2, folder=tmp_path / "run")
    saved, before = fs.load(tmp_path / "run"), contents(tmp_path / "run")
    lengths = sorted({len(content) for content in before.values()})
    free = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 100, *(length - 1 for length in lengths)):  # files up to the next length are written
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, free[1]))
            with pytest.raises(
                OSError, match=r"round 3 could not be saved in .*run: .* after round 2 is whole; make room"
            ):
                run(3, folder=tmp_path / "run", resume=saved)
            with pytest.raises(
                OSError, match=r"round 3 could not be saved in .*new: .*Nothing was saved there before; make room"
            ):
                run(3, folder=tmp_path / "new", resume=saved)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, free)
        assert contents(tmp_path / "run") == before
        assert [p.name for p in tmp_path.iterdir()] == ["run"]
    run(3, folder=tmp_path / "run", resume=fs.load(tmp_path / "run"))


def test_a_folder_that_vanishes_is_made_again(tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Sweeps(fs.methods.FedPer):
        def aggregate(self, state, update):
            shutil.rmtree(tmp_path / "out", ignore_errors=state.round == 0)
            return super().aggregate(state, update)

    result = run(3, Sweeps(), folder=tmp_path / "out" / "run")
    back = fs.load(tmp_path / "out" / "run", MODEL, {"Sweeps": Sweeps()})
    assert back.config["rounds"] == 3
    for name, leaf in result.states["Sweeps", 3].clients.items():
        assert torch.equal(leaf, back.states["Sweeps", 3].clients[name])


def held(result):
    """All tensors of a run, in bytes."""
    states = [
        {"server": s.server, "clients": s.clients, "shared": s.shared, "memory": s.memory}
        for s in result.states.values()
    ]
    return [{(group, name): leaf.numpy().tobytes() for group in s for name, leaf in s[group].items()} for s in states]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "run"
    run(2).save(folder)
    return folder, contents(folder), held(fs.load(folder))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("../../etc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def planted(data, tree):
    """The tree with one of its values replaced, or one left out."""
    if isinstance(tree, (dict, list)) and tree and data.draw(st.integers(0, 4)):
        tree = copy.copy(tree)
        place = data.draw(st.sampled_from(list(tree) if isinstance(tree, dict) else range(len(tree))))
        if data.draw(st.integers(0, 9)):
            tree[place] = planted(data, tree[place])
        else:
            del tree[place]
        return tree
    return data.draw(VALUES)


def damaged(data, content):
    """The bytes flipped somewhere, cut, or partly doubled."""
    at, kind = data.draw(st.integers(0, len(content) - 1)), data.draw(st.sampled_from(["flip", "cut", "repeat"]))
    if kind == "flip":
        return content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    return content[:at] + content[at:] * 2 * (kind == "repeat")


def forged(data, name, content):
    """Another value in what is JSON or TOML; other bytes elsewhere."""
    if name == _MANIFEST:
        other = planted(data, unsealed(json.loads(content)))
        return json.dumps(sealed(other) if isinstance(other, dict) else other).encode()
    if name.endswith(".json"):
        return json.dumps(planted(data, json.loads(content))).encode()
    if name.endswith(".toml"):
        with suppress(TypeError, AttributeError):  # what TOML cannot say
            return tomli_w.dumps(planted(data, tomllib.loads(content.decode()))).encode("utf-8", "surrogatepass")
    return damaged(data, content)


@pytest.mark.slow
@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), hostile=st.booleans())
def test_damaged_and_hostile_runs_are_errors_that_name_the_file(saved, data, hostile):
    """Damage is found or harmless; what somebody forged, sums included, is an error or some run."""
    folder, before, whole = saved
    name = data.draw(st.sampled_from(sorted(before)))
    other = forged(data, name, before[name]) if hostile else damaged(data, before[name])
    result, message = None, ""
    try:
        (folder / name).write_bytes(other)
        if hostile and name in json.loads(before[_MANIFEST])["sha256"]:
            relist(folder, lambda listed: listed["sha256"].update({name: sha256(folder / name)}))
        try:
            result = fs.load(folder)
        except ValueError as error:
            message = str(error)
    finally:
        for each in (name, _MANIFEST):
            (folder / each).write_bytes(before[each])
    assert (result is None) == (str(folder) in message)
    if not hostile and name in _SUMMED and other != before[name]:
        assert str(folder / name) in message
    elif not hostile and result is not None:
        assert held(result) == whole


@pytest.mark.parametrize("name", [*_SUMMED, _MANIFEST, "clients/0/index.json"])
def test_a_missing_file_is_named(saved, name, tmp_path):
    shutil.copytree(saved[0], tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    with pytest.raises(ValueError, match=name):
        fs.load(tmp_path / "run")
