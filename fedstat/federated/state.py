"""What the steps of a method work on: the state between rounds, a round's update, the federation, and predictors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstat.data import Clients
from fedstat.federated.attendance import Attended
from fedstat.federated.client.local import Learner, Training
from fedstat.federated.client.network import Network, Params
from fedstat.federated.store import ClientStore


@dataclass(frozen=True, eq=False)
class State:
    """Everything a method knows between two rounds.

    Attributes
    ----------
    server : dict of Tensor
        The shared leaves (elements that nobody shares keep their initial value).
    clients : ClientStore
        The leaves of which clients keep something, one row per client; empty if nothing is personal.
    shared : dict of Tensor of bool, each broadcastable to (K, ...)
        True where an element is shared; everybody shares the whole of a leaf that is not named.
    memory : dict of Tensor
        What else the method remembers, such as a server's momentum.
    round : int
        The number of rounds completed.
    unsent : ClientStore
        What compression lost so far of each client's uploads, where clients send it later; else empty.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> training = fs.Training(lr=0.1)
    >>> result = fs.federate(fs.methods.FedPer(), fs.models.mlp(5, 8, 1), clients, training, rounds=3, progress=False)
    >>> state = result.states["FedPer", 0]
    >>> state.round, sorted(state.clients)
    (3, ['head.bias', 'head.weight'])
    """

    server: Params
    clients: ClientStore = field(default_factory=ClientStore.empty)
    shared: Params = field(default_factory=dict)
    memory: Params = field(default_factory=dict)
    round: int = 0
    unsent: ClientStore = field(default_factory=ClientStore.empty)


@dataclass(frozen=True, eq=False)
class Update:
    """What the participants of a round received and returned.

    Attributes
    ----------
    ids : Tensor of int, shape (m,)
        The participants: those that deliver what they trained.
    start, end : dict of Tensor, each (m, ...)
        Leaves before and after local training; `end` also holds what ``finish`` added. Under a compression
        ``aggregate`` is given an `end` with what came of the bytes.
    weight : Tensor, shape (m,)
        Aggregation weights, which sum to one.
    rng : numpy Generator
        The server's randomness of this round.
    network : Network
        The network that is trained.
    own : dict of Tensor, each (m, ...)
        Leaves as participants trained them, where `end` has what came of a compression; `fedstat.federated.method.keep`
        writes these to their rows.
    attended : Attended, optional
        Who came, as the engine knows it; by default all did all of their work.

    Examples
    --------
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> now = next(fs.rounds(fs.FedAvg(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1)))
    >>> (update,) = now.updates.values()
    >>> update.end["head.weight"].shape, update.weight.shape
    (torch.Size([4, 1, 8]), torch.Size([4]))
    """

    ids: Tensor
    start: Params
    end: Params
    weight: Tensor
    rng: np.random.Generator
    network: Network
    own: Params = field(default_factory=dict)
    attended: Attended | None = field(default=None, repr=False)

    @property
    def work(self) -> Tensor:
        """The share of its steps that each participant took, (m,), in (0, 1]."""
        shares = np.ones(1) if self.attended is None else self.attended.work
        return torch.from_numpy(shares).to(self.weight).expand_as(self.weight)

    @property
    def missing(self) -> Tensor:
        """The ids of who was asked, received and dropped out."""
        ids = np.empty(0, np.int64) if self.attended is None else self.attended.missing
        return torch.from_numpy(ids).to(self.ids.device)


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients and their data, as far as a method may use them outside local training.

    Attributes
    ----------
    clients : Clients
        The data (a method for real use looks at nothing but sizes; an oracle looks at ``clients.truth``).
    network : Network
        The network that is trained.
    training : Training
        The settings of local training.
    rng : numpy Generator
        Randomness for draws in ``init``.
    warmup : callable
        ``warmup(start, repeat=0, ids=None)`` trains all clients, stacked (K, ...), or clients `ids` (m, ...), for one
        round of the training configuration and returns their leaves, still on the engine. Each repeat has its own
        batch orders.
    fresh : callable
        ``fresh(count=K)`` returns independent draws of initial leaves, stacked (count, ...).
    train : callable
        ``train(method, start, ids, phases, round, moves=None)`` trains clients `ids` from `start` (m, ...) by the
        method's local steps, in batches of their own and without decay or schedule, and returns their leaves. `moves`
        holds masks, each broadcastable to (m, ...); an element whose mask is false stays as it is.
    statistics : callable
        ``statistics(params, ids)`` returns the running statistics of batch norm of clients `ids` from one pass over
        all their training samples, under leaves `params` (m, ...); it returns nothing without batch norm.

    Examples
    --------
    >>> import fedstat as fs
    >>> class Curious(fs.FedAvg):
    ...     def init(self, network, federation):
    ...         print(len(federation.clients.train.n), "clients")
    ...         return super().init(network, federation)
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> _ = next(fs.rounds(Curious(), fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1)))
    4 clients
    """

    clients: Clients
    network: Network
    training: Training
    rng: np.random.Generator
    warmup: Callable[..., Params] = field(repr=False)
    fresh: Callable[..., Params] = field(repr=False)
    train: Callable[..., Params] = field(repr=False)
    statistics: Callable[[Params, Tensor], Params] = field(repr=False)

    def one_round(self, method: Any, start: Params, ids: Tensor, round: int) -> Params:
        """Train clients `ids` from `start` (m, ...) in the phases that the method has in a round, as `train` does."""
        return self.train(method, start, ids, method.phases(self.network, self.training, round), round)


@dataclass(frozen=True, eq=False)
class Predictor:
    """Models of m clients: their leaves, and the function that makes outputs of one client's leaves and inputs.

    Attributes
    ----------
    params : dict of Tensor, each (m, ...)
        One row per client.
    outputs : callable
        ``outputs(learner, params, x)`` maps one client's leaves and inputs (B, ...) to outputs (B, Q): logits, or
        log-probabilities.

    Examples
    --------
    The models that a method offers for evaluation, of clients 1 and 3:

    >>> import torch
    >>> import fedstat as fs
    >>> clients = fs.data.relu_mixture(clients=4, d=5, units=8, samples=20, test=50, seed=0)
    >>> method = fs.methods.Ditto()
    >>> result = fs.federate(method, fs.models.mlp(5, 8, 1), clients, fs.Training(lr=0.1), rounds=1, progress=False)
    >>> models = method.models(result.states["Ditto", 0], torch.tensor([1, 3]))
    >>> {estimand: tuple(predictor.params["head.weight"].shape) for estimand, predictor in models.items()}
    {'personal': (2, 1, 8), 'global': (2, 1, 8)}
    """

    params: Params
    outputs: Callable[[Learner, Params, Tensor], Tensor]

    def of(self, ids: Tensor) -> Predictor:
        """Return the models of some clients in a row, by their place among the m."""
        rows = slice(int(ids[0]), int(ids[-1]) + 1)
        return replace(self, params={name: leaf[rows] for name, leaf in self.params.items()})
