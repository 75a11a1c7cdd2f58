"""MNIST: 70,000 handwritten digits (LeCun, Cortes, Burges)."""

from __future__ import annotations

from functools import partial

from fedstat.data.datasets.base import Download, Source
from fedstat.data.datasets.idx import find_idx, idx_folder

_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"

SOURCE = Source(
    name="mnist",
    about="70,000 handwritten digits, 28x28 grey, 10 classes",
    folder="mnist",
    find=find_idx,
    read=partial(idx_folder, "mnist", classes=tuple("0123456789")),
    downloads=tuple(
        Download(_ADDRESS + file, file, size, md5)
        for file, size, md5 in (
            ("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            ("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
            ("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
            ("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
        )
    ),
    note="CC BY-SA 3.0, as usually stated. The original page no longer serves the files; this is PyTorch's copy.",
)
