"""Real data sets: small files of every format, and the real ones where they are at hand."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstat.data import datasets
from fedstat.data.datasets.shakespeare import plays
from fedstat.data.datasets.text import ALPHABET, decode_text, windows
from fedstat.data.datasets.tinyshakespeare import speeches
from tests.support import dataset_files as files

pytestmark = pytest.mark.usefixtures("made_up_data")


def same(dataset, x, y, test):
    np.testing.assert_array_equal(dataset.x, x)
    assert dataset.x.dtype == np.uint8
    np.testing.assert_array_equal(dataset.y, y)
    assert dataset.y.dtype == np.int64
    np.testing.assert_array_equal(dataset.test, test)


def idx_files(stems, train_y, test_y, packed=True, separator="-"):
    names = [
        f"{stem}-{kind}" for stem in stems for kind in (f"images{separator}idx3-ubyte", f"labels{separator}idx1-ubyte")
    ]
    x = files.pixels(len(train_y) + len(test_y), 28, 28)
    arrays = [x[: len(train_y)], np.uint8(train_y), x[len(train_y) :], np.uint8(test_y)]
    suffix = ".gz" if packed else ""
    return {f"{n}{suffix}": files.idx(a, packed) for n, a in zip(names, arrays, strict=True)}, x


# ---- every format -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "packed", "separator"), [("mnist", True, "-"), ("fashion-mnist", False, ".")])
def test_idx_gzipped_or_plain(tmp_path, name, packed, separator):
    contents, x = idx_files(("train", "t10k"), [3, 0, 9], [1, 2], packed, separator)
    files.put(tmp_path / name, contents)
    dataset = datasets.read(name, tmp_path)
    same(dataset, x, [3, 0, 9, 1, 2], [False] * 3 + [True] * 2)
    assert len(dataset.classes) == 10


@pytest.mark.parametrize("form", ["files", "folder", "zip"])
@pytest.mark.parametrize(("split", "first", "classes"), [("balanced", 0, 47), ("letters", 1, 26), ("byclass", 0, 62)])
def test_emnist_stands_upright(tmp_path, form, split, first, classes):
    contents, x = idx_files((f"emnist-{split}-train", f"emnist-{split}-test"), [first, classes + first - 1], [first])
    if form == "zip":
        contents = {"gzip.zip": files.zipped({f"gzip/{name}": raw for name, raw in contents.items()})}
    files.put(tmp_path / "emnist" / ("gzip" if form == "folder" else ""), contents)
    dataset = datasets.read("emnist" if split == "balanced" else f"emnist-{split}", tmp_path)
    same(dataset, x.swapaxes(1, 2), [0, classes - 1, 0], [False, False, True])
    assert len(dataset.classes) == classes
    assert dataset.classes[-1] == {"balanced": "t", "letters": "z", "byclass": "z"}[split]


FORMS = (files.binary_batch, files.python2_batch, files.python3_batch)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_cifar_in_both_versions(tmp_path, form, packed):
    version = "binary" if form is files.binary_batch else "python"
    for number, (contents, x, y) in ((10, files.cifar10_files(form)), (100, files.cifar100_files(form))):
        if packed:
            contents = {f"cifar-{number}-{version}.tar.gz": files.tar(contents)}
        files.put(tmp_path / f"cifar{number}", contents)
        dataset = datasets.read(f"cifar{number}", tmp_path)
        same(dataset, x, y, np.arange(len(y)) >= (15 if number == 10 else 3))
        assert f"cifar-{number}" in dataset.name, "a subset says what it was read from"
    expected = ["fruit_and_vegetables", "fish", "people", "aquatic_mammals", "vehicles_1"]
    assert dataset.groups["superclass"].tolist() == expected
    assert [dataset.classes[code] for code in y] == ["apple", "aquarium_fish", "woman", "beaver", "bicycle"]


def test_official_names_come_before_subsets_and_binary_before_python(tmp_path):
    folder = tmp_path / "cifar10"
    binary, python = (files.tar(files.cifar10_files(form)[0]) for form in FORMS[:2])
    files.put(folder, {"cifar-10-python-sample.tar.gz": python})
    files.put(folder, {"cifar-10-binary-subset.tar.gz": binary})
    assert [path.name for path in datasets.present(tmp_path)["cifar10"]] == [
        "cifar-10-binary-subset.tar.gz",
        "cifar-10-python-sample.tar.gz",
    ]
    files.put(folder, {"cifar-10-python.tar.gz": python})
    assert datasets.read("cifar10", tmp_path).name == "cifar10 (cifar-10-python.tar.gz)"


def test_cifar10_from_jpeg_files_is_lossy_and_in_the_original_order(tmp_path):
    images, index, y = files.jpeg_files()
    files.put(tmp_path / "cifar10", {"CIFAR-10-images-4.tar.gz": files.tar(images)})
    files.put(tmp_path / "cifar10", {"CIFAR-10-images-4-index.csv.gz": gzip.compress(index)})
    dataset = datasets.read("cifar10-jpeg", tmp_path)
    assert "JPEG" in dataset.lossy
    assert dataset.x.shape == (4, 3, 32, 32)
    np.testing.assert_array_equal(dataset.y, y)
    np.testing.assert_array_equal(dataset.test, [False, False, True, True])
    for image, colour in zip(dataset.x, files.COLOURS, strict=True):
        assert np.abs(image.mean(axis=(1, 2)) - colour).max() < 3


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_tiny_imagenet_packed_or_not(tmp_path, form):
    contents = files.tiny_files()
    if form == "zip":
        contents = {"tiny-imagenet-200.zip": files.zipped(contents)}
    elif form == "tar":
        contents = {"tiny-imagenet-2classes.tar.gz": files.tar(contents)}
    dataset = datasets.read("tiny-imagenet", files.put(tmp_path / "tiny-imagenet", contents).parent)
    assert dataset.classes == ("tabby", "goldfish")
    assert dataset.y.tolist() == [0, 1, 0, 1]
    assert dataset.test.tolist() == [False, False, True, True]
    for image, i in zip(dataset.x, (1, 0, 3, 2), strict=True):
        assert np.abs(image.mean(axis=(1, 2)) - files.COLOURS[i]).max() < 3


@pytest.mark.parametrize("packed", [True, False])
def test_svhn(tmp_path, packed):
    x, y = files.pixels(5, 3, 32, 32), np.array([1, 0, 9, 0, 5])
    contents = {"train_32x32.mat": files.mat(x[:3], y[:3], packed), "test_32x32.mat": files.mat(x[3:], y[3:], packed)}
    files.put(tmp_path / "svhn", contents)
    same(datasets.read("svhn", tmp_path), x, y, [False] * 3 + [True] * 2)


@pytest.mark.parametrize("place", ["data/", "", None])
def test_femnist_by_writer(tmp_path, place):
    x = files.pixels(5, 28, 28)
    first = files.leaf(f0001=files.writer(x[:2], [61, 0]), f0002=files.writer(x[2:3], [10]))
    second = files.leaf(f0001=files.writer(x[3:], [36, 9]))
    names = ["a.json", "b.json"] if place is None else [f"{place}train/a.json", f"{place}test/a.json"]
    files.put(tmp_path / "femnist", dict(zip(names, (first, second), strict=True)))
    dataset = datasets.read("femnist", tmp_path)
    same(dataset, x, [61, 0, 10, 36, 9], [False] * 3 + [place is not None] * 2)
    assert dataset.groups["writer"].tolist() == ["f0001", "f0001", "f0002", "f0001", "f0001"]
    assert [dataset.classes[code] for code in dataset.y] == ["z", "0", "A", "a", "9"]


def test_femnist_keeps_floats_that_are_no_bytes(tmp_path):
    x = np.full((1, 784), 0.123456)
    files.put(tmp_path / "femnist", {"a.json": files.leaf(w={"x": x.tolist(), "y": [1]})})
    dataset = datasets.read("femnist", tmp_path)
    assert dataset.x.dtype == np.float32
    np.testing.assert_allclose(dataset.x, 0.123456, rtol=1e-6)


def test_shakespeare_by_the_rules_of_leaf(tmp_path):
    found = plays(decode_text(files.PLAYS, "it"))
    assert found == {
        "A PLAY OF SORTS": {"HAM": [files.LINE, files.LINE, "End."], "OTHER MAN": ["Short."]},
        "THE COMEDY OF ERRORS": {"DUKE": [files.LINE, files.LINE], "AEGEON": ["No.", ""]},
    }
    files.put(tmp_path / "shakespeare", {"pg100.txt": files.PLAYS})
    dataset = datasets.read("shakespeare", tmp_path)
    text = f"{files.LINE} {files.LINE} End. "
    assert len(dataset.y) == len(text) - 80
    assert set(dataset.groups["role"]) == {"A_PLAY_OF_SORTS_HAM"}, "others have fewer than three lines"
    for i in (0, 7, len(dataset.y) - 1):
        assert "".join(ALPHABET[code] for code in dataset.x[i]) == text[i : i + 80]
        assert dataset.classes[dataset.y[i]] == text[i + 80]
    assert dataset.vocabulary == len(dataset.classes) == 80
    files.put(tmp_path / "zip" / "shakespeare", {"1994-01-100.zip": files.zipped({"100.txt": files.PLAYS})})
    np.testing.assert_array_equal(datasets.read("shakespeare", tmp_path / "zip").x, dataset.x)


def test_shakespeare_from_the_files_of_leaf(tmp_path):
    x = [("abc" * 27)[:80], ("é}\n" * 27)[:80]]
    files.put(tmp_path / "shakespeare", {"data/train/a.json": files.leaf(P_HAM={"x": x[:1], "y": ["c"]})})
    files.put(tmp_path / "shakespeare", {"data/test/a.json": files.leaf(P_HAM={"x": x[1:], "y": ["!"]})})
    dataset = datasets.read("shakespeare", tmp_path)
    read = ["".join(dataset.classes[code] for code in row) for row in dataset.x]
    assert read == [x[0], x[1].replace("é", "}")], "what the alphabet lacks is its last character"
    assert [dataset.classes[code] for code in dataset.y] == ["c", "!"]
    assert dataset.test.tolist() == [False, True]


@given(st.lists(st.lists(st.text(ALPHABET.replace("\n", ""), max_size=150), max_size=4), min_size=1, max_size=4))
def test_windows_hold_every_position_of_every_role_and_no_other(roles):
    roles = {f"role {i}": lines for i, lines in enumerate(roles)}
    texts = {role: collapse(" ".join([*lines, ""])) for role, lines in roles.items()}
    expected = [(text[i : i + 81], role) for role, text in texts.items() for i in range(len(text) - 80)]
    if not expected:
        with pytest.raises(ValueError, match="it holds no role"):
            windows("it", "it", roles)
        return
    dataset = windows("it", "it", roles)
    found = np.column_stack([dataset.x, dataset.y])
    assert ["".join(ALPHABET[code] for code in row) for row in found] == [text for text, _ in expected]
    assert dataset.groups["role"].tolist() == [role for _, role in expected]


def collapse(text):
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def test_tinyshakespeare_by_role(tmp_path):
    text = f"First Citizen:\n{files.LINE}\n{files.LINE}\n\nAll:\nSpeak.\n\nFirst Citizen:\nYou are.\n"
    assert {role: len(parts) for role, parts in speeches(text).items()} == {"First Citizen": 2, "All": 1}
    files.put(tmp_path / "shakespeare", {"input.txt": text.encode()})
    dataset = datasets.read("tinyshakespeare", tmp_path)
    assert len(dataset.y) == 2 * 64 + len("You are. ") - 80
    assert set(dataset.groups["role"]) == {"First Citizen"}


def test_digits_are_always_there(tmp_path):
    dataset = datasets.read("digits", tmp_path)
    assert dataset.x.shape == (1797, 8, 8)
    assert dataset.x.max() == 1
    assert not dataset.test.any()
    assert list(datasets.present(tmp_path)) == ["digits"]


def test_every_source_is_listed_and_can_be_got():
    sources = datasets.available()
    wanted = {"mnist", "fashion-mnist", "emnist", "femnist", "cifar10", "cifar100", "cifar10-jpeg", "svhn"}
    assert wanted | {"tiny-imagenet", "shakespeare", "digits", "emnist-letters"} <= set(sources)
    for name, source in sources.items():
        assert source.name == name
        assert source.downloads or source.note
        for download in source.downloads:
            assert download.url.endswith(download.file)
            assert download.url.startswith("https://") or download.sha256
            assert download.sha256 is None or len(bytes.fromhex(download.sha256)) == 32


def test_the_root_is_the_environments(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDSTAT_DATA", str(tmp_path))
    assert datasets.data_root() == tmp_path
    monkeypatch.delenv("FEDSTAT_DATA")
    assert datasets.data_root().name == "fedstat"


def test_patients_of_four_hospitals(tmp_path):
    files.put(tmp_path, {f"heart/{name}": raw for name, raw in files.HEART.items()})
    heart = datasets.read("heart-disease", tmp_path)
    assert heart.classes == ("no disease", "disease")
    assert heart.y.tolist() == [0, 0, 1, 0, 1, 0, 1, 0]
    assert list(dict.fromkeys(heart.groups["hospital"])) == ["Cleveland", "Hungary", "Switzerland", "VA Long Beach"]
    first, second = heart.x.iloc[2], heart.x.iloc[3]
    words = [
        "typical angina",
        145,
        233,
        1,
        "left ventricular hypertrophy",
        150,
        0,
        2.3,
        "downsloping",
        0,
        "fixed defect",
    ]
    assert first.tolist() == [51, 1, *words]
    assert second.isna().tolist() == [
        name in ["trestbps", "chol", "fbs", "slope", "ca", "thal"] for name in heart.x
    ]  # 0 is none
    (tmp_path / "heart/processed.va.data").write_text("40,0,9,1,1,1,0,127,0,1,1,1,3,0\n")
    with pytest.raises(ValueError, match=r"processed.va.data: cp should be one of 1, 2, 3, 4, got 9"):
        datasets.read("heart-disease", tmp_path)


# ---- what is missing -----------------------------------------------------------------------------------------------


def test_what_is_missing_says_what_is_there_and_how_to_get_it(tmp_path):
    with pytest.raises(ValueError, match=r"there is no data set 'mnits'; fedstat reads .*mnist"):
        datasets.read("mnits", tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        datasets.read("mnist", tmp_path)
    for part in (str(tmp_path / "mnist"), "t10k-labels-idx1-ubyte.gz", "there are digits", "fedstat data fetch mnist"):
        assert part in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"preprocess.sh"):
        datasets.read("femnist", tmp_path)


# ---- the real files, as the README beside them describes them -----------------------------------------------------


ROOT = Path(os.environ.get("FEDSTAT_DATA", "nowhere"))


def real(name, file):
    """The data set, if the file is at hand."""
    if not (ROOT / datasets.available()[name].folder / file).is_file():
        pytest.skip(f"FEDSTAT_DATA holds no {file}")
    return datasets.read(name, ROOT)


def test_the_real_mnist():
    mnist = real("mnist", "train-images-idx3-ubyte.gz")
    assert mnist.x.shape == (70_000, 28, 28)
    shares = mnist.x[~mnist.test] / 255
    assert (round(shares.mean(), 5), round(shares.std(), 5)) == (0.13066, 0.30811)
    assert mnist.y[~mnist.test][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.y[mnist.test][:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(mnist.y[mnist.test]).tolist() == test
    assert np.bincount(mnist.y[~mnist.test]).tolist() == train


def test_the_real_cifar10_in_all_its_forms(tmp_path):
    subset = "cifar-10-binary-subset-8068train-1017test.tar.gz"
    binary = real("cifar10", subset)
    assert binary.name == f"cifar10 ({subset})"
    assert np.bincount(binary.y[~binary.test]).tolist() == [810, 777, 808, 783, 856, 782, 808, 799, 835, 810]
    assert np.bincount(binary.y[binary.test]).tolist() == [105, 93, 100, 104, 92, 87, 114, 102, 110, 110]
    shares = binary.x[~binary.test] / 255
    np.testing.assert_allclose(shares.mean(axis=(0, 2, 3)), [0.4930, 0.4834, 0.4469], atol=5e-5)
    np.testing.assert_allclose(shares.std(axis=(0, 2, 3)), [0.2480, 0.2445, 0.2624], atol=5e-5)

    (tmp_path / "cifar10").mkdir()
    sample = "cifar-10-python-sample-200perbatch.tar.gz"
    (tmp_path / "cifar10" / sample).symlink_to(ROOT / "cifar10" / sample)
    python = datasets.read("cifar10", tmp_path)
    assert np.bincount(python.y[~python.test]).tolist() == [83, 114, 94, 99, 109, 98, 101, 104, 94, 104]
    assert np.bincount(python.y[python.test]).tolist() == [20, 14, 21, 19, 15, 18, 26, 18, 28, 21]
    sizes = np.array([4000, *[1017] * 5])
    starts = np.cumsum(sizes) - sizes
    common = (starts[:, None] + np.arange(200)).ravel()
    np.testing.assert_array_equal(binary.x[common], python.x)
    np.testing.assert_array_equal(binary.y[common], python.y)

    jpeg = real("cifar10-jpeg", "CIFAR-10-images-jpg-60000.tar.gz")
    assert np.bincount(jpeg.y[jpeg.test]).tolist() == [1000] * 10
    assert np.bincount(jpeg.y[~jpeg.test]).tolist() == [5000] * 10
    same_image = np.concatenate([10_000 * i + np.arange(size) for i, size in enumerate(sizes)])
    np.testing.assert_array_equal(jpeg.y[same_image], binary.y)
    error = (jpeg.x[same_image].astype(np.float32) - binary.x) ** 2
    assert abs(error.mean() - 65) < 1
    assert error.mean(axis=(1, 2, 3)).max() < 1000, "no image is taken for another"


def test_the_real_tiny_imagenet():
    tiny = real("tiny-imagenet", "tiny-imagenet-20classes.tar.gz")
    assert tiny.x.shape == (11_000, 3, 64, 64)
    assert np.bincount(tiny.y[~tiny.test]).tolist() == [500] * 20
    assert np.bincount(tiny.y[tiny.test]).tolist() == [50] * 20
    grey = (tiny.x == tiny.x[:, :1]).all(axis=(1, 2, 3)).sum()
    assert grey >= 158
    assert {"goldfish", "Christmas stocking", "iPod", "meat loaf"} < set(tiny.classes)


def test_the_real_shakespeare():
    dataset = real("shakespeare", "pg100.txt")
    found = plays(decode_text((ROOT / "shakespeare" / "pg100.txt").read_bytes(), "it"))
    clients = [lines for roles in found.values() for lines in roles.values()]
    assert len(found) == 36
    assert len(clients) == 1301
    assert sum(map(len, clients)) == 106_340
    assert sum(len(line) for lines in clients for line in lines) == 4_341_105
    assert [sum(len(c) >= n for c in clients) for n in (2, 3, 11, 101)] == [1201, 1144, 861, 299]
    hamlet = found["THE TRAGEDY OF HAMLET, PRINCE OF DENMARK"]
    assert (len(hamlet), sum(map(len, hamlet.values())), len(hamlet["HAM"])) == (32, 4052, 1559)
    macbeth = found["THE TRAGEDY OF MACBETH"]
    assert (len(macbeth), sum(map(len, macbeth.values()))) == (43, 2438)
    assert len(set(dataset.groups["role"])) == 1129, "as LEAF reports"
    assert dataset.x.shape == (4_226_158, 80), "as LEAF reports"


def test_the_real_tinyshakespeare():
    dataset = real("tinyshakespeare", "tinyshakespeare_input.txt")
    found = speeches((ROOT / "shakespeare" / "tinyshakespeare_input.txt").read_text())
    counts = {role: len(parts) for role, parts in found.items()}
    assert (sum(counts.values()), len(counts), sum(n > 1 for n in counts.values())) == (7222, 309, 248)
    assert (counts["GLOUCESTER"], counts["DUKE VINCENTIO"], counts["PETRUCHIO"]) == (229, 193, 158)
    assert dataset.vocabulary == 80


def test_the_real_patients_of_four_hospitals():
    heart = real("heart-disease", "processed.va.data")
    table = heart.x.assign(hospital=heart.groups["hospital"], disease=heart.y)
    assert table.groupby("hospital")["disease"].agg(["size", "sum"]).to_numpy().tolist() == [
        [303, 139], [294, 106], [123, 115], [200, 149],
    ]  # fmt: skip
    assert table.groupby("hospital")["chol"].count().tolist() == [303, 271, 0, 144]
