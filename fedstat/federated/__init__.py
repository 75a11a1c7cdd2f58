"""The engine: stacked clients, local training, the round loop, results."""

from fedstat.federated.checkpoints import Terminated
from fedstat.federated.codec import Bits, Message, Part, Sparse
from fedstat.federated.describe import Description, describe
from fedstat.federated.federate import federate
from fedstat.federated.local import Batch, Context, Data, Learner, Phase, Training
from fedstat.federated.method import Method, Population, Predictor, State, Update, in_slot, only, slot, stack
from fedstat.federated.network import Network, build, parameterize
from fedstat.federated.newcomers import newcomers
from fedstat.federated.result import Result
from fedstat.federated.run_folder import load
from fedstat.federated.store import ClientStore

__all__ = [
    "Batch",
    "Bits",
    "ClientStore",
    "Context",
    "Data",
    "Description",
    "Learner",
    "Message",
    "Method",
    "Network",
    "Part",
    "Phase",
    "Population",
    "Predictor",
    "Result",
    "Sparse",
    "State",
    "Terminated",
    "Training",
    "Update",
    "build",
    "describe",
    "federate",
    "in_slot",
    "load",
    "newcomers",
    "only",
    "parameterize",
    "slot",
    "stack",
]
