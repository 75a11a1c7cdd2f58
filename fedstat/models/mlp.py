"""The fully connected network."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from itertools import pairwise

from torch import nn

from fedstat.models.factory import Factory


def mlp(inputs: int, *widths: int) -> Factory:
    """Build a fully connected ReLU network on flattened inputs.

    ``mlp(100, 200, 1)`` has the layers ``hidden`` (200 units) and ``head`` (1 output); with more hidden layers
    they are ``hidden1``, ``hidden2``, ...

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.mlp(64, 32, 10)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    2410
    """
    if not widths or min(inputs, *widths) < 1:
        raise ValueError(f"mlp needs an input size and at least one width, all positive; got {(inputs, *widths)}.")
    return partial(MLP, inputs, *widths)


class MLP(nn.Sequential):
    """See `mlp`."""

    def __init__(self, inputs: int, *widths: int) -> None:
        super().__init__(dense_layers(inputs, *widths))


def dense_layers(inputs: int, *widths: int, below: int = 0) -> OrderedDict[str, nn.Module]:
    """Build what flattens, the hidden layers and the head; `below` counts the layers with ReLU that come before."""
    *hidden, head = pairwise((inputs, *widths))
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    for i, (fan_in, fan_out) in enumerate(hidden, start=1):
        layers["hidden" if len(hidden) == 1 else f"hidden{i}"] = nn.Linear(fan_in, fan_out)
        layers[f"relu{below + i}"] = nn.ReLU()
    layers["head"] = nn.Linear(*head)
    return layers
