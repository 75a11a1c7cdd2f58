"""Small files in the formats of the real data sets, written by other means than those that read them."""

import csv
import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile

import numpy as np
from PIL import Image
from scipy.io import savemat

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def put(root, contents):
    """Write files by their path under the root."""
    for name, raw in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw)
    return root


def idx(array, packed=True):
    raw = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    return gzip.compress(raw, mtime=0) if packed else raw


def tar(files, packed=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, raw in files.items():
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return gzip.compress(out.getvalue(), mtime=0) if packed else out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(zipfile.ZipInfo(name), raw)
    return out.getvalue()


def python2_batch(data, **labels):
    """What Python 2 wrote: cPickle's protocol 2, strings as bytes, numpy's old module name."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    def number(value):
        return b"K" + bytes([value])

    def table(values):
        return b"](" + b"".join(map(number, values)) + b"e"

    dtype = b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + 2 * b"J\xff\xff\xff\xff" + number(0) + b"tb"
    shape = b"".join(b"J" + struct.pack("<i", n) for n in data.shape) + b"\x86"
    values = b"T" + struct.pack("<i", data.nbytes) + data.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R"
    array += b"(" + number(1) + shape + dtype + b"\x89" + values + b"tb"
    items = [text(b"data") + array, text(b"batch_label") + text(b"a batch")]
    items += [text(key.encode()) + table(values) for key, values in labels.items()]
    return b"\x80\x02}q\x01(" + b"".join(items) + b"u."


def python3_batch(data, **labels):
    return pickle.dumps({"data": data, "filenames": ["a.png"] * len(data)} | labels, protocol=4)


def binary_batch(data, **labels):
    return np.column_stack([*labels.values(), data]).astype(np.uint8).tobytes()


def jpeg(colour, side):
    """An image of one colour, or of one grey level."""
    out = io.BytesIO()
    mode = "L" if np.isscalar(colour) else "RGB"
    Image.new(mode, (side, side), colour).save(out, "JPEG", quality=95)
    return out.getvalue()


def cifar10_files(form, records=3):
    """Batches of 3 records, test batch last, and what they mean together."""
    x = pixels(6 * records, 3072)
    y = np.arange(6 * records) % 10
    suffix = ".bin" if form is binary_batch else ""
    folder = "cifar-10-batches-bin" if form is binary_batch else "cifar-10-batches-py"
    parts = np.split(np.arange(len(y)), 6)
    files = {f"{folder}/{name}{suffix}": form(x[i], labels=y[i].tolist())
             for name, i in zip(BATCHES, parts, strict=True)}  # fmt: skip
    return files, x.reshape(-1, 3, 32, 32), y


def cifar100_files(form):
    x = pixels(5, 3072)
    fine, coarse = [0, 1, 98, 4, 8], [4, 1, 14, 0, 18]  # apple, aquarium fish, woman, beaver, bicycle
    folder, suffix = ("cifar-100-binary", ".bin") if form is binary_batch else ("cifar-100-python", "")
    files = {
        f"{folder}/{part}{suffix}": form(x[i], coarse_labels=coarse[i], fine_labels=fine[i])
        for part, i in (("train", slice(0, 3)), ("test", slice(3, 5)))
    }
    return files, x.reshape(-1, 3, 32, 32), np.array(fine)


COLOURS = [(250, 10, 10), (10, 250, 10), (10, 10, 250), 128]


def jpeg_files():
    """Two training images and two test images: colours, and one in grey."""
    names = ["train/frog/0000.jpg", "train/airplane/0000.jpg", "test/cat/0000.jpg", "test/frog/0000.jpg"]
    rows = [(name, name.split("/")[0], CIFAR10.index(name.split("/")[1]), i % 2) for i, name in enumerate(names)]
    table = io.StringIO()
    csv.writer(table).writerows([("path", "split", "label", "original_index"), *rows[::-1]])
    images = {f"CIFAR-10-images/{name}": jpeg(colour, 32) for name, colour in zip(names, COLOURS, strict=True)}
    return images, table.getvalue().encode(), np.array([6, 0, 3, 6])


def tiny_files():
    """Two of three classes kept, a training and a validation image of each."""
    files = {
        "wnids.txt": b"n02\nn01\n",
        "words.txt": b"n01\tgoldfish, Carassius auratus\nn02\ttabby\nn03\tviaduct\n",
        "train/n01/n01_boxes.txt": b"n01_0.JPEG\t0\t0\t1\t1\n",
        "train/n01/images/n01_0.JPEG": jpeg(COLOURS[0], 64),
        "train/n02/images/n02_0.JPEG": jpeg(COLOURS[1], 64),
        "val/val_annotations.txt": b"val_0.JPEG\tn01\t0\t0\t1\t1\nval_1.JPEG\tn02\t0\t0\t1\t1\n",
        "val/images/val_0.JPEG": jpeg(COLOURS[2], 64),
        "val/images/val_1.JPEG": jpeg(COLOURS[3], 64),
        "test/images/test_0.JPEG": jpeg(COLOURS[3], 64),
    }
    return {f"tiny-imagenet-200/{name}": raw for name, raw in files.items()}


def mat(x, y, packed=True):
    """SVHN's layout: pixels (32, 32, 3, N), and 10 for a nought."""
    out = io.BytesIO()
    savemat(out, {"X": x.transpose(2, 3, 1, 0), "y": np.where(y == 0, 10, y)[:, None]}, do_compression=packed)
    return out.getvalue()


def leaf(**users):
    table = {"users": list(users), "num_samples": [len(u["y"]) for u in users.values()], "user_data": users}
    return json.dumps(table).encode()


def writer(images, labels):
    return {"x": (images.reshape(len(images), -1) / 255).tolist(), "y": list(labels)}


LINE = "To be, or not to be: that is the question, whether it is nobler"  # 63 characters

PLAYS = f"""Header of the eBook.

THE SONNETS

by William Shakespeare

  Nobody. This speaks alone.

A PLAY OF SORTS

by William Shakespeare

ACT I
  Ham. {LINE}
    {LINE}
[Exit
  OTHER MAN. Short.
  HAM. End.
THE COMEDY OF ERRORS

by William Shakespeare

ACT I. SCENE I
DUKE. {LINE}
{LINE}
<<NOTICE>>
not spoken
AEGEON. No.
""".replace("\n", "\r\n").encode("utf-8-sig")  # fmt: skip


#: Two made-up patients of each hospital: a whole line, and gaps, two of which are written as 0.
HEART = {
    f"processed.{name}.data": f"{50 + k}.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,{k}\n"
    f"{40 + k},0,4,0,0,?,0,127,0,-.7,?,?,?,0\n".encode()
    for k, name in enumerate(["cleveland", "hungarian", "switzerland", "va"])
}
