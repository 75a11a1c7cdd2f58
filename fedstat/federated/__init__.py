"""The engine: stacked clients, local training, the round loop, results."""

from fedstat.federated.federate import federate
from fedstat.federated.method import Method, Population, State, Update
from fedstat.federated.network import Network, build
from fedstat.federated.result import Result, load
from fedstat.federated.training import Training

__all__ = [
    "Method",
    "Network",
    "Population",
    "Result",
    "State",
    "Training",
    "Update",
    "build",
    "federate",
    "load",
]
