"""Samples laid end to end: against padded rows, one client after another, and data that stay in their file."""

import pickle
import tracemalloc

import numpy as np
import pytest

import fedstat as fs
from fedstat._random import stream, streams
from fedstat.data import Mapped, Samples, by_group, from_arrays, from_csv
from fedstat.federated import fingerprint

RNG = np.random.default_rng(0)
SIZES = np.array([3, 40, 1, 17, 9])
X = RNG.normal(size=(SIZES.sum(), 4)).astype(np.float32)
Y = RNG.integers(3, size=len(X))
OWNER = np.repeat(np.arange(5), SIZES)


def padded(waste=7.0):
    """The same samples with an axis of clients."""
    x, y = np.full((5, 40, 4), waste, np.float32), np.full((5, 40), 2)
    for k in range(5):
        x[k, : SIZES[k]], y[k, : SIZES[k]] = X[k == OWNER], Y[k == OWNER]
    return x, y, SIZES


def test_each_client_finds_its_own_samples():
    flat, rows = Samples(X, Y, SIZES), Samples.from_rows(*padded())
    for samples in (flat, rows):
        for k in range(5):
            np.testing.assert_array_equal(samples.client(k)[0], X[k == OWNER])
            np.testing.assert_array_equal(samples.client(k)[1], Y[k == OWNER])
        counts = [[((k == OWNER) & (q == Y)).sum() for q in range(3)] for k in range(5)]
        np.testing.assert_array_equal(samples.class_counts(3), counts)
        assert [samples.whose(i) for i in range(4)] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    some = flat.of(np.array([3, 1, 3]), most=5)
    assert some.n.tolist() == [5, 5, 5]
    np.testing.assert_array_equal(some.client(1)[0], X[OWNER == 1][:5])
    np.testing.assert_array_equal(some.client(2)[0], some.client(0)[0])
    assert flat.of(most=2).n.tolist() == [2, 2, 1, 2, 2]


@pytest.mark.parametrize("method", [fs.FedAvg(), fs.methods.FedFOMO(), fs.methods.Ditto(), fs.methods.FedPAC()])
@pytest.mark.parametrize("executor", ["stacked", "per-client"])
def test_no_result_sees_padding_or_the_file(method, executor, tmp_path):
    keep = SIZES[[0, 1, 3, 4]]  # FedFOMO holds samples out
    some = Samples(X, Y, SIZES).of(np.array([0, 1, 3, 4]))
    x, y, _ = padded()
    wide = Samples.from_rows(x[[0, 1, 3, 4]], y[[0, 1, 3, 4]], keep)
    np.save(tmp_path / "x.npy", X)
    file = np.load(tmp_path / "x.npy", mmap_mode="r")
    mapped = Samples(Mapped(file, np.flatnonzero(OWNER != 2), file.dtype), some.y, keep)
    found = [
        fs.federate(
            method, fs.models.mlp(4, 5, 3), fs.data.Clients(one, one, classes=(0, 1, 2)),
            fs.Training(lr=0.1, batch_size=4), rounds=2, participation=0.75, executor=executor, progress=False,
        ).history
        for one in (some, wide, mapped)
    ]  # fmt: skip
    assert found[0].equals(found[1])
    assert found[0].equals(found[2])


def test_streams_are_those_of_single_keys():
    for seed in (0, 1, 2**32 - 1, 2**32, 2**63 - 1):
        for place, last in (((), range(4)), ((), range(20)), ((7,), [3, 0, 2**32 - 1] * 6)):
            states = [rng.bit_generator.state for rng in streams(seed, "holdout", *place, last=last)]
            assert states == [stream(seed, "holdout", *place, k).bit_generator.state for k in last]


@pytest.mark.parametrize("groups", [np.array([5, -128, 127, 5, -128], np.int8), np.array([2**40, 0, 2**40, 7, 0]),
                                    np.array([2**64 - 1, 2**64 - 3, 2**64 - 1], np.uint64),
                                    np.array([70_000, 3, 70_000, 3, 65_536]), np.array(["b", "a", "b"]),
                                    np.array([0.5, -1, 0.5])])  # fmt: skip
def test_groups_are_those_that_unique_finds(groups):
    names, code = np.unique(groups, return_inverse=True)
    found = by_group(groups)
    assert found.names == tuple(str(name) for name in names)
    for k, part in enumerate(found):
        np.testing.assert_array_equal(part, np.flatnonzero(code == k))
    if groups.dtype.kind in "iu":
        clients = from_arrays(np.ones((len(groups), 1)), groups, np.zeros(len(groups)), test=0.0)
        assert clients.classes == tuple(names.tolist())
        assert sorted(clients.train.y) == sorted(code)


def test_held_out_samples_are_drawn_client_by_client():
    """The rule written out, each client with its own generator."""
    clients = from_arrays(np.arange(len(OWNER))[:, None], Y, OWNER.clip(max=2), test=0.25, validation=0.2, seed=4)
    for k in range(3):
        index = np.flatnonzero(OWNER.clip(max=2) == k)
        shuffled = stream(4, "holdout", k).permutation(index)
        held = [int(np.ceil(share * len(index))) for share in (0.25, 0.2)]
        parts = np.split(shuffled, np.cumsum(held))
        for split, part in zip(("test", "validation", "train"), parts, strict=True):
            assert clients.splits[split].client(k)[0][:, 0].tolist() == part.tolist()


def test_mapped_data_stay_in_their_file(tmp_path):
    rows, width = 4_000, 2_000  # 32 MB
    file = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (rows, width))
    for first in range(0, rows, 500):
        file[first : first + 500] = np.random.default_rng(first).normal(size=(500, width))
    file.flush()
    y, owner = np.arange(rows) % 2, np.random.default_rng(1).integers(40, size=rows)
    file = np.load(tmp_path / "x.npy", mmap_mode="r")
    options = {"rounds": 1, "participation": 0.1, "evaluate_at": (), "progress": False}
    training = fs.Training(lr=0.1, batch_size=10)
    model = fs.models.mlp(width, 2, 2)
    in_memory = from_arrays(np.array(file), y, owner)
    right = fs.federate(fs.FedAvg(), model, in_memory, training, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedstat._mapped.BLOCK", 2**20)
        tracemalloc.start()
        clients = from_arrays(file, y, owner)
        found = fs.federate(fs.FedAvg(), model, clients, training, **options)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert isinstance(clients.train.x, Mapped)
    assert most < file.nbytes / 4
    for name, leaf in right.states["FedAvg", 0].server.items():
        assert leaf.equal(found.states["FedAvg", 0].server[name])
    assert fingerprint.of_clients(clients) == fingerprint.of_clients(in_memory)
    assert str(clients) == str(in_memory)
    packed = pickle.dumps(clients.train.x)
    assert len(packed) < file.nbytes / 100
    np.testing.assert_array_equal(np.asarray(pickle.loads(packed)), in_memory.train.x)
    part = from_arrays(file[1_000:2_000], y[1_000:2_000], owner[1_000:2_000]).train.x
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(part))[3], part[3])


def test_targets_and_counts_of_files_are_read(tmp_path):
    rows = padded(0.0)
    for name, values in (("x", X), ("y", Y), ("n", SIZES), ("rows", rows[0]), ("labels", rows[1])):
        np.save(tmp_path / name, values)
    x, y, n, wide, labels = (
        np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("x", "y", "n", "rows", "labels")
    )
    for samples in (
        Samples(x, y, n),
        Samples.from_rows(wide, labels, n),
        Samples(x, Mapped(y, np.arange(70), y.dtype), n),
    ):
        assert isinstance(samples.x, Mapped)
        assert type(samples.y) is type(samples.n) is np.ndarray
        np.testing.assert_array_equal(samples.y, Y)
        np.testing.assert_array_equal(samples.n, SIZES)


def test_changes_to_a_private_map_travel_with_it(tmp_path):
    np.save(tmp_path / "x.npy", X)
    file = np.load(tmp_path / "x.npy", mmap_mode="c")
    file[3] = 7
    mapped = Mapped(file, np.arange(2, 5), file.dtype)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mapped))[1], np.full(4, 7))


def test_a_value_that_is_no_number_is_found_in_a_file(tmp_path):
    np.save(tmp_path / "x.npy", np.where(np.arange(20)[:, None] == 13, np.nan, np.ones((20, 2))))
    file = np.load(tmp_path / "x.npy", mmap_mode="r")
    with pytest.raises(ValueError, match=r"x must be finite; client 1, sample 3 holds nan\."):
        Samples(file, np.zeros(20), np.array([10, 10]))


@pytest.mark.parametrize("name", ["x", "y", "client"])
def test_masked_values_are_refused(name):
    arrays = {"x": X, "y": Y, "client": OWNER}
    masked = np.ma.masked_array(arrays[name], mask=np.arange(arrays[name].size).reshape(arrays[name].shape) == 8)
    with pytest.raises(ValueError, match=rf"{name} is masked at \[.*(of 1 places).*{name}\.filled"):
        from_arrays(**(arrays | {name: masked}), test=0.0)
    nothing = np.ma.masked_array(arrays[name])
    assert from_arrays(**(arrays | {name: nothing}), test=0.0).train.n.tolist() == SIZES.tolist()


def test_a_csv_is_not_rounded(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("client,a,b,y\n1,0.1,16777217,0.3\n1,0.5,3,0.2\n")
    x, _ = from_csv(path, test=0.0).train.client(0)
    assert sorted(x[:, 0]) == [0.1, 0.5]
    assert x[:, 1].max() == 16777217
    path.write_text("client,a,y\n1,0.5,0.3\n1,7,0.2\n")
    assert from_csv(path, test=0.0).train.x.dtype == np.float32  # holds them exactly
    whole = from_arrays(np.array([[16777217], [1]]), [0, 1], [0, 0], test=0.0)
    assert whole.train.x.max() == 16777217
