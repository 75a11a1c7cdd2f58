"""Damaged files of every format: the reader gives a sound data set or a ValueError that names the file."""

import gzip
import os
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedstat import data
from fedstat._pickled import read_pickled
from fedstat.data import datasets
from fedstat.data.datasets.archive import safe_members
from tests.support import dataset_files as files

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("made_up_data")]

MEGABYTES = 64  # no reader allocates more for files of a few kilobytes

IDX = {
    f"{part}-{kind}": files.idx(array, packed=False)
    for part in ("train", "t10k")
    for kind, array in (("images-idx3-ubyte", files.pixels(2, 28, 28)), ("labels-idx1-ubyte", np.uint8([1, 2])))
}
EMNIST = {
    f"emnist-balanced-{part}-{kind}-ubyte.gz": files.idx(array)
    for part in ("train", "test")
    for kind, array in (("images-idx3", files.pixels(1, 28, 28)), ("labels-idx1", np.uint8([46])))
}
BINARY, PYTHON2, PYTHON3 = (
    files.cifar10_files(form, records=1)[0] for form in (files.binary_batch, files.python2_batch, files.python3_batch)
)
TINY = files.tiny_files()
IMAGES, INDEX, _ = files.jpeg_files()
TREE = "CIFAR-10-images.tar.gz"
TABLE = "CIFAR-10-images-index.csv.gz"
LEAF = files.leaf(w=files.writer(files.pixels(1, 28, 28) // 250 * 250, [5]))
ROLES = files.leaf(P_X={"x": ["a" * 80, "é" * 80], "y": ["b", "c"]})
SVHN = {
    f"{part}_32x32.mat": files.mat(files.pixels(2, 3, 32, 32) // 128, np.array([1, 0]), part == "train")
    for part in ("train", "test")
}
TINY_SHAKESPEARE = f"A:\n{files.LINE}\n{files.LINE}\n\nB:\nYes.\n".encode()

# what is read, the folder, its files, which of them is damaged, and how that one is packed afterwards
FORMATS = {
    "idx images": ("mnist", "mnist", IDX, "train-images-idx3-ubyte", None),
    "idx labels": ("mnist", "mnist", IDX, "t10k-labels-idx1-ubyte", None),
    "idx inside gzip": ("mnist", "mnist", IDX, "train-images-idx3-ubyte", gzip.compress),
    "idx in zip": ("emnist", "emnist", {"gzip.zip": files.zipped(EMNIST)}, "gzip.zip", None),
    "binary": ("cifar10", "cifar10", BINARY, "cifar-10-batches-bin/data_batch_2.bin", None),
    "pickle of Python 2": ("cifar10", "cifar10", PYTHON2, "cifar-10-batches-py/data_batch_2", None),
    "pickle of Python 3": ("cifar10", "cifar10", PYTHON3, "cifar-10-batches-py/test_batch", None),
    "tar.gz": ("cifar10-jpeg", "cifar10", {TREE: files.tar(IMAGES), TABLE: gzip.compress(INDEX)}, TREE, None),
    "tar inside gzip": (
        "cifar10-jpeg",
        "cifar10",
        {TREE: files.tar(IMAGES, packed=False), TABLE: gzip.compress(INDEX)},
        TREE,
        gzip.compress,
    ),
    "index": ("cifar10-jpeg", "cifar10", {TREE: files.tar(IMAGES), TABLE: INDEX}, TABLE, gzip.compress),
    "zip": (
        "tiny-imagenet",
        "tiny-imagenet",
        {"tiny-imagenet-200.zip": files.zipped(TINY)},
        "tiny-imagenet-200.zip",
        None,
    ),
    "jpeg": ("tiny-imagenet", "tiny-imagenet", TINY, "tiny-imagenet-200/train/n01/images/n01_0.JPEG", None),
    "annotations": ("tiny-imagenet", "tiny-imagenet", TINY, "tiny-imagenet-200/val/val_annotations.txt", None),
    "words": ("tiny-imagenet", "tiny-imagenet", TINY, "tiny-imagenet-200/words.txt", None),
    "class list": ("tiny-imagenet", "tiny-imagenet", TINY, "tiny-imagenet-200/wnids.txt", None),
    "packed mat": ("svhn", "svhn", SVHN, "train_32x32.mat", None),
    "plain mat": ("svhn", "svhn", SVHN, "test_32x32.mat", None),
    "json of images": ("femnist", "femnist", {"data/train/a.json": LEAF}, "data/train/a.json", None),
    "json of text": ("shakespeare", "shakespeare", {"data/train/a.json": ROLES}, "data/train/a.json", None),
    "plays": ("shakespeare", "shakespeare", {"pg100.txt": files.PLAYS}, "pg100.txt", None),
    "patients": ("heart-disease", "heart", files.HEART, "processed.switzerland.data", None),
    "speeches": ("tinyshakespeare", "shakespeare", {"input.txt": TINY_SHAKESPEARE}, "input.txt", None),
}

EDIT = st.tuples(
    st.sampled_from(["replace", "insert", "delete", "truncate", "repeat"]),
    st.floats(0, 1, exclude_max=True) | st.floats(0, 0.05),
    st.binary(min_size=1, max_size=9)
    | st.sampled_from([b"\x00" * 8, b"\xff" * 8, b"\x7f\xff\xff\xff", b"99999999999"]),
)
DAMAGE = st.lists(EDIT, min_size=1, max_size=4) | st.binary(max_size=300)


def damaged(raw, damage):
    """Random bytes, or the file after some edits at places that are shares of its length."""
    if isinstance(damage, bytes):
        return damage
    for kind, share, piece in damage:
        at = int(share * len(raw))
        match kind:
            case "replace":
                raw = raw[:at] + piece + raw[at + len(piece) :]
            case "insert":
                raw = raw[:at] + piece + raw[at:]
            case "delete":
                raw = raw[:at] + raw[at + len(piece) :]
            case "truncate":
                raw = raw[:at]
            case "repeat":
                raw = raw[:at] + 20 * raw[at : at + 40] + raw[at:]
    return raw


def write(root, what, damage):
    """All files of one format, one of them damaged."""
    _, folder, contents, wrong, pack = FORMATS[what]
    for name, raw in contents.items():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == wrong:
            raw = damaged(raw, damage)
            raw = raw if pack is None else pack(raw)
        path.write_bytes(raw)


def sound(dataset):
    """A data set as its docstring promises."""
    if isinstance(dataset.x, pd.DataFrame):
        numbers = dataset.x.select_dtypes("number").to_numpy()
        assert not np.isinf(numbers).any()
    else:
        assert dataset.x.dtype in (np.uint8, np.float32)
        assert np.isfinite(dataset.x).all()
    assert dataset.y.dtype == np.int64
    assert len(dataset.x) == len(dataset.y) == len(dataset.test) > 0
    assert dataset.test.dtype == bool
    assert dataset.y.min() >= 0
    assert dataset.y.max() < len(dataset.classes)
    for group in dataset.groups.values():
        assert len(group) == len(dataset.y)
        assert all(isinstance(name, str) for name in group)
    if dataset.vocabulary is not None:
        assert dataset.x.max() < dataset.vocabulary


def outcome(function, *arguments):
    """What a function returns, or the ValueError it raises; and the megabytes that it took."""
    tracemalloc.start()
    try:
        found = function(*arguments)
    except ValueError as error:
        found = error
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, peak / 2**20


def check(root, what, damage):
    """Read a damaged file: a sound data set, or a ValueError that names a file under the root."""
    write(root, what, damage)
    found, peak = outcome(datasets.read, FORMATS[what][0], root)
    assert peak < MEGABYTES
    if isinstance(found, ValueError):
        assert str(root) in str(found)
        assert len(str(found)) < 1000
    else:
        sound(found)


@pytest.mark.parametrize("what", FORMATS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(damage=DAMAGE)
def test_readers(tmp_path, what, damage):
    check(tmp_path, what, damage)


@pytest.mark.parametrize("what", FORMATS)
def test_the_undamaged_files_are_read(tmp_path, what):
    write(tmp_path, what, [])
    sound(datasets.read(FORMATS[what][0], tmp_path))


class Touch:
    """Pickles as a command that leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def plain(value, depth=5):
    """Only what data consist of."""
    assert type(value) in (list, dict, tuple, int, float, str, bytes, bool, type(None), np.ndarray, np.dtype) or (
        isinstance(value, np.dtype)
    )
    if isinstance(value, np.ndarray):
        assert value.dtype.kind in "biuf"
        value.sum()
    elif isinstance(value, (list, tuple)) and depth:
        for inner in value[:20]:
            plain(inner, depth - 1)
    elif isinstance(value, dict) and depth:
        for inner in value.values():
            plain(inner, depth - 1)


ARRAYS = {"data": np.arange(6, dtype=">i2").reshape(2, 3), "labels": [1, 2.5, None, True, "é", b"b", (1,), -(2**33)]}


def check_pickle(sentinel, protocol, damage):
    """A pickle that also holds a command; before and after the damage nothing is run."""
    for content in (ARRAYS, [ARRAYS, Touch(sentinel)]):
        raw = damaged(pickle.dumps(content, protocol), damage)
        found, peak = outcome(read_pickled, raw, "evil.bin")
        assert peak < 1
        if isinstance(found, ValueError):
            assert str(found).startswith("evil.bin is no pickle")
        else:
            plain(found)
    assert not sentinel.exists()


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(protocol=st.integers(0, 5), damage=DAMAGE)
def test_pickles(tmp_path, protocol, damage):
    check_pickle(tmp_path / "sentinel", protocol, damage)


def check_archive(path, packed, damage):
    """Names stay inside, sizes are what is read."""
    contents = {"a": b"1" * 40, "b/c": b"2" * 700, "ä": b""}
    path.write_bytes(damaged(packed(contents), damage))
    found, peak = outcome(unpacked, path)
    assert peak < MEGABYTES
    if isinstance(found, ValueError):
        assert str(path) in str(found)
    else:
        for name, size, raw in found:
            assert (path.parent / name).resolve().is_relative_to(path.parent)
            assert len(raw) == size


def unpacked(path):
    """Name, size and content of all members."""
    return [(name, size, read()) for name, size, read in safe_members(path)]


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(packed=st.sampled_from([files.zipped, files.tar, lambda c: files.tar(c, packed=False)]), damage=DAMAGE)
def test_archives(tmp_path, packed, damage):
    check_archive(tmp_path / "archive", packed, damage)


TABLE_OF_CLIENTS = "client,y,x1,x2\n" + "".join(f"c{i % 3},{i % 2},{i}.5,-{i}e-1\n" for i in range(12))


def check_csv(path, damage):
    """One's own table: clients, or a ValueError that names the file or what in it is wrong."""
    path.write_bytes(damaged(TABLE_OF_CLIENTS.encode(), damage))
    found, peak = outcome(data.from_csv, path)
    assert peak < MEGABYTES
    if isinstance(found, ValueError):
        assert len(str(found)) < 1000
    else:
        assert np.isfinite(found.train.x).all()
        assert len(found) > 0


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=DAMAGE)
def test_tables(tmp_path, damage):
    check_csv(tmp_path / "table.csv", damage)
