"""What a run would ask of a GPU, as far as that shows without one."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fedstat as fs
from fedstat.federated.client.network import Network, build
from fedstat.federated.client.samples import StackedSamples
from fedstat.federated.engine import executor as executors
from fedstat.federated.engine import ray
from fedstat.federated.rounds import _parts
from tests.support.clients import image_clients
from tests.support.networks import conv_net
from tests.support.runs import TRAINING, run

BACKENDS = torch.backends
SETTINGS = {
    name: (BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn)[i]
    for i, name in enumerate(("matmul", "conv", "rnn"))
}


def precisions():
    return {name: setting.fp32_precision for name, setting in SETTINGS.items()}


@dataclass(frozen=True, kw_only=True)
class Watching(fs.FedAvg):
    """FedAvg that writes down at every step how products round."""

    seen: list

    def init(self, network, federation):
        self.seen.append(precisions())
        return super().init(network, federation)

    def objective(self, learner, params, batch, context):
        self.seen.append(precisions())
        return super().objective(learner, params, batch, context)

    def aggregate(self, state, update):
        self.seen.append(precisions())
        return super().aggregate(state, update)

    def models(self, state, ids, federation):
        self.seen.append(precisions())
        return super().models(state, ids, federation)


@pytest.mark.parametrize(("dtype", "expected"), [("float32", "ieee"), ("float64", "ieee"), ("tf32", "tf32")])
def test_products_round_as_the_dtype_says_and_torchs_settings_come_back(dtype, expected):
    before, seen = precisions(), []
    method = Watching(seen=seen)
    loop = fs.rounds(method, conv_net, image_clients(), TRAINING, dtype=dtype)
    for round, _ in zip(loop, range(2), strict=False):
        assert precisions() == before, "between two rounds"
        round.evaluate()
    fs.newcomers(run(method, dtype=dtype), image_clients(seed=1))
    assert len(seen) > 10
    assert all(set(one.values()) == {expected} for one in seen)
    assert precisions() == before


def test_a_processor_knows_no_tf32_and_a_run_its_dtype():
    exact, rounded = (run(fs.FedAvg(), 2, dtype=dtype) for dtype in ("float32", "tf32"))
    assert rounded.history.equals(exact.history)
    assert rounded.config["dtype"] == "tf32"
    with pytest.raises(ValueError, match="dtype"):
        run(fs.FedAvg(), 3, dtype="float32", resume=rounded)


@pytest.fixture
def card(monkeypatch):
    """A GPU of 80 GB, as far as torch is asked for its size."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=80 * 10**9))
    return torch.device("cuda")


@pytest.fixture
def memory(monkeypatch):
    """A device whose memory holds a stack of so many clients, which a test may change."""
    most, inputs = [100], Network.inputs

    def limited(network, x):
        if x.dim() == 4 and len(x) > most[0]:
            raise torch.OutOfMemoryError("Tried to allocate 3.00 GiB.")
        return inputs(network, x)

    monkeypatch.setattr(Network, "inputs", limited)
    return most


def test_chunks_that_do_not_fit_are_halved_and_nothing_changes(memory):
    expected = run(fs.FedAvg(), 3, participation=1.0, executor="stacked")
    memory[0] = 2
    with pytest.warns(UserWarning, match="clients at once do not fit into the memory of cpu") as told:
        found = run(fs.FedAvg(), 3, participation=1.0, executor="stacked")
    clients = len(image_clients())
    assert [int(str(one.message).split()[0]) for one in told] == [clients, clients // 2], (
        "once each, and not every round"
    )
    np.testing.assert_allclose(found.history["value"], expected.history["value"], rtol=0, atol=1e-12)
    for name, leaf in found.states["it", 0].server.items():
        torch.testing.assert_close(leaf, expected.states["it", 0].server[name], rtol=0, atol=1e-12)


def test_models_that_do_not_fit_in_evaluation_are_halved(memory):
    loop = fs.rounds(fs.FedAvg(), conv_net, image_clients(), TRAINING, dtype="float64", executor="stacked")
    round = next(loop)
    expected = round.evaluate()
    memory[0] = 4
    with pytest.warns(UserWarning, match="do not fit"):
        found = round.evaluate()
    np.testing.assert_allclose(found["value"], expected["value"], rtol=0, atol=1e-12)


def test_a_client_that_does_not_fit_alone_is_refused(memory):
    loop = fs.rounds(fs.FedAvg(), conv_net, image_clients(), TRAINING, executor="stacked", participation=0.01)
    memory[0] = 0
    said = r"one client alone does not fit into the memory of .*smaller batch_size.*Tried to allocate 3\.00 GiB"
    with pytest.raises(MemoryError, match=said):
        next(loop)

    def work(network, item):
        raise torch.OutOfMemoryError("Tried to allocate 3.00 GiB.")

    with pytest.raises(MemoryError, match=said.replace(".*small", "cuda; .*small", 1)):
        executors._each(SimpleNamespace(device=torch.device("cuda")), work, [0])


def test_a_gpu_evaluates_in_pieces_of_its_own_size(card):
    network = build(fs.models.resnet18(10), np.random.default_rng(0))
    each = 40 * executors.cost(network, torch.zeros(2, 3, 32, 32)).activations
    assert len(executors._pieces(500, each, card)) <= 12  # 500, while a GPU had 64 MB as well
    assert max(executors._pieces(500, each, card)) * each <= executors.chunk_bytes(card) / 4
    assert sum(executors._pieces(500, each, card)) == 500
    assert executors._pieces(2000, 2**16, torch.device("cpu")) == [128] * 8 + [140] * 3 + [139] * 4
    held = SimpleNamespace(device=card, n=np.full(40, 500), n_max=500, sample=torch.zeros(2, 3, 32, 32))
    assert [part for part, _ in _parts(held, np.arange(40), network.bytes)] == [slice(0, 40)]


@pytest.mark.parametrize(
    ("gpus", "each", "expected"),
    [
        (1.0, 10, [151, 151, 151, 151]),  # all of 604 clients fit into one chunk, and four GPUs have a quarter each
        (0.25, 10, [38] * 15 + [34]),  # sixteen tasks share the four
        (1.0, 32e9 / 100, [100] * 6 + [4]),  # the memory bounds a chunk
        (0.25, 32e9 / 100, [25] * 24 + [4]),  # and each task's share of it
    ],
)
def test_all_gpus_have_work_and_tasks_that_share_one_share_its_memory(card, monkeypatch, gpus, each, expected):
    sizes = []

    class Sent(Exception):
        pass

    def task(function):
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *sent: sizes.append(len(sent[2]))))

    def gathered(waiting):
        raise Sent

    cluster = SimpleNamespace(put=lambda value: value, cluster_resources=lambda: {"GPU": 4.0, "CPU": 16.0})
    for name, value in {
        "_cluster": lambda: cluster,
        "connected": lambda: cluster,
        "_task": task,
        "_gathered": gathered,
    }.items():
        monkeypatch.setattr(ray, name, value)
    monkeypatch.setattr(ray.Tasks, "options", lambda self, device: {"num_gpus": self.gpus})

    class Work:
        learner = SimpleNamespace(network=SimpleNamespace(device=card))
        chunk = property(lambda self: int(executors.chunk_bytes(card) / each))
        route = property(lambda self: self)

    with pytest.raises(Sent):
        ray.Tasks(executors.Stacked(), gpus).train(Work(), {"weight": torch.zeros(604, 2)}, range(604), {})
    assert sizes == expected


def test_samples_in_a_file_go_to_a_gpu_from_pinned_memory(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.arange(24.0).reshape(8, 3))
    mapped = fs.data.from_arrays(np.load(tmp_path / "x.npy", mmap_mode="r"), [0, 1] * 4, [0] * 8, test=0).train
    samples = StackedSamples(mapped.x, torch.zeros(8), mapped.n, torch.float64)
    pinned, moves, to = [], [], torch.Tensor.to

    def pin(tensor):
        pinned.append(tensor)
        return tensor

    def move(tensor, *args, **how):
        if torch.device("cuda") not in args:
            return to(tensor, *args, **how)
        moves.append((any(tensor is one for one in pinned), tensor.dtype, how))
        return tensor

    monkeypatch.setattr(StackedSamples, "device", torch.device("cuda"))
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", move)
    for places in (slice(2, 5), torch.tensor([2, 3, 4])):
        x, _ = samples.take(places)
        np.testing.assert_array_equal(x.numpy(), mapped.x[2:5])
    assert moves == [(True, torch.float64, {"non_blocking": True})] * 2
