"""FedAvg: average locally trained models."""

from __future__ import annotations

from dataclasses import dataclass

from fedstat.federated.method import Method


@dataclass(frozen=True, kw_only=True)
class FedAvg(Method):
    """Federated averaging (McMahan et al. 2017, Algorithm 1).

    Participants start from the server's weights, train locally and are averaged with weights n_k / sum n_j
    over the participants. Everybody uses the server's model. It is the base of all methods, unchanged.
    """
