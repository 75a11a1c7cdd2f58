"""Runs on a real Ray cluster of two workers: the bits of this process, whoever is killed."""

import os
import warnings

import pytest
import torch

import fedstat as fs
from tests.support.networks import conv_net
from tests.support.runs import run

ray = pytest.importorskip("ray")

METHODS = {
    "fedavg": fs.FedAvg(),
    "ditto": fs.methods.Ditto(),
    "fedfac": fs.FedFac(layers=["hidden"], kappa=0.5, dynamic=True),
    "fedamp": fs.methods.FedAMP(),
    "fedrod": fs.methods.FedRoD(),  # prepares and finishes
}
pytestmark = pytest.mark.filterwarnings("ignore::fedstat.factor.IdentificationWarning")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two workers on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with warnings.catch_warnings():
        # Ray leaves its log files and sockets to the garbage collector, and says what its next version will do
        warnings.filterwarnings("ignore", category=ResourceWarning)
        warnings.filterwarnings("ignore", category=FutureWarning, module="ray")
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=2**28, log_to_driver=False)
        yield
        ray.shutdown()


def assert_same_bits(here, there):
    assert here.history.equals(there.history)
    assert here.traffic.equals(there.traffic)
    assert here.config == there.config
    for key, state in here.states.items():
        other = there.states[key]
        for name, leaf in state.server.items():
            assert torch.equal(leaf, other.server[name]), (key, name)
        assert state.clients.versions == other.clients.versions if state.clients else not other.clients


@pytest.mark.parametrize("local", ["stacked", "per-client"])
@pytest.mark.parametrize("name", METHODS)
def test_bits_are_those_of_this_process(name, local):
    # chunks of two cut the three participants; batch norm amplifies whatever rounds otherwise
    options = {"rounds": 2, "model": conv_net, "dtype": "float32", "chunk": 2, "trained": True}
    here = run(METHODS[name], executor=local, **options)
    there = run(METHODS[name], executor=fs.RayExecutor(local=local), **options)
    assert_same_bits(here, there)
