"""Fashion-MNIST: 70,000 pictures of clothes (Xiao, Rasul, Vollgraf 2017).

Downloads come from the authors' own repository: their other address, of the same files, serves no https.
"""

from __future__ import annotations

from functools import partial

from fedstat.data.datasets.base import Source
from fedstat.data.datasets.idx import find_idx, idx_folder

_CLASSES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

SOURCE = Source(
    name="fashion-mnist",
    about="70,000 pictures of clothes, 28x28 grey, 10 classes",
    folder="fashion-mnist",
    find=find_idx,
    read=partial(idx_folder, "fashion-mnist", classes=_CLASSES),
    note="MIT licence. On Debian: apt-get install dataset-fashion-mnist, and FEDSTAT_DATA=/usr/share/datasets.",
)
