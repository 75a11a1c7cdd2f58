"""CIFAR-10: 60,000 small photographs (Krizhevsky 2009), in the binary and in the python version."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fedstat.data.datasets.base import Dataset, Source
from fedstat.data.datasets.cifar import find_cifar, read_cifar

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SAMPLES = 60_000

_find = partial(
    find_cifar, unpacked={"cifar-10-binary": "cifar-10-batches-bin", "cifar-10-python": "cifar-10-batches-py"}
)


def _read(folder: Path) -> Dataset:
    """Read the first file or folder that is found; the name of a subset becomes part of the data set's name."""
    path = _find(folder)[0]
    x, labels, test = read_cifar(path, [f"data_batch_{i}" for i in range(1, 6)], "test_batch", {"labels": CLASSES})
    name = "cifar10" if len(x) == _SAMPLES else f"cifar10 ({path.name})"
    return Dataset(name, x, labels[:, 0], CLASSES, test)


SOURCE = Source(
    name="cifar10",
    about="60,000 photographs, 32x32 in colour, 10 classes",
    folder="cifar10",
    find=_find,
    read=_read,
    note="Free for research with citation.",
)
