"""On another device than the processor everything runs, to the same results, and waits no longer for more clients.

No GPU is needed: `tests.support.pretended` says what stands in for one; where there is one, it runs the same tests. All
of it happens in a process of its own.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from torch import nn

import fedstat as fs
from tests.support import pretended
from tests.support.clients import image_clients, vector_clients
from tests.support.networks import conv_net, wide_net

pytestmark = pytest.mark.slow

PLAIN = fs.Training(lr=0.1, batch_size=5, local_epochs=2)
ADAMW = fs.Training(lr=0.01, optimizer=fs.AdamW(decay=0.1), batch_size=5, clip_norm=1.0)
LAYERS = ["conv1", "conv2", "hidden"]


device = pretended.NAME


def begin(name):
    """Make this process the one that has a device."""
    global device
    device = name
    if device == pretended.NAME:
        pretended.install()


def process_with(name):
    """Call functions in a process that has the device."""
    spawned = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawned, initializer=begin, initargs=(name,)) as worker:
        yield lambda function, *args: worker.submit(function, *args).result()


@pytest.fixture(scope="module", params=[pretended.NAME, "cuda"])
def there(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    yield from process_with(request.param)


@pytest.fixture(scope="module")
def counting():
    yield from process_with(pretended.NAME)


def made(name, **options):
    cls = fs.methods.find(name)
    return cls(**{**cls.example, **options}), cls.example_model or fs.models.mlp(3, 5, 2)


def both(method, model, clients, training=PLAIN, rounds=3, **options):
    """The same run on the processor and on the device."""
    options = {"participation": 0.5, "dtype": "float64", "progress": False} | options
    here, there = (
        fs.federate({"it": method}, model, clients, training, rounds=rounds, device=where, **options)
        for where in ("cpu", device)
    )
    assert {leaf.device.type for leaf in there.states["it", 0].server.values()} == {device}
    gated = isinstance(method, fs.methods.PFedGate) and model is conv_net
    if device == "cuda" and gated:  # rounding decides which of equal blocks it keeps
        np.testing.assert_allclose(there.history["value"], here.history["value"], rtol=0, atol=1e-6)
    else:
        assert_same(here, there, 1e-6 if options["dtype"] == "float32" else 1e-10)
    return here, there


def assert_same(here, there, atol):
    np.testing.assert_allclose(there.history["value"], here.history["value"], rtol=0, atol=atol)
    assert there.traffic.equals(here.traffic)
    (one,), (other,) = here.states.values(), there.states.values()
    leaves, found = dict(one.server), dict(other.server)
    if one.clients:
        everyone = torch.arange(one.clients.clients)
        leaves |= {f"clients' {name}": rows for name, rows in one.clients.rows(everyone).items()}
        found |= {f"clients' {name}": rows for name, rows in other.clients.rows(everyone).items()}
    assert leaves.keys() == found.keys()
    for name, leaf in leaves.items():
        torch.testing.assert_close(found[name].cpu(), leaf, rtol=0, atol=atol, msg=name)


def refuses():
    """What the device is there for, shown on itself."""
    x = torch.arange(6.0).reshape(2, 3)
    pretended.COUNTS.clear()
    y = x.to(pretended.NAME)
    for mixed in (lambda: x + y, lambda: y @ x.T, lambda: y.index_select(0, torch.tensor([1]))):
        with pytest.raises(RuntimeError):
            mixed()
    y[0].add_(1).mul_(2)
    assert torch.equal(y.cpu(), torch.tensor([[2.0, 4, 6], [3, 4, 5]]))
    assert y.sum().item() == 24
    assert pretended.COUNTS == {"to": 1, "from": 1, "waited": 1}


def agrees(name):
    method, model = made(name)
    here, there = both(method, model, vector_clients(), dtype="float32")
    offered = [
        fs.newcomers(result, vector_clients(seed=1), device=where)["value"]
        for result, where in ((here, "cpu"), (there, device))
    ]
    np.testing.assert_allclose(*offered, rtol=0, atol=1e-6)


def counted(method, model, clients):
    """What the device was told and asked in a round with an evaluation, not the first."""
    x = np.random.default_rng(0).normal(size=(24 * clients, 3))
    data = fs.data.from_arrays(x, (x[:, 0] > 0) * 1, np.repeat(np.arange(clients), 24), test=0.5, seed=0)
    loop = fs.rounds(method, model, data, PLAIN, device=pretended.NAME)
    next(loop).evaluate()
    pretended.COUNTS.clear()
    next(loop).evaluate()
    return dict(pretended.COUNTS)


def is_flat(name):
    method, model = made(name, **({"alpha": 0.03} if name == "FedAMP" else {}))
    few, many = (counted(method, model, clients) for clients in (6, 24))
    assert few == many
    assert sum(few.values()) < 250


class Asking(fs.FedAvg):
    """FedAvg that looks at every client's model."""

    def aggregate(self, state, update):
        for leaf in update.end["head.bias"]:
            assert leaf.sum().item() < 1e9
        return super().aggregate(state, update)


def sees_who_asks():
    few, many = (counted(Asking(), fs.models.mlp(3, 5, 2), clients) for clients in (6, 24))
    assert many["waited"] - few["waited"] == 18


def convolves(method, model=conv_net, training=PLAIN):
    both(method, model, image_clients(), training)


def dropping():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 12), nn.LayerNorm(12), nn.ReLU(), nn.Dropout(0.4), nn.Linear(12, 4)
    )


def reads_tokens():
    x = np.random.default_rng(0).integers(9, size=(6, 15, 7))
    clients = fs.data.Clients(fs.data.Samples.from_rows(x, (x[..., 0] > 4) * 1), classes=(0, 1))
    for network in (fs.models.lstm, fs.models.gru):
        both(fs.methods.FedRep(), network(2, vocabulary=9, embedding=3, hidden=4, dense=5), clients, ADAMW)


def resumes(folder):
    method = fs.methods.Ditto()
    arguments = (fs.models.mlp(36, 5, 4), image_clients(), ADAMW)
    options = {"device": device, "participation": 0.5, "progress": False}
    whole = fs.federate({"it": method}, *arguments, rounds=4, **options)
    fs.federate({"it": method}, *arguments, rounds=2, folder=folder, **options)
    saved = fs.load(folder, arguments[0], {"it": method})
    continued = fs.federate({"it": method}, *arguments, rounds=4, resume=saved, **options)
    if device == pretended.NAME:
        assert continued.history.equals(whole.history)
    np.testing.assert_allclose(continued.history["value"], whole.history["value"], rtol=0, atol=1e-6)
    assert continued.states["it", 0].clients.versions == whole.states["it", 0].clients.versions


def reads_files(folder):
    held = image_clients()
    np.save(folder / "x.npy", np.asarray(held.train.x))
    x = np.load(folder / "x.npy", mmap_mode="r")
    clients = fs.data.from_arrays(x, held.train.y, np.repeat(np.arange(6), held.train.n), test=0.3, seed=0)
    both(fs.FedAvg(), conv_net, clients)


def tunes():
    x = np.random.default_rng(0).normal(size=(200, 3))
    clients = fs.data.from_arrays(x, (x[:, 0] > 0) * 1, np.arange(200) % 5, validation=0.2)
    grid = {"lr": [0.001, 0.3]}
    here, there = (
        fs.tune(
            fs.methods.FedPer(), grid, fs.models.mlp(3, 8, 2), clients, PLAIN, rounds=3, seed=range(2), last=1,
            fresh=range(10, 12), device=where,
        )
        for where in ("cpu", device)
    )  # fmt: skip
    assert here.best == there.best
    np.testing.assert_allclose(there.table["mean"], here.table["mean"], rtol=0, atol=1e-6)


def test_the_device_refuses_what_a_gpu_does_and_counts(counting):
    counting(refuses)
    counting(sees_who_asks)


@pytest.mark.parametrize("name", fs.methods.available())
def test_a_method_comes_to_the_same(there, name):
    there(agrees, name)


@pytest.mark.parametrize("name", fs.methods.available())
def test_more_clients_mean_no_more_transfers_and_waits(counting, name):
    counting(is_flat, name)


@pytest.mark.parametrize(
    ("method", "model", "training"),
    [
        (fs.FedAvg(), conv_net, PLAIN),
        (fs.FedAvg(), conv_net, ADAMW),
        (fs.FedAvg(), dropping, ADAMW),
        (fs.methods.FedBN(), conv_net, PLAIN),
        (fs.methods.FilterDecomp(personal=True, head="local"), conv_net, PLAIN),
        (fs.methods.FedPara(personal=True), wide_net, PLAIN),
        (fs.methods.FedDecomp(), conv_net, PLAIN),
        (fs.methods.FactorizedFL(variant="beta"), conv_net, PLAIN),
        (fs.methods.PFedGate(), conv_net, PLAIN),
        (fs.FedFac(layers=LAYERS, kappa=0.5, dynamic=True), conv_net, PLAIN),
        (fs.FedFac(layers=LAYERS, dynamic=True, reading="code"), conv_net, PLAIN),
    ],
    ids=["sgd", "adamw", "dropout", "norms", "filters", "parts", "low-rank", "factors", "gate", "units", "code"],
)
def test_networks_and_optimisers_come_to_the_same(there, method, model, training):
    there(convolves, method, model, training)


def test_tokens_come_to_the_same(there):
    there(reads_tokens)


def test_a_run_is_continued(there, tmp_path):
    there(resumes, tmp_path / "run")


def test_samples_in_a_file_come_to_the_same(there, tmp_path):
    there(reads_files, tmp_path)


def test_tuning_comes_to_the_same(there):
    there(tunes)
