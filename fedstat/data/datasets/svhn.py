"""SVHN, cropped: photographed house numbers (Netzer and others 2011); the extra part is not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedstat.data.datasets.archive import content
from fedstat.data.datasets.base import Dataset, Source, check_labels
from fedstat.data.datasets.mat import read_mat

_FILES = ("train_32x32.mat", "test_32x32.mat")
_CLASSES = tuple("0123456789")
_BYTES = 1 << 28


def _find(folder: Path) -> list[Path]:
    found = [folder / name for name in _FILES if (folder / name).is_file()]
    return found if len(found) == len(_FILES) else []


def _read(folder: Path) -> Dataset:
    x, y = zip(*map(_part, _find(folder)), strict=True)
    test = np.repeat([False, True], [len(labels) for labels in y])
    return Dataset("svhn", np.concatenate(x), np.concatenate(y), _CLASSES, test)


def _part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return images (N, 3, 32, 32) and labels (N,) of one file, in which the digit 0 has the label 10."""
    variables = read_mat(content(path, _BYTES), str(path), _BYTES)
    x, y = variables.get("X"), variables.get("y")
    if x is None or x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
        raise ValueError(f"{path} should hold X, bytes of shape (32, 32, 3, N).")
    if y is None or y.shape != (x.shape[3], 1) or not np.isin(y, np.arange(1, 11)).all():
        raise ValueError(f"{path} should hold y, labels from 1 to 10 of shape ({x.shape[3]}, 1).")
    labels = y[:, 0].astype(np.int64) % 10
    return x.transpose(3, 2, 0, 1).copy(), check_labels(path, labels, _CLASSES, len(labels))


SOURCE = Source(
    name="svhn",
    about="99,289 photographed house numbers, 32x32 in colour, 10 classes",
    folder="svhn",
    find=_find,
    read=_read,
    note="For non-commercial use.",
)
