"""Clients out of the files into which PFLlib deals its data sets."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedstat import data


def dealt(folder, parts, config=True):
    """Write what `save_file` of dataset/utils/dataset_utils.py writes; parts are {split: [(x, y) of each client]}."""
    for split, clients in parts.items():
        (folder / split).mkdir(parents=True)
        for k, (x, y) in enumerate(clients):
            with (folder / split / f"{k}.npz").open("wb") as f:
                np.savez_compressed(f, data={"x": x, "y": y})
    if config:
        of = {"num_clients": len(parts["train"]), "num_classes": 4, "non_iid": True, "partition": "dir", "alpha": 0.1}
        (folder / "config.json").write_text(json.dumps(of))
    return folder


def images(rng, sizes, dtype=np.float32):
    return [(rng.normal(size=(n, 1, 4, 4)).astype(dtype), rng.integers(0, 3, n)) for n in sizes]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_client_holds_the_samples_of_its_files(tmp_path, dtype):
    rng = np.random.default_rng(0)
    parts = {"train": images(rng, range(3, 15), dtype), "test": images(rng, range(2, 14), dtype)}  # 10.npz after 9.npz
    clients = data.from_pfllib(dealt(tmp_path / "Mine", parts))
    assert clients.classes == (0, 1, 2, 3)
    for split, own in parts.items():
        assert clients.splits[split].n.tolist() == [len(y) for _, y in own]
        for k, (x, y) in enumerate(own):
            found, labels = clients.splits[split].client(k)
            order, other = np.argsort(found[:, 0, 0, 0]), np.argsort(x[:, 0, 0, 0].astype(np.float32))
            np.testing.assert_array_equal(found[order], x[other].astype(np.float32))
            np.testing.assert_array_equal(labels[order], y[other])
    assert data.from_pfllib(tmp_path / "Mine", validation=0.3).validation.n.tolist()[-1] == 5


def test_texts_are_tokens(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 90, (8, 5)), rng.integers(0, 4, 8)
    shakespeare = data.from_pfllib(dealt(tmp_path / "Shakespeare", {"train": [(x, y)], "test": [(x, y)]}, config=False))
    texts = np.array([(text, len(text)) for text in x.tolist()], dtype=object)  # as dataset/generate_AGNews.py
    news = data.from_pfllib(dealt(tmp_path / "AGNews", {"train": [(texts, y)], "test": [(texts, y)]}))
    for clients in (shakespeare, news):
        assert clients.test.x.dtype.kind == "i"
        np.testing.assert_array_equal(clients.test.x, x)


def test_files_that_are_not_pfllibs_are_refused_by_name(tmp_path):
    rng = np.random.default_rng(0)
    folder = dealt(tmp_path / "Mine", {"train": images(rng, [4, 5]), "test": images(rng, [2])})
    with pytest.raises(ValueError, match=r"test/1.npz is missing"):
        data.from_pfllib(folder)
    with pytest.raises(ValueError, match=r"Mine/none must hold train/0.npz, .* of all clients, .* it has 0 such files"):
        data.from_pfllib(folder / "none")
    last = folder / "test" / "1.npz"
    for held, message in (
        ({"x": np.ones((2, 1, 4, 4)), "y": np.array([0, 9])}, r"Mine: y must hold codes 0..3 .* has 9"),
        ({"x": np.ones((2, 1, 4, 5)), "y": np.array([0, 1])}, r"samples of all clients must have one shape, got"),
        ({"x": np.ones((2, 1, 4, 4)), "y": np.array([0.5, 1])}, r"1.npz does not hold a client's x and y"),
        ({"x": np.ones((2, 1, 4, 4))}, r"1.npz does not hold a client's x and y as PFLlib writes them: 'y'"),
        ([1, 2], r"array 'data' cannot be read: it has dtype int64 and shape \(2,\), where one object is needed"),
    ):
        np.savez_compressed(last, data=held)
        with pytest.raises(ValueError, match=message):
            data.from_pfllib(folder)
    (folder / "config.json").write_text('{"num_clients": 3}')
    with pytest.raises(ValueError, match=r"of 3 clients, as PFLlib writes them; it has 2 such files"):
        data.from_pfllib(folder)


class Evil:
    """Fails the test if it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_no_file_of_pfllibs_is_unpickled(tmp_path):
    part = images(np.random.default_rng(0), [4])
    folder = dealt(tmp_path / "Mine", {"train": part, "test": part})
    for held in (Evil(), {"x": Evil(), "y": np.arange(2)}, {"x": np.array([Evil()], dtype=object), "y": np.arange(1)}):
        np.savez_compressed(folder / "test" / "0.npz", data=np.array(held, dtype=object))
        with pytest.raises(
            ValueError, match=r"0.npz: array 'data' cannot be read: it is no pickle of arrays and plain"
        ):
            data.from_pfllib(folder)


TEXTS = np.array([([1, 2], 2), ([3, 4], 2)], dtype=object)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder of one client."""
    part = [(TEXTS, np.arange(2))]
    return dealt(tmp_path_factory.mktemp("whole") / "News", {"train": part, "test": part})


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.floats(0, 1), st.integers(0, 6), st.binary(max_size=4))
def test_a_damaged_file_is_read_or_refused_by_name(whole, place, cut, put):
    raw = pickle.dumps(np.array({"x": TEXTS, "y": np.arange(2)}, dtype=object), 4)
    at = round(place * len(raw))
    with zipfile.ZipFile(whole / "train" / "0.npz", "w") as archive, archive.open("data.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "|O", "fortran_order": False, "shape": ()})
        member.write(raw[:at] + put + raw[at + cut :])
    message = "News"
    try:
        data.from_pfllib(whole)
    except ValueError as error:
        message = str(error)
    assert "News" in message
