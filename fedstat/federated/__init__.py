"""The engine: stacked clients, local training, the round loop, results."""

from fedstat.federated.checkpoints import Terminated
from fedstat.federated.codec import Bits, Message, Selected, Sparse
from fedstat.federated.describe import Description, describe
from fedstat.federated.executor import Executor, PerClient, Stacked
from fedstat.federated.extension import extend
from fedstat.federated.federate import federate
from fedstat.federated.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.method import (
    Federation,
    Method,
    Predictor,
    State,
    Update,
    in_slot,
    share_all_but,
    slot,
    stack,
    without_slots,
)
from fedstat.federated.network import Network, build, parameterize
from fedstat.federated.newcomers import newcomers
from fedstat.federated.optimizers import SGD, Adam, AdamW, Optimizer
from fedstat.federated.patience import Patience
from fedstat.federated.ray import RayExecutor
from fedstat.federated.result import Result, load
from fedstat.federated.rounds import Round, rounds
from fedstat.federated.store import ClientStore
from fedstat.federated.tuned import Check, Tuning
from fedstat.federated.tuning import tune

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Batch",
    "Bits",
    "Check",
    "ClientData",
    "ClientStore",
    "Context",
    "Description",
    "Executor",
    "Federation",
    "Learner",
    "Message",
    "Method",
    "Network",
    "Optimizer",
    "Patience",
    "PerClient",
    "Phase",
    "Predictor",
    "RayExecutor",
    "Result",
    "Round",
    "Selected",
    "Sparse",
    "Stacked",
    "State",
    "Terminated",
    "Training",
    "Tuning",
    "Update",
    "build",
    "describe",
    "extend",
    "federate",
    "in_slot",
    "load",
    "newcomers",
    "parameterize",
    "rounds",
    "share_all_but",
    "slot",
    "stack",
    "tune",
    "without_slots",
]
