"""Fashion-MNIST: 70,000 pictures of clothes (Xiao, Rasul, Vollgraf 2017)."""

from __future__ import annotations

from functools import partial

from fedstat.data.datasets.base import Download, Source
from fedstat.data.datasets.idx import find_idx, idx_folder

#: The authors' own repository: their other address, of the same files, serves no https.
_ADDRESS = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
_CLASSES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

SOURCE = Source(
    name="fashion-mnist",
    about="70,000 pictures of clothes, 28x28 grey, 10 classes",
    folder="fashion-mnist",
    find=find_idx,
    read=partial(idx_folder, "fashion-mnist", classes=_CLASSES),
    downloads=tuple(
        Download(_ADDRESS + file, file, size, sha256, unpacked)
        for file, size, sha256, unpacked in (
            (
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            ),
            (
                "train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
        )
    ),
    note="MIT licence. On Debian: apt-get install dataset-fashion-mnist, and FEDSTAT_DATA=/usr/share/datasets.",
)
