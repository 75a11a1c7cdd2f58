"""FedBABU: a plain loop over bodies, fine-tuned copies by torch, bytes, and new clients."""

import pytest
import torch

import fedstat as fs
from fedstat.methods import FedBABU
from fedstat.testing import check_method
from tests.support.layers import HEAD, D, assert_bytes, assert_tuning_is_a_loop, floats, newcomers
from tests.support.runs import KEY, run


def test_the_laws_hold(examples):
    check_method(FedBABU(), examples=examples)


def test_the_body_is_that_of_fedavg_whose_head_cannot_move():
    class Frozen(fs.FedAvg):
        """FedAvg whose clients put the head back after every step."""

        def constrain(self, params, context):
            return {name: context.received[name] for name in HEAD}

    ours, theirs = run(FedBABU()), run(Frozen())
    for name, leaf in theirs.states[KEY].server.items():
        torch.testing.assert_close(ours.states[KEY].server[name], leaf, rtol=0, atol=1e-12)
    first = run(FedBABU(), rounds=1, training=fs.Training(lr=0.0))
    for name in HEAD:
        assert torch.equal(ours.states[KEY].server[name], first.states[KEY].server[name])
        assert (ours.states[KEY].clients[name] == first.states[KEY].server[name]).all()


@pytest.mark.parametrize("part", ["all", "head"])
def test_fine_tuned_models_are_those_of_a_loop_over_clients(part):
    assert_tuning_is_a_loop(FedBABU, part)


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
