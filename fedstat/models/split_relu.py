"""The network of FedSplit's theory."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from fedstat.models.factory import Factory


def split_relu(inputs: int, *, personal: int, shared: int, antisymmetric: bool = False) -> Factory:
    """Build the two-layer ReLU network of FedSplit's theory, its model (4).

    It has one layer ``hidden`` without bias, whose rows are drawn from N(0, I); the first `personal` units are scaled
    by ``1 / sqrt(personal)``, the `shared` others by ``1 / sqrt(shared)``. Output weights are fixed, +1 and -1 in turn.
    With `antisymmetric` each unit with +1 starts equal to the next one with -1, so that the output starts at zero; both
    counts must then be even.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.split_relu(10, personal=5, shared=7)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    132
    """
    if min(personal, shared) < 0 or personal + shared < 1:
        raise ValueError(f"personal and shared must not be negative nor both zero, got {personal} and {shared}.")
    if antisymmetric and (personal % 2 or shared % 2):
        raise ValueError(f"an antisymmetric start needs even counts of units, got {personal} and {shared}.")
    return partial(SplitRelu, inputs, personal, shared, antisymmetric)


class SplitRelu(nn.Module):
    """See `split_relu`."""

    def __init__(self, inputs: int, personal: int, shared: int, antisymmetric: bool) -> None:
        super().__init__()
        units = personal + shared
        self.hidden = nn.Linear(inputs, units, bias=False)
        weight = torch.randn(units, inputs)
        if antisymmetric:
            weight[1::2] = weight[::2]
        self.hidden.weight = nn.Parameter(weight)
        scale = torch.cat([torch.full((n,), n**-0.5) for n in (personal, shared) if n])
        scale[1::2] *= -1
        self.output = nn.Parameter(scale, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., inputs) to (..., 1)."""
        return (torch.relu(self.hidden(x)) @ self.output).unsqueeze(-1)
