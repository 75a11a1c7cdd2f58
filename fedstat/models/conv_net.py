"""The plain convolutional network: stages of convolutions, each ended by a pooling, then dense layers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from fedstat.models.channel_axis import ChannelAxis
from fedstat.models.mlp import dense_layers


class ConvNet(nn.Sequential):
    """A network of convolutions and dense layers, with ReLU after each but the head.

    Its layers are ``image``, ``conv1``, ``norm1`` (with `norm`), ``relu1``, ..., ``pool1`` after the first stage, ...,
    ``flatten``, ``hidden`` (or ``hidden1``, ...) and ``head``. A stage lists the channels of its convolutions; `flat`
    numbers reach the dense layers, of which `dense` has the units of those below the head, if any.
    """

    def __init__(
        self,
        channels: int,
        stages: Sequence[Sequence[int]],
        flat: int,
        dense: Sequence[int],
        classes: int,
        *,
        kernel: int = 3,
        padding: int = 1,
        norm: bool = False,
    ) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict(image=ChannelAxis())
        depth, width = 0, channels
        for stage, widths in enumerate(stages, start=1):
            for wider in widths:
                depth += 1
                layers[f"conv{depth}"] = nn.Conv2d(width, wider, kernel, padding=padding)
                if norm:
                    layers[f"norm{depth}"] = nn.BatchNorm2d(wider)
                layers[f"relu{depth}"] = nn.ReLU()
                width = wider
            layers[f"pool{stage}"] = nn.MaxPool2d(2)
        super().__init__(layers | dense_layers(flat, *dense, classes, below=depth))
