"""Factorized-FL's residual network of nine layers."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from fedstat.models.channel_axis import ChannelAxis
from fedstat.models.factory import Factory


def resnet9(classes: int, *, channels: int = 3) -> Factory:
    """Build eight convolutions with batch norm and ReLU, two shortcuts, a maximum over all pixels, and a dense head.

    The layers are ``conv1.conv``, ``conv2.conv``, ``residual1.first.conv``, ``residual1.second.conv``, ``conv3.conv``,
    ``residual2.first.conv``, ``residual2.second.conv``, ``conv4.conv`` and ``head``. The paper does not describe its
    network; this is the one of the authors' code. For 10 classes it has 2,571,338 weights and 2,944 statistics of batch
    norm: 2,574,282 in all, the paper's 2.574 million.

    Parameters
    ----------
    classes : int
        Outputs.
    channels : int
        Channels of the images, which must be at least 12 pixels wide.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.resnet9(10)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    2571338
    """
    return partial(ResNet9, classes, channels=channels)


class ResNet9(nn.Module):
    """See `resnet9`."""

    def __init__(self, classes: int, *, channels: int) -> None:
        super().__init__()
        self.image = ChannelAxis()
        self.conv1 = NormedConv(channels, 64)
        self.conv2 = NormedConv(64, 128, kernel=5, stride=2)
        self.residual1 = Residual(128)
        self.conv3 = NormedConv(128, 256)
        self.pool = nn.MaxPool2d(2)
        self.residual2 = Residual(256)
        self.conv4 = NormedConv(256, 256, padding=0)
        self.head = nn.Linear(256, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (B, channels, H, W) to outputs (B, classes)."""
        x = self.residual1(self.conv2(self.conv1(self.image(x))))
        x = self.conv4(self.residual2(self.pool(self.conv3(x))))
        return self.head(x.amax((-2, -1)))


class Residual(nn.Module):
    """Two convolutions beside the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = NormedConv(width, width)
        self.second = NormedConv(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape (B, width, H, W)."""
        return x + self.second(self.first(x))


class NormedConv(nn.Module):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, width: int, wider: int, *, kernel: int = 3, stride: int = 1, padding: int | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, wider, kernel, stride, kernel // 2 if padding is None else padding, bias=False)
        self.norm = nn.BatchNorm2d(wider)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, width, H, W) to (B, wider, ...)."""
        return torch.relu(self.norm(self.conv(x)))
