"""Reading tables and layers: exact round trips, errors that name the place and the remedy, hostile bytes."""

import csv
import io
import json
import pickle
import struct

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import save, save_file

from fedstat.factor import units_as_columns
from fedstat.factor.files import read_correlation, read_table
from tests.support.matrices import HARMAN8, HARMAN8_NAMES

printable = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=6)
names = st.lists(printable.map(lambda t: f"x{t}".strip()), min_size=5, max_size=5, unique=True)


@pytest.fixture
def write(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@given(
    x=arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=5),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    ),
    names=names,
    labelled=st.booleans(),
    separator=st.sampled_from(",;\t"),
)
def test_what_is_written_is_read(x, names, labelled, separator, tmp_path_factory):
    names = names[: x.shape[1]]
    path = tmp_path_factory.getbasetemp() / "round_trip.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["", *names] if labelled else names)
        writer.writerows([[f"row {i}", *row] if labelled else row for i, row in enumerate(x.tolist())])
    table = read_table(path)
    np.testing.assert_array_equal(table.values, x)
    assert table.names == tuple(names)
    assert table.row_names == (tuple(f"row {i}" for i in range(len(x))) if labelled else None)


@pytest.mark.parametrize(
    ("content", "names", "row_names"),
    [
        ("a,b\n1,2\n3,4", ("a", "b"), None),
        ("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n", ("a", "b"), None),  # byte-order mark, Windows line ends, blank lines
        ("a;b\n1;2\n3;4", ("a", "b"), None),
        ("a\tb\n1\t2\n3\t4", ("a", "b"), None),
        (",0,1\n0,1,2\n1,3,4", ("0", "1"), ("0", "1")),  # pandas' default
        ('"rownames","a","b"\n"7","1","2"\n"9","3","4"', ("a", "b"), ("7", "9")),  # R, by way of Rdatasets
        ("who,a,b\nAda,1,2\nEmmy,3,4", ("a", "b"), ("Ada", "Emmy")),
        ("id,7\n1,2\n3,4", ("id", "7"), None),
        ('"x, y","say ""b"""\n1,2\n3,4', ("x, y", 'say "b"'), None),
    ],
)
def test_headers_row_names_and_separators(write, content, names, row_names):
    table = read_table(write(content))
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
    assert (table.names, table.row_names) == (names, row_names)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("labelled", [False, True])
def test_a_line_that_numbers_the_columns_is_a_header(write, start, labelled):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(5, 3))).rename(columns=lambda j: j + start)
    if labelled:
        frame.insert(0, "name", list("uvwxy"))
    with pytest.warns(UserWarning, match=f"up to {start + 2} in the first line, so that it was taken as a header"):
        table = read_table(write(frame.to_csv(index=False)))
    np.testing.assert_array_equal(table.values, frame.iloc[:, -3:])
    assert table.names == tuple(str(start + j) for j in range(3))
    assert table.row_names == (tuple("uvwxy") if labelled else None)


@pytest.mark.parametrize(
    ("first", "row_names"),
    [("1,3", None), ("2,3", None), ("1.0,2.0", None), ("0,2", None), ("1,NA", None), ("Ada,0,9", ("Ada", "Emmy"))],
)
def test_other_numbers_in_the_first_line_are_data(write, first, row_names):
    second = "Emmy,3,4" if row_names else "3,4"
    with pytest.warns(UserWarning, match="table.csv has no header: its first line was taken as data"):
        table = read_table(write(f"{first}\n{second}\n"), missing="keep")
    np.testing.assert_array_equal(
        table.values, [[float(cell) for cell in first.replace("NA", "nan").split(",")[-2:]], [3, 4]]
    )
    assert (table.names, table.row_names) == (("V1", "V2"), row_names)


ANSWERS = np.random.default_rng(0).integers(1, 6, (60, 3)).astype(float)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("first", np.arange(60.0)),
        ("first", [np.nan, *np.arange(1001.0, 1060)]),
        ("patient_id", np.random.default_rng(0).permutation(60)),  # not in order, but named so
    ],
)
def test_case_numbers_are_told_of_and_kept(write, name, values):
    frame = pd.DataFrame(ANSWERS, columns=["a", "b", "c"])
    frame.insert(0, name, values)
    told = rf"table.csv: whole numbers in {name} tell rows apart.*leave them out: --without {name}\.$"
    with pytest.warns(UserWarning, match=told) as caught:
        table = read_table(write(frame.to_csv(index=False)), missing="keep")
    assert len(caught) == 1
    np.testing.assert_array_equal(table.values, frame)
    read_table(write(frame.to_csv(index=False)), without=[name])  # warns no more


@pytest.mark.parametrize("code", [-99, -9, 9, 99, 999])
def test_codes_for_missing_answers_are_told_of_and_kept(tmp_path, code):
    x = np.clip(ANSWERS, 1, 4)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = code
    x[0, 1] = 2 * code + (code > 0)  # another number far away is none: it makes the others reach far
    x[1, 2] = -98 if code < 0 else 98  # another code does not
    np.save(tmp_path / "x.npy", x)
    times = (x == code)[:, [0, 2]].sum()
    told = rf"x.npy: {code} stands {times} times in V1, V3, far from all other values.*empty these cells; --missing"
    with pytest.warns(UserWarning, match=told) as caught:
        table = read_table(tmp_path / "x.npy")
    assert len(caught) == 1
    np.testing.assert_array_equal(table.values, x)


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).integers(1, 10, 60),  # 7, 8 and 9 are answers
        np.r_[np.arange(40.0, 98.0) + 0.5, 99, 99],  # far less far away than the others spread
        np.r_[np.tile([1.0, 2.0], 30), 99],  # once
        np.random.default_rng(0).normal(size=60).cumsum(),
        np.arange(60)[::-1] % 59,  # whole numbers neither in order nor named
        np.arange(10),  # few
        np.tile([99.0, -99.0], 30),  # nothing else
    ],
)
def test_plain_numbers_are_not_warned_of(tmp_path, x):
    np.save(tmp_path / "x.npy", np.c_[x, x])
    read_table(tmp_path / "x.npy")  # warnings are errors


def test_pandas_reads_the_same(write):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 4)), columns=list("abcd"))
    table = read_table(write(frame.to_csv()))
    np.testing.assert_array_equal(table.values, frame.to_numpy())
    german = frame.assign(name=[f"Ada, {i}.{i}" for i in range(20)], e=[7, *range(18), None])[["name", *"abcde"]]
    path = write(german.to_csv(sep=";", decimal=",", index=False))
    table = read_table(path, missing="keep")
    np.testing.assert_array_equal(table.values, pd.read_csv(path, sep=";", decimal=",", index_col=0))
    assert table.row_names == tuple(german["name"])


def test_rows_and_columns_are_left_out_on_request(write):
    path = write("name,a,sex,b\nu,1,m,2\nv,NA,f,3\nw,4,m,5\nx,6,f,\n")
    table = read_table(path, without=["sex"], missing="drop")
    np.testing.assert_array_equal(table.values, [[1, 2], [4, 5]])
    assert (table.names, table.row_names, table.left_out) == (("a", "b"), ("u", "w"), 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "0 row.*at least two"),
        ("a,b\n1,2\n", "1 row.*at least two"),
        ("a,b\n1,2\n3,NA\n", r"line 3, column 'b': no value. 1 of 2 rows .*--missing"),
        ("a,b,c\n1,2,3\n\n4,5\n", r"line 4: 2 value.*line 1 has 3.*Quote"),
        ("a,b\n1,2\n3,4,5\n", r"line 3: 3 value.*line 1 has 2"),
        ("a,b,a\n1,2,3\n4,5,6\n", "line 1: columns 1 and 3 are both called 'a'"),
        ("a,b,\n1,2,\n4,5,\n", "line 1: column 3 has no name"),
        ("a,sex,b,town\n1,m,2,X\n3,f,4,Y\n", "line 2, column 'sex': 'm' is no number.*--without sex --without town"),
        ("sex,a\nm,1\nf,2\nm,3\n", "column 'sex': 'm' is no number"),  # repeated texts name no rows
        ("a,b\n1,2\n3,4 kg\n", "line 3, column 'b': '4 kg' is no number"),
        ('a,"long\nname"\n1,2\n3,x\n', r"line 4, column 'long\\nname'"),  # lines as an editor counts them
        ("a;b\n1,5;2.5\n3;4\n", "line 2, column 'a': '1,5' is no number; write decimal points"),
        ("a;b\n1.234;2,5\n3;4\n", "line 2, column 'b': '2,5' is no number; write decimal points"),
        ("a;b\n1.234,5;2\n3;4\n", "line 2, column 'a': '1.234,5' is no number; write decimal points"),
        ("a\tb\n1,5\t2\n3\t4\n", "line 2, column 'a': '1,5' is no number; write decimal points"),
        ('a,b\n1,"1,234.5"\n3,4\n', "line 2, column 'b': '1,234.5' is no number; write decimal points"),
        ("a b\n1 2\n3 4\n", "'1 2' is no number; separate the values .* by commas"),
        ("a,b\n1,2\n3,1_0\n", "'1_0' is no number"),
        ("a,b\n1,2\n3,-inf\n", "line 3, column 'b': -inf is not finite"),
        ('a,b\n1,2\n3,"4\n', "line 3: unexpected end of data; check the quotation marks"),
        (b"a,b\n1,2\n3,\xe9\n", "line 3: no UTF-8 text"),
        ("a,b\n1,2\n3,4\n".encode("utf-16"), "line 1: no UTF-8 text"),
    ],
)
def test_bad_tables(write, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_table(write(content))
    assert "table.csv" in str(caught.value)


def test_columns_to_leave_out_must_exist(write):
    path = write("a,b\n1,2\n3,4\n")
    with pytest.raises(ValueError, match="no column 'c' to leave out; its columns are a, b"):
        read_table(path, without=["c"])
    with pytest.raises(ValueError, match="no columns"):
        read_table(path, without=["a", "b"])


def surplus():
    """Harman's eight variables as R's list of matrix, centre and number of rows becomes a data frame."""
    frame = pd.DataFrame(HARMAN8, index=HARMAN8_NAMES, columns=[f"cov.{name}" for name in HARMAN8_NAMES])
    return frame.assign(center=0, **{"n.obs": 305}).to_csv(index_label="rownames")


def test_correlation_matrices(write):
    path = write(surplus())
    with pytest.raises(ValueError, match=r"8 rows, but 10 columns; .* --without center --without n.obs"):
        read_correlation(path)
    table = read_correlation(path, without=["center", "n.obs"])
    np.testing.assert_array_equal(table.values, HARMAN8)
    assert table.row_names == tuple(HARMAN8_NAMES)
    smaller = read_correlation(path, without=["center", "cov.arm span", "n.obs"])
    np.testing.assert_array_equal(smaller.values, np.delete(np.delete(HARMAN8, 1, axis=0), 1, axis=1))
    with pytest.raises(ValueError, match=r"4 row.* and 2 column.*leave out --correlation"):
        read_correlation(write("a,b\n1,2\n3,4\n5,6\n7,8\n"))
    frame = pd.DataFrame(HARMAN8, HARMAN8_NAMES, HARMAN8_NAMES)
    with pytest.raises(ValueError, match=r"different orders: row 1 is 'chest width', but column 1 is 'height'"):
        read_correlation(write(frame.iloc[::-1].to_csv()))
    with pytest.raises(ValueError, match=r"line 2, column 'b': no value.*both its triangles"):
        read_correlation(write("a,b\n1,\n0.5,1\n"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,0.5\n0.4,1\n", "line 2, column 'b': 0.5, but 0.4 for 'a' with 'b'; the matrix must be symmetric"),
        ("a,b\n1,0.5\n0.5,2\n", "line 3, column 'b': 2; .* must have ones on its diagonal .divide covariances"),
        ("a,b,c\n1,.9,-.9\n.9,1,.9\n-.9,.9,1\n", "table.csv: R must be positive semidefinite"),
        ("a,b\n1,1.5\n1.5,1\n", r"line 2, column 'b': 1.5; .* must have entries in \[-1, 1\]"),
    ],
)
def test_entries_that_are_no_correlations(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_correlation(write(content))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint64, bool, ">f4", np.longdouble])
def test_arrays_keep_their_float_type(tmp_path, dtype):
    x = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
    np.save(tmp_path / "x.npy", x)
    table = read_table(tmp_path / "x.npy")
    np.testing.assert_array_equal(table.values, x)
    assert table.values.dtype == (np.float32 if dtype in (np.float16, np.float32, ">f4") else np.float64)
    assert table.names == ("V1", "V2")
    assert not table.weights


def test_stacked_weights_take_the_papers_shape(tmp_path):
    stacked = np.random.default_rng(0).normal(size=(3, 4, 2, 5)).astype(np.float32)
    np.save(tmp_path / "w.npy", stacked)
    table = read_table(tmp_path / "w.npy", clients=True)
    for unit in range(4):
        np.testing.assert_array_equal(table.values[:, unit], np.concatenate([w[unit].ravel() for w in stacked]))
    assert (table.weights, table.clients) == (True, 3)
    assert table.names == ("unit0", "unit1", "unit2", "unit3")
    assert units_as_columns(np.zeros((0, 4, 0))).shape == (0, 4)
    with pytest.raises(ValueError, match=r"shape \(3, 4, 2, 5\).*--clients"):
        read_table(tmp_path / "w.npy")


def test_layers_of_a_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {
        "conv.weight": rng.normal(size=(4, 3, 2, 2)).astype(np.float32),
        "conv.bias": np.zeros(4, np.float32),
        "head.weight": rng.normal(size=(2, 4)),
        "stacked.weight": rng.normal(size=(5, 3, 2)),
        "rotary": np.ones((2, 2), np.complex64),
    }
    path = tmp_path / "model.safetensors"
    save_file(tensors, path)
    table = read_table(path, layer="conv")
    np.testing.assert_array_equal(table.values, tensors["conv.weight"].reshape(4, 12).T)
    assert (table.values.dtype, table.weights) == (np.float32, True)
    np.testing.assert_array_equal(read_table(path, layer="head.weight").values, tensors["head.weight"].T)
    stacked = read_table(path, layer="stacked", clients=True)
    np.testing.assert_array_equal(stacked.values, units_as_columns(tensors["stacked.weight"]))
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match="is no index of the clients of a saved run"):
        read_table(tmp_path / "index.json", layer="stacked")
    stacked = read_table(path, layer="conv", clients=True)
    np.testing.assert_array_equal(stacked.values, units_as_columns(tensors["conv.weight"]))
    for layer, message in [
        (
            None,
            r"choose one with --layer NAME:\n(.|\n)*conv.weight  \(4, 3, 2, 2\)(.|\n)*and 1 with fewer than two axes",
        ),
        ("nothing", r"has no tensor 'nothing'(.|\n)*head.weight  \(2, 4\)"),
        ("conv.bias", r"'conv.bias' has shape \(4,\), but weights need \(units, ...\)"),
        ("rotary", "holds complex64"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            read_table(path, layer=layer)
        assert "model.safetensors" in str(caught.value)
    with pytest.raises(ValueError, match=r"\(clients, units, ...\)"):
        read_table(path, layer="head", clients=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float16])
def test_short_floats(tmp_path, dtype):
    from safetensors.torch import save_file

    weight = torch.tensor([[1.5, -2.0, 0.25], [0.0, 3.0, 1.0]]).to(dtype)
    save_file({"head.weight": weight}, tmp_path / "m.safetensors")
    values = read_table(tmp_path / "m.safetensors", layer="head").values
    np.testing.assert_array_equal(values, weight.float().numpy().T)
    assert values.dtype == np.float32


def test_gaps_in_arrays_name_row_and_column(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 2], [3, 4], [5, np.nan], [np.nan, 6]]))
    with pytest.raises(ValueError, match=r"row 3 \(counted from 1\), column 'V2': no value. 2 of 4 rows"):
        read_table(tmp_path / "x.npy")
    assert read_table(tmp_path / "x.npy", missing="drop").left_out == 2
    np.save(tmp_path / "x.npy", np.array([[1, 2], [3, np.inf]]))
    with pytest.raises(ValueError, match=r"row 2 .* column 'V2': inf is not finite"):
        read_table(tmp_path / "x.npy", missing="drop")


class Trap:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("the file was unpickled",)


def test_nothing_is_unpickled(tmp_path, write):
    objects = np.empty(2, dtype=object)
    objects[:] = Trap()
    np.save(tmp_path / "objects.npy", objects)
    torch.save(Trap(), tmp_path / "model.pt")
    np.savez(tmp_path / "many.npz", a=objects)
    with pytest.raises(ValueError, match=r"objects.npy is no whole .npy file of numbers"):
        read_table(tmp_path / "objects.npy")
    content = (tmp_path / "model.pt").read_bytes()
    disguised = [write(content, "m.npy"), write(content, "m.safetensors"), write(pickle.dumps(Trap()), "p.npy")]
    for path in [tmp_path / "model.pt", tmp_path / "many.npz", *disguised]:
        with pytest.raises(ValueError, match=r"never opened; save tensors with safetensors") as caught:
            read_table(path)
        assert path.name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("t.xlsx", {}, "files .xlsx are not read.*export CSV"),
        ("t", {}, "files without a suffix are not read"),
        ("t.csv", {"layer": "conv"}, "leave out --layer conv"),
        ("t.csv", {"clients": True}, "leave out --clients"),
    ],
)
def test_options_and_suffixes_that_do_not_fit(write, name, options, message):
    with pytest.raises(ValueError, match=message):
        read_table(write("a,b\n1,2\n3,4\n", name), **options)


def npy(x):
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def liar(shape):
    """A safetensors file and an .npy file of eight bytes that claim another shape."""
    header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 8]}}).encode()
    array = npy(np.zeros((1, 2), np.float32)).replace(
        b"(1, 2), }" + b" " * len(str(shape)), f"{tuple(shape)}, }}".encode()
    )
    return [struct.pack("<Q", len(header)) + header + bytes(8), array]


VALID = {
    ".csv": b'name,a,"b"\nu,1.5,-2e3\nv,,4\nw,3,4\n',
    ".npy": npy(np.arange(6.0).reshape(3, 2)),
    ".safetensors": save({"w": np.ones((3, 2), np.float32), "b": np.ones(3)}),
}


def survives(folder, suffix, content):
    """Either a sound table or an error that names the file comes back."""
    path = folder / f"fuzzed{suffix}"
    path.write_bytes(content)
    layer = "w" if suffix == ".safetensors" else None
    for read in (lambda: read_table(path, layer=layer, missing="drop"), lambda: read_correlation(path)):
        try:
            table = read()
        except ValueError as error:
            assert path.name in str(error)  # noqa: PT017 (either outcome is fine)
        else:
            assert np.isfinite(table.values).all()
            assert table.values.shape[1] == len(table.names)
            assert table.row_names is None or len(table.row_names) == len(table.values)


@pytest.mark.filterwarnings("ignore:.* first line:UserWarning")
@given(suffix=st.sampled_from(list(VALID)), content=st.binary(max_size=200))
def test_random_bytes(tmp_path_factory, suffix, content):
    survives(tmp_path_factory.getbasetemp(), suffix, content)


@pytest.mark.filterwarnings("ignore:.* first line:UserWarning")
@given(content=st.text('019.,;\t"\n\r -eNax_', max_size=60))
def test_random_text(tmp_path_factory, content):
    survives(tmp_path_factory.getbasetemp(), ".csv", content.encode())


@pytest.mark.filterwarnings("ignore:.* first line:UserWarning")
@given(
    suffix=st.sampled_from(list(VALID)), cut=st.integers(0, 300), place=st.integers(0, 300), patch=st.binary(max_size=8)
)
@example(suffix=".npy", cut=130, place=300, patch=b"")
def test_mutated_files(tmp_path_factory, suffix, cut, place, patch):
    content = VALID[suffix][:cut] if place % 2 else VALID[suffix]
    survives(tmp_path_factory.getbasetemp(), suffix, content[:place] + patch + content[place + len(patch) :])


@pytest.mark.parametrize("shape", [[2**40, 2], [2**62, 2**62], [-1, 2], [10**30, 1]])
def test_files_that_lie_about_their_size(tmp_path, shape):
    for suffix, content in zip([".safetensors", ".npy"], liar(shape), strict=True):
        survives(tmp_path, suffix, content)
        path = tmp_path / f"fuzzed{suffix}"
        with pytest.raises(ValueError, match=r"is no whole"):
            read_table(path, layer="w" if suffix == ".safetensors" else None)
