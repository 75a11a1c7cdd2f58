"""Handwritten digits: scikit-learn's (always there) and MNIST (from files, where the user has them)."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's 1,797 handwritten digits: images (N, 8, 8) in [0, 1] and labels (N,)."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.images / 16).astype(np.float32), bunch.target.astype(np.int64)


def mnist_folder() -> Path | None:
    """Return ``$FEDSTAT_DATA/mnist`` if it exists, else None."""
    root = os.environ.get("FEDSTAT_DATA")
    folder = Path(root) / "mnist" if root else None
    return folder if folder is not None and folder.is_dir() else None


def mnist(folder: str | Path, *, train: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Read MNIST from idx files, gzipped or plain: images (N, 28, 28) in [0, 1] and labels (N,).

    Raises
    ------
    FileNotFoundError
        If neither form of a file is in `folder`.
    ValueError
        If a file is truncated or no idx file of the expected kind.
    """
    stem = "train" if train else "t10k"
    images = _read_idx(Path(folder), f"{stem}-images", "idx3-ubyte")
    labels = _read_idx(Path(folder), f"{stem}-labels", "idx1-ubyte")
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise ValueError(f"{folder}: images {images.shape} and labels {labels.shape} do not belong together.")
    return (images / 255).astype(np.float32), labels.astype(np.int64)


def _read_idx(folder: Path, stem: str, kind: str) -> np.ndarray:
    names = [f"{stem}{separator}{kind}{suffix}" for separator in "-." for suffix in (".gz", "")]
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{folder} holds none of {', '.join(names)}.")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, OSError) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}.") from None
    dimensions = raw[3] if len(raw) > 4 and raw[:3] == b"\x00\x00\x08" else 0
    shape = tuple(np.frombuffer(raw, ">u4", dimensions, 4).tolist()) if len(raw) >= 4 + 4 * dimensions else ()
    if dimensions == 0 or len(raw) != 4 + 4 * dimensions + int(np.prod(shape)):
        raise ValueError(f"{path} is no complete idx file of unsigned bytes.")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
