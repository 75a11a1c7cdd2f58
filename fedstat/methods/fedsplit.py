"""FedSplit: a given split of hidden units into shared and personal ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedstat.federated.method import Method, Population, State
from fedstat.federated.network import Network, Params
from fedstat.methods.units import share_units

Split = Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class FedSplit(Method):
    """Only shared units are averaged (FedSplit/FedFac paper, section 3.2).

    Clients train all their weights jointly; the server moves shared units by the mean change, personal units
    stay with the client. A unit is an output neuron or channel of a layer with its incoming weights and bias.

    Parameters
    ----------
    split : mapping of layer name to bool array, or callable
        True where a unit is shared, shape (units,) or (K, units); layers not named are shared. A callable
        receives the `Population` and returns such a mapping (an oracle reads the truth there).
    independent : bool
        Draw each client's personal units anew instead of starting all clients alike, as the paper's theory has
        it (together with ``weighting="uniform"``). Needs a function that builds the network: a module instance
        has one set of weights.
    weighting, server_lr
        See `Method`.
    """

    split: Split | Callable[[Population], Split]
    independent: bool = False

    def shared(self, network: Network, population: Population) -> Params:
        """Leaf masks of the given split."""
        split = self.split(population) if callable(self.split) else self.split
        return share_units(network, split, len(population.clients))

    def init(self, network: Network, population: Population) -> State:
        """Start as every method does; with ``independent``, personal rows are drawn for each client."""
        state = super().init(network, population)
        if not self.independent or state.clients is None or state.shared is None:
            return state
        fresh, shared = population.fresh(), state.shared
        clients = {name: torch.where(shared[name], leaf, fresh[name]) for name, leaf in state.clients.items()}
        return replace(state, clients=clients)
