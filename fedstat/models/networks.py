"""Networks as zero-argument factories: ``mlp(100, 200, 1)()`` builds a module with fresh weights."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

Factory = Callable[[], nn.Module]


def mlp(inputs: int, *widths: int) -> Factory:
    """Fully connected ReLU network on flattened inputs.

    ``mlp(100, 200, 1)`` has the layers ``hidden`` (200 units) and ``head`` (1 output); with more hidden layers
    they are ``hidden1``, ``hidden2``, ...
    """
    if not widths or min(inputs, *widths) < 1:
        raise ValueError(f"mlp needs an input size and at least one width, all positive; got {(inputs, *widths)}.")
    return partial(MLP, inputs, *widths)


def cnn(
    side: int, classes: int, *, channels: tuple[int, int] = (8, 16), hidden: int = 32, norm: bool = False
) -> Factory:
    """Two 3x3 convolutions with ReLU and max-pooling, then two dense layers, on one-channel square images.

    Layers: ``conv1``, ``conv2``, ``hidden``, ``head``; with `norm` the batch norms ``norm1`` and ``norm2`` follow the
    convolutions.
    """
    if side < 4:
        raise ValueError(f"side must be at least 4 pixels (two poolings), got {side}.")
    return partial(CNN, side, classes, channels, hidden, norm)


def atom_linear(inputs: int) -> Factory:
    """One output without bias whose weight is the product of a coefficient and an atom, ``w = alpha D``.

    The toy model of the filter-decomposition paper: averaging its two leaves separately is that paper's
    aggregation.
    """
    return partial(AtomLinear, inputs)


def split_relu(inputs: int, *, personal: int, shared: int, antisymmetric: bool = False) -> Factory:
    """The two-layer ReLU network of FedSplit's theory, its model (4).

    One layer ``hidden`` without bias, rows drawn from N(0, I); the first `personal` units are scaled by
    ``1 / sqrt(personal)``, the `shared` others by ``1 / sqrt(shared)``. Output weights are fixed, +1 and -1 in
    turn. With `antisymmetric` each unit with +1 starts equal to the next one with -1, so that the output starts at
    zero; both counts must then be even.
    """
    if min(personal, shared) < 0 or personal + shared < 1:
        raise ValueError(f"personal and shared must not be negative nor both zero, got {personal} and {shared}.")
    if antisymmetric and (personal % 2 or shared % 2):
        raise ValueError(f"an antisymmetric start needs even counts of units, got {personal} and {shared}.")
    return partial(SplitRelu, inputs, personal, shared, antisymmetric)


class MLP(nn.Sequential):
    """See `mlp`."""

    def __init__(self, inputs: int, *widths: int) -> None:
        sizes = (inputs, *widths)
        layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
        for i, (fan_in, fan_out) in enumerate(pairwise(sizes[:-1]), start=1):
            layers["hidden" if len(widths) == 2 else f"hidden{i}"] = nn.Linear(fan_in, fan_out)
            layers[f"relu{i}"] = nn.ReLU()
        layers["head"] = nn.Linear(sizes[-2], sizes[-1])
        super().__init__(layers)


class CNN(nn.Sequential):
    """See `cnn`."""

    def __init__(self, side: int, classes: int, channels: tuple[int, int], hidden: int, norm: bool) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict(image=nn.Unflatten(-2, (1, side)))
        for i, (c_in, c_out) in enumerate(pairwise((1, *channels)), start=1):
            layers[f"conv{i}"] = nn.Conv2d(c_in, c_out, 3, padding=1)
            if norm:
                layers[f"norm{i}"] = nn.BatchNorm2d(c_out)
            layers[f"relu{i}"] = nn.ReLU()
            layers[f"pool{i}"] = nn.MaxPool2d(2)
        layers["flatten"] = nn.Flatten()
        layers["hidden"] = nn.Linear(channels[1] * (side // 4) ** 2, hidden)
        layers["relu3"] = nn.ReLU()
        layers["head"] = nn.Linear(hidden, classes)
        super().__init__(layers)


class AtomLinear(nn.Module):
    """See `atom_linear`."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.randn(1))
        self.atom = nn.Parameter(torch.randn(inputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., inputs) to (..., 1)."""
        return (x @ (self.alpha * self.atom)).unsqueeze(-1)


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
