"""A real data set: its samples, its files' addresses, the source that finds and reads them, a check of its labels."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples of a real data set, before they are dealt to clients.

    Attributes
    ----------
    name : str
        The name that `fedstat data list` prints.
    x : ndarray, shape (N, ...)
        Images as unsigned bytes, (N, height, width) in grey or (N, 3, height, width) in colour; sequences of token
        numbers as small integers, (N, length); else floating values. A table with gaps or words is a data frame, which
        has to be prepared.
    y : ndarray of int64, shape (N,)
        Codes ``0..Q-1`` of the classes.
    classes : tuple of str or int, length Q
        The class that each code means.
    test : ndarray of bool, shape (N,)
        True for samples of the official test part; all false where there is none.
    groups : mapping of str to ndarray of str or int, each (N,)
        The natural group of each sample, by the kind of group: "writer", "role", "superclass".
    order : mapping of str to list of str
        By the kind of group, all groups in the order of the clients, where that is not the sorted one.
    vocabulary : int, optional
        Number of different tokens, where `x` holds tokens.
    lossy : str
        How the pixels differ from the original ones, empty if they do not. Reports of numbers must say so.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    classes: tuple[Any, ...]
    test: np.ndarray
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    order: Mapping[str, Sequence[str]] = field(default_factory=dict)
    vocabulary: int | None = None
    lossy: str = ""


@dataclass(frozen=True)
class Download:
    """One file of the official distribution.

    Attributes
    ----------
    url : str
        The official address.
    file : str
        Its name in the data set's folder.
    size : int, optional
        Bytes, where they are known.
    sha256 : str, optional
        The checksum, in hexadecimal digits, where it is known.
    unpacked : str, optional
        That of what a .gz file holds: whoever packs it anew, as Debian does, makes other bytes of the same content.
    """

    url: str
    file: str
    size: int | None = None
    sha256: str | None = None
    unpacked: str | None = None


def official_files(name: str) -> tuple[Download, ...]:
    """Return the files of a data set's official distribution, as ``downloads.csv`` beside this file lists them."""
    with Path(__file__).with_name("downloads.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["name"] == name]
    return tuple(
        Download(
            url=row["url"],
            file=row["url"].rpartition("/")[2],
            size=int(row["size"]) if row["size"] else None,
            sha256=row["sha256"] or None,
            unpacked=row["unpacked"] or None,
        )
        for row in rows
    )


@dataclass(frozen=True)
class Source:
    """How one data set is found, read and fetched; every file in this folder that holds a `SOURCE` is listed.

    Attributes
    ----------
    name : str
        Such as "cifar10".
    about : str
        One line that says what the data set holds.
    folder : str
        Its folder under the data root.
    find : callable
        ``find(folder)`` returns the files or folders there that `read` would use, best first; none if the data set is
        absent.
    read : callable
        ``read(folder)`` returns the `Dataset`.
    downloads : tuple of Download
        The files that `fedstat data fetch` downloads, by default those that ``downloads.csv`` lists under the
        name; none if it cannot.
    note : str
        How to get a data set that cannot be fetched, and under which terms it may be used.
    """

    name: str
    about: str
    folder: str
    find: Callable[[Path], list[Path]]
    read: Callable[[Path], Dataset]
    downloads: tuple[Download, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "downloads", self.downloads or official_files(self.name))


def check_labels(where: str | Path, labels: ArrayLike, classes: tuple[str, ...], samples: int) -> np.ndarray:
    """Return the labels as int64, (samples,), after checking that they are from ``0..len(classes) - 1``.

    There must be samples, and as many labels. Errors blame the file `where`.
    """
    try:
        y = np.asarray(labels)
    except (ValueError, OverflowError):  # a ragged list
        y = np.empty(0, dtype=object)
    if samples == 0 or y.shape != (samples,):
        raise ValueError(f"{where} holds {samples:,} samples and labels of shape {y.shape}.")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= len(classes):
        wrong = next(v for v in y.tolist() if type(v) is not int or not 0 <= v < len(classes))
        raise ValueError(
            f"{where}: labels must be whole numbers from 0 to {len(classes) - 1}, got {str(wrong)[:40]!r}."
        )
    return y.astype(np.int64)
