"""FedDecomp: limits, its definition client by client, what its authors ran, bytes, new clients."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedstat.federated import Phase
from fedstat.methods import FedAvg, FedDecomp, Local
from fedstat.testing import check_method
from tests.support import authors
from tests.support.clients import image_clients
from tests.support.factors import assert_a_new_client_trains, averaged, federation, models
from tests.support.networks import plain_net
from tests.support.runs import FULL, assert_close, run, same, traffic


@pytest.mark.slow
def test_the_papers_reading_obeys_the_laws():
    check_method(FedDecomp(reading="text", **FedDecomp.example), examples=5)


def test_feddecomp_without_low_rank_epochs_is_fedavg_bit_for_bit():
    ours, fedavg = run(FedDecomp(lora_epochs=0), rounds=4), run(FedAvg(weighting="uniform"), rounds=4)
    same(ours, fedavg, atol=0)
    server = ours.states["it", 0].server
    for name, leaf in fedavg.states["it", 0].server.items():
        assert torch.equal(leaf, server.get(f"{name}.full", server.get(name)))


def low_rank(network):
    return [n for n in network.trainable if n.endswith((".a", ".b")) and n in network.parts]


@dataclass(frozen=True, kw_only=True)
class LowRankLocal(Local):
    """Training of low-rank parts alone, around weights that stay."""

    def parameterize(self, network, rng):
        return FedDecomp().parameterize(network, rng)

    def phases(self, network, training, round):
        return (Phase(tuple(low_rank(network))),)


def test_feddecomp_with_low_rank_epochs_only_is_low_rank_training_alone():
    method = FedDecomp(lora_epochs=2)
    ours, alone = (run(m, rounds=4, model=plain_net) for m in (method, LowRankLocal()))
    same(ours, alone)
    assert_close(models(method, ours), models(Local(), alone))


def low_rank_sum(shape, p):
    o, i, *kernel = shape
    k = kernel[0] if kernel else 1
    return p["full"] + torch.einsum("iaob->oiab", (p["b"] @ p["a"]).view(i, k, o, k)).reshape(shape)


@pytest.mark.parametrize("clients", [pytest.param(1, marks=pytest.mark.slow), 6])
@pytest.mark.parametrize("variant", ["alternating", "simultaneous", "reverse", "local", "fedavg"])
def test_feddecomp_is_its_definition_client_by_client(variant, clients):
    method, data = (
        FedDecomp(variant=variant, reading="text", conv_ratio=0.4, lora_epochs=1),
        image_clients(clients, seed=2),
    )
    result = run(method, clients=data, training=FULL)
    network = federation(result).network
    ranks = {name: len(leaf) for name, leaf in network.parts.items() if name.endswith(".a")}
    assert ranks == {"conv1.weight.a": 1, "conv2.weight.a": 4, "hidden.weight.a": 4, "head.weight.a": 2}
    low = low_rank(network)
    full = network.shapes.keys() - low
    phases = (
        [(low, 1), (full & set(network.trainable), 2)]
        if variant in ("alternating", "reverse")
        else [(network.trainable, 3)]
    )
    shared = {"reverse": low, "local": [], "fedavg": network.shapes}.get(variant, full)
    expected = averaged(network, low_rank_sum, data, phases, shared, 3, lambda n: np.full(len(n), 1 / len(n)))
    assert_close(models(method, result), expected)


class LowRankAdded(nn.Module):
    """A weight with a low-rank product added, for convolutions and dense layers."""

    def __init__(self, inputs, outputs, kernel=None):
        super().__init__()
        rho = int(0.6 * outputs) if kernel else int(0.6 * min(inputs, outputs))
        k = kernel or 1
        self.rho, self.kernel = rho, kernel
        self.full = nn.Parameter(torch.empty(outputs, inputs, *[k, k] * bool(kernel)))
        self.a, self.b = nn.Parameter(torch.empty(rho * k, inputs * k)), nn.Parameter(torch.zeros(outputs * k, rho * k))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        weight = self.full + (self.b @ self.a).view(self.full.shape) / self.rho
        return F.conv2d(x, weight, self.bias, padding=1) if self.kernel else F.linear(x, weight, self.bias)


@pytest.mark.parametrize("lora_epochs", [1, 2])
def test_feddecomp_is_what_its_authors_ran(lora_epochs):
    clients = image_clients(4)
    result, network = authors.ours(FedDecomp(lora_epochs=lora_epochs), clients, participation=1.0)
    names = {"full": "full", "a": "a", "b": "b"}
    own = [
        authors.begun(authors.Body(lambda i, o: LowRankAdded(i, o, 3), LowRankAdded), network, names)
        for _ in range(len(clients))
    ]
    for layer in (own[0].conv2, own[0].hidden):
        bound = 1 / math.sqrt(layer.a.shape[1])
        assert not layer.b.any()
        assert 0.8 * bound < layer.a.abs().max() <= bound
    for _ in range(authors.ROUNDS):
        for k, module in enumerate(own):
            low = [p for name, p in module.named_parameters() if name.endswith((".a", ".b"))]
            rest = [p for name, p in module.named_parameters() if not name.endswith((".a", ".b"))]
            for train, epochs in ((low, lora_epochs), (rest, authors.TRAINING.local_epochs - lora_epochs)):
                authors.steps(module, clients.train.client(k), torch.optim.SGD(train, lr=0.05, momentum=0.9), epochs)
        states = [module.state_dict() for module in own]
        mean = {
            name: sum(state[name] for state in states) / len(own)
            for name in states[0]
            if not name.endswith((".a", ".b", "tracked"))
        }
        for module in own:
            module.load_state_dict(mean, strict=False)
    authors.agree(result, own, clients)


def test_feddecomp_sends_one_whole_model_each_way():
    ours, fedavg = run(FedDecomp()), run(FedAvg())
    for direction in ("bytes_up", "bytes_down"):
        assert traffic(ours, direction).equals(traffic(fedavg, direction))


def test_a_new_client_trains_the_low_rank_parts_and_nothing_else():
    assert_a_new_client_trains(FedDecomp(), parts=(".a", ".b"))


@pytest.mark.parametrize(
    ("argument", "value"),
    [("conv_ratio", 0.0), ("dense_ratio", 1.1), ("lora_epochs", -1), ("variant", "both"), ("reading", "big")],
)
def test_values_out_of_range_are_named(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument} must .*, got {value!r}"):
        FedDecomp(**{argument: value})


def test_more_low_rank_epochs_than_local_ones_are_named():
    with pytest.raises(ValueError, match=r"lora_epochs must be at most 2, the training's local_epochs, got 3"):
        run(FedDecomp(lora_epochs=3))
