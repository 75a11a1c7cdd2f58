"""FedBN: batch norm stays with the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedstat.federated.client.network import Network, Params
from fedstat.federated.method import Method
from fedstat.federated.slots import share_all_but
from fedstat.federated.state import Federation


@dataclass(frozen=True, kw_only=True)
class FedBN(Method):
    """Clients share everything but batch norm.

    Scale, shift, running mean and running variance of every batch norm stay with the client; all other weights are
    averaged (Li et al. 2021, Algorithm 1).

    Parameters
    ----------
    weighting : {"samples", "uniform"}
        See `Method`; by default participants count alike, as in the original's code.
    server, aggregator, compression, mechanism
        See `Method`.

    Notes
    -----
    All leaves but those of batch norm travel up and down. A new client receives them and, from the common start, trains
    scale and shift alone for one round's epochs; its statistics are then those of all its training samples. Without
    batch norm the method is `FedAvg` with uniform weights.

    The method knows batch norm by its type, not by its name; clients share layer and group norm, which keep no
    statistics.

    The authors' code: it takes one over the number of clients as weights, which is our default; it knows batch norm by
    its name, and so misses one that is named otherwise.

    Examples
    --------
    Batch norm stays with the clients:

    >>> import fedstat as fs
    >>> network = fs.models.cnn(8, 2, channels=(1, 1), hidden=2, norm=True)
    >>> table = fs.describe(fs.methods.FedBN(), network).table
    >>> table.set_index("leaf")["holder"].head(6).to_dict()
    {'conv1.weight': 'server', 'conv1.bias': 'server', 'norm1.weight': 'client', 'norm1.bias': 'client',
     'norm1.running_mean': 'client', 'norm1.running_var': 'client'}
    """

    weighting: Literal["samples", "uniform"] = "uniform"

    def shared(self, network: Network, federation: Federation) -> Params:
        """Share every leaf but those of batch norm."""
        return share_all_but(network, network.norm_leaves)
