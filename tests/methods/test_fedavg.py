"""FedAvg and its fine-tuning: by hand, plain loops, limits, bytes, new clients."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import fedstat as fs
from fedstat.methods import FedAvg, FedProx
from fedstat.testing import check_method
from tests.support import mixture
from tests.support.clients import image_clients, vector_clients
from tests.support.layers import (
    HEAD,
    D,
    assert_bytes,
    assert_tuning_is_a_loop,
    assert_two_rounds_are_a_loop,
    descend,
    loaded,
    newcomers,
)
from tests.support.networks import leaves_of
from tests.support.runs import FULL, equal, final, reference, run, trajectory


def test_weights_and_server_step_by_hand():
    """Unequal clients: w + eta_g * sum p_k (w_k - w), with p_k from sample counts or equal."""
    rng = np.random.default_rng(0)
    client = np.repeat(np.arange(3), [4, 8, 20])
    clients = fs.data.from_arrays(rng.normal(size=(32, 8)), rng.integers(2, size=32), client, test=0.0)
    options = {"rounds": 1, "dtype": "float64"}
    start = fs.federate(FedAvg(), fs.models.mlp(8, 10, 1), clients, fs.Training(lr=0.0), **options)
    alone = fs.federate(fs.Local(), fs.models.mlp(8, 10, 1), clients, mixture.TRAINING, **options)
    w, trained = start.states["FedAvg", 0].server, alone.states["Local", 0].clients
    for weighting, p in (("samples", np.array([4, 8, 20]) / 32), ("uniform", np.full(3, 1 / 3))):
        method = FedAvg(weighting=weighting, server=fs.server.SGD(lr=0.5))
        result = fs.federate(method, fs.models.mlp(8, 10, 1), clients, mixture.TRAINING, **options)
        for name, leaf in result.states["FedAvg", 0].server.items():
            mean = sum(pk * trained[name][k] for k, pk in enumerate(p))
            torch.testing.assert_close(leaf, w[name] + 0.5 * (mean - w[name]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_two_rounds_are_those_of_a_loop_over_clients(weighting):
    assert_two_rounds_are_a_loop(FedAvg(weighting=weighting), uniform=weighting == "uniform")


@pytest.mark.parametrize("part", ["all", "head"])
def test_fine_tuned_models_are_those_of_a_loop_over_clients(part):
    assert_tuning_is_a_loop(FedAvg, part)


@pytest.mark.slow
def test_fine_tuning_obeys_the_laws():
    check_method(FedAvg(fine_tune=1), except_for=("one client",), examples=5)


def test_fine_tuning_leaves_the_rounds_alone():
    plain = reference(FedAvg())
    for method in (FedAvg(fine_tune=2), FedAvg(fine_tune=1, part="head")):
        tuned = reference(method)
        equal(tuned, plain, 0, ("global", "global"))
        assert (trajectory(tuned)["log_loss"] != trajectory(plain)["log_loss"]).all()
    equal(reference(FedProx(mu=0.3, fine_tune=1)), reference(FedProx(mu=0.3)), 0, ("global", "global"))


def test_tuning_the_head_leaves_the_body_as_it_was():
    result = reference(FedAvg(fine_tune=1, part="head"))
    tuned, plain = final(result), final(result, "global")
    assert {name for name in tuned if not tuned[name].equal(plain[name])} == set(HEAD)


@pytest.mark.parametrize("fine_tune", [0, 2])
def test_the_whole_network_travels_in_each_direction(fine_tune):
    assert_bytes(FedAvg(fine_tune=fine_tune), D, D)


def test_new_clients_of_fedavg_are_fine_tuned_like_all_others():
    models, result, _ = newcomers(FedAvg(fine_tune=4), FULL)
    assert list(models) == ["fine-tuned", "global"]
    assert list(newcomers(FedAvg())[0]) == ["global"]
    server = {name: leaf[0] for name, leaf in final(result, "global").items()}
    strangers = image_clients(3, seed=5).train
    for k in range(3):
        x, y = strangers.client(k)
        x, y = torch.from_numpy(x).double(), torch.from_numpy(y)
        module = loaded(server)
        descend(module, lambda m=module, x=x, y=y: F.cross_entropy(m(x), y), 4)
        for name, leaf in leaves_of(module).items():
            torch.testing.assert_close(models["fine-tuned"].params[name][k], leaf, rtol=0, atol=1e-10)


def test_a_loaded_result_cannot_fine_tune(tmp_path):
    run(FedAvg(fine_tune=1), 1, clients=vector_clients(), model=fs.models.mlp(3, 4, 2)).save(tmp_path / "run")
    with pytest.raises(
        ValueError, match="fine_tune=1 trains on the clients' data, which a loaded result does not hold"
    ):
        fs.load(tmp_path / "run").personal(0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedAvg(weighting="n"), "weighting must be"),
        (lambda: FedAvg(fine_tune=-1), "fine_tune must be a whole number, at least 0, got -1"),
        (lambda: FedAvg(fine_tune=0.5), r"fine_tune .* got 0\.5"),
        (lambda: FedAvg(part="body"), 'part must be "all" or "head", got \'body\''),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_fedavg_written_out_is_the_base_of_all_methods_and_trains_in_one_stack_with_it():
    passes = []

    class Counting(nn.Linear):
        def forward(self, x):
            passes.append(x.shape)
            return super().forward(x)

    def runs(methods):
        passes.clear()
        options = {"rounds": 3, "participation": 0.5, "dtype": "float64", "evaluate_at": (), "executor": "stacked"}
        result = fs.federate(methods, lambda: Counting(8, 1), mixture.clients(), mixture.TRAINING, **options)
        return result.states, len(passes)

    methods = {name: cls(server=fs.server.SGD(lr=0.7)) for name, cls in (("base", fs.Method), ("FedAvg", FedAvg))}
    states, together = runs(methods)
    for name, leaf in states["base", 0].server.items():
        assert torch.equal(leaf, states["FedAvg", 0].server[name])
    assert together == runs({"base": methods["base"]})[1] < runs({**methods, "other": FedProx()})[1]


def test_a_class_derived_from_fedavg_does_not_keep_leaves():
    @dataclass(frozen=True, kw_only=True)
    class Head(FedAvg):
        def shared(self, network, federation):
            return fs.federated.share_all_but(network, network.head_leaves)

    with pytest.raises(ValueError, match=r"Head keeps leaves .*head.weight, head.bias.*derive it from fedstat.Method"):
        mixture.run(Head())


@pytest.mark.parametrize(
    ("private", "message"),
    [
        (["head.wieght"], r"are hidden.weight, hidden.bias, head.weight, head.bias; got \['head.wieght'\]\."),
        ({"head.weight", "nope"}, r"personal must name leaves of the network, which are .*; got \['nope'\]\."),
        ("head.weight", "personal must be a sequence of names .*got 'head.weight'"),
    ],
)
def test_a_misspelt_private_leaf_is_refused_and_not_shared(private, message):
    @dataclass(frozen=True, kw_only=True)
    class Private(fs.Method):
        def shared(self, network, federation):
            return fs.federated.share_all_but(network, private)

    with pytest.raises(ValueError, match=message):
        fs.describe(Private(), fs.models.mlp(3, 5, 2))
