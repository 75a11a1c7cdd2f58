"""Real data sets whose files are damaged or hostile: errors name the file, nothing is run, memory is bounded."""

import gzip
import io
import itertools
import os
import pickle
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstat import _pickled as pickled
from fedstat._pickled import read_pickled
from fedstat.data import datasets
from fedstat.data.datasets import archive
from fedstat.data.datasets.archive import safe_members
from fedstat.data.datasets.idx import read_idx
from fedstat.data.datasets.mat import read_mat
from tests.support import dataset_files as files
from tests.support.dataset_files import put

pytestmark = pytest.mark.usefixtures("made_up_data")


@contextmanager
def at_most(megabytes):
    """Python and numpy allocate no more meanwhile."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * 2**20
    finally:
        tracemalloc.stop()


GOOD_X, GOOD_Y = files.idx(files.pixels(3, 28, 28)), files.idx(np.uint8([1, 2, 3]))
BATCH = dict(labels=[1, 2])
TINY = files.tiny_files()
SIDE = (32).to_bytes(2, "big")
IMAGES, INDEX, _ = files.jpeg_files()


def mnist_with(x=GOOD_X, y=GOOD_Y):
    return {
        "mnist/train-images-idx3-ubyte.gz": x,
        "mnist/train-labels-idx1-ubyte.gz": y,
        "mnist/t10k-images-idx3-ubyte.gz": GOOD_X,
        "mnist/t10k-labels-idx1-ubyte.gz": GOOD_Y,
    }


def cifar_with(raw, suffix=""):
    folder = "bin" if suffix else "py"
    good, *_ = files.cifar10_files(files.binary_batch if suffix else files.python2_batch)
    return {f"cifar10/{name}": content for name, content in good.items()} | {
        f"cifar10/cifar-10-batches-{folder}/data_batch_3{suffix}": raw
    }


def svhn_with(raw):
    good = files.mat(files.pixels(2, 3, 32, 32), np.array([1, 2]))
    return {"svhn/train_32x32.mat": raw, "svhn/test_32x32.mat": good}


def jpeg_with(images=IMAGES, index=INDEX):
    return {
        "cifar10/CIFAR-10-images-4.tar.gz": files.tar(images),
        "cifar10/CIFAR-10-images-4-index.csv.gz": gzip.compress(index),
    }


DAMAGED = {
    "a truncated gzip": (mnist_with(GOOD_X[:-20]), "train-images"),
    "no gzip": (mnist_with(b"\x1f\x8b\x08broken"), "train-images"),
    "no idx": (mnist_with(b"hello"), "train-images"),
    "fewer pixels than announced": (mnist_with(files.idx(files.pixels(3, 28, 28), False)[:-1]), "train-images"),
    "more pixels than announced": (mnist_with(files.idx(files.pixels(3, 28, 28), False) + b"1"), "train-images"),
    "pixels of another shape": (mnist_with(files.idx(files.pixels(3, 27, 28))), r"train-images.*28x28"),
    "more labels than images": (mnist_with(y=files.idx(np.uint8([1, 2, 3, 4]))), "train-labels"),
    "a label outside the classes": (mnist_with(y=files.idx(np.uint8([1, 2, 10]))), "train-labels.*0 to 9, got '10'"),
    "labels by the million": (mnist_with(y=files.idx(np.zeros(2**22, np.uint8))), "train-labels.*labels of 3 images"),
    "no samples": (mnist_with(files.idx(files.pixels(0, 28, 28)), files.idx(np.uint8([]))), "train-labels"),
    "half a record": (cifar_with(b"1" * 3000, ".bin"), "data_batch_3.bin.*multiple of a record's 3,073"),
    "an eleventh class": (cifar_with(b"\x0a" * 3073, ".bin"), "data_batch_3.bin.*0 to 9, got '10'"),
    "no pickle": (cifar_with(b"hello"), "data_batch_3 is no pickle"),
    "a pickled list": (cifar_with(pickle.dumps([1], 2)), "data_batch_3 should hold a dictionary, got list"),
    "no labels": (cifar_with(files.python2_batch(files.pixels(2, 3072))), "data_batch_3 has no 'labels'"),
    "too few labels": (cifar_with(files.python2_batch(files.pixels(3, 3072), **BATCH)), "data_batch_3 holds 3 samples"),
    "labels that are no list": (cifar_with(files.python3_batch(files.pixels(1, 3072), labels=[[1, [2]]])), "batch_3"),
    "labels beyond int64": (cifar_with(files.python3_batch(files.pixels(1, 3072), labels=[2**70])), "batch_3.*0 to 9"),
    "planes of another size": (cifar_with(files.python2_batch(files.pixels(2, 3071), **BATCH)), "data_batch_3: data"),
    "fine and coarse labels that differ": (
        {
            "cifar100/cifar-100-binary/train.bin": files.binary_batch(files.pixels(1, 3072), coarse=[4], fine=[1]),
            "cifar100/cifar-100-binary/test.bin": files.binary_batch(files.pixels(1, 3072), coarse=[4], fine=[0]),
        },
        "cifar-100-binary: sample 0 is of class 'aquarium_fish' and of superclass 'fruit_and_vegetables'",
    ),
    "a missing batch": (
        {"cifar10/cifar-10-binary.tar.gz": files.tar({"cifar-10-batches-bin/test_batch.bin": b"\1" * 3073})},
        "cifar-10-binary.tar.gz lacks data_batch_1",
    ),
    "a broken image": (jpeg_with(IMAGES | {"CIFAR-10-images/test/cat/0000.jpg": b"\xff\xd8\xff"}), "cat/0000.jpg"),
    "a truncated image": (
        jpeg_with(IMAGES | {"CIFAR-10-images/test/cat/0000.jpg": files.jpeg((1, 2, 3), 32)[:-80]}),
        "cat/0000.jpg is no JPEG",
    ),
    "a large image": (jpeg_with(IMAGES | {"CIFAR-10-images/test/cat/0000.jpg": files.jpeg(3, 33)}), "33x33 pixels"),
    "a huge image": (
        jpeg_with(IMAGES | {"CIFAR-10-images/test/cat/0000.jpg": files.jpeg(3, 32).replace(2 * SIDE, b"\xff" * 4, 1)}),
        "cat/0000.jpg is no JPEG image of 32x32 pixels: it has 65535x65535 pixels",
    ),
    "an image that is missing": (jpeg_with(dict(itertools.islice(IMAGES.items(), 3))), "lacks 1 images"),
    "another index": (jpeg_with(index=b"a,b\n1,2\n"), "index.csv.gz should have the columns"),
    "an index of another order": (jpeg_with(index=INDEX.replace(b",6,0", b",6,7")), "original numbers of the train"),
    "an index of another label": (jpeg_with(index=INDEX.replace(b",6,0", b",5,0")), "line 5: 'train/frog/0000.jpg,tr"),
    "tables that are missing": (
        {"tiny-imagenet/tiny-imagenet-200/wnids.txt": b"n01\n"},
        r"tiny-imagenet-200 lacks words.txt, val_annotations.txt",
    ),
    "a table that is too large": (
        {
            "tiny-imagenet/tiny-imagenet-200.zip": files.zipped(
                TINY | {"tiny-imagenet-200/wnids.txt": b"a " * 2**21 + b"a"}
            )
        },
        "tiny-imagenet-200.zip: tiny-imagenet-200/wnids.txt has 4,194,305 bytes",
    ),
    "no MATLAB file": (svhn_with(b"hello"), "train_32x32.mat"),
    "a truncated MATLAB file": (
        svhn_with(files.mat(files.pixels(2, 3, 32, 32), np.array([1, 2]))[:-9]),
        "element is cut short",
    ),
    "pixels of SVHN in another shape": (svhn_with(files.mat(files.pixels(2, 3, 32, 31), np.array([1, 2]))), "hold X"),
    "labels of SVHN beyond 10": (svhn_with(files.mat(files.pixels(2, 3, 32, 32), np.array([1, 11]))), "from 1 to 10"),
    "a label of SVHN below 1": (svhn_with(files.mat(files.pixels(1, 3, 32, 32), np.array([-1]))), "from 1 to 10"),
    "no json": ({"femnist/a.json": b"{"}, "a.json is no json file"),
    "deep json": ({"femnist/a.json": b"[" * 10**6}, "a.json is no json file"),
    "other json": ({"femnist/a.json": b"[1]"}, "a.json is no file of LEAF"),
    "brightness beyond white": ({"femnist/a.json": files.leaf(w={"x": [[1.5] * 784], "y": [1]})}, "a.json: writer 'w'"),
    "brightness that is no number": ({"femnist/a.json": files.leaf(w={"x": [[None] * 784], "y": [1]})}, "writer 'w'"),
    "a label of FEMNIST": ({"femnist/a.json": files.leaf(w={"x": [[1] * 784], "y": [62]})}, "writer 'w'.*0 to 61"),
    "a short window": ({"shakespeare/a.json": files.leaf(P_X={"x": ["abc"], "y": ["d"]})}, "a.json: role 'P_X'"),
    "no text": ({"shakespeare/pg100.txt": b"\xff\xfe\x00"}, "pg100.txt is no text in UTF-8"),
    "no play": ({"shakespeare/pg100.txt": b"Once upon a time"}, "pg100.txt holds no role"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_files_are_named(tmp_path, what):
    contents, message = DAMAGED[what]
    put(tmp_path, contents)
    with pytest.raises(ValueError, match=message) as caught:
        datasets.read(next(n for n in datasets.present(tmp_path) if n != "digits"), tmp_path)
    assert str(tmp_path) in str(caught.value)


# ---- archives -----------------------------------------------------------------------------------------------------


def tar_of(*members, raw=b""):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(raw[: member.size]) if member.isreg() else None)
    return out.getvalue()


def member(name, **fields):
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def zip_of(name, mode=0, raw=b""):
    out = io.BytesIO()
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, raw)
    return out.getvalue()


HOSTILE = {
    "a name above": (tar_of(member("../evil")), "named '../evil'"),
    "a name within above": (tar_of(member("a/../../evil")), "outside"),
    "an absolute name": (tar_of(member("/evil")), "named '/evil'"),
    "a link": (tar_of(member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "'a', which is no plain file"),
    "a hard link": (tar_of(member("a", type=tarfile.LNKTYPE, linkname="../b")), "no plain file"),
    "a device": (tar_of(member("a", type=tarfile.CHRTYPE)), "no plain file"),
    "a name twice": (tar_of(member("a"), member("./a")), "'a' twice"),
    "a file beyond all data sets": (tar_of(member("a")).replace(b"00000000000\x00", b"77777777777\x00", 1), "unpacked"),
    "a damaged header": (tar_of(member("a"), member("b")).replace(b"b\x00", b"c\x00"), "does not end"),
    "no end": (tar_of(member("a"))[:512], "does not end"),
    "a zip with a name above": (zip_of("../evil"), "named '../evil'"),
    "a zip with a drive": (zip_of("c:evil"), "named 'c:evil'"),
    "a zip with a backslash": (zip_of("..\\evil"), "outside"),
    "a zip with a link": (zip_of("a", stat.S_IFLNK | 0o777, b"/etc/passwd"), "no plain file"),
    "nothing": (b"", "cannot be unpacked"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_archives_are_refused(tmp_path, what):
    raw, message = HOSTILE[what]
    for name, content in (("a.tar", raw), ("a.tar.gz", raw if raw[:2] == b"PK" else gzip.compress(raw))):
        path = put(tmp_path, {name: content}) / name
        with pytest.raises(ValueError, match=message) as caught:
            list(safe_members(path))
        assert str(path) in str(caught.value)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=2000), min_size=1), st.integers(0, 2))
def test_archives_give_back_what_was_put_in(tmp_path_factory, contents, kind):
    raw = (files.zipped(contents), files.tar(contents), files.tar(contents, packed=False))[kind]
    path = put(tmp_path_factory.mktemp("archive"), {"a": raw}) / "a"
    assert {name: read() for name, _, read in safe_members(path)} == contents


class Zeros(io.RawIOBase):
    """Endless zeros after a first piece."""

    def __init__(self, first, size):
        self.first, self.left = io.BytesIO(first), size

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self.first.read(len(buffer)) or bytes(min(len(buffer), self.left))
        self.left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)


def bomb(path, first, size):
    with gzip.open(path, "wb", compresslevel=1) as out, io.BufferedReader(Zeros(first, size)) as zeros:
        while piece := zeros.read(2**20):
            out.write(piece)
    return path


@pytest.mark.slow
def test_bombs_are_refused_before_they_fill_memory(tmp_path):
    small = files.idx(files.pixels(1, 28, 28), packed=False)
    path = bomb(tmp_path / "idx.gz", small, 2**28)
    header = tarfile.TarInfo("x")
    header.size, header.type = 2**28, tarfile.GNUTYPE_LONGNAME
    long_name = bomb(tmp_path / "a.tar.gz", header.tobuf(tarfile.GNU_FORMAT), 2**28)
    after = bomb(tmp_path / "b.tar.gz", tar_of(member("a")), 2**28)
    inflated = zlib.compress(bytes(2**26))
    matrix = bytes(126) + b"IM" + struct.pack("<2I", 15, len(inflated)) + inflated
    with at_most(megabytes=20):
        with pytest.raises(ValueError, match="not as many bytes as it announces"):
            read_idx(path.read_bytes(), "idx.gz")
        with pytest.raises(ValueError, match="headers of more than 8,192 bytes"):
            list(safe_members(long_name))
        with pytest.raises(ValueError, match="does not end"):
            list(safe_members(after))
        with pytest.raises(ValueError, match="has more than 1,048,576 bytes"):
            read_mat(matrix, "train_32x32.mat", limit=2**20)


def extension(kind, body):
    """A header of tar that is followed by more about the next file."""
    return member("x", type=kind, size=len(body)).tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % 512)


def variable(name=b"X", shape=(1, 1)):
    """A packed variable of one byte in a MATLAB file."""

    def element(kind, raw):
        return struct.pack("<2I", kind, len(raw)) + raw + bytes(-len(raw) % 8)

    parts = (6, struct.pack("<2I", 9, 0)), (5, struct.pack(f"<{len(shape)}i", *shape)), (1, name), (2, b"1")
    packed = zlib.compress(element(14, b"".join(element(*part) for part in parts)))
    return struct.pack("<2I", 15, len(packed)) + packed


MAT = bytes(126) + b"IM"
BIG = b"\x8a\xff" + b"\x7f" * 255  # a number of 255 bytes in a pickle


def test_small_files_cost_little_time_and_memory(tmp_path, monkeypatch):
    sparse = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
    monkeypatch.setattr(archive, "MEMBERS", 1000)
    tars = {
        "headers of more than 8,192": [
            extension(tarfile.XHDTYPE, sparse) + member("a").tobuf() + b"999999999\n" + b"1\n" * 2**22,
            extension(tarfile.XHDTYPE, b"1" * 2**20) + member("a").tobuf(),  # digits, of which tarfile asks too much
            extension(tarfile.GNUTYPE_LONGNAME, b"a" * 512) * 100 + member("a").tobuf(),
        ],
        "more than 1,000 files and folders": [member("a", type=tarfile.DIRTYPE).tobuf() * 2000],
        "no plain file|invalid offset": [member("a", size=-1024).tobuf(tarfile.GNU_FORMAT)],
    }
    with at_most(megabytes=40):
        for message, raws in tars.items():
            for raw in raws:
                path = put(tmp_path, {"a.tar.gz": gzip.compress(raw + bytes(1024), 1)}) / "a.tar.gz"
                with pytest.raises(ValueError, match=message):
                    list(safe_members(path))
    monkeypatch.setattr(pickled, "_OPCODES", 20_000)
    with at_most(megabytes=40), pytest.raises(ValueError, match="more than 20,000 opcodes"):
        read_pickled(b"\x80\x02(" + b"}" * 2**24 + b"t.", "it")
    for many in (BIG + BIG + b"\x86", b"(" + BIG * 10_000 + b"t"):
        with pytest.raises(ValueError, match="an array has no shape"):
            read_pickled(array_pickle(many, b"u1", NUMBERS, b"U\x03abc"), "it")
    assert read_mat(MAT + variable(), "it", 2**20)["X"].tolist() == [[49]]
    with pytest.raises(ValueError, match="too large"):
        read_mat(MAT + b"".join(variable(b"%d" % i + b"a" * 2**18) for i in range(5)), "it", 2**20)
    with pytest.raises(ValueError, match="more than 8 dimensions"):
        read_mat(MAT + variable(shape=(2**31 - 1,) * 2**17), "it", 2**20)


# ---- pickles ------------------------------------------------------------------------------------------------------


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.binary(), inner),
    max_leaves=20,
)


@pytest.mark.slow
@given(PLAIN, st.sampled_from([3, 4]))
def test_plain_values_are_read_as_they_were_pickled(value, protocol):
    assert read_pickled(pickle.dumps(value, protocol), "it") == value


@given(
    st.sampled_from(["u1", "<i4", ">i4", "<f8", ">f4", "?", "<u2"]),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([3, 4]),
)
def test_arrays_are_read_as_they_were_pickled(dtype, shape, fortran, protocol):
    array = np.asarray(files.pixels(*shape), order="F" if fortran else "C").astype(dtype)
    raw = pickle.dumps({"a": array, "b": [array]}, protocol)
    read = read_pickled(raw, "it")
    np.testing.assert_array_equal(read["a"], array)
    assert read["a"].dtype == pickle.loads(raw)["a"].dtype
    assert read["b"][0] is read["a"]


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def array_pickle(shape, dtype, state, values):
    """A pickle of an array with the given parts, as text of protocol 2."""
    head = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
    kind = b"cnumpy\ndtype\nU" + bytes([len(dtype)]) + dtype + b"K\x00K\x01\x87R(K\x03U\x01" + state + b"tb"
    return head + shape + kind + b"\x89" + values + b"tb."


NUMBERS = b"|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00"


def test_nothing_in_a_pickle_is_run(tmp_path, monkeypatch):
    sentinel = tmp_path / "run"
    calls = [
        Call(os.system, f"touch {sentinel}"),
        Call(open, str(sentinel), "w"),
        Call(eval, f"open({str(sentinel)!r}, 'w')"),
        Call(exec, f"open({str(sentinel)!r}, 'w')"),
        Call(getattr, sentinel, "touch"),
        Call(np.frombuffer, b"abc", "u1"),
        {"data": Call(np.load, str(sentinel))},
        np.array([Call(os.system, f"touch {sentinel}")], dtype=object),
        np.array([("a", 1)], dtype=[("name", object), ("n", int)]),
        Path("a"),
        {1, 2},
        complex(1, 2),
    ]
    for call, protocol in itertools.product(calls, range(6)):
        with pytest.raises(ValueError, match=r"evil.bin is no pickle of arrays and plain values"):
            read_pickled(pickle.dumps(call, protocol), "evil.bin")
    assert not sentinel.exists()
    assert read_pickled(array_pickle(b"K\x03\x85", b"u1", NUMBERS, b"U\x03abc"), "it").tolist() == [97, 98, 99]
    for shape, dtype, state, values in [
        (b"K\x03\x85", b"O8", NUMBERS, b"U\x03abc"),
        (b"K\x03\x85", b"O8", NUMBERS, b"](K\x01K\x01K\x01e"),
        (b"K\x04\x85", b"u1", NUMBERS, b"U\x03abc"),
        (b"J\xff\xff\xff\xff\x85", b"u1", NUMBERS, b"U\x03abc"),
        (b"K\x03", b"u1", NUMBERS, b"U\x03abc"),
        (b"K\x03\x85", b"u1", b"|N(U\x01at}NJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x3f", b"U\x03abc"),
        (b"M\xff\xff\x85", b"V9", NUMBERS, b"U\x03abc"),
    ]:
        with pytest.raises(ValueError, match="it is no pickle"):
            read_pickled(array_pickle(shape, dtype, state, values), "it")


def test_a_pickle_cannot_use_one_string_for_many_arrays():
    size = 2**20
    string = b"T" + size.to_bytes(4, "little") + bytes(size) + b"q\x07"
    shape = b"J" + (size // 8).to_bytes(4, "little") + b"\x85"
    array = array_pickle(shape, b"i8", NUMBERS.replace(b"|", b">"), b"h\x07").removeprefix(b"\x80\x02")[:-1]
    assert read_pickled(b"\x80\x02](" + string + array + b"e.", "it")[1].shape == (size // 8,)
    with at_most(megabytes=12), pytest.raises(ValueError, match="its arrays are larger than the file"):
        read_pickled(b"\x80\x02](" + string + 1000 * array + b"e.", "it")
