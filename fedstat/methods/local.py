"""Local: every client trains alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedstat.federated.method import Method, Population
from fedstat.federated.network import Network, Params


@dataclass(frozen=True, kw_only=True)
class Local(Method):
    """Training without communication: every element is personal.

    A client trains in the rounds in which it takes part, so that its budget of local steps equals that of the
    methods it is compared with. Everybody starts from the same weights.
    """

    def shared(self, network: Network, population: Population) -> Params:
        """Nothing is shared."""
        return {
            name: torch.zeros(1, *[1] * len(shape), dtype=torch.bool, device=network.device)
            for name, shape in network.shapes.items()
        }
