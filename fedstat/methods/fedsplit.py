"""FedSplit: it is given which hidden units clients share and which they keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.state import Federation, Predictor, State
from fedstat.federated.store import ClientStore
from fedstat.methods.ensemble import ensemble
from fedstat.methods.units import share_units

SharedUnits = Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class FedSplit(Method):
    """The server averages shared units only; which units are shared is given.

    Clients train all their weights jointly; the server moves shared units by the mean change, and personal units
    stay with the client. A unit is an output neuron or channel of a layer with its incoming weights and bias, and
    what a norm layer after it holds for it (FedSplit/FedFac paper, section 3.2, parallel gradient descent on
    objective (5)).

    Parameters
    ----------
    shared_units : mapping of layer name to bool array, or callable
        True where a unit is shared, shape (units,) or (K, units); everybody shares layers that are not named. A
        callable receives the `Federation` and returns such a mapping (an oracle reads the truth there).
    independent : bool
        Whether each client's personal units are drawn anew, as the paper's theory has it, instead of all clients
        starting alike. This needs a function that builds the network: a module instance has one set of weights.
    weighting : {"samples", "uniform"}
        See `Method`; by default participants count alike, as in the paper.
    server, aggregator, compression, mechanism
        See `Method`; the server's step is the paper's eta_g.

    Notes
    -----
    Shared units travel both ways. A new client trains its personal units alone ("personal"), or takes the mean of
    all clients' predicted probabilities ("ensemble"); where clients share different units only the ensemble is offered.

    The paper's network, its model (4), is `fedstat.models.split_relu`. Its gradients average over a client's n samples,
    as ours do, but the accumulated updates that its Theorem 1 speaks of do not: the theorem's eta_l is our ``lr / n``.

    The authors' code: none runs with given shared units; see `FedFac`, which finds them.

    Examples
    --------
    >>> import fedstat as fs
    >>> method = fs.FedSplit(shared_units={"hidden": [True, True, False]})
    >>> table = fs.describe(method, fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'server 8, client 4', 'hidden.bias': 'server 2, client 1', 'head.weight': 'server',
     'head.bias': 'server'}
    """

    shared_units: SharedUnits | Callable[[Federation], SharedUnits]
    independent: bool = False
    weighting: Literal["samples", "uniform"] = "uniform"

    example = {"shared_units": {"hidden": np.array([True, False, True, False, True])}}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share the given units, and every layer that is not named."""
        given = self.shared_units(federation) if callable(self.shared_units) else self.shared_units
        return share_units(network, given, len(federation.clients))

    def init(self, network: Network, federation: Federation) -> State:
        """Start as every method does; if `independent`, draw each client's personal units anew."""
        state = super().init(network, federation)
        if not (self.independent and state.clients):
            return state
        fresh, shared = federation.fresh(), state.shared
        clients = {
            name: torch.where(shared[name], leaf.to(fresh[name].device), fresh[name])
            for name, leaf in state.clients.items()
        }
        return replace(state, clients=ClientStore.of(clients))

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Train the personal units alone (LocalTrain); and offer the ensemble of all clients' models, untrained."""
        if not state.clients:
            return super().newcomer(state, ids, start, federation)
        everybody = {"ensemble": ensemble(self, state, len(ids))}
        common = all(mask.shape[0] == 1 for mask in state.shared.values())
        return super().newcomer(state, ids, start, federation) | everybody if common else everybody
