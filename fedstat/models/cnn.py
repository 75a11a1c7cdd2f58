"""Networks of two convolutions and two dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fedstat.models.conv_net import ConvNet
from fedstat.models.factory import Factory


def cnn(
    side: int, classes: int, *, channels: tuple[int, int] = (8, 16), hidden: int = 32, norm: bool = False
) -> Factory:
    """Build two 3x3 convolutions with ReLU and max-pooling, then two dense layers, for one-channel square images.

    The layers are ``conv1``, ``conv2``, ``hidden`` and ``head``; with `norm` the batch norms ``norm1`` and ``norm2``
    follow the convolutions.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.cnn(8, 10)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    3658
    """
    if side < 4:
        raise ValueError(f"side must be at least 4 pixels (two poolings), got {side}.")
    return partial(CNN, side, classes, channels, hidden, norm)


def two_conv(
    classes: int,
    *,
    channels: int = 1,
    side: int = 28,
    widths: tuple[int, int] = (32, 64),
    hidden: int = 512,
    padding: int = 0,
) -> Factory:
    """Build two 5x5 convolutions, each with ReLU and max-pooling, then two dense layers, for square images.

    The layers are ``conv1``, ``conv2``, ``hidden`` and ``head``. On 28 x 28 grey images and for 10 classes the defaults
    make 582,026 weights. The FedFac paper's network for FEMNIST has two convolutions and two dense layers of sizes that
    it does not state; ours has ``hidden=2048`` and ``padding=2``, which for 62 classes make 6,603,710.

    Parameters
    ----------
    classes : int
        Outputs.
    channels, side : int
        Channels and width of the images.
    widths : pair of int
        Channels of the two convolutions.
    hidden : int
        Units of the dense layer below the head.
    padding : int
        Pixels added around; 2 keeps a convolution's output as large as its input.

    Raises
    ------
    ValueError
        If nothing is left of the images after the second pooling.

    Examples
    --------
    >>> import fedstat as fs
    >>> network = fs.models.two_conv(10)()
    >>> sum(leaf.numel() for leaf in network.parameters())
    582026
    """
    left = _pooled(_pooled(side, padding), padding)
    if left < 1:
        raise ValueError(f"side must leave at least 1 pixel after two 5x5 convolutions and poolings, got {side}.")
    return partial(TwoConv, classes, channels=channels, left=left, widths=widths, hidden=hidden, padding=padding)


class CNN(ConvNet):
    """See `cnn`."""

    def __init__(self, side: int, classes: int, channels: Sequence[int], hidden: int, norm: bool) -> None:
        flat = channels[1] * (side // 4) ** 2
        super().__init__(1, [[width] for width in channels], flat, [hidden], classes, norm=norm)


class TwoConv(ConvNet):
    """See `two_conv`; `left` is the width of the images that reach the dense layers."""

    def __init__(
        self, classes: int, *, channels: int, left: int, widths: Sequence[int], hidden: int, padding: int
    ) -> None:
        stages, flat = [[width] for width in widths], widths[1] * left**2
        super().__init__(channels, stages, flat, [hidden], classes, kernel=5, padding=padding)


def _pooled(side: int, padding: int) -> int:
    """Return the width after a 5x5 convolution and the pooling."""
    return (side + 2 * padding - 4) // 2
