"""FedBABU: a plain loop over bodies and fine-tuned copies, bytes, and new clients."""

import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat.federated.slots import is_statistic
from fedstat.methods import FedBABU
from fedstat.testing import check_method
from tests.support.copies import mean_of
from tests.support.layers import (
    HEAD,
    D,
    assert_bytes,
    assert_models,
    descend,
    everything,
    floats,
    loaded,
    network_of,
    newcomers,
    of_body,
    of_head,
    samples,
    shares,
)
from tests.support.networks import leaves_of
from tests.support.runs import FULL, KEY, run


def of_two_layers(name):
    return name.startswith(("conv2", "norm2", "head")) and not is_statistic(name)


def test_the_laws_hold(examples):
    check_method(FedBABU(), examples=examples)


@pytest.mark.parametrize(("layers", "still"), [(None, of_head), (("conv2", "head"), of_two_layers)])
def test_the_body_is_that_of_fedavg_whose_head_cannot_move(layers, still):
    """The statistics of all batch norms move, also where scale and shift stand still."""

    class Frozen(fs.FedAvg):
        """FedAvg whose clients put the head back after every step."""

        def constrain(self, params, context):
            return {name: leaf for name, leaf in context.received.items() if still(name)}

    ours, theirs = run(FedBABU(layers=layers)), run(Frozen())
    for name, leaf in theirs.states[KEY].server.items():
        torch.testing.assert_close(ours.states[KEY].server[name], leaf, rtol=0, atol=1e-12)
    first = run(FedBABU(layers=layers), rounds=1, training=fs.Training(lr=0.0))
    kept = dict(ours.states[KEY].clients)
    assert {*kept} == {name for name in theirs.states[KEY].server if still(name)}
    for name, leaf in kept.items():
        assert torch.equal(ours.states[KEY].server[name], first.states[KEY].server[name])
        assert (leaf == first.states[KEY].server[name]).all()


@pytest.mark.parametrize("part", ["all", "head"])
def test_three_rounds_and_the_fine_tuning_after_them_are_a_plain_loop(part):
    result = run(FedBABU(fine_tune=4, part=part), rounds=3, training=FULL, participation=1.0)
    server, data = network_of(result).initial(), samples(result)

    def trained(epochs, moves):
        """Every client's model after so many full-batch steps from the server's."""
        for x, y in data:
            module = loaded(server)
            descend(module, lambda m=module, x=x, y=y: F.cross_entropy(m(x), y), epochs, moves)
            yield module

    for _ in range(3):
        server = mean_of(trained(FULL.local_epochs, of_body), shares(result))
    assert_models(result, [server] * len(data), "global")
    moves = everything if part == "all" else of_head
    copies = map(leaves_of, trained(4, moves))
    assert_models(result, [{n: leaf if moves(n) else server[n] for n, leaf in copy.items()} for copy in copies])


def test_all_but_the_head_travels_in_each_direction():
    assert_bytes(FedBABU(), D - floats("head"), D - floats("head"))


def test_new_clients_get_the_model_and_a_copy_whose_head_is_their_own():
    models, result, _ = newcomers(FedBABU())
    assert list(models) == ["fine-tuned", "global"]
    for name, leaf in models["fine-tuned"].params.items():
        moved = not leaf.equal(result.states[KEY].server[name].expand_as(leaf))
        assert moved == (name in HEAD), name


def test_values_out_of_range_are_named():
    with pytest.raises(ValueError, match="fine_tune must be a whole number, at least 1"):
        FedBABU(fine_tune=0)
    with pytest.raises(ValueError, match="part must be"):
        FedBABU(part="body")
