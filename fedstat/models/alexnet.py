"""The filter-decomposition paper's network, which it calls AlexNet."""

from __future__ import annotations

from functools import partial

from fedstat.models.conv_net import ConvNet
from fedstat.models.factory import Factory


def alexnet(classes: int, *, channels: int = 3, side: int = 32) -> Factory:
    """Build three convolutions of 64, 256 and 256 channels, then dense layers of 256 and 128 units.

    The layers are ``conv1`` to ``conv3``, ``hidden1``, ``hidden2`` and ``head``. The paper (section 6) gives the
    widths; 3x3 filters with padding 1, and ReLU and a 2x2 max-pooling after each, are our choice. On 32 x 32 colour
    images and for 10 classes that makes 1,822,602 weights, of which 1,083,018 are in the dense layers. The paper prints
    no count.

    Parameters
    ----------
    classes : int
        Outputs.
    channels, side : int
        Channels and width of the images; 64 for Tiny ImageNet.

    Raises
    ------
    ValueError
        If the images are narrower than 8 pixels.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.alexnet(10)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    1822602
    """
    if side < 8:
        raise ValueError(f"side must be at least 8 pixels (three poolings), got {side}.")
    return partial(AlexNet, classes, channels=channels, side=side)


class AlexNet(ConvNet):
    """See `alexnet`."""

    def __init__(self, classes: int, *, channels: int, side: int) -> None:
        super().__init__(channels, [[64], [256], [256]], 256 * (side // 8) ** 2, [256, 128], classes)
