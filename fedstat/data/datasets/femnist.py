"""FEMNIST: handwritten digits and letters by their writers, as LEAF makes it from NIST's Special Database 19."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any

import numpy as np

from fedstat.data.datasets.base import Dataset, Source, check_labels
from fedstat.data.datasets.leaf import find_leaf, read_leaf

_CLASSES = tuple(digits + ascii_uppercase + ascii_lowercase)
_SIDE = 28


def _read(folder: Path) -> Dataset:
    """Read all files, as bytes where LEAF divided bytes by 255; the background is white (255), unlike MNIST's."""
    images, y, writer, test = read_leaf(folder, _arrays)
    if not all(image.dtype == np.uint8 for image in images):
        images = [image / np.float32(255) if image.dtype == np.uint8 else image for image in images]
    return Dataset("femnist", np.concatenate(images), y, _CLASSES, test, {"writer": writer})


def _arrays(path: Path, writer: str, x: list[Any], y: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    where = f"{path}: writer {writer!r}"
    try:
        shares = np.array(x, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        shares = np.empty(0)
    if shares.shape != (len(x), _SIDE * _SIDE) or not (shares.min() >= 0 and shares.max() <= 1):
        raise ValueError(f"{where} should have images of {_SIDE * _SIDE} numbers from 0 to 1.")
    pixels = np.rint(shares * 255)
    exact = pixels.astype(np.uint8) if (pixels / 255 == shares).all() else shares.astype(np.float32)
    return exact.reshape(-1, _SIDE, _SIDE), check_labels(where, y, _CLASSES, len(x))


SOURCE = Source(
    name="femnist",
    about="handwritten digits and letters by some 3,500 writers, 28x28 grey, 62 classes",
    folder="femnist",
    find=find_leaf,
    read=_read,
    note="Made by data/femnist/preprocess.sh of github.com/TalwalkarLab/leaf; put its data/train and data/test here.",
)
