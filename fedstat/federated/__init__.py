"""The algorithm of federated learning: methods, the round loop, runs and their results."""

from fedstat.federated import aggregators, attacks, attendance, compression, mechanisms, metrics, server
from fedstat.federated.client import schedules
from fedstat.federated.client.local import Batch, ClientData, Context, Learner, Phase, Training
from fedstat.federated.client.network import Network, build, parameterize
from fedstat.federated.client.optimizers import SGD, Adam, AdamW, Optimizer
from fedstat.federated.codec import Bits, Message, Selected, Sparse
from fedstat.federated.describe import Description, describe
from fedstat.federated.engine.executor import Executor, PerClient, Stacked
from fedstat.federated.engine.ray import RayExecutor
from fedstat.federated.extension import extend
from fedstat.federated.federate import federate, rounds
from fedstat.federated.method import Method, stack
from fedstat.federated.newcomers import newcomers
from fedstat.federated.patience import Patience
from fedstat.federated.record.checkpoints import Terminated
from fedstat.federated.record.result import Result, load
from fedstat.federated.rounds import Round
from fedstat.federated.slots import in_slot, share_all_but, slot, without_slots
from fedstat.federated.state import Federation, Predictor, State, Update
from fedstat.federated.store import ClientStore

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Batch",
    "Bits",
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
    "Update",
    "aggregators",
    "attacks",
    "attendance",
    "build",
    "compression",
    "describe",
    "extend",
    "federate",
    "in_slot",
    "load",
    "mechanisms",
    "metrics",
    "newcomers",
    "parameterize",
    "rounds",
    "schedules",
    "server",
    "share_all_but",
    "slot",
    "stack",
    "without_slots",
]
