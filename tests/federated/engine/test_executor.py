"""Clients trained one by one on worker threads against the stacked engine, and the rules that choose."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import fedstat as fs
from fedstat.federated.client.network import build
from fedstat.federated.engine import executor
from tests.support.clients import image_clients
from tests.support.networks import conv_net, plain_net
from tests.support.runs import TRAINING, run

#: What steps each method adds to FedAvg's: several phases, prepare, finish, held-out samples, gradients of several
#: batches, training outside rounds, copies, gates, parameterised weights, projections after steps; and what the server
#: makes of them.
METHODS = {
    "fedavg": fs.FedAvg(),
    "fedrep": fs.methods.FedRep(),
    "ditto": fs.methods.Ditto(),
    "fedrod": fs.methods.FedRoD(),
    "fedfomo": fs.methods.FedFOMO(),
    "fedpac": fs.methods.FedPAC(),
    "perfedavg": fs.methods.PerFedAvg(hessian_free=True),
    "pfedsd": fs.methods.PFedSD(),
    "fedem": fs.methods.FedEM(),
    "feddecomp": fs.methods.FedDecomp(),
    "fedcac": fs.methods.FedCAC(),
    "apfl": fs.methods.APFL(),
    "krum": fs.FedAvg(aggregator=fs.aggregators.Krum(f=0)),
    "gaussian": fs.methods.FedBN(weighting="uniform", mechanism=fs.mechanisms.Gaussian(clip=0.05, noise=0.5)),
}


@pytest.fixture
def threads():
    """Torch's threads may change in a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def assert_close(actual, expected, atol):
    for (key, one), other in zip(actual.states.items(), expected.states.values(), strict=True):
        for name, leaf in one.server.items():
            torch.testing.assert_close(leaf, other.server[name], rtol=0, atol=atol, msg=f"{key}: {name}")
        if one.clients:
            everyone = torch.arange(len(image_clients()))
            for name, leaf in one.clients.rows(everyone).items():
                torch.testing.assert_close(leaf, other.clients.rows(everyone)[name], rtol=0, atol=atol)
    np.testing.assert_allclose(actual.history["value"], expected.history["value"], rtol=0, atol=atol)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_one_by_one_equals_stacked(method):
    results = [run(method, executor=choice) for choice in ("per-client", "stacked")]
    assert_close(*results, atol=1e-10)
    assert results[0].traffic.equals(results[1].traffic)
    offered = [fs.newcomers(result, image_clients(seed=1))["value"] for result in results]
    np.testing.assert_allclose(*offered, rtol=0, atol=1e-10)


@dataclass(frozen=True)
class Overheard(fs.mechanisms.Gaussian):
    """Keeps the noise that it draws."""

    drawn: ClassVar[list[torch.Tensor]] = []

    def _drawn(self, like, rng):
        self.drawn.append(super()._drawn(like, rng))
        return self.drawn[-1]


def test_noise_has_the_same_bits_one_by_one_and_stacked():
    method = fs.FedAvg(weighting="uniform", mechanism=Overheard(clip=0.05, noise=0.5))
    results, noises = [], []
    for choice in ("per-client", "stacked"):
        Overheard.drawn.clear()
        results.append(run(method, model=plain_net, executor=choice))
        noises.append(torch.stack(Overheard.drawn[-3:]))  # others are of the law that is tried first
    assert torch.equal(*noises)
    assert len(noises[0].unique()) == noises[0].numel()
    assert_close(*results, atol=1e-10)


def test_one_by_one_equals_stacked_for_a_gate():
    # Its norm over one or two samples of a last batch amplifies rounding, in stacks of different size as well. Full
    # batches do so too under some processors' arithmetic, up to 2e-4 (torch without vector instructions).
    whole = replace(TRAINING, batch_size=100)
    results = [run(fs.methods.PFedGate(), executor=c, training=whole) for c in ("per-client", "stacked")]
    assert_close(*results, atol=1e-3)


def test_the_number_of_workers_changes_no_bit_and_torchs_threads_stay(threads):
    results = []
    for count in (1, 3):
        threads(count)
        results.append(run(METHODS["fedrod"], executor="per-client"))
        assert torch.get_num_threads() == count
        with ThreadPoolExecutor(1) as later:  # a new thread takes what was set last
            assert later.submit(torch.get_num_threads).result() == count
    assert_close(*results, atol=0)


@pytest.mark.parametrize("choice", ["stacked", "per-client"])
def test_errors_of_a_client_surface(choice, threads):
    threads(2)
    wild = fs.Training(lr=1e200, batch_size=5)
    with pytest.raises(FloatingPointError, match=r"client \d .*round 1 under FedAvg at lr=1e\+200"):
        run(fs.FedAvg(), model=plain_net, training=wild, executor=choice)

    class Broken(fs.FedAvg):
        def objective(self, learner, params, batch, context):
            raise ArithmeticError("from the objective")

    with pytest.raises(
        ValueError, match=r"Broken.objective failed in phase 'train' .* ArithmeticError: from the objec"
    ):
        run(Broken(), executor=choice)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("model", "shape"),
    [(fs.models.mlp(12, 5, 3), (12,)), (fs.models.cnn(8, 10), (8, 8)), (conv_net, (6, 6))],
    ids=["mlp", "cnn", "with norms"],
)
def test_cost_is_what_torch_counts(model, shape):
    network = build(model, np.random.default_rng(0))
    x = torch.zeros(7, *shape)
    with FlopCounterMode(display=False) as counted:
        network(network.initial(), x)
    counted_here = executor.cost(network, x)
    assert 7 * counted_here.flops == counted.get_total_flops()
    assert 4 * x[0].numel() <= counted_here.activations


def test_weights_made_of_parts_cost_the_same_for_any_batch():
    plain = build(fs.models.cnn(8, 10), np.random.default_rng(0))
    made = fs.methods.FedPara().parameterize(plain, np.random.default_rng(0))
    x = torch.zeros(1, 8, 8)
    for_plain, for_made = executor.cost(plain, x), executor.cost(made, x)
    assert for_plain.activations == for_made.activations
    assert for_made.weights > plain.bytes > for_plain.weights == 0


def test_the_rule_takes_small_networks_and_those_without_convolutions_as_a_stack():
    def chosen(model, shape, batch, wanted="auto"):
        network = build(model, np.random.default_rng(0))
        x = torch.zeros(2, *shape, dtype=torch.uint8)
        return executor.choose(wanted, network, x, batch) == executor.PerClient()

    wide = fs.models.cnn(28, 10, channels=(32, 64), hidden=512)
    assert not chosen(fs.models.cnn(8, 10), (8, 8), 10)
    assert chosen(wide, (28, 28), 20)
    assert not chosen(wide, (28, 28), 20, "stacked")
    assert not chosen(fs.models.mlp(784, 4000, 10), (28, 28), 100)
    assert chosen(fs.models.mlp(784, 10, 10), (28, 28), 1, "per-client")


def test_a_chunk_fits_into_its_room():
    network = build(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), np.random.default_rng(0))
    x = torch.zeros(3, 4)
    small, large = (executor.chunk_size(network.bytes, network, x, batch) for batch in (1, 10**6))
    assert small == executor.CHUNK_BYTES // network.bytes
    each = executor.COPIES * network.bytes + 10**6 * executor.cost(network, x).activations
    assert large * each <= executor.CPU_BYTES < (large + 1) * each


def pixels():
    """Images as bytes and the same as shares of 255."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(256, size=(90, 6, 6), dtype=np.uint8), rng.integers(4, size=90)
    samples = [fs.data.from_indices(v, y, np.arange(90).reshape(6, 15)) for v in (x.astype(np.float32) / 255, x)]
    return samples


@pytest.mark.parametrize("choice", ["stacked", "per-client"])
@pytest.mark.parametrize("method", ["fedavg", "fedrod"])
def test_bytes_are_shares_of_255(method, choice):
    shares, raw = pixels()
    as_bytes = [fs.data.Samples(np.rint(s.x * 255).astype(np.uint8), s.y, s.n) for s in (shares.train, shares.test)]
    raw = fs.data.Clients(*as_bytes, classes=shares.classes)
    results = [run(METHODS[method], clients=c, executor=choice, dtype="float32") for c in (raw, shares)]
    assert_close(*results, atol=0)
    tables = [fs.newcomers(result, c)["value"] for result, c in zip(results, (raw, shares), strict=True)]
    np.testing.assert_array_equal(*tables)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 3), nn.Linear(12, 2)

    def forward(self, x):
        return self.head(self.embedding(x).flatten(1))


def test_whole_numbers_are_tokens():
    x = np.random.default_rng(0).integers(9, size=(4, 10, 4)).astype(np.int16)
    y = (x[..., 0] > 4).astype(np.int64)
    clients = fs.data.Clients(fs.data.Samples.from_rows(x, y), classes=(0, 1))
    result = run(fs.FedAvg(), 60, clients=clients, model=Reader, training=fs.Training(lr=0.5, batch_size=4))
    accuracy = result.history.query("metric == 'accuracy' and round == 60")["value"]
    assert accuracy.mean() > 0.9


def test_mixed_precision_keeps_weights_in_float32_and_stays_near(tmp_path):
    exact = run(fs.FedAvg(), dtype="float32")
    mixed = {c: run(fs.FedAvg(), dtype="bf16-mixed", executor=c) for c in ("stacked", "per-client")}
    for result in mixed.values():
        for leaf in result.states["it", 0].server.values():
            assert leaf.dtype == torch.float32
        head = "head.weight"
        assert not torch.equal(result.states["it", 0].server[head], exact.states["it", 0].server[head])
        assert_close(result, exact, atol=0.1)
    stacked = mixed["stacked"]
    stacked.save(tmp_path / "run")
    again = fs.load(tmp_path / "run", model=conv_net)
    assert again.network(("it", 0)).mixed
    offered = [fs.newcomers(r, image_clients(seed=1))["value"] for r in (stacked, again)]
    np.testing.assert_array_equal(*offered)
    # statistics are sums in float32: bfloat16 would round the means to 8 bits
    means = stacked.states["it", 0].server["norm1.running_mean"]
    assert not torch.equal(means, means.bfloat16().float())


def test_unknown_choices_are_refused():
    with pytest.raises(ValueError, match=r"executor must be one of auto, .*per-client.* got 'fast'"):
        run(fs.FedAvg(), executor="fast")
    with pytest.raises(
        ValueError, match='dtype must be one of "float32", "float64", "tf32", "bf16-mixed", got \'half\''
    ):
        run(fs.FedAvg(), dtype="half")
