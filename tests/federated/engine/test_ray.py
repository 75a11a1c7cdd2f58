"""Runs on a real Ray cluster of two workers: the bits of this process, whoever is killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

import fedstat as fs
from fedstat._memory import gpu_share
from fedstat._workers import connected, run_jobs, workers
from fedstat.experiment import run as carry_out
from fedstat.federated.engine.executor import PerClient, Stacked
from fedstat.federated.engine.ray import Tasks, _packed, _unpacked
from fedstat.federated.record.run_folder import complete_folder
from tests.support.clients import image_clients
from tests.support.experiments import images, own
from tests.support.jobs import fail, meet
from tests.support.networks import conv_net, plain_net
from tests.support.runs import TRAINING, run
from tests.support.slow import Slow

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")]

METHODS = {
    "fedavg": fs.FedAvg(),
    "ditto": fs.methods.Ditto(),
    "fedfac": fs.FedFac(layers=["hidden"], kappa=0.5, dynamic=True),
    "fedamp": fs.methods.FedAMP(),
    "fedrod": fs.methods.FedRoD(),  # prepares and finishes
}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two workers on this machine, and a GPU by name only."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, object_store_memory=2**28, log_to_driver=False)
    yield
    ray.shutdown()


def assert_same_bits(here, there):
    assert here.history.equals(there.history)
    assert here.traffic.equals(there.traffic)
    assert here.config == there.config
    assert_same_states(here.states, there.states)


def assert_same_states(here, there):
    assert here.keys() == there.keys()
    for key, state in here.items():
        other = there[key]
        for name, leaf in state.server.items():
            assert torch.equal(leaf, other.server[name]), (key, name)
        assert bool(state.clients) == bool(other.clients)
        if state.clients:
            assert state.clients.versions == other.clients.versions


def test_tensors_arrive_with_their_layout():
    x = torch.randn(4, 3, 2, 5)
    layouts = [
        x, x.transpose(0, 2), x.to(memory_format=torch.channels_last), x[:1].expand(6, 3, 2, 5), x[1:3], x[0, 0, 0, 0],
        torch.randn(1).expand(3, 1), x[:0], x > 0, x.bfloat16(), torch.arange(3),
    ]  # fmt: skip
    for leaf in layouts:
        arrived = _unpacked(_packed(leaf), leaf.device)
        assert torch.equal(arrived, leaf)
        assert arrived.dtype == leaf.dtype
        if leaf.numel() > 1:
            assert [s for s, n in zip(arrived.stride(), leaf.shape, strict=True) if n > 1] == [
                s for s, n in zip(leaf.stride(), leaf.shape, strict=True) if n > 1
            ]


@pytest.mark.parametrize("local", ["stacked", "per-client"])
@pytest.mark.parametrize("name", METHODS)
def test_bits_are_those_of_this_process(name, local):
    # chunks of two cut the three participants; batch norm amplifies whatever rounds otherwise
    options = {"rounds": 2, "model": conv_net, "dtype": "float32", "chunk": 2, "trained": True}
    here = run(METHODS[name], executor=local, **options)
    there = run(METHODS[name], executor=fs.RayExecutor(local=local), **options)
    assert_same_bits(here, there)


def test_methods_and_seeds_share_a_round_and_data_travel_once(monkeypatch):
    put, stored = ray.put, []
    monkeypatch.setattr(ray, "put", lambda value: stored.append(value) or put(value))
    options = {"seed": [3, 5], "participation": 0.5, "dtype": "float32"}
    arguments = (METHODS, plain_net, image_clients(), TRAINING)
    here, there = (fs.rounds(*arguments, executor=e, **options) for e in ("auto", "ray"))
    for one, other, _ in zip(here, there, range(3), strict=False):
        assert_same_states(one.states, other.states)
        pd.testing.assert_frame_equal(one.evaluate(), other.evaluate(), check_exact=True)
    assert sum(isinstance(value, dict) for value in stored) == 1, "training samples"
    assert sum(isinstance(value, tuple) and isinstance(value[0], torch.nn.Module) for value in stored) == 2, "networks"


MINE = '''
import fedstat as fs

class Wild(fs.methods.Ditto):
    """Ditto whose clients fail when told to."""

    def objective(self, learner, params, batch, context):
        if self.weighting == "uniform":
            raise Odd("from the objective")
        return scaled(super().objective(learner, params, batch, context))

class Odd(Exception):
    """An error of one's own."""

def scaled(loss):
    return 0.5 * loss
'''


def test_partial_work_has_the_same_bits():
    how = {"participation": fs.attendance.Stragglers(fs.attendance.Dropout(1.0, 0.2), 0.6, (0.1, 0.6))}
    assert_same_bits(*(run(fs.methods.FedPer(), 2, **how, executor=executor) for executor in ("auto", "ray")))


def test_own_code_reaches_the_workers_and_its_errors_come_back(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    mine = fs.methods.find(f"{tmp_path / 'mine.py'}:Wild")
    assert_same_bits(run(mine(), 2), run(mine(), 2, executor="ray"))
    with pytest.raises(
        ValueError, match=r"Wild.objective failed in phase 'train' of round 1 .* Odd: from the objective"
    ):
        run(mine(weighting="uniform"), executor="ray")
    with pytest.raises(FloatingPointError, match=r"client \d .*round 1 under FedAvg at lr=1e\+200"):
        run(fs.FedAvg(), model=plain_net, training=fs.Training(lr=1e200, batch_size=5), executor="ray")


def at_work():
    """Processes below this one that are at a task of ours."""
    children: dict[int, list[int]] = {}
    tasks = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            number = int(folder.name)
            children.setdefault(int((folder / "stat").read_text().rpartition(")")[2].split()[1]), []).append(number)
            if (folder / "cmdline").read_bytes().startswith((b"ray::_trained", b"ray::_evaluated")):
                tasks.append(number)
    below = [os.getpid()]
    for one in below:
        below += children.get(one, [])
    return [number for number in tasks if number in below]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers are found in /proc")
def test_killed_workers_cost_time_and_never_the_result():
    kills, draw, done = int(os.environ.get("FEDSTAT_KILLS", "2")), random.Random(0), threading.Event()
    killed = []

    def kill():
        while len(killed) < kills and not done.is_set():
            time.sleep(draw.uniform(0, 0.3))
            if busy := at_work():
                killed.append(draw.choice(busy))
                os.kill(killed[-1], signal.SIGKILL)

    options = {"seed": 3, "participation": 0.5, "dtype": "float32", "chunk": 1}
    arguments = (Slow(), plain_net, image_clients(), TRAINING)
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for there in fs.rounds(*arguments, executor="ray", **options):
            if len(killed) == kills and there.number >= 2:
                break
        table = there.evaluate()
    finally:
        done.set()
        killer.join()
    assert len(killed) == kills
    for here in fs.rounds(fs.methods.Ditto(), *arguments[1:], **options):
        if here.number == there.number:
            break
    assert_same_states(here.states and {("Slow", 3): here.states["Ditto", 3]}, there.states)
    pd.testing.assert_frame_equal(here.evaluate().drop(columns="method"), table.drop(columns="method"))


DRIVER = """
import sys
import torch
torch.set_num_threads(1)
import fedstat as fs
from tests.support.slow import Slow
from tests.support.runs import run
run(Slow(), 500, executor="ray", folder=sys.argv[1], checkpoint=1)
"""


def test_a_killed_driver_is_resumed(tmp_path):
    place = dict(os.environ, RAY_ADDRESS=ray.get_runtime_context().gcs_address, OMP_NUM_THREADS="1")
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, tmp_path / "run"], env=place)
    try:
        while not (complete_folder(tmp_path / "run") / "config.toml").exists():
            assert driver.poll() is None
            time.sleep(0.05)
        time.sleep(random.Random(1).uniform(0, 0.5))
    finally:
        driver.kill()
        driver.wait()
    before = fs.load(tmp_path / "run", model=conv_net, methods={"it": Slow()}, training=TRAINING)
    rounds = before.config["rounds"] + 2
    there = run(Slow(), rounds, executor="ray", resume=before, folder=tmp_path / "run")
    assert_same_states(run(fs.methods.Ditto(), rounds).states, there.states)


def test_an_experiment_runs_on_the_cluster_and_goes_on_without_it(tmp_path):
    images(tmp_path)
    whole = carry_out(own(tmp_path, rounds=2), tmp_path / "here", progress=False)
    carry_out(own(tmp_path, rounds=1, executor="ray"), tmp_path / "there", progress=False)
    there = carry_out(own(tmp_path, rounds=2), tmp_path / "there", resume=True, progress=False)
    assert_same_states(whole.states, there.states)
    assert (tmp_path / "here/summary.csv").read_bytes() == (tmp_path / "there/summary.csv").read_bytes()


def test_jobs_run_as_tasks_which_share_a_gpu(tmp_path):
    kept = {}
    with workers("ray", gpus=0.5), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = run_jobs("jobs", [partial(meet, tmp_path, k) for k in range(2)], gpu=True, keep=kept.__setitem__)
    assert [one[:2] for one in found] == [("0", "1")] * 2
    assert os.getpid() not in {one[2] for one in found}
    assert [kept[0], kept[1]] == found
    assert {str(one.message) for one in heard} == {"the same for all"}
    with workers("ray"), pytest.raises(ArithmeticError, match="from a job"):
        run_jobs("jobs", [fail, partial(pow, 2, 3)])


def test_claims_and_parts_of_studies_are_tasks(tmp_path, capsys):
    from simulations.studies import simulate
    from theory_checks.__main__ import main

    with pytest.raises(SystemExit) as ended:
        main(["CL-01", "--executor", "ray"])
    assert not ended.value.code
    there = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["CL-01"])
    assert there == capsys.readouterr().out
    with workers("ray"):
        there = simulate("strongly_convex", "smoke", tmp_path / "there")
    here = simulate("strongly_convex", "smoke", tmp_path / "here")
    for name, table in here.items():
        pd.testing.assert_frame_equal(table, there[name], check_exact=True)


@dataclass(frozen=True, kw_only=True)
class Told(fs.FedAvg):
    """FedAvg that trains elsewhere only under the settings of the test below."""

    here: int

    def objective(self, learner, params, batch, context):
        if os.getpid() != self.here:
            assert (torch.backends.cudnn.conv.fp32_precision, gpu_share()) == ("tf32", 0.25)
        return super().objective(learner, params, batch, context)


def test_tasks_know_the_runs_precision_and_their_share_of_a_gpu():
    run(Told(here=os.getpid()), 1, dtype="tf32", executor=fs.RayExecutor(gpus=0.25))
    with workers("ray", gpus=0.5):
        assert run_jobs("jobs", [gpu_share], gpu=True) == [0.5]


def test_what_cannot_run_is_refused(monkeypatch):
    assert Tasks(Stacked(), 0.25).options(torch.device("cuda")) == {"num_cpus": 1, "num_gpus": 0.25}
    assert Tasks(PerClient(), 0.25).options(torch.device("cpu")) == {"num_cpus": 1, "num_gpus": 0}
    with pytest.raises(ValueError, match=r"gpus must be a number in \(0, inf\), got 0"):
        fs.RayExecutor(gpus=0)
    with pytest.raises(ValueError, match='local must be "auto" or "stacked" or "per-client", got \'ray\''):
        fs.RayExecutor(local="ray")
    with pytest.raises(ValueError, match=r"2 GPUs; no machine of the Ray cluster"):
        Tasks(Stacked(), 2).options(torch.device("cuda"))
    torch.set_num_threads(3)
    try:
        with pytest.raises(ValueError, match=r"needs 3 processors.* Use torch\.set_num_threads\(1\)"):
            run(fs.FedAvg(), executor=fs.RayExecutor(local="stacked"))
    finally:
        torch.set_num_threads(1)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'fedstat\[ray\]'"):
        connected()
