"""Residual networks of basic blocks, for small images: ResNet-8, -10 and -18."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from fedstat.models.channel_axis import ChannelAxis
from fedstat.models.factory import Factory

#: Channels of a network's stages; every stage but the first halves the image.
_WIDTHS = (64, 128, 256, 512)


def resnet8(classes: int, *, channels: int = 3) -> Factory:
    """Build FedDecomp's network for CIFAR-10: a 7x7 stem with pooling, then one block of 64, 128 and 256 channels each.

    The layers are ``stem.conv``, ``stage1.block1.conv1``, ``stage1.block1.conv2``, ..., ``stage3.block1.shortcut``
    and ``head``. The stem (stride 2, then 3x3 max-pooling with stride 2) is that of the authors' code; the
    paper only names the network. For 10 classes 1,235,274 weights train, and 2,688 statistics of batch norm go with
    them; the paper prints no count.

    Parameters
    ----------
    classes : int
        Outputs.
    channels : int
        Channels of the images, which may have any width.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.resnet8(10)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    1235274
    """
    return partial(ResNet, classes, channels=channels, blocks=(1, 1, 1), stem=7)


def resnet10(classes: int, *, channels: int = 3) -> Factory:
    """Build FedDecomp's network for CIFAR-100 and Tiny ImageNet: `resnet8` with a fourth stage, of 512 channels.

    For 100 classes 4,957,092 weights train, and 5,760 statistics go with them.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.resnet10(100)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    4957092
    """
    return partial(ResNet, classes, channels=channels, blocks=(1, 1, 1, 1), stem=7)


def resnet18(classes: int, *, channels: int = 3) -> Factory:
    """Build ResNet-18 for small images: a 3x3 stem without pooling, then two blocks in each of four stages.

    The FedFac paper's network for CIFAR-10, in its usual form for that data set: the paper leaves the details to an
    appendix. It counts convolutions from 1, shortcuts left out, so its layers 16 and 17 are ``stage4.block2.conv1``
    and ``stage4.block2.conv2``. For 10 classes 11,173,962 weights train, and 9,600 statistics of batch norm go with
    them.

    Parameters
    ----------
    classes : int
        Outputs.
    channels : int
        Channels of the images, which may have any width.

    References
    ----------
    He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.resnet18(10)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    11173962
    """
    return partial(ResNet, classes, channels=channels, blocks=(2, 2, 2, 2), stem=3)


class ResNet(nn.Sequential):
    """See `resnet18`; `blocks` counts the blocks of each stage, and a `stem` of 7 pixels halves the image twice."""

    def __init__(self, classes: int, *, channels: int, blocks: Sequence[int], stem: int) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict(image=ChannelAxis(), stem=_stem(channels, stem))
        width = 64
        for i, (wider, count) in enumerate(zip(_WIDTHS, blocks, strict=False), start=1):
            stage = [Block(width, wider, stride=1 if i == 1 else 2)]
            stage += [Block(wider, wider, stride=1) for _ in range(count - 1)]
            layers[f"stage{i}"] = nn.Sequential(OrderedDict((f"block{j}", b) for j, b in enumerate(stage, start=1)))
            width = wider
        layers["pool"] = PixelMean()
        layers["head"] = nn.Linear(width, classes)
        super().__init__(layers)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


class Block(nn.Module):
    """Basic block of two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where shapes change.

    Of its layers the shortcut comes first, so that the layer just below the head is a second convolution.
    """

    def __init__(self, width: int, wider: int, stride: int) -> None:
        super().__init__()
        self.shortcut: nn.Module = nn.Identity()
        self.shortcut_norm: nn.Module = nn.Identity()
        if width != wider:
            self.shortcut = nn.Conv2d(width, wider, 1, stride, bias=False)
            self.shortcut_norm = nn.BatchNorm2d(wider)
        self.conv1 = nn.Conv2d(width, wider, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(wider)
        self.conv2 = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(wider)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, width, H, W) to (B, wider, H / stride, W / stride)."""
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(inner + self.shortcut_norm(self.shortcut(x)))


class PixelMean(nn.Module):
    """The mean over all pixels, since torch's pooling to one pixel cannot run stacked in every memory layout."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, C)."""
        return x.mean((-2, -1))


def _stem(channels: int, kernel: int) -> nn.Sequential:
    large = kernel == 7
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=nn.Conv2d(channels, 64, kernel, stride=2 if large else 1, padding=kernel // 2, bias=False),
        norm=nn.BatchNorm2d(64),
        relu=nn.ReLU(),
    )
    if large:
        layers["pool"] = nn.MaxPool2d(3, stride=2, padding=1)
    return nn.Sequential(layers)
