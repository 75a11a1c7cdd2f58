"""Read the two formats of CIFAR-10 and CIFAR-100, from an archive or an unpacked folder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import ArrayLike

from fedstat._pickled import read_pickled
from fedstat.data.datasets.archive import members
from fedstat.data.datasets.base import check_labels

_PIXELS = (3, 32, 32)


def find_cifar(folder: Path, unpacked: dict[str, str]) -> list[Path]:
    """Return the archives and folders that are present: official names first (binary, python), then subsets and others.

    `unpacked` has, for the stem of each archive, such as "cifar-10-binary", the folder that it unpacks to.
    """
    official = [name for stem, inside in unpacked.items() for name in (inside, f"{stem}.tar.gz")]
    others = [path for stem in unpacked for path in sorted(folder.glob(f"{stem}-*.tar.gz"))]
    return [folder / name for name in official if (folder / name).exists()] + others


def read_cifar(
    path: Path, train: Sequence[str], test: str, classes: Mapping[str, tuple[str, ...]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the batches of one folder or archive, those of `train` in their order and then `test`.

    Return images as bytes, (samples, 3, 32, 32), labels, (samples, kinds of label), and which samples test. Batches are
    ``<name>.bin`` (binary version) or ``<name>`` (python version). `classes` has the classes of each kind of label by
    the python version's name of the kind, in the order of the binary version's bytes. A batch that is missing or
    malformed, or holds labels that mean nothing, is a ValueError.
    """
    batches: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for member, _, read_member in members(path):
        name = PurePosixPath(member).name
        batch = name.removesuffix(".bin")
        if batch in (*train, test):
            if batch in batches:
                raise ValueError(f"{path} holds the batch {batch!r} twice.")
            raw, where = read_member(), f"{path}: {member}"
            x, labels = _binary(raw, where, len(classes)) if name.endswith(".bin") else _python(raw, where, classes)
            codes = [check_labels(where, y, names, len(x)) for y, names in zip(labels, classes.values(), strict=True)]
            batches[batch] = x, np.stack(codes, axis=1)
    missing = [name for name in (*train, test) if name not in batches]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    x, labels = zip(*(batches[name] for name in (*train, test)), strict=True)
    sizes = [len(images) for images in x]
    return np.concatenate(x), np.concatenate(labels), np.arange(sum(sizes)) >= sum(sizes[:-1])


def _binary(raw: bytes, where: str, labels: int) -> tuple[np.ndarray, Iterable[ArrayLike]]:
    """Return pixels and labels of records, each of label bytes and three planes; subsets have fewer records."""
    record = labels + math.prod(_PIXELS)
    if not raw or len(raw) % record:
        raise ValueError(f"{where} has {len(raw):,} bytes, which is no multiple of a record's {record:,}.")
    records = np.frombuffer(raw, np.uint8).reshape(-1, record)
    return records[:, labels:].reshape(-1, *_PIXELS), records[:, :labels].T


def _python(raw: bytes, where: str, keys: Iterable[str]) -> tuple[np.ndarray, Iterable[ArrayLike]]:
    """Return pixels and labels of a dictionary, whose keys are bytes if Python 2 wrote it."""
    content = read_pickled(raw, where)
    if not isinstance(content, dict):
        raise ValueError(f"{where} should hold a dictionary, got {type(content).__name__}.")
    content = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    missing = [key for key in ("data", *keys) if key not in content]
    if missing:
        raise ValueError(f"{where} has no {missing[0]!r}; it has {', '.join(map(repr, content))[:200]}.")
    x = content["data"]
    if not isinstance(x, np.ndarray) or x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != math.prod(_PIXELS):
        raise ValueError(f"{where}: data should be bytes of shape (N, {math.prod(_PIXELS)}).")
    return x.reshape(-1, *_PIXELS), [content[key] for key in keys]
