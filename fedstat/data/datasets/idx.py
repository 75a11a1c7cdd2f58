"""Read the idx format of MNIST and its kin: for each part one file of images and one of labels, gzipped or plain."""

from __future__ import annotations

import gzip
import io
import math
from pathlib import Path

import numpy as np

from fedstat.data.datasets.archive import MEMBER_BYTES, blaming, content, read_at_most
from fedstat.data.datasets.base import Dataset, check_labels


def read_idx(raw: bytes, name: str) -> np.ndarray:
    """Return the array of unsigned bytes in an idx file, gzipped or plain; errors blame the file `name`.

    At most the bytes that the header announces are unpacked, and at most `MEMBER_BYTES`; fewer or more are an error.
    """
    with blaming(name):
        file = io.BytesIO(raw)
        stream = gzip.GzipFile(fileobj=file) if raw[:2] == b"\x1f\x8b" else file
        head = stream.read(4)
        dimensions = head[3] if len(head) == 4 and head[:3] == b"\x00\x00\x08" else 0
        shape = tuple(np.frombuffer(stream.read(4 * dimensions), ">u4").tolist())
        size = math.prod(shape) if 1 <= dimensions == len(shape) <= 4 else -1
        values = read_at_most(stream.read, size + 1) if 0 <= size <= MEMBER_BYTES else b""
    if len(values) != size:
        raise ValueError(f"{name} is no idx file of unsigned bytes, or has not as many bytes as it announces.")
    return np.frombuffer(values, np.uint8).reshape(shape)


def find_idx(folder: Path, stems: tuple[str, str] = ("train", "t10k")) -> list[Path]:
    """Return the four files of training and test images and labels, or no file if one of them is missing."""
    found: list[Path] = []
    for part in stems:
        for kind in ("images{}idx3-ubyte", "labels{}idx1-ubyte"):
            names = [f"{part}-{kind.format(separator)}{packed}" for separator in "-." for packed in (".gz", "")]
            found += [folder / name for name in names if (folder / name).is_file()][:1]
    return found if len(found) == 4 else []


def idx_dataset(name: str, files: list[tuple[str, bytes]], classes: tuple[str, ...], first: int = 0) -> Dataset:
    """Put four files, as name and content, together: 28x28 images and labels to train on, then those to test on.

    `first` is the label of the first class.
    """
    x, y = [], []
    for (images_name, images_raw), (labels_name, labels_raw) in zip(files[::2], files[1::2], strict=True):
        images, labels = read_idx(images_raw, images_name), read_idx(labels_raw, labels_name)
        if images.shape[1:] != (28, 28):
            raise ValueError(f"{images_name} should hold images of 28x28 pixels, got shape {images.shape}.")
        if labels.shape != images.shape[:1]:  # checked before each label grows to eight bytes
            raise ValueError(f"{labels_name} should hold labels of {len(images):,} images, got shape {labels.shape}.")
        x.append(images)
        y.append(check_labels(labels_name, labels.astype(np.int64) - first, classes, len(images)))
    test = np.repeat([False, True], [len(labels) for labels in y])
    return Dataset(name, np.concatenate(x), np.concatenate(y), classes, test)


def idx_folder(name: str, folder: Path, classes: tuple[str, ...]) -> Dataset:
    """Read the four files that `find_idx` finds."""
    return idx_dataset(name, [(str(path), content(path)) for path in find_idx(folder)], classes)
