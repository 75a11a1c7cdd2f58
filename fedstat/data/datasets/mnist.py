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
        Download(_ADDRESS + file, file, size, sha256, unpacked)
        for file, size, sha256, unpacked in (
            (
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            ),
            (
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
        )
    ),
    note="CC BY-SA 3.0, as usually stated. The original page no longer serves the files; this is PyTorch's copy.",
)
