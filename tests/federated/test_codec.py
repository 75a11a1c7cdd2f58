"""What travels: bytes counted are bytes encoded, and the other side gets back what it can know."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedstat.federated.codec import Bits, Selected, Sparse, decode, encode, nonzeros, size


@st.composite
def entries(draw, m):
    """An entry, the same entry without its values, and what every client's other side knows."""
    shape = (m, *draw(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    numbers = st.one_of(st.just(0.0), st.floats(-9, 9, width=32))
    values = torch.from_numpy(draw(arrays(dtype, shape, elements=numbers)))
    blank = torch.full_like(values, 7)
    kind = draw(st.sampled_from(["dense", "part", "sparse", "bits"]))
    if kind == "dense":
        return values, blank, values
    if kind == "sparse":
        return Sparse(values), Sparse(blank), values
    if kind == "bits":
        return Bits(values > 0), Bits(blank > 0), values > 0
    ones = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    mask_shape = tuple(1 if one else n for one, n in zip(ones, shape, strict=True))[draw(st.integers(0, len(shape))) :]
    mask = torch.from_numpy(draw(arrays(bool, mask_shape)))
    return Selected(values, mask), Selected(blank, mask), torch.where(mask, values, torch.nan)


@given(data=st.data(), m=st.integers(1, 3))
def test_round_trip_and_its_length(data, m):
    drawn = {str(i): data.draw(entries(m)) for i in range(data.draw(st.integers(1, 4)))}
    message, template = ({name: triple[i] for name, triple in drawn.items()} for i in (0, 1))
    counted = size(message)
    assert counted.shape == (m,)
    assert counted.dtype == np.int64
    for k in range(m):
        encoded = encode(message, k)
        assert len(encoded) == counted[k]
        decoded = decode(encoded, template, k, nonzeros(message, k))
        assert list(decoded) == list(message)
        for name, (_, _, known) in drawn.items():
            assert decoded[name].dtype == known.dtype
            torch.testing.assert_close(decoded[name], known[k], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_in_closed_form(dtype):
    item = dtype.itemsize
    values = torch.ones(2, 30, 50, dtype=dtype)
    units = torch.arange(30) < 12
    both = torch.stack([units, ~units])
    few, many = torch.zeros(2, 1500, dtype=dtype), torch.zeros(2, 1500, dtype=dtype)
    few[0, :47], few[1, :46] = 1, 1  # 4 * 47 = 188 = ceil(1500 / 8): as many bytes in a list as in a bitmap
    many[0, :48], many[1] = 1, 1
    expected = {
        "dense": (values, [1500 * item] * 2),
        "scalar": (values[:, 0, 0], [item] * 2),
        "shared units": (Selected(values, units[:, None]), [12 * 50 * item] * 2),
        "own units": (Selected(values, both[:, :, None]), [12 * 50 * item, 18 * 50 * item]),
        "nothing": (Selected(values, torch.tensor(False)), [0, 0]),
        "none": (Sparse(torch.zeros_like(few)), [0, 0]),
        "few": (Sparse(few), [47 * (item + 4), 46 * (item + 4)]),
        "many": (Sparse(many), [48 * item + 188, 1500 * item + 188]),
        "bits": (Bits(both), [4, 4]),
    }
    for name, (entry, counted) in expected.items():
        assert size({name: entry}).tolist() == counted, name
    whole = {name: entry for name, (entry, _) in expected.items()}
    assert size(whole).tolist() == [sum(c[k] for _, c in expected.values()) for k in (0, 1)]
    assert size({}) == 0


def test_bytes_are_little_endian_on_every_machine():
    message = {
        "dense": torch.tensor([[1.0, -2.0]]),
        "bits": Bits(torch.tensor([[True, False, False, False, False, False, False, False, True]])),
        "part": Selected(torch.tensor([[1.0, 2.0]], dtype=torch.float64), torch.tensor([False, True])),
        "list": Sparse(torch.cat([torch.zeros(1, 300), torch.ones(1, 1), torch.zeros(1, 9)], 1)),
        "bitmap": Sparse(torch.tensor([[0.0, 1.0]])),
    }
    one, two = b"\x00\x00\x80\x3f", b"\x00\x00\x00\x00\x00\x00\x00\x40"
    expected = one + b"\x00\x00\x00\xc0" + b"\x01\x01" + two + b"\x2c\x01\x00\x00" + one + b"\x02" + one
    assert encode(message, 0) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: size({"a": torch.zeros(2, 3), "b": Bits(torch.ones(3) > 0)}),
            r"same m clients, got .*\(2, 3\).*\(3,\)",
        ),
        (lambda: size({"a": torch.tensor(1.0)}), r"same m clients, got {'a': \(\)}"),
        (lambda: Selected(torch.zeros(2, 3), torch.ones(3)), "mask must be bool, got torch.float32"),
        (lambda: Selected(torch.zeros(2, 3), torch.ones(2) > 0), r"mask must broadcast .*\(2, 3\), got \(2,\)"),
        (lambda: Selected(torch.zeros(2, 3), torch.ones(1, 1, 1) > 0), r"mask must broadcast .*, got \(1, 1, 1\)"),
        (
            lambda: Selected(torch.zeros(2, dtype=torch.int64), torch.ones(2) > 0),
            "values must be floats, got torch.int64",
        ),
        (lambda: Sparse(torch.ones(2) > 0), "values must be floats, got torch.bool"),
        (lambda: Bits(torch.ones(2)), "mask must be bool, got torch.float32"),
        (lambda: decode(b"1234567", {"a": torch.zeros(1, 2)}), "must have 8 bytes or more .*, got 7"),
        (lambda: decode(b"123456789", {"a": torch.zeros(1, 2)}), "must have 8 bytes .*, got 9"),
        (lambda: decode(b"", {"a": Sparse(torch.zeros(1, 2))}), "nonzeros must say how many elements of 'a' travel"),
        (lambda: decode(b"\x09\x00\x00\x00abcd", {"a": Sparse(torch.zeros(1, 2))}, 0, {"a": 1}), "must have"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
