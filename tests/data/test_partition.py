"""Partitions of the papers: who holds what, saved and read again; clients made of them."""

import io
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedstat import data
from fedstat.data import Partition, npz
from fedstat.data.datasets.cifar100 import SUPERCLASSES
from fedstat.report import who_holds_what

Y = np.repeat(np.arange(10), 60)
TEST = np.arange(len(Y)) % 6 == 0


@pytest.mark.filterwarnings("ignore:no sample is dealt of the classes")
@given(
    counts=st.lists(st.integers(30, 120), min_size=2, max_size=8),
    clients=st.integers(1, 12),
    wanted=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_shards_give_every_client_its_number_of_distinct_classes(counts, clients, wanted, seed):
    y = np.repeat(np.arange(len(counts)), counts)
    wanted = min(wanted, len(counts))
    parts = data.shards(y, clients, wanted, seed=seed)
    held = np.concatenate(parts)
    assert len(np.unique(held)) == len(held)
    pieces = Counter()
    for part in parts:
        assert len(np.unique(y[part])) == wanted
        pieces.update(np.unique(y[part]).tolist())
    for label, number in pieces.items():  # a class that has a shard is dealt out whole, in even shards
        sizes = [(y[part] == label).sum() for part in parts if (y[part] == label).any()]
        assert sum(sizes) == counts[label]
        assert max(sizes) - min(sizes) <= 1
        free = number < clients and all(n < clients for n in pieces.values())
        assert not free or abs(number - counts[label] * clients * wanted / sum(counts)) < 1.5


def test_shards_tell_of_classes_of_which_nothing_is_dealt():
    with pytest.warns(UserWarning, match="no sample is dealt of the classes 2: all 20 shards are of others"):
        parts = data.shards(np.repeat([0, 1, 2], [1000, 1000, 20]), 10, 2)
    assert len(np.concatenate(parts)) == 2000


def test_shards_of_equal_classes_have_equal_sizes_or_alternate():
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 500))
    assert {len(part) for part in data.shards(y, 100, 5)} == {50}
    y = np.repeat(np.arange(100), 500)  # FilterDecomp's CIFAR-100 with 1,000 clients of 20 classes: 2.5 images
    parts = data.shards(y, 1000, 20)
    sizes = np.concatenate([np.unique(y[part], return_counts=True)[1] for part in parts])
    assert np.bincount(sizes).tolist() == [0, 0, 10_000, 10_000]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    together = np.mean([len(np.intersect1d(y[parts[k]], y[parts[k + 1]])) for k in range(999)])
    assert 2.5 < together < 4.5  # of two independent draws of 20 out of 100: 4, and less for neighbours in the deal


@given(group=hnp.arrays("U1", st.integers(1, 40), elements=st.sampled_from("abcd")), least=st.integers(1, 12))
def test_groups_become_clients(group, least):
    held = {name: [i for i, g in enumerate(group) if g == name] for name in sorted(set(group.tolist()))}
    held = {name: index for name, index in held.items() if len(index) >= least}
    if not held:
        with pytest.raises(ValueError, match=f"no group has min_size={least}"):
            data.by_group(group, min_size=least)
        return
    parts = data.by_group(group, min_size=least)
    assert {name: part.tolist() for name, part in zip(parts.names, parts, strict=True)} == held


def test_dirichlet_draws_follow_their_law():
    clients, alpha, classes = 1500, 0.5, 10
    parts = data.dirichlet_draws(Y, TEST, clients, alpha, train=40, held_out=20, seed=3)
    for drawn, size, held in ((parts.train, 40, False), (parts.test, 20, True)):
        assert {len(part) for part in drawn} == {size}
        assert (TEST[np.concatenate(drawn)] == held).all()
    shares = [
        np.stack([np.bincount(Y[part], minlength=classes) for part in drawn]) / len(drawn[0])
        for drawn in (parts.train, parts.test)
    ]
    variance = (1 / classes) * (1 - 1 / classes) / (classes * alpha + 1)
    # the same proportions behind both, and independent draws given them: their covariance is the proportions' variance
    covariance = ((shares[0] - 1 / classes) * (shares[1] - 1 / classes)).mean()
    assert covariance == pytest.approx(variance, rel=0.1)
    assert shares[0].mean(axis=0) == pytest.approx(np.full(classes, 1 / classes), abs=0.015)
    assert len(np.unique(parts[0])) == 40  # within a client nothing repeats while the class suffices ...
    few = data.dirichlet_draws(Y, TEST, 5, 1e-3, train=120, held_out=10, seed=0)
    for part in few:
        label, counts = np.unique(part, return_counts=True)
        for c in np.unique(Y[label]):  # ... and otherwise every sample of it comes equally often, up to one
            assert np.ptp(counts[Y[label] == c]) <= 1 if (counts[Y[label] == c] > 1).any() else True
    assert max(np.unique(part, return_counts=True)[1].max() for part in few) == 3  # 120 of 50
    with pytest.raises(ValueError, match=r"several times. Name it once; dirichlet_draws does where it draws fewer"):
        data.from_indices(Y[:, None], Y, few)


def test_clients_that_are_apart_draw_by_the_same_law_and_share_no_sample():
    how = {"train": 20, "held_out": 6, "seed": 3}
    apart, free = (data.dirichlet_draws(Y, TEST, 6, 0.5, apart=a, **how) for a in (True, False))
    for mine, size in ((apart.train, 20), (apart.test, 6)):
        assert len(np.unique(np.concatenate(mine))) == 6 * size
    for mine, other in zip(apart.train, free.train, strict=True):
        np.testing.assert_array_equal(np.sort(Y[mine]), np.sort(Y[other]))
    with pytest.raises(ValueError, match=r"class \d has too few samples for clients that are apart: client \d draws"):
        data.dirichlet_draws(Y, TEST, 60, 0.5, apart=True, **how)


def test_domains_keep_to_their_groups():
    names = [name for pair in data.CIFAR100_DOMAINS.values() for name in pair]
    assert set(names) < set(SUPERCLASSES)
    group = np.array([*names, "people"] * 40)
    parts = data.domains(group, data.CIFAR100_DOMAINS, 20, seed=1)
    assert len(parts) == 20
    assert parts.names[4] == "fruits and foods 1"
    held = np.concatenate(parts)
    np.testing.assert_array_equal(np.sort(held), np.flatnonzero(group != "people"))
    for k, domain in enumerate(data.CIFAR100_DOMAINS.values()):
        assert all(set(group[part]) == set(domain) and len(part) == 20 for part in parts[4 * k : 4 * k + 4])


def test_own_test_is_all_test_samples_of_ones_classes():
    pool = np.flatnonzero(~TEST)
    parts = data.shards(Y[pool], 20, 3, seed=2).within(pool)
    tested = data.own_test(parts, Y, TEST)
    for trained, part in zip(parts, tested.test, strict=True):
        assert part.tolist() == [i for i in range(len(Y)) if TEST[i] and Y[i] in set(Y[trained].tolist())]
    few = data.own_test(parts, Y, TEST, most=7)
    assert all(len(part) == 7 and set(part) <= set(whole) for part, whole in zip(few.test, tested.test, strict=True))
    clients = data.from_indices(Y[:, None], Y, few, validation=0.1, classes=range(10))
    assert clients.test.n.tolist() == [7] * 20
    assert (clients.train.n + clients.validation.n).tolist() == [len(part) for part in parts]
    assert clients.test.client(3)[0][:, 0].tolist() == Y[few.test[3]].tolist()


def test_permuted_labels_reach_the_clients():
    parts = data.permute_labels(data.iid(len(Y), 4), 10, seed=5)
    assert (np.sort(parts.labels) == np.arange(10)).all()
    assert len(np.unique(parts.labels, axis=0)) == 4
    clients = data.from_indices(Y[:, None], Y, parts, classes=[f"class {q}" for q in range(10)])
    assert clients.labels is parts.labels
    for samples in clients.splits.values():
        for k in range(4):
            x, y = samples.client(k)
            np.testing.assert_array_equal(y, parts.labels[k][x[:, 0].astype(int)])
    with pytest.raises(ValueError, match="no common test set"):
        data.from_indices(Y[:, None], Y, parts, common=[0])
    with pytest.raises(ValueError, match="permutes 10 classes, and y has 5"):
        data.from_indices(Y[:, None], Y // 2, parts)


def test_inputs_stay_what_they_are():
    images = np.random.default_rng(0).integers(0, 256, (len(Y), 4, 4), dtype=np.uint8)
    clients = data.from_indices(images, Y % 3, data.iid(len(Y), 5), classes="abcd", common=np.arange(7))
    assert clients.train.x.dtype == np.uint8
    assert clients.classes == ("a", "b", "c", "d")  # though nobody holds a "d"
    np.testing.assert_array_equal(clients.common.x, images[:7])
    flat = images.reshape(len(Y), -1)
    assert data.from_indices(flat, Y, data.iid(len(Y), 5)).train.x.dtype == np.float32
    for most, kept in ((127, np.int8), (255, np.int16)):  # never unsigned bytes: these are pixels
        tokens = data.from_indices(np.minimum(flat, most), Y, data.iid(len(Y), 5), tokens=True).train.x
        assert tokens.dtype == kept
        assert tokens.max() == most


@st.composite
def partitions(draw):
    clients = draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, 2**40), max_size=5)
    each = st.lists(numbers, min_size=clients, max_size=clients)
    name = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)
    part = Partition(
        tuple(draw(each)),
        tuple(draw(each)) if draw(st.booleans()) else None,
        tuple(draw(st.lists(name, min_size=clients, max_size=clients))) if draw(st.booleans()) else (),
    )
    return data.permute_labels(part, 3) if draw(st.booleans()) else part


@settings(max_examples=60)
@given(part=partitions())
def test_partitions_are_read_as_saved(tmp_path_factory, part):
    path = tmp_path_factory.mktemp("p") / "partition.npz"
    part.save(path)
    again = Partition.load(path)
    assert again.names == part.names
    for ours, theirs in ((part.train, again.train), (part.test, again.test), (part.labels, again.labels)):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert [list(a) for a in ours] == [list(a) for a in theirs]
    assert again.fingerprint == part.fingerprint
    assert replace(part, names=[*part.names[:-1], "else"]).fingerprint != part.fingerprint


def saved(save) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


PARTITION = data.permute_labels(Partition(([0, 1, 2], [3]), ([4], [5]), ("ann", "bob")), 3)
WHOLE = saved(lambda file: np.savez(file, fingerprint=np.array(PARTITION.fingerprint), **PARTITION._arrays()))
OWN = saved(lambda f: np.savez_compressed(f, x=np.ones((6, 2)), y=np.arange(6) % 2, client=np.array(list("aaabbb"))))
damage = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 10_000),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4),
)


def damaged(whole: bytes, how) -> bytes:
    """Cut off, with some bytes changed, or something else altogether."""
    if isinstance(how, bytes):
        return how
    if isinstance(how, int):
        return whole[: how % len(whole)]
    out = bytearray(whole)
    for place, change in how:
        out[place % len(out)] ^= change
    return bytes(out)


def read_or_named(read, path):
    """What is read, or None where an error names the file."""
    try:
        return read(path)
    except ValueError as error:
        if str(path) not in str(error):
            raise
        return None


@pytest.mark.slow
@settings(max_examples=1500)
@given(how=damage)
def test_damaged_partitions_are_refused_by_name(tmp_path_factory, how):
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damaged(WHOLE, how))
    assert (loaded := read_or_named(Partition.load, path)) is None or loaded.fingerprint == PARTITION.fingerprint


@pytest.mark.slow
@settings(max_examples=1500)
@given(how=damage)
def test_damaged_npz_is_refused_by_name(tmp_path_factory, how):
    path = tmp_path_factory.getbasetemp() / "damaged-own.npz"
    path.write_bytes(damaged(OWN, how))
    assert (loaded := read_or_named(data.from_npz, path)) is None or len(loaded) == 2


def test_own_npz(tmp_path):
    path = tmp_path / "own.npz"
    x, client = np.arange(24, dtype=np.uint8).reshape(6, 2, 2), np.array(["b", "a"] * 3)
    np.savez(path, x=x.astype(">i4"), y=np.arange(6) / 2, client=client)
    assert data.from_npz(path).names == ("a", "b")
    assert data.from_npz(path).classes is None
    np.savez_compressed(path, x=np.asfortranarray(x), y=list("cdcdcd"), client=client, test=np.arange(6) > 3)
    clients = data.from_npz(path)
    assert clients.classes == ("c", "d")
    assert clients.test.x.dtype == np.uint8
    np.testing.assert_array_equal(clients.test.x[clients.test.start], x[[5, 4]])


class _Spy:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones(4), "y": np.ones(4)}, "has no array 'client'; it has 'x', 'y'"),
        ({"x": np.array([_Spy()] * 4), "y": np.ones(4), "client": np.ones(4, int)}, "array 'x' .* dtype object"),
        ({"x": np.ones(4), "y": np.ones(3), "client": np.ones(4, int)}, r"y has shape \(3,\)"),
        ({"x": np.ones(()), "y": np.ones(4), "client": np.ones(4, int)}, r"y has shape \(4,\); x, of shape \(\)"),
        ({"x": np.ones(4), "y": np.ones(4), "client": np.ones((4, 1), int)}, r"client has shape \(4, 1\)"),
        ({"x": np.ones(4), "y": np.ones(4), "client": np.ones(4, int), "test": np.ones(4)}, "'test' .* kind b"),
        ({"x": np.ones(4), "y": np.ones(4), "client": np.ones(4, int), "test": np.ones(4, bool)}, "client 1 has 0 s"),
        ({"x": np.zeros(2**21), "y": np.ones(4), "client": np.ones(4, int)}, "would unpack from .* to 16,777,"),
    ],
)
def test_hostile_and_wrong_npz(tmp_path, monkeypatch, arrays, message):
    monkeypatch.setattr(npz, "_FREE", 2**20)
    path = tmp_path / "own.npz"
    np.savez_compressed(path, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        data.from_npz(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (lambda deal=deal, y=y: deal(y, 5), f"y has no value at sample {at}. Drop such samples or name them")
            for deal in (
                lambda y, clients: data.dirichlet(y, clients, 1.0),
                lambda y, clients: data.shards(y, clients, 1),
                data.one_label_shards,
                lambda y, clients: data.dirichlet_draws(y, TEST, clients, 1.0),
            )
            for y, at in ((np.where(np.arange(600) == 7, np.nan, Y), 7), (np.where(np.arange(600) == 5, None, Y), 5))
        ),
        (lambda: data.iid(30, 2.5), "clients must be a whole number, got 2.5"),
        (lambda: data.iid(Y, 3), "samples must be a whole number, got array"),
        (lambda: data.dirichlet(Y, 3.0, 1.0), "clients must be a whole number, got 3.0"),
        (lambda: data.dirichlet(Y, 3, 1.0, tries=2.5), "tries must be a whole number, at least 1, got 2.5"),
        (lambda: data.shards(Y, 5, 1.5), "classes_per_client must be a whole number, got 1.5"),
        (lambda: data.domains(Y.astype(str), {"a": ["0"]}, 2.5), "clients must be a whole number, at least 1, got 2.5"),
        (lambda: data.product_clients(np.full((2, 2), np.nan), clients=2), "law must be finite, but holds nan at"),
        (lambda: data.product_clients(lambda rng, n: np.full((n, 2), np.inf), clients=2), "law must be finite"),
        (lambda: data.product_clients(np.ones((2, 2)), clients=2.5), "clients must be a whole number, at least 1"),
        (lambda: data.shards(Y, 5, 11), "classes_per_client must lie between 1 and 10, got 11"),
        (lambda: data.shards(np.arange(10) % 3, 10, 2), "class 0 has 4 samples, fewer than its 8 shards"),
        (lambda: data.dirichlet_draws(Y, TEST[1:], 5, 1.0), "test must be true or false for each of 600 samples"),
        (lambda: data.dirichlet_draws(Y, Y == 3, 5, 1.0), "class 3 has no training samples"),
        (lambda: data.dirichlet_draws(Y, TEST, 5, np.inf), r"alpha must be a number in \(0, inf\)"),
        (lambda: data.dirichlet_draws(Y, TEST, 5, 1.0, train=0), "train must be a whole number, at least 1"),
        (lambda: data.domains(Y.astype(str), {"a": ["0"], "b": ["x"]}, 2), "no sample belongs to group 'x'"),
        (lambda: data.domains(Y.astype(str), {"a": ["0"], "b": ["0"]}, 2), "group '0' is listed twice"),
        (lambda: data.domains(Y.astype(str), {"a": ["0"], "b": ["1"]}, 3), "multiple of the 2 domains, got 3"),
        (lambda: data.own_test(data.iid(600, 3), Y, TEST), "client 0 trains on test sample"),
        (lambda: data.own_test(data.by_group(Y), Y, Y > 99), "client 0 has no test samples"),
        (lambda: data.by_group(["Bonn", None]), "group has no value at sample 1. Drop such samples or name them"),
        (lambda: data.by_group([1.0, 2.0, np.nan]), "group has no value at sample 2"),
        (lambda: Partition(()), "at least one client"),
        (lambda: Partition(([0], [1]), ([2],)), "test has entries for 1 clients, train for 2"),
        (lambda: Partition(([-1],)), "client 0 must hold sample numbers in train, got"),
        (lambda: Partition(([0],), labels=np.array([[0, 0]])), "a permutation of the classes"),
    ],
)
def test_bad_partitions_name_argument_and_value(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_slices_are_partitions():
    part = PARTITION[1:]
    assert (part.names, part.test[0].tolist(), part.labels.shape) == (("bob",), [5], (1, 3))
    assert part[0].tolist() == [3]
    assert part.fingerprint != PARTITION.fingerprint


@pytest.mark.parametrize("clients", [1, 8, 60])
def test_the_picture_shows_the_counts(tmp_path, clients):
    parts = data.dirichlet(Y, clients, 0.5, min_size=1, tries=1000)
    counts = np.array([[np.sum(Y[part] == q) for part in parts] for q in range(10)])
    figure = who_holds_what(parts, Y, [*"abcdefghi", "a very long name of a class"])
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("client", "class")
    if clients == 60:
        np.testing.assert_array_equal(axes.images[0].get_array(), counts)
        assert figure.axes[1].get_ylabel() == "samples"
    else:
        discs = axes.collections[0]
        area = {tuple(place): size for place, size in zip(discs.get_offsets().tolist(), discs.get_sizes(), strict=True)}
        assert area.keys() == {(k, q) for q, k in np.argwhere(counts).tolist()}
        for (k, q), size in area.items():
            assert size / max(area.values()) == pytest.approx(counts[int(q), int(k)] / counts.max())
        legend = [text.get_text() for text in axes.get_legend().get_texts()]
        assert legend == [str(counts.max() // part) for part in (1, 4, 16) if counts.max() >= part]
    figure.savefig(tmp_path / "picture.svg")
