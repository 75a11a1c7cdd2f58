"""What clients keep: versions apart, space shared, checkpoints that rewrite only what changed."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedstat.federated import store as store_module
from fedstat.federated.store import IN_MEMORY_BYTES, ClientStore

K = 6
SHAPES = {"weight": (2, 3), "scale": (), "bias": (2,), "nothing": (0, 4)}
ROW_BYTES = 9 * 8
MAPS = Path("/proc/self/maps")
EVERYONE = torch.arange(K)
everywhere = pytest.mark.parametrize("limit", [IN_MEMORY_BYTES, 0], ids=["in memory", "mapped"])


def draw(seed, *clients):
    rng = np.random.default_rng(seed)
    return {name: torch.from_numpy(np.asarray(rng.normal(size=(*clients, *shape)))) for name, shape in SHAPES.items()}


def same(found, expected):
    return list(found) == list(expected) and all(torch.equal(found[name], expected[name]) for name in expected)


steps = st.lists(
    st.tuples(
        st.integers(0, 99),  # the version to write, or to drop
        st.lists(st.integers(0, K - 1), unique=True),
        st.sets(st.sampled_from(sorted(SHAPES))),
        st.booleans(),
    ),
    max_size=12,
)


@everywhere
@given(steps=steps, asked=st.lists(st.integers(0, K - 1)), filled=st.booleans())
def test_every_living_version_reads_what_was_written_to_it(limit, steps, asked, filled):
    row, stacked = draw(0), draw(0, K)
    if filled:
        stacked = {name: leaf.expand(K, *leaf.shape) for name, leaf in row.items()}
    versions = [(ClientStore.filled(row, K, limit=limit) if filled else ClientStore.of(stacked, limit=limit), stacked)]
    for i, (version, ids, names, drop) in enumerate(steps):
        if drop and len(versions) > 1:
            versions.pop(version % len(versions))
            continue
        store, model = versions[version % len(versions)]
        ids = torch.tensor(ids, dtype=torch.int64)
        new = {name: leaf for name, leaf in draw(i + 1, len(ids)).items() if name in names}
        model = {name: leaf.index_copy(0, ids, new[name]) if name in new else leaf for name, leaf in model.items()}
        versions.append((store.write(ids, new), model))
    asked = torch.tensor(asked, dtype=torch.int64)
    for store, model in versions:
        assert same(store, model)
        assert same(store.rows(asked), {name: leaf[asked] for name, leaf in model.items()})


@everywhere
def test_what_was_read_or_written_is_a_copy(limit):
    row, new = draw(0), draw(1, 1)
    store = ClientStore.filled(row, K, limit=limit).write(torch.tensor([2]), new)
    expected = {name: leaf.clone() for name, leaf in store.items()}
    for tensors in (row, new, dict(store), store.rows(EVERYONE)):
        for leaf in tensors.values():
            leaf.add_(1)
    assert same(store, expected)


@everywhere
def test_clients_that_were_never_written_share_one_row(limit):
    store = ClientStore.filled(draw(0), 10_000, limit=limit)
    assert store.nbytes == ROW_BYTES
    assert store.write(torch.tensor([7, 3]), draw(1, 2)).nbytes == 3 * ROW_BYTES
    assert store.clients == 10_000


@everywhere
def test_rows_of_dropped_versions_are_used_again(limit):
    store, sizes = ClientStore.filled(draw(0), K, limit=limit), []
    for i in range(60):
        store = store.write(torch.tensor([i % K, (i + 1) % K]), draw(i, 2))
        sizes.append(store.nbytes)
        assert store.versions == ClientStore.of(dict(store)).versions
    needed = (K + 2) * ROW_BYTES  # everyone's row, and the new rows while the old store still reads the old ones
    assert sizes[10] == sizes[-1] < 2 * needed
    versions = [store := store.write(EVERYONE, draw(i, K)) for i in range(5)]
    assert store.nbytes >= 5 * K * ROW_BYTES
    assert len({v for version in versions for v in version.versions}) == 5 * K


@pytest.mark.skipif(not MAPS.exists(), reason="the system does not list its memory maps")
@pytest.mark.parametrize("mapped", [True, False])
def test_rows_are_mapped_beyond_the_limit_and_leave_no_file_even_if_the_process_is_killed(
    mapped, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = ClientStore.of(draw(0, K), limit=K * ROW_BYTES - mapped)
    assert (str(tmp_path) in MAPS.read_text()) == mapped
    assert list(tmp_path.iterdir()) == []
    assert same(store, draw(0, K))


def test_full_disk_is_an_error_that_leaves_the_store_intact(tmp_path, monkeypatch):
    store = ClientStore.filled(draw(0), K, limit=0)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(store_module.os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match="No space left"):
        store.write(torch.tensor([0]), draw(1, 1))
    assert list(tmp_path.iterdir()) == []
    assert same(store.rows(torch.tensor([0])), {name: leaf[None] for name, leaf in draw(0).items()})


@given(values=st.lists(st.sampled_from([0.0, -0.0, 1.0, float("nan")]), min_size=2, max_size=5))
def test_versions_are_equal_exactly_where_rows_are_bit_for_bit(values):
    row = {"a": torch.zeros(1, dtype=torch.float64)}
    stacked = torch.tensor(values, dtype=torch.float64)[:, None]
    store = ClientStore.filled(row, len(values)).write(torch.arange(len(values)), {"a": stacked})
    bits = stacked.view(torch.int64).flatten().tolist()
    pairs = [(i, k) for i in range(len(values)) for k in range(i)]
    assert [store.versions[i] == store.versions[k] for i, k in pairs] == [bits[i] == bits[k] for i, k in pairs]


def test_same_bytes_under_another_layout_are_another_version():
    values = torch.arange(6.0)
    layouts = [{"a": values}, {"b": values}, {"a": values.view(2, 3)}, {"a": values[:2], "b": values[2:]}]
    layouts += [{"a": values.view(torch.int32)}]
    assert len({ClientStore.filled(row, 1).versions for row in layouts}) == len(layouts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@everywhere
def test_saved_and_loaded(limit, dtype, tmp_path):
    store = ClientStore.of({name: leaf.to(dtype) for name, leaf in draw(0, K).items()}, limit=limit)
    assert store.save(tmp_path / "store") == K
    loaded = ClientStore.load(tmp_path / "store", limit=IN_MEMORY_BYTES - limit)
    assert same(loaded, store)
    assert loaded.versions == store.versions


def test_checkpoint_rewrites_only_changed_rows(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    store = ClientStore.filled(draw(0), K).write(torch.tensor([1, 2, 3]), draw(1, 3))
    assert store.save(first) == 4
    changed = store.write(torch.tensor([2, 5]), draw(2, 2)).write(torch.tensor([3]), store.rows(torch.tensor([3])))
    assert changed.save(second, previous=first) == 2
    rows = {folder: {f.name: f.stat().st_ino for f in folder.glob("*.safetensors")} for folder in (first, second)}
    kept = rows[first].keys() & rows[second].keys()
    assert len(kept) == 3
    assert len(rows[second]) == 5
    assert all(rows[first][name] == rows[second][name] for name in kept)
    assert same(ClientStore.load(second), changed)
    assert changed.save(second, previous=second) == 0
    assert store.save(second, previous=second) == 1
    assert same(ClientStore.load(second), store)


def test_checkpoint_copies_where_links_are_impossible(tmp_path, monkeypatch):
    def impossible(*_):
        raise OSError("no links here")

    store = ClientStore.of(draw(0, K))
    store.save(tmp_path / "1")
    monkeypatch.setattr(store_module.os, "link", impossible)
    assert store.save(tmp_path / "2", previous=tmp_path / "1") == 0
    assert same(ClientStore.load(tmp_path / "2"), store)


def test_damaged_checkpoint_is_an_error_that_names_the_file(tmp_path):
    store = ClientStore.of(draw(0, K))

    def damaged(change):
        store.save(tmp_path / "store")
        file = tmp_path / "store" / f"{store.versions[4]}.safetensors"
        change(file)
        with pytest.raises(ValueError, match=file.name):
            ClientStore.load(tmp_path / "store")

    damaged(lambda f: f.unlink())
    damaged(lambda f: f.write_bytes(f.read_bytes()[:-1]))
    damaged(lambda f: f.write_bytes(f.read_bytes()[:-1] + bytes([f.read_bytes()[-1] ^ 1])))
    damaged(lambda f: f.write_bytes(f.with_name(f"{store.versions[3]}.safetensors").read_bytes()))
    damaged(lambda f: f.write_bytes(f.read_bytes().replace(b'"bias"', b'"mass"')))
    for text in ("", "[]", "{}", '{"shapes": {}, "dtype": "no", "clients": []}'):
        store.save(tmp_path / "store")
        (tmp_path / "store" / "index.json").write_text(text)
        with pytest.raises(ValueError, match=r"index\.json"):
            ClientStore.load(tmp_path / "store")


def test_an_empty_store_is_false_and_has_empty_rows_for_everybody():
    store = ClientStore.empty()
    assert not store
    assert (store.clients, store.nbytes, store.versions) == (0, 0, ())
    assert store.rows(EVERYONE) == dict(store) == {}
    assert store.write(EVERYONE, {}) is store


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: ClientStore.filled(draw(0), 0), "clients must be a whole number, at least 1, got 0"),
        (lambda s: ClientStore.filled({}, 3), "row must hold tensors of one dtype, got none"),
        (lambda s: ClientStore.of({}), "stacked must hold tensors of one dtype, got none"),
        (
            lambda s: ClientStore.filled({"a": torch.zeros(2), "n": torch.tensor(1)}, 3),
            "float32 in 'a', torch.int64 in 'n'",
        ),
        (lambda s: ClientStore.of({"a": torch.zeros(2), "b": torch.zeros(3)}), "stacked must .* K = {'a': 2, 'b': 3}"),
        (lambda s: ClientStore.of({"a": torch.zeros(0)}), "stacked must .* K = {'a': 0}"),
        (lambda s: ClientStore.of({"a": torch.zeros(2), "b": torch.zeros(2).double()}), "one dtype.*float32.*float64"),
        (lambda s: s.rows(torch.tensor([6])), r"ids must .* 0\.\.5, got \[6\]"),
        (lambda s: s.rows(torch.tensor([-1])), r"ids must .* 0\.\.5, got \[-1\]"),
        (lambda s: s.rows(torch.tensor([True])), "ids must be a vector"),
        (lambda s: s.rows(torch.tensor(0)), "ids must be a vector"),
        (lambda s: s.write(torch.tensor([1, 1]), draw(0, 2)), r"ids must name each client once, got \[1, 1\]"),
        (lambda s: s.write(torch.tensor([1]), {"bais": torch.zeros(1, 2)}), "only name .*; got 'bais'"),
        (lambda s: ClientStore.empty().write(torch.tensor([1]), draw(0)), r"of the store \(none\); got 'weight'"),
        (lambda s: s.write(torch.tensor([1]), draw(0)), r"params\['weight'\] must have shape \(1, 2, 3\)"),
        (lambda s: s.write(torch.tensor([1]), {"scale": torch.zeros(1)}), "float64, got .* torch.float32"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(ClientStore.of(draw(0, K)))
