"""FedPer: limits, a plain loop, bytes, new clients."""

import numpy as np
import pytest
from torch.nn import functional as F

from fedstat.methods import FedAvg, FedFac, FedPer, Local
from fedstat.testing import check_method
from tests.support.clients import all_samples, vector_clients
from tests.support.laws import ALL_BUT_LIMITS
from tests.support.layers import (
    FADED,
    HEAD,
    LAYERS,
    D,
    assert_bytes,
    assert_new_clients_train,
    assert_two_rounds_are_a_loop,
    descend,
    floats,
    loaded,
    newcomers,
    of_head,
)
from tests.support.networks import Norms, leaves_of
from tests.support.runs import assert_close, equal, reference, run


def test_private_layers_range_from_fedavg_to_local_in_the_laws(examples):
    limits = {"all_shared": FedPer(layers=()), "all_personal": FedPer(layers=["hidden", "head"])}
    check_method(FedPer(), **limits, except_for=ALL_BUT_LIMITS, examples=examples)


@pytest.mark.parametrize(
    ("ours", "other"),
    [(FedPer(layers=()), FedAvg()), (FedPer(layers=LAYERS), Local()), (FedPer(), FedFac(layers=("head",), tau=np.inf))],
    ids=["no private layer is FedAvg", "all private layers are Local", "a private head is FedFac with an infinite cut"],
)
def test_a_limit_case_is_another_method_bit_for_bit(ours, other):
    equal(reference(ours), reference(other), atol=0)


def test_two_rounds_are_those_of_a_loop_over_clients():
    assert_two_rounds_are_a_loop(FedPer(), of_head)


def test_all_but_the_head_travels_in_each_direction():
    assert_bytes(FedPer(), D - floats("head"), D - floats("head"))


def test_new_clients_train_the_head_alone():
    assert_new_clients_train(FedPer(), set(HEAD))


def test_new_clients_train_at_the_rate_of_the_configuration_whatever_rounds_made_of_it():
    models, result, federation = newcomers(FedPer(), FADED)
    for k, (x, y) in enumerate(all_samples(federation.clients)):
        module = loaded(result.states["it", 0].server)
        descend(module, lambda m=module, x=x, y=y: F.cross_entropy(m(x), y), FADED.local_epochs, of_head)
        assert_close({n: models["personal"].params[n][k] for n in HEAD}, {n: leaves_of(module)[n] for n in HEAD})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedPer(layers="head"), r"layers must be a sequence .* got 'head'"),
        (lambda: run(FedPer(layers=["tail"])), r"network, conv1, conv2, hidden, head; got \['tail'\]"),
        (lambda: run(FedPer(), model=Norms, clients=vector_clients()), "needs a dense layer"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
