"""What studies of real images have in common: the images, a small network, and how they are dealt to clients."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import nn

import fedstat as fs
from fedstat.data import datasets
from fedstat.models import Factory


@functools.cache
def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the images of a data set as float32 (N, channels, side, side), standardised by channel, labels and test.

    Parameters
    ----------
    name : str
        As `fedstat.data.datasets.read` takes it.

    Returns
    -------
    x, y, test : ndarray
        `test` is true for samples of the official test part.

    Raises
    ------
    FileNotFoundError
        If the files are missing; the command that fetches them is named.
    """
    found = datasets.read(name)
    x = found.x.astype(np.float32)
    x = x[:, None] if x.ndim == 3 else x
    mean, sd = (f(x, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.std))
    return (x - mean) / sd, found.y, found.test


@functools.cache
def halved(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images averaged over squares of 2 x 2 pixels, their labels, and which belong to the official test part."""
    x, y, test = images(name)
    n, channels, side, _ = x.shape
    return x.reshape(n, channels, side // 2, 2, side // 2, 2).mean((3, 5)), y, test


class SmallCNN(nn.Sequential):
    """Two 5x5 convolutions with stride 2, a pooling and two dense layers: conv1, conv2, hidden and head."""

    def __init__(self, channels: int, side: int, classes: int, widths: Sequence[int], hidden: int, norm: bool) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i, (c_in, c_out) in enumerate(zip((channels, *widths), widths, strict=False), start=1):
            layers[f"conv{i}"] = nn.Conv2d(c_in, c_out, 5, stride=2, padding=2)
            if norm:
                layers[f"norm{i}"] = nn.BatchNorm2d(c_out)
            layers[f"relu{i}"] = nn.ReLU()
            side = -(-side // 2)
        layers["pool"] = nn.MaxPool2d(2)
        layers["flatten"] = nn.Flatten()
        layers["hidden"] = nn.Linear(widths[-1] * (side // 2) ** 2, hidden)
        layers["relu3"] = nn.ReLU()
        layers["head"] = nn.Linear(hidden, classes)
        super().__init__(layers)


def small_cnn(
    x: np.ndarray, classes: int = 10, *, widths: Sequence[int] = (8, 16), hidden: int = 64, norm: bool = False
) -> Factory:
    """Build the small network for images of this shape; with `norm` batch norms follow the convolutions.

    On 32 x 32 colour images the defaults make 21 thousand weights and .65 million multiplications a sample.
    """
    return partial(SmallCNN, x.shape[1], x.shape[2], classes, tuple(widths), hidden, norm)


def dealt(
    x: np.ndarray, y: np.ndarray, parts: fs.data.Partition | Sequence[np.ndarray], *, seed: int
) -> fs.data.Clients:
    """Deal images to clients, of whose samples a fifth are test samples and a fifth of the rest validation samples."""
    with warnings.catch_warnings():  # skewed labels are the point of these partitions
        warnings.filterwarnings("ignore", message=".*majority class above 95%.*")
        return fs.data.from_indices(x, y, parts, test=0.2, validation=0.2, seed=seed)
