"""When runs are saved: by rounds, by the clock, and before SIGTERM ends them."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedstat as fs
from fedstat.federated import Terminated
from fedstat.federated.record.checkpoints import LEAST, MOST, SHARE, Checkpoints
from tests.support.clients import vector_clients

MODEL = fs.models.mlp(3, 4, 2)


def run(rounds, method=None, **options):
    training = fs.Training(lr=0.05, batch_size=5)
    return fs.federate(method or fs.methods.FedPer(), MODEL, vector_clients(4), training, rounds=rounds, **options)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def saved(rounds, saving, every=None):
    """Rounds after which a run saves whose rounds and saves take so many seconds, and the moments."""
    clock, moments = Clock(), {}
    checkpoints = Checkpoints(every, clock)
    for done, seconds in enumerate(rounds, 1):
        clock.now += seconds
        if checkpoints.due(done):
            with checkpoints.saving():
                clock.now += saving
            moments[done] = clock.now
    return moments


def test_a_number_counts_rounds_whatever_the_clock_says():
    assert list(saved([100.0] * 10, 50.0, every=3)) == [3, 6, 9]


def test_by_time_long_rounds_are_saved_each_and_short_ones_seldom():
    assert list(saved([12.0] * 5, 0.1)) == [1, 2, 3, 4, 5]
    assert list(saved([0.125] * 300, 0.0625)) == [80, 160, 240]
    assert list(saved([1.0] * 100, 1.0)) == [10, 30, 50, 70, 90]  # the first is due before it is known what one costs


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=300), st.one_of(st.floats(0, SHARE * MOST), st.floats(0, 1000))
)
def test_by_time_little_is_lost_and_little_is_spent(rounds, saving):
    moments = [0.0, *saved(rounds, saving).values()]
    gaps = [b - a - saving for a, b in itertools.pairwise(moments)]
    for gap in gaps[1:]:
        assert gap >= min(max(LEAST, saving / SHARE), MOST) - 1e-6
    assert all(gap <= MOST + max(rounds) + 1e-6 for gap in gaps)
    assert sum(rounds) + len(gaps) * saving - moments[-1] <= MOST + max(rounds) + 1e-6


@dataclass(frozen=True, kw_only=True)
class Told(fs.methods.FedPer):
    """FedPer that does something in its third round."""

    def aggregate(self, state, update):
        if state.round == 2 and hasattr(pytest, "told"):  # what an installed module holds is no code of the method's
            pytest.told()
        return super().aggregate(state, update)


@pytest.fixture
def in_round_three(monkeypatch):
    return lambda told: monkeypatch.setattr(pytest, "told", told, raising=False)


def sigterm():
    signal.raise_signal(signal.SIGTERM)


def same(a, b):
    assert a.history.equals(b.history)
    for key, state in a.states.items():
        other = b.states[key]
        for mine, others in ((state.server, other.server), (state.clients, other.clients)):
            assert all(torch.equal(leaf, others[name]) for name, leaf in mine.items())


def test_a_run_that_ends_early_was_saved_by_the_clock_and_results_do_not_depend_on_it(
    tmp_path, monkeypatch, in_round_three
):
    def fail():
        raise FloatingPointError("killed")

    def killed(folder, clock):
        module = sys.modules["fedstat.federated.recorder"]
        monkeypatch.setattr(module, "Checkpoints", partial(Checkpoints, clock=clock))
        with pytest.raises(FloatingPointError):
            run(5, Told(), folder=folder)

    in_round_three(fail)
    killed(tmp_path / "short", lambda: 0.0)
    assert not (tmp_path / "short").exists()
    killed(tmp_path / "long", partial(next, itertools.count(step=LEAST)))  # whatever happens takes ten seconds
    before = fs.load(tmp_path / "long", MODEL, {"Told": Told()})
    assert before.config["rounds"] == 1
    in_round_three(lambda: None)
    same(run(5, Told(), folder=tmp_path / "long", resume=before), run(5, Told()))


def test_sigterm_lets_the_round_end_saves_it_and_ends_the_run(tmp_path, in_round_three):
    handler = signal.getsignal(signal.SIGTERM)
    in_round_three(sigterm)
    with pytest.raises(Terminated, match="holds round 3 of 5") as end:
        run(5, Told(), folder=tmp_path / "run")
    assert isinstance(end.value, SystemExit)
    assert end.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is handler
    saved = fs.load(tmp_path / "run", MODEL, {"Told": Told()})
    assert saved.config["rounds"] == 3
    in_round_three(lambda: None)
    same(run(5, Told(), folder=tmp_path / "run", resume=saved), run(5, Told()))
    in_round_three(sigterm)
    with pytest.raises(Terminated, match="holds round 3 of 3"):  # the last round's, which the caller must not miss
        run(3, Told(), folder=tmp_path / "last")


def test_sigterm_goes_to_its_handler_twice_sent_and_where_nothing_is_saved(tmp_path, in_round_three):
    heard = []

    def handle(*_):
        heard.append(signal.getsignal(signal.SIGTERM))
        raise InterruptedError

    before = signal.signal(signal.SIGTERM, handle)
    try:
        in_round_three(lambda: (sigterm(), sigterm()))
        with pytest.raises(InterruptedError):
            run(5, Told(), folder=tmp_path / "run")
        assert not (tmp_path / "run").exists()
        in_round_three(sigterm)
        with pytest.raises(InterruptedError):
            run(5, Told())
        assert heard == [handle, handle]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert run(4, Told(), folder=tmp_path / "run").config["rounds"] == 4
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_than_the_main_one_leave_signals_alone(tmp_path):
    done = []
    thread = threading.Thread(target=lambda: done.append(run(1, folder=tmp_path / "run")))
    thread.start()
    thread.join()
    assert done[0].config["rounds"] == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no SIGTERM")
@pytest.mark.parametrize(("times", "status"), [(1, 143), (2, -signal.SIGTERM)])
def test_a_script_that_catches_nothing_ends_with_the_status_of_sigterm(tmp_path, times, status):
    script = f"""
import signal, numpy as np, fedstat as fs
class Told(fs.FedAvg):
    def aggregate(self, state, update):
        for _ in range({times} * (state.round == 2)):
            signal.raise_signal(signal.SIGTERM)
        return super().aggregate(state, update)
clients = fs.data.from_arrays(np.eye(20), np.arange(20) % 2, np.arange(20) // 10)
fs.federate(Told(), fs.models.mlp(20, 2, 2), clients, fs.Training(lr=0.1), rounds=5, folder="run")
"""
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "run").exists() == (times == 1)
