"""LG-FedAvg: limits, a plain loop, bytes, new clients."""

import pytest
import torch

from fedstat.federated.client.local import Learner
from fedstat.methods import FedAvg, FedPer, LGFedAvg, Local
from fedstat.testing import check_method
from tests.support.clients import SIDE
from tests.support.laws import ALL_BUT_LIMITS
from tests.support.layers import D, assert_bytes, assert_two_rounds_are_a_loop, floats, newcomers
from tests.support.runs import equal, reference, run


def test_shared_layers_range_from_fedavg_to_local_in_the_laws(examples):
    limits = {"all_shared": LGFedAvg(top=2, weighting="samples"), "all_personal": LGFedAvg(top=0)}
    check_method(LGFedAvg(top=1), **limits, except_for=ALL_BUT_LIMITS, examples=examples)


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (LGFedAvg(top=4), FedAvg(weighting="uniform")),
        (LGFedAvg(top=0), Local()),
        (LGFedAvg(top=3), FedPer(layers=("conv1",), weighting="uniform")),
    ],
    ids=[
        "all upper layers are uniform FedAvg",
        "no upper layer is Local",
        "upper layers shared are lower ones private",
    ],
)
def test_a_limit_case_is_another_method_bit_for_bit(ours, other):
    equal(reference(ours), reference(other), atol=0)


def test_two_rounds_are_those_of_a_loop_over_clients():
    assert_two_rounds_are_a_loop(LGFedAvg(), lambda name: name.startswith(("conv", "norm")), uniform=True)


def test_upper_layers_travel_in_each_direction():
    sent = D - floats("conv1", "norm1")
    assert_bytes(LGFedAvg(top=3), sent, sent)


def test_new_clients_of_lgfedavg_average_the_outputs_of_everybody():
    models, result, federation = newcomers(LGFedAvg(top=2))
    x = torch.randn(4, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([result.personal(k)(x) for k in range(6)]).mean(0)
    predictor = models["ensemble"]
    learner = Learner(federation.network, "cross_entropy")
    found = torch.vmap(lambda params: predictor.outputs(learner, params, x))(predictor.params)
    torch.testing.assert_close(found, expected.expand(3, -1, -1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LGFedAvg(top=-1), "top must be a whole number, at least 0, got -1"),
        (lambda: run(LGFedAvg(top=5)), "top must be at most 4, the network's number of layers, got 5"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
