"""Tiny ImageNet: photographs of 64x64 pixels (Stanford CS231n), whose validation part serves as the test part."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import numpy as np

from fedstat.data.datasets.archive import members
from fedstat.data.datasets.base import Dataset, Source
from fedstat.data.datasets.jpeg import decode_jpeg
from fedstat.data.datasets.text import decode_text

_SIDE = 64
_CLASSES = 200
_TABLE_BYTES = 1 << 22
_TABLES = ("wnids.txt", "words.txt", "val_annotations.txt")


def _find(folder: Path) -> list[Path]:
    official = [folder / "tiny-imagenet-200", folder / "tiny-imagenet-200.zip"]
    return [path for path in official if path.exists()] + sorted(folder.glob("tiny-imagenet-*.tar.gz"))


def _read(folder: Path) -> Dataset:
    """Read the images from the folder or the archive, in the order of the classes and of their numbers."""
    path = _find(folder)[0]
    tables: dict[str, str] = {}
    names = []
    for member, size, read_member in members(path):
        name = PurePosixPath(member).name
        if name in _TABLES:
            if size > _TABLE_BYTES:
                raise ValueError(f"{path}: {member} has {size:,} bytes, more than the {_TABLE_BYTES:,} of a table.")
            tables[name] = decode_text(read_member(), f"{path}: {member}")
        elif name.endswith(".JPEG"):
            names.append(name)
    missing = [name for name in _TABLES if name not in tables]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    wnids = tables["wnids.txt"].split()
    code = {wnid: code for code, wnid in enumerate(wnids)}
    words = dict(line.partition("\t")[::2] for line in tables["words.txt"].splitlines())
    held_out = dict(line.split("\t")[:2] for line in tables["val_annotations.txt"].splitlines() if "\t" in line)
    kind = {name: held_out.get(name) or name.partition("_")[0] for name in names}
    chosen = [name for name in names if kind[name] in code]
    order = sorted(chosen, key=lambda name: (name in held_out, code[kind[name]], len(name), name))
    place = {name: i for i, name in enumerate(order)}
    if not order or len(place) < len(chosen) or len(code) < len(wnids):
        raise ValueError(f"{path} holds no images of the classes in wnids.txt, or an image or a class twice.")
    x = np.empty((len(order), 3, _SIDE, _SIDE), dtype=np.uint8)
    for member, _, read_member in members(path):
        if (i := place.get(PurePosixPath(member).name)) is not None:
            x[i] = decode_jpeg(read_member(), f"{path}: {member}", _SIDE)
    classes = tuple(words.get(wnid, wnid).partition(",")[0] for wnid in code)
    if len(set(classes)) < len(classes):
        classes = tuple(code)
    return Dataset(
        "tiny-imagenet" if len(code) == _CLASSES else f"tiny-imagenet ({len(code)} of {_CLASSES} classes)",
        x,
        np.array([code[kind[name]] for name in order]),
        classes,
        np.array([name in held_out for name in order]),
    )


SOURCE = Source(
    name="tiny-imagenet",
    about="110,000 photographs, 64x64 in colour, 200 classes",
    folder="tiny-imagenet",
    find=_find,
    read=_read,
    note="Non-commercial research and education only (ImageNet's terms).",
)
