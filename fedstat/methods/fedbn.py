"""FedBN: batch norm stays with the client."""

from __future__ import annotations

from dataclasses import dataclass

from fedstat.federated.method import Method, Population, only
from fedstat.federated.network import Network, Params


@dataclass(frozen=True, kw_only=True)
class FedBN(Method):
    """Clients share everything but batch norm.

    Scale, shift, running mean and running variance of every batch norm stay with the client; all other weights are
    averaged (Li et al. 2021, Algorithm 1).

    Parameters
    ----------
    weighting, server_lr
        See `Method`.

    Notes
    -----
    What is not batch norm travels up and down. A new client receives it and, from the common start, trains batch norm
    alone for one round's epochs: scale and shift by gradient, statistics by the batches. Without batch norm the
    method is `FedAvg`.

    Batch norm is known by its type, not its name; layer and group norm, which keep no statistics, are shared.
    """

    def shared(self, network: Network, population: Population) -> Params:
        """Everything but batch norm."""
        return only(network, network.norm_leaves)
