"""FedProx: limits, plain loops, bytes."""

import pytest
import torch
from torch.nn import functional as F

import fedstat as fs
from fedstat.methods import FedAvg, FedProx
from tests.support.layers import (
    D,
    assert_bytes,
    assert_models,
    assert_tuning_is_a_loop,
    assert_two_rounds_are_a_loop,
    loaded,
    mean,
    network_of,
    samples,
    shares,
)
from tests.support.networks import plain_net
from tests.support.runs import equal, reference, run


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (FedProx(mu=0.0), FedAvg()),
        (FedProx(mu=0.0, fine_tune=2), FedAvg(fine_tune=2)),
        (FedProx(mu=0.0, fine_tune=1, part="head"), FedAvg(fine_tune=1, part="head")),
    ],
    ids=["FedAvg", "fine-tuned FedAvg", "head-tuned FedAvg"],
)
def test_a_limit_case_is_another_method_bit_for_bit(ours, other):
    equal(reference(ours), reference(other), atol=0)


def test_two_rounds_are_those_of_a_loop_over_clients():
    assert_two_rounds_are_a_loop(FedProx(mu=0.7))


def test_a_step_against_an_equal_pull_starts_from_the_received_model():
    """With lr * mu = 1 and plain SGD every step is w_t - lr * grad(w)."""
    training = fs.Training(lr=0.5, batch_size=100, local_epochs=3)
    result = run(FedProx(mu=2.0), rounds=2, model=plain_net, training=training, participation=1.0)
    server = dict(network_of(result).initial())
    for _ in range(2):
        ends = []
        for x, y in samples(result):
            module = loaded(server, plain_net)
            for _ in range(3):
                grads = torch.autograd.grad(F.cross_entropy(module(x), y), list(module.parameters()))
                stepped = {n: server[n] - 0.5 * g for (n, _), g in zip(module.named_parameters(), grads, strict=True)}
                module.load_state_dict(stepped)
            ends.append(stepped)
        server = {n: mean([e[n] for e in ends], shares(result)) for n in server}
    assert_models(result, [server] * 6)


def test_models_fine_tuned_without_the_pull_are_those_of_a_loop_over_clients():
    assert_tuning_is_a_loop(FedProx, "all")


def test_the_whole_network_travels_in_each_direction():
    assert_bytes(FedProx(mu=0.0), D, D)


@pytest.mark.parametrize(
    ("make", "message"), [(lambda: FedProx(mu=-0.1), r"mu must be a number in \[0, inf\), got -0\.1")]
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
