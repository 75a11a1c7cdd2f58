"""The same steps as other packages, where these are installed (`benchmarks/peers.py` says how)."""

from functools import partial
from importlib.util import find_spec

import pytest

import fedstat as fs
from benchmarks.peers import BATCHES, MU, TOLERANCE, distance, fedjax_rounds, fedstat_rounds, flwr_rounds

fedjax, flwr = (
    pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed") for name in ("fedjax", "flwr")
)
FEDPROX = fs.methods.FedProx(mu=MU)


@pytest.mark.parametrize("batch_size", BATCHES.values(), ids=list(BATCHES))
@pytest.mark.parametrize(
    ("method", "peer"),
    [
        pytest.param(fs.FedAvg(), partial(fedjax_rounds, None), marks=fedjax, id="FedAvg of fedjax"),
        pytest.param(FEDPROX, partial(fedjax_rounds, MU), marks=fedjax, id="FedProx of fedjax"),
        pytest.param(fs.FedAvg(), flwr_rounds, marks=flwr, id="FedAvg of flwr"),
    ],
)
def test_the_same_model_after_every_round(method, peer, batch_size):
    for ours, theirs in zip(fedstat_rounds(method, batch_size), peer(batch_size), strict=True):
        assert distance(ours, theirs) <= TOLERANCE


@pytest.mark.parametrize("batch_size", BATCHES.values(), ids=list(BATCHES))
@pytest.mark.parametrize(
    ("method", "other"),
    [
        (fs.FedAvg(), fs.FedAvg(weighting="uniform")),
        (fs.FedAvg(), fs.methods.FedProx(mu=0.01)),
        (FEDPROX, fs.methods.FedProx(mu=1.01 * MU)),
    ],
    ids=["weights", "pull or none", "strength of the pull"],
)
def test_the_comparison_tells_another_method_apart(method, other, batch_size):
    for right, wrong in zip(fedstat_rounds(method, batch_size), fedstat_rounds(other, batch_size), strict=True):
        assert distance(right, wrong) > 1e8 * TOLERANCE
