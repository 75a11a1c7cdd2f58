"""FedPer: layers that stay with the client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedstat._checks import names
from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation


@dataclass(frozen=True, kw_only=True)
class FedPer(Method):
    """Clients share the body of the network and keep the head.

    All weights are trained together; the server averages those of the shared layers only (Arivazhagan et al. 2019).

    Parameters
    ----------
    layers : sequence of str, optional
        The private layers; by default the last dense layer alone, as in the FedFac paper. Without private layers the
        method is `FedAvg`, with all layers private it is `Local`.
    weighting, server, aggregator, compression, mechanism
        See `Method`.

    Raises
    ------
    ValueError
        If the network has no such layer or, by default, no head.

    Notes
    -----
    Shared layers travel up and down. A new client receives them and trains private layers for them, from the common
    start, for one round's epochs; the original has no rule. A norm layer belongs to the layer before it.

    The authors' code: none was found. FedRep's authors compare with the method as it is here: clients train all weights
    together, and the server averages by samples.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.describe(fs.methods.FedPer(), fs.models.mlp(4, 3, 2)).table
    >>> table.set_index("leaf")["holder"].to_dict()
    {'hidden.weight': 'server', 'hidden.bias': 'server', 'head.weight': 'client', 'head.bias': 'client'}
    """

    layers: Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers is not None:
            names("layers", self.layers)

    def private(self, network: Network) -> tuple[str, ...]:
        """Return the leaves of the private layers."""
        private = (network.head,) if self.layers is None else self.layers
        if unknown := [layer for layer in private if layer not in network.layers]:
            raise ValueError(f"layers must name layers of the network, {', '.join(network.layers)}; got {unknown}.")
        return tuple(leaf for layer in private for leaf in network.layers[layer])

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every layer but the private ones."""
        return share_all_but(network, self.private(network))
