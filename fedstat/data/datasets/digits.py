"""Scikit-learn's handwritten digits (Alpaydin and Kaynak 1998), which come with the package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fedstat.data.datasets.base import Dataset, Source


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's 1,797 handwritten digits: images (N, 8, 8) in [0, 1] and labels (N,).

    Examples
    --------
    >>> import fedstat as fs
    >>> x, y = fs.data.digits()
    >>> x.shape, y.shape, float(x.max())
    ((1797, 8, 8), (1797,), 1.0)
    """
    (file,) = _find(Path())  # its reader would import all of scikit-learn
    table = np.loadtxt(file, delimiter=",", dtype=np.int64)
    return (table[:, :-1].reshape(-1, 8, 8) / 16).astype(np.float32), table[:, -1]


def _find(folder: Path) -> list[Path]:
    spec = find_spec("sklearn")
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent / "datasets/data/digits.csv.gz"]


def _read(folder: Path) -> Dataset:
    x, y = digits()
    return Dataset("digits", x, y, tuple(range(10)), np.zeros(len(y), dtype=bool))


SOURCE = Source(
    name="digits",
    about="1,797 handwritten digits, 8x8 grey with 17 levels, 10 classes",
    folder="digits",
    find=_find,
    read=_read,
    note="Part of scikit-learn: always there.",
)
