"""EMNIST: handwritten letters and digits in six splits (Cohen, Afshar, Tapson, van Schaik 2017).

The files store the images transposed; here they stand upright. EMNIST does not name the writers; FEMNIST does.
"Splits" is EMNIST's own word for its six selections of characters, each of which has a training and a test part.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from string import ascii_lowercase, ascii_uppercase, digits

from fedstat.data.datasets.archive import content, members
from fedstat.data.datasets.base import Dataset, Source, official_files
from fedstat.data.datasets.idx import find_idx, idx_dataset

_MERGED = digits + ascii_uppercase + "abdefghnqrt"  # the other small letters look like their capitals


def _find(split: str, folder: Path) -> list[Path]:
    stems = (f"emnist-{split}-train", f"emnist-{split}-test")
    archive = [path for path in [folder / "gzip.zip"] if path.is_file()]
    return find_idx(folder, stems) or find_idx(folder / "gzip", stems) or archive


def _read(split: str, classes: str, folder: Path) -> Dataset:
    found = _find(split, folder)
    files = _packed(split, found[0]) if len(found) == 1 else [(str(path), content(path)) for path in found]
    name = "emnist" if split == "balanced" else f"emnist-{split}"
    transposed = idx_dataset(name, files, tuple(classes), first=1 if split == "letters" else 0)
    return replace(transposed, x=transposed.x.transpose(0, 2, 1).copy())


def _packed(split: str, archive: Path) -> list[tuple[str, bytes]]:
    wanted = [
        f"emnist-{split}-{part}-{kind}-ubyte.gz"
        for part in ("train", "test")
        for kind in ("images-idx3", "labels-idx1")
    ]
    found = {file: read() for member, _, read in members(archive) if (file := PurePosixPath(member).name) in wanted}
    if len(found) < len(wanted):
        raise ValueError(f"{archive} holds no {', no '.join(sorted(set(wanted) - set(found)))}.")
    return [(f"{archive}: {file}", found[file]) for file in wanted]


def _source(split: str, about: str, classes: str) -> Source:
    return Source(
        name="emnist" if split == "balanced" else f"emnist-{split}",
        about=f"{about}, 28x28 grey, {len(classes)} classes",
        folder="emnist",
        find=partial(_find, split),
        read=partial(_read, split, classes),
        downloads=official_files("emnist"),
        note="One download holds all six splits.",
    )


SOURCE = _source("balanced", "131,600 handwritten digits and letters, as many of each class", _MERGED)
BY_CLASS = _source("byclass", "814,255 handwritten digits and letters", digits + ascii_uppercase + ascii_lowercase)
BY_MERGE = _source("bymerge", "814,255 handwritten digits and letters, cases that look alike merged", _MERGED)
LETTERS = _source("letters", "145,600 handwritten letters, cases merged", ascii_lowercase)
DIGITS = _source("digits", "280,000 handwritten digits", digits)
MNIST = _source("mnist", "70,000 handwritten digits, processed like the other splits", digits)
