"""The toy model of the filter-decomposition paper."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from fedstat.models.factory import Factory


def atom_linear(inputs: int) -> Factory:
    """Build one output without bias whose weight is the product of a coefficient and an atom, ``w = alpha D``.

    Averaging its two leaves separately is the aggregation of the filter-decomposition paper.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.atom_linear(3)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    4
    """
    return partial(AtomLinear, inputs)


class AtomLinear(nn.Module):
    """See `atom_linear`."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.randn(1))
        self.atom = nn.Parameter(torch.randn(inputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., inputs) to (..., 1)."""
        return (x @ (self.alpha * self.atom)).unsqueeze(-1)
