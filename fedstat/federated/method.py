"""The contract of a method: hyper-parameters, and pure functions over an immutable state.

Every step has FedAvg's behaviour as its default. The round loop (`fedstat.federated.federate`) calls, in this
order, ``init`` once and then, in every round, ``receive``, local training, ``aggregate``; ``models`` says what
is evaluated. Each element of each leaf is held either by the server (shared) or by the client (personal); the
boolean tensors of `State.shared` say which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat.data import Clients
from fedstat.federated.network import Network, Params


@dataclass(frozen=True, eq=False)
class State:
    """Everything a method knows between two rounds.

    Attributes
    ----------
    server : dict of Tensor
        The shared weights, one leaf each (elements that nobody shares keep their initial value).
    clients : dict of Tensor, each (K, ...), or None
        What every client keeps; None if nothing is personal.
    shared : dict of Tensor of bool, each broadcastable to (K, ...), or None
        True where an element is shared; None means everywhere.
    memory : dict of Tensor
        What else a method remembers, e.g. a server's momentum.
    round : int
        Rounds completed.
    """

    server: Params
    clients: Params | None = None
    shared: Params | None = None
    memory: Params = field(default_factory=dict)
    round: int = 0


@dataclass(frozen=True, eq=False)
class Update:
    """What the participants of a round received and returned.

    Attributes
    ----------
    ids : Tensor of int, shape (m,)
        The participants.
    start, end : dict of Tensor, each (m, ...)
        Weights before and after local training.
    weight : Tensor, shape (m,)
        Aggregation weights, summing to one.
    rng : numpy Generator
        The server's randomness of this round.
    """

    ids: Tensor
    start: Params
    end: Params
    weight: Tensor
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Population:
    """What a method may use when it starts.

    Attributes
    ----------
    clients : Clients
        The data (a method for real use looks at nothing but sizes; an oracle looks at ``clients.truth``).
    rng : numpy Generator
        Randomness for the method's own draws.
    warmup : callable
        ``warmup(start, replicate=0)`` trains all clients, stacked (K, ...), for one round of the training
        configuration and returns their weights, still on the engine. Each replicate has its own batch orders.
    fresh : callable
        Returns K independent draws of initial weights, stacked (K, ...).
    """

    clients: Clients
    rng: np.random.Generator
    warmup: Callable[..., Params] = field(repr=False)
    fresh: Callable[[], Params] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base of all methods; as it stands it is FedAvg (McMahan et al. 2017, Algorithm 1).

    Parameters
    ----------
    weighting : {"samples", "uniform"}
        Aggregation weights p_k: proportional to the participants' training samples, or equal.
    server_lr : float
        The server's step eta_g in ``w <- w + eta_g sum_k p_k (w_k - w)``.
    """

    weighting: Literal["samples", "uniform"] = "samples"
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.weighting not in ("samples", "uniform"):
            raise ValueError(f'weighting must be "samples" or "uniform", got {self.weighting!r}.')
        if not (np.isfinite(self.server_lr) and self.server_lr > 0):
            raise ValueError(f"server_lr must be finite and positive, got {self.server_lr}.")

    def shared(self, network: Network, population: Population) -> Params | None:
        """Say who holds which element at the start: True where shared; None means all shared."""
        return None

    def init(self, network: Network, population: Population) -> State:
        """Return the state before the first round: server and clients start alike."""
        server, shared = network.initial(), self.shared(network, population)
        if shared is None:
            return State(server)
        return State(server, stack(server, len(population.clients)), shared)

    def receive(self, state: State, ids: Tensor) -> Params:
        """Return the weights that clients `ids` start from, stacked (m, ...)."""
        if state.clients is None or state.shared is None:
            return {name: leaf.expand(len(ids), *leaf.shape) for name, leaf in state.server.items()}
        shared = rows(state.shared, ids)
        return {name: torch.where(shared[name], leaf, state.clients[name][ids]) for name, leaf in state.server.items()}

    def aggregate(self, state: State, update: Update) -> State:
        """Return the state after a round: shared elements step to the mean, clients keep what they trained."""
        shared = None if state.shared is None else rows(state.shared, update.ids)
        server = step_to_mean(state.server, update, shared, self.server_lr)
        return replace(state, server=server, clients=keep(state.clients, update), round=state.round + 1)

    def models(self, state: State, ids: Tensor) -> dict[str, Params]:
        """Return what is evaluated at clients `ids`, by the name of the estimand."""
        return {"global" if state.clients is None else "personal": self.receive(state, ids)}

    def record(self, state: State) -> Mapping[str, Tensor]:
        """Return what is worth keeping of every round beside the metrics, e.g. the split of the units."""
        return {}


def on_device(state: State, device: str) -> State:
    """Move all tensors of a state."""

    def moved(params: Params) -> Params:
        return {name: leaf.to(device) for name, leaf in params.items()}

    return replace(
        state,
        server=moved(state.server),
        clients=None if state.clients is None else moved(state.clients),
        shared=None if state.shared is None else moved(state.shared),
        memory=moved(state.memory),
    )


def stack(params: Params, clients: int) -> Params:
    """Copy one set of weights to K clients."""
    return {name: leaf.expand(clients, *leaf.shape).clone() for name, leaf in params.items()}


def rows(stacked: Params, ids: Tensor) -> Params:
    """Rows `ids` of a stack whose first axis may have length one, standing for every client."""
    return {name: leaf if leaf.shape[0] == 1 else leaf[ids] for name, leaf in stacked.items()}


def keep(clients: Params | None, update: Update) -> Params | None:
    """Write the participants' trained weights into their rows; absentees keep theirs."""
    if clients is None:
        return None
    return {name: leaf.index_copy(0, update.ids, update.end[name]) for name, leaf in clients.items()}


def step_to_mean(server: Params, update: Update, shared: Params | None, server_lr: float) -> Params:
    """Move shared elements by ``server_lr`` times the weighted mean of the participants' changes.

    Where clients differ in what they share, the mean runs over those that share the element; an element that
    no participant shares stays as it is.
    """
    new = {}
    for name, leaf in server.items():
        change = update.end[name] - update.start[name]
        if shared is None:
            new[name] = leaf + server_lr * torch.tensordot(update.weight, change, dims=1)
            continue
        mask = shared[name]
        if mask.shape[0] == 1:
            mean = torch.tensordot(update.weight, change, dims=1)
        else:
            weight = update.weight.view(-1, *[1] * (change.dim() - 1)) * mask
            total = weight.sum(0)
            mean = (weight * change).sum(0) / torch.where(total > 0, total, 1)
        new[name] = torch.where(mask.any(0), leaf + server_lr * mean, leaf)
    return new
