"""FedPara and pFedPara: a limit, its definition client by client, counts, bytes, new clients."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from fedstat.federated import Phase, build
from fedstat.methods import FedAvg, FedPara
from fedstat.parameterization import Hadamard
from fedstat.testing import check_method
from tests.support.clients import image_clients
from tests.support.factors import assert_a_new_client_trains, averaged, federation, models
from tests.support.networks import wide_net
from tests.support.runs import FULL, assert_close, run, same, traffic


@pytest.mark.slow
def test_pfedpara_obeys_the_laws():
    check_method(FedPara(personal=True, gamma=0.0, tanh=True), examples=5)


@pytest.mark.parametrize("options", [{}, {"personal": True, "gamma": 0.0, "tanh": True}])
def test_the_network_of_the_laws_has_factors(options):
    rng = np.random.default_rng(0)
    assert FedPara(**options).parameterize(build(FedPara.example_model, rng), rng).forms


@dataclass(frozen=True, kw_only=True)
class FrozenW2(FedPara):
    """W2 never moves: it is one, or zero where one is added to it."""

    def parameterize(self, network, rng):
        made = super().parameterize(network, rng)
        ones = {n: torch.ones_like(leaf) for n, leaf in made.parts.items() if n.endswith("2")}
        for name, form in made.forms.items():
            ones[f"{name}.y2"] /= form.rank ** (len(form.shape) // 2)  # a sum of r products, r^2 with a core
        return made if self.personal else replace(made, parts=made.parts | ones)

    def phases(self, network, training, round):
        return (Phase(tuple(n for n in network.trainable if not (n in network.parts and n.endswith("2")))),)


def low_rank_factor(shape, p, n):
    if len(shape) == 2:
        return p[f"x{n}"] @ p[f"y{n}"].T
    return torch.einsum("pqab,op,cq->ocab", *(p[f"{name}{n}"] for name in "txy"))


def hadamard(shape, p):
    return low_rank_factor(shape, p, 1) * (low_rank_factor(shape, p, 2) + 1)


@dataclass(frozen=True)
class LowRank:
    """``W1`` of FedPara alone."""

    form: Hadamard

    def compose(self, parts):
        return low_rank_factor(self.form.shape, parts, 1)


@pytest.mark.parametrize("personal", [True, False])
def test_fedpara_with_a_trivial_second_factor_is_fedavg_of_low_rank_weights(personal):
    @dataclass(frozen=True, kw_only=True)
    class LowRankAvg(FedAvg):
        def parameterize(self, network, rng):
            made = FedPara(personal=personal).parameterize(network, rng)
            forms = {name: LowRank(form) for name, form in made.forms.items()}
            return replace(made, forms=forms, parts={n: p for n, p in made.parts.items() if n.endswith("1")})

    ours, low = (run(method, rounds=4, model=wide_net) for method in (FrozenW2(personal=personal), LowRankAvg()))
    assert low.network(("it", 0)).forms
    same(ours, low)
    server = ours.states["it", 0].server
    assert_close({n: server[n] for n in low.states["it", 0].server}, low.states["it", 0].server)


def test_pfedpara_is_its_definition_client_by_client():
    method = FedPara(personal=True)
    result = run(method, model=wide_net, training=FULL)
    network, data = federation(result).network, image_clients()
    assert set(network.forms) == {"conv2.weight", "hidden.weight"}  # one input channel, and the head, stay plain
    shared = [n for n in network.shapes if not (n in network.parts and n.endswith("2"))]
    phases = [(network.trainable, 3)]
    expected = averaged(network, hadamard, data, phases, shared, 3, lambda n: n / n.sum(), model=wide_net)
    assert_close(models(method, result), expected)


def test_fedpara_sends_its_factors_and_the_plain_layers_and_pfedpara_half_of_the_factors():
    plain = 6 * 9 + 6 + 8 + 4 * (6 + 8) + 24 + 4 * 25  # first layer, biases, norms with statistics, head
    factors = 2 * 4 * (8 + 6 + 4 * 9) + 2 * 6 * (24 + 32)
    for method, sent in ((FedPara(), factors + plain), (FedPara(personal=True), factors // 2 + plain)):
        result = run(method, rounds=1, model=wide_net)
        for direction in ("bytes_up", "bytes_down"):
            assert (traffic(result, direction) == 8 * sent).all(axis=None)


def test_fedpara_counts_what_its_paper_counts():
    def layers():
        return nn.Sequential(nn.Conv2d(256, 256, 3, bias=False), *(nn.Linear(256, 256) for _ in range(2)))

    plain = build(layers, np.random.default_rng(0))
    network = FedPara(gamma=0.0, tanh=True).parameterize(plain, np.random.default_rng(1))
    assert all(form.tanh for form in network.forms.values())
    conv, dense, head = (sum(p.numel() for n, p in network.parts.items() if n.startswith(layer)) for layer in "012")
    assert conv == 2 * 16 * (512 + 16 * 9) == 20_992
    assert dense == 2 * 16 * 512 == 16_384
    assert head == 0


def test_a_new_client_trains_the_second_factors_and_nothing_else():
    assert_a_new_client_trains(FedPara(personal=True), parts=(".x2", ".y2", ".t2"), model=wide_net)


def test_values_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"^gamma must .*, got 1.5"):
        FedPara(gamma=1.5)
