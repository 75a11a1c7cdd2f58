"""Fashion-MNIST: 70,000 pictures of clothes (Xiao, Rasul, Vollgraf 2017)."""

from __future__ import annotations

from functools import partial

from fedstat.data.datasets.base import Download, Source
from fedstat.data.datasets.idx import find_idx, idx_folder

_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_CLASSES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

SOURCE = Source(
    name="fashion-mnist",
    about="70,000 pictures of clothes, 28x28 grey, 10 classes",
    folder="fashion-mnist",
    find=find_idx,
    read=partial(idx_folder, "fashion-mnist", classes=_CLASSES),
    downloads=tuple(
        Download(_ADDRESS + file, file, size, md5)
        for file, size, md5 in (
            ("train-images-idx3-ubyte.gz", 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
            ("train-labels-idx1-ubyte.gz", 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
            ("t10k-images-idx3-ubyte.gz", 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
            ("t10k-labels-idx1-ubyte.gz", 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
        )
    ),
    note="MIT licence. On Debian: apt-get install dataset-fashion-mnist, and FEDSTAT_DATA=/usr/share/datasets.",
)
