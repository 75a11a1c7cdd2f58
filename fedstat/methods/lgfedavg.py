"""LG-FedAvg: lower layers stay with the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation, Predictor, State
from fedstat.methods.ensemble import ensemble


@dataclass(frozen=True, kw_only=True)
class LGFedAvg(Method):
    """Clients keep the lower layers, their representation, and share the upper ones.

    All weights are trained together; the server averages the upper layers only (Liang et al. 2020, Algorithm 1).

    Parameters
    ----------
    top : int
        Number of weight layers, from the output down, that are shared. A norm layer does not count, it goes with the
        layer before (2: the last two dense layers of the original's networks). The FedFac paper tunes `top` from 1 to
        all layers but one.
    weighting : {"samples", "uniform"}
        See `Method`; by default participants count alike, as in the original.
    server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If `top` is no count, or exceeds the number of layers.

    Notes
    -----
    Upper layers travel up and down. A new client, for which nobody has a representation, averages the outputs (the
    logits) of all clients' models; where all layers are shared it gets the global model.

    A layer is a part of the network that holds weights, together with the norm layer after it.

    The authors' code: on colour images it shares the convolutions, contrary to the paper, which we follow. It starts
    from a model that FedAvg has trained, and reports the models that were best on the test samples; we start from
    common random weights and choose no model, so that budgets and estimates compare.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.LGFedAvg(top=1), fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'client', 'hidden.bias': 'client', 'head.weight': 'server', 'head.bias': 'server'}
    """

    top: int = 2
    weighting: Literal["samples", "uniform"] = "uniform"

    label = "LG-FedAvg"
    example = {"top": 1}
    _ranges = {"top": 0}

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share the upper layers."""
        layers = list(network.layers.values())
        if self.top > len(layers):
            raise ValueError(f"top must be at most {len(layers)}, the network's number of layers, got {self.top}.")
        return share_all_but(network, [leaf for leaves in layers[: len(layers) - self.top] for leaf in leaves])

    def newcomer(self, state: State, ids: Tensor, start: Params, federation: Federation) -> dict[str, Predictor]:
        """Average the outputs of all clients' models."""
        if not state.clients:
            return super().newcomer(state, ids, start, federation)
        return {"ensemble": ensemble(self, state, len(ids), of="outputs")}
