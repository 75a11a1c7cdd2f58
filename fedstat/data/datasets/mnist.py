"""MNIST: 70,000 handwritten digits (LeCun, Cortes, Burges)."""

from __future__ import annotations

from functools import partial

from fedstat.data.datasets.base import Source
from fedstat.data.datasets.idx import find_idx, idx_folder

SOURCE = Source(
    name="mnist",
    about="70,000 handwritten digits, 28x28 grey, 10 classes",
    folder="mnist",
    find=find_idx,
    read=partial(idx_folder, "mnist", classes=tuple("0123456789")),
    note="CC BY-SA 3.0, as usually stated. The original page no longer serves the files; this is PyTorch's copy.",
)
