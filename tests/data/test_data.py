"""Clients from arrays, files, partitions and generators."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedstat as fs
from fedstat import data
from fedstat._random import stream
from fedstat.data import Clients, Samples
from fedstat.data.files import read_csv
from fedstat.inference.predictions.table import predictions_of


@given(
    sizes=st.lists(st.integers(6, 12), min_size=1, max_size=5),
    test=st.sampled_from([0.0, 0.2, 0.4]),
    validation=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)
def test_every_sample_lands_in_one_split_of_its_client(sizes, test, validation, seed):
    client = np.repeat(np.arange(len(sizes)), sizes)
    x = np.arange(len(client), dtype=float)[:, None]
    clients = data.from_arrays(x, client % 2, client, test=test, validation=validation, seed=seed)
    for k in range(len(clients)):
        held = np.concatenate([s.client(k)[0][:, 0] for s in clients.splits.values()])
        np.testing.assert_array_equal(np.sort(held), np.flatnonzero(client == k))
    assert ("test" in clients.splits) == (test > 0)


@given(
    labels=st.lists(st.integers(0, 2), min_size=4, max_size=60),
    shares=st.sampled_from([(0.2, 0.0), (0.3, 0.2), (0.0, 0.4)]),
    seed=st.integers(0, 9),
)
def test_a_stratified_split_holds_each_class_in_proportion(labels, shares, seed):
    test, validation = shares
    y, n = np.array(labels), len(labels)
    clients = data.from_arrays(
        np.arange(n)[:, None], y, np.zeros(n), test=test, validation=validation, seed=seed, stratify=True
    )
    again = data.from_arrays(
        np.arange(n)[:, None], y, np.zeros(n), test=test, validation=validation, seed=seed, stratify=True
    )
    held, sizes = 0, {"test": int(np.ceil(test * n)), "validation": int(np.ceil(validation * n))}
    classes, count = np.unique(y, return_counts=True)
    taken = np.zeros(len(classes))
    for split in ("test", "validation"):
        if split in clients.splits:
            samples = clients.splits[split]
            assert len(samples.y) == sizes[split]
            np.testing.assert_array_equal(samples.x, again.splits[split].x)
            held += sizes[split]
            taken += samples.class_counts(len(classes))[0]
            due = held * count / n  # by Webster's method as near as whole numbers allow, whose sum is given
            assert (np.abs(taken - due) <= 1.5).all()
            if len(classes) == 2 and (count > 1).all():
                assert (np.abs(taken - due) <= 1).all()
    assert not (taken[count == 1] > 0).any() or held > (count[count > 1]).sum()


def test_events_of_a_table_are_in_every_part_and_an_only_one_trains(tmp_path):
    events = {"Aachen": 10, "Bonn": 4, "Celle": 1, "Dessau": 0}
    rows = [f"{town},{i % 7},{int(i < n)}" for town, n in events.items() for i in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["client,a,y", *rows]))
    for seed in range(3):
        clients = data.from_csv(tmp_path / "t.csv", test=0.3, validation=0.2, seed=seed)
        counts = {split: samples.class_counts(2)[:, 1].tolist() for split, samples in clients.splits.items()}
        assert counts == {"test": [3, 1, 0, 0], "validation": [2, 1, 0, 0], "train": [5, 2, 1, 0]}


def patients(folder):
    """A table of 40 with a case number and text."""
    rows = [f"{100 + i},{'AB'[i % 2]},{40 + i % 9},{'fm'[i % 2]},{i % 2}" for i in range(40)]
    (folder / "t.csv").write_text("\n".join(["patient_id,site,age,sex,ill", *rows]))
    return folder / "t.csv"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"inputs": ["agee"]}, r"no column 'agee', which inputs names \(did you mean age\?\); it has 'patient_id', "),
        ({"drop": ["patient"]}, r"no column 'patient', which drop names \(did you mean patient_id\?\)"),
        ({"inputs": ["age", "site"]}, "inputs names 'site', the client column, which is never an input"),
        ({"drop": ["ill"]}, "drop names 'ill', the target column, which is needed"),
        ({"inputs": ["age"], "drop": ["sex"]}, "give one of them, not both"),
        ({"drop": ["patient_id", "age", "sex"]}, "no input columns are left beside 'site' and 'ill'"),
        ({"drop": "age"}, "drop must be a sequence of names such as"),
        ({"inputs": ["sex"]}, r"'sex' is not numeric. Leave it out, drop = \[\"sex\"\]"),
        ({"target": "il"}, r"has no column 'il' \(did you mean ill\?\)"),
    ],
)
def test_a_choice_of_columns_that_cannot_be_meant_is_refused(tmp_path, chosen, message):
    with pytest.raises(ValueError, match=message):
        data.from_csv(patients(tmp_path), **{"client": "site", "target": "ill", **chosen})


def test_columns_are_chosen_by_name_and_case_numbers_warned_of(tmp_path):
    how = {"path": patients(tmp_path), "client": "site", "target": "ill"}
    with pytest.warns(UserWarning, match=r"'patient_id' holds whole numbers with 40 different values in 40 rows"):
        data.from_csv(**how, drop=["sex"])
    x = data.from_csv(**how, inputs=["age", "patient_id"]).train.x  # in the order of the file
    np.testing.assert_array_equal(x[:, 0] % 100 % 9, x[:, 1] - 40)


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("patient_id", [*range(89), 0], "case number"),  # one comes twice
        ("PatientID", [7 * i % 40 for i in range(90)], "case number"),  # most come twice or three times
        ("subject code", ["", *range(89)], "case number"),  # one is missing
        ("patientnumber", range(500, 590), "case number"),
        ("case_no", [i % 30 for i in range(90)], ""),
        ("age", [i % 60 for i in range(90)], ""),
        ("birth_year", range(1920, 2010), ""),
        ("postal_code", range(53000, 53090), ""),
        ("zip", range(53000, 53090), ""),
        ("bmi_index", [i % 40 for i in range(90)], ""),
        ("icd_code", [i % 40 for i in range(90)], ""),
        ("mrn", [i + 0.5 for i in range(90)], ""),  # measured
        ("visit", [f"P{7 * i % 40}" for i in range(90)], "text with 40 different values in 90 rows"),
        ("town", [f"P{7 * i % 30}" for i in range(90)], ""),
        ("remark", [f"P{7 * i % 46}" for i in range(90)], None),
        ("few", [f"P{i % 10}" for i in range(12)], ""),
    ],
)
def test_case_numbers_are_told_by_how_many_rows_they_tell_apart(tmp_path, name, values, found):
    rows = [f"{value},{i % 7},{'AB'[i % 2]},{i // 2 % 2}" for i, value in enumerate(values)]
    (tmp_path / "t.csv").write_text("\n".join([f"{name},dose,client,y", *rows]))

    def read(**more):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            data.from_csv(tmp_path / "t.csv", prepare="standard", **more)
        return [str(one.message) for one in said if repr(name) in str(one.message)]

    if found is None:
        with pytest.raises(ValueError, match=f"'{name}' holds text with 46 different values in 90 rows"):
            read()
    else:
        assert [found in one for one in read()] == [True] * bool(found)
    assert not read(inputs=[name, "dose"])


def test_numbers_with_some_text_are_no_words(tmp_path):
    def read(values, sep=",", **more):
        rows = [sep.join([value, f"{i % 7}", "AB"[i % 2], f"{i // 2 % 2}"]) for i, value in enumerate(values)]
        (tmp_path / "t.csv").write_text("\n".join([sep.join(["age", "dose", "client", "y"]), *rows]))
        return data.from_csv(tmp_path / "t.csv", prepare="standard", **more).train.x.shape[1]

    ages = [str(40 + i % 30) for i in range(88)]
    with pytest.raises(ValueError, match="column 'age' holds numbers and in 2 of 90 rows text, such as '>89'"):
        read([*ages, ">89", "unknown"])
    commas = [f"36,{10 + i % 30}" for i in range(88)]
    for cells, sep, text in ([*commas, "38,0", "38,1"], ",", "90 of 90"), ([*commas, ">41", ""], ";", "89 of 89"):
        with pytest.raises(ValueError, match=f"'age' holds numbers and in {text} rows text, such as '36,10'"):
            read([f'"{value}"' if sep == "," else value for value in cells], sep)
    assert read([*ages, "", ""]) == 2
    assert read([*ages, ">89", "unknown"], inputs=["age", "dose"]) == 33  # at most 32 words
    assert read([f"{i % 3}" for i in range(89)] + ["3+"]) == 5  # few values: dependants
    assert read([f"I{i % 15}" for i in range(60)] + [f"{i % 15}" for i in range(30)]) == 31  # codes


def test_tokens_with_a_client_label_are_those_of_the_same_partition():
    client = np.repeat([7, 3], 6)
    x = np.random.default_rng(0).integers(0, 300, (12, 4))
    clients = data.from_arrays(x, client % 2, client, tokens=True)
    same = data.from_indices(x, client % 2, data.by_group(client), tokens=True)
    for split in ("train", "test"):
        own, other = clients.splits[split], same.splits[split]
        assert own.x.dtype == np.int16
        np.testing.assert_array_equal(own.x, other.x)
    result = fs.federate(
        fs.FedAvg(), fs.models.lstm(2, vocabulary=300, hidden=4, dense=4), clients, fs.Training(lr=0.1), rounds=1
    )
    assert np.isfinite(result.history["value"]).all()
    assert data.from_arrays(x, client % 2, client).train.x.dtype == np.float32


def test_labels_become_codes_and_floats_a_regression():
    x = np.zeros((6, 1))
    named = data.from_arrays(x, np.array(["cat", "dog", "cat"] * 2), [0, 0, 0, 1, 1, 1])
    assert named.classes == ("cat", "dog")
    assert data.from_arrays(x, np.linspace(0, 1, 6), [0, 0, 0, 1, 1, 1]).classes is None


def test_print_shows_sizes_balance_and_overlap():
    x = np.arange(10.0)[:, None]
    shared = data.from_indices(x, np.arange(10) % 2, [np.arange(6), np.arange(4, 10)], test=0.0)
    text = str(shared)
    assert "2 clients, classification, 2 classes" in text
    assert "2 training inputs are held by several clients" in text
    train = Samples.from_rows(np.zeros((1, 3, 2)), np.zeros((1, 3), dtype=int))
    leaky = Clients(train, test=train, classes=(0, 1))
    assert "3 of 3 test inputs also occur in training data (3 in the client's own, 0 in that of others)" in str(leaky)
    others = data.from_indices(x, np.arange(10) % 2, data.Partition(([0, 1], [2, 3]), ([1, 2], [4, 1])), common=[0, 9])
    assert "3 of 4 test inputs also occur in training data (1 in the client's own, 2 in that of others)" in str(others)
    assert "1 of 2 common inputs also occur in training data" in str(others)
    assert str(leaky).splitlines()[3].split()[-1] == "1"  # one client has one class


def test_the_majority_is_that_of_training():
    x, y = np.arange(12.0)[:, None], np.array([0, 0, 1, 1, 1, 0, 1, 1, 0, 0, 0, 1])
    parts = data.Partition(([0, 1, 2], [3, 4, 5]), ([6, 7, 8], [9, 10, 11]))
    clients = data.from_indices(x, y, parts, common=[0, 1, 2, 3])
    assert clients.majority_share().tolist() == pytest.approx([2 / 3, 2 / 3])
    assert clients.majority_share("test").tolist() == pytest.approx([1 / 3, 1 / 3])
    assert clients.majority_share("common").tolist() == [0.5]


@given(
    st.lists(st.tuples(*[st.lists(st.integers(0, 6), min_size=1, max_size=5, unique=True)] * 2), min_size=1, max_size=4)
)
def test_overlap_is_counted_as_by_hand(held):
    x = np.arange(7, dtype=np.uint8)[:, None]
    clients = data.from_indices(x, x[:, 0] % 2, data.Partition(*zip(*held, strict=True)), classes="ab")
    several = sum(sum(i in train for train, _ in held) > 1 for i in range(7))
    own = [i in train for train, test in held for i in test]
    seen = [any(i in train for train, _ in held) for _, test in held for i in test]
    others = [
        any(i in t for k, (t, _) in enumerate(held) if k != mine) for mine, (_, test) in enumerate(held) for i in test
    ]
    text = str(clients)
    assert f"{several} training inputs are held by several clients" in text
    assert f"{sum(seen)} of {len(seen)} test inputs also occur in training data ({sum(own)} in the" in text
    assert f"{sum(others)} in that of others)" in text


@pytest.mark.parametrize(
    ("share", "held"), [(0.07, 7), (0.14, 14), (0.28, 28), (0.55, 55), (0.56, 56), (0.141, 15), (1e-12, 1)]
)
def test_a_share_is_rounded_up_to_whole_samples_and_not_beyond(share, held):
    clients = data.from_arrays(np.zeros((100, 1)), np.arange(100) % 2, np.zeros(100), test=share, validation=0.07)
    assert (clients.test.n.tolist(), clients.validation.n.tolist()) == ([held], [7])


@pytest.mark.slow
def test_codes_in_a_long_column_of_text_are_read_in_one_way(tmp_path):
    count, path = 140_000, tmp_path / "long.csv"  # more than what is read at once
    code = np.append(np.full(count - 2, "01"), ["x", "01"])
    table = pd.DataFrame({"client": np.arange(count) % 3, "a": 0.5, "code": code, "y": np.arange(count) % 2})
    table.to_csv(path, index=False)
    x, *_ = read_csv(path, client="client", target="y", prepare="standard")
    assert set(x["code"]) == {"01", "x"}
    told = pd.DataFrame({"method": "A", "client": code, "sample": np.arange(count), "outcome": 1, "probability": 0.5})
    told.to_csv(path, index=False)
    assert set(predictions_of(path)[0]["client"]) == {"01", "x"}


def test_csv(tmp_path):
    path = tmp_path / "clients.csv"
    path.write_text("client,a,b,y\n" + "".join(f"site{i % 3},{i},{i / 2},{i % 2}\n" for i in range(30)))
    clients = data.from_csv(path)
    assert clients.names == ("site0", "site1", "site2")
    assert clients.train.x.shape == (24, 2)
    path.write_text("client,a,y\n" + "".join(f"{i % 12},{i},{['US', 'EU'][i % 2]}\n" for i in range(60)))
    numbered = data.from_csv(path)
    assert numbered.names == tuple(str(k) for k in range(12))  # numbers sort as numbers
    assert numbered.classes == ("EU", "US")
    with pytest.raises(ValueError, match="different columns"):
        data.from_csv(path, client="y")
    path.write_bytes("client,a,y\n1,2,é\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        data.from_csv(path)


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), (";", "."), ("\t", ".")])
@pytest.mark.parametrize("prepare", [None, "standard"])
def test_a_csv_of_another_country_is_the_same_clients(tmp_path, separator, decimal, prepare):
    rng, path = np.random.default_rng(0), tmp_path / "a.csv"
    table = pd.DataFrame(rng.normal(size=(30, 3)).round(3), columns=["a", "b; or c", "y"])
    table.insert(0, "client", np.where(np.arange(30) % 2, "Graz, Ost", "Köln; 1"))
    if prepare:
        table = table.assign(word=np.where(rng.random(30) < 0.5, "1,5 mg", "none"), smokes=rng.random(30) < 0.5)
        table = table.astype({"smokes": object})
        table.loc[3, ["a", "smokes"]] = None
    table.to_csv(path, index=False)
    expected = data.from_csv(path, prepare=prepare)
    table.to_csv(path, index=False, sep=separator, decimal=decimal)
    found = data.from_csv(path, prepare=prepare)
    assert found.names == expected.names == ("Graz, Ost", "Köln; 1")
    np.testing.assert_array_equal(found.train.x, expected.train.x)
    np.testing.assert_array_equal(found.train.y, expected.train.y)
    path.write_text("client;a;y\n1;2;0\n1;;0\n")
    with pytest.raises(ValueError, match="line 3: no value in column 'a'"):
        data.from_csv(path)


def test_blanks_around_words_of_a_csv_count_for_nothing(tmp_path):
    cells = [[f"{'AB'[i % 2]}", f"{i}", f"{'mf'[i // 2 % 2]}", f"{['no', 'yes'][i // 4 % 2]}"] for i in range(40)]
    padded = [[f"{' ' * (i % 3)}{cell}{' ' * (i % 2)}" for cell in row] for i, row in enumerate(cells)]
    cells[7][2], padded[7][2] = "", " "
    found = []
    for name, rows in (("a", cells), ("b", padded)):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(map(",".join, [["client", "a", "sex", "y"], *rows])))
        found.append(data.from_csv(path, prepare="standard"))
    assert found[1].names == found[0].names == ("A", "B")
    assert found[1].classes == found[0].classes == ("no", "yes")
    np.testing.assert_array_equal(found[1].train.x, found[0].train.x)
    np.testing.assert_array_equal(found[1].train.y, found[0].train.y)


@pytest.mark.parametrize("name", ["NA", "null", ""])
def test_gaps_of_a_column_whose_name_is_empty_or_says_missing_are_filled(tmp_path, name):
    path = tmp_path / "a.csv"
    rows = [f"{'AB'[i % 2]},{i + 0.5 if i % 5 else ''},{i // 2 % 2}" for i in range(60)]
    path.write_text("\n".join([f"client,{name},y", *rows]))
    x = data.from_csv(path, prepare="standard", test=0.0).train.x
    filled = np.where(np.arange(60) % 5, np.arange(60), np.median([i for i in range(60) if i % 5]))
    np.testing.assert_allclose(np.sort(x[:, 0]), np.sort((filled - filled.mean()) / filled.std()))


@pytest.mark.parametrize(("first", "other", "rows"), [("0,5", "0,{}", 90), (">89", "{}", 1)])
def test_targets_of_numbers_with_some_text_are_no_classes(tmp_path, first, other, rows):
    path = tmp_path / "a.csv"
    targets = [first, *(other.format(i % 30) for i in range(89))]
    path.write_text("\n".join(["client\ta\ty", *(f"{'AB'[i % 2]}\t{i}\t{y}" for i, y in enumerate(targets))]))
    with pytest.raises(ValueError, match=f"'y' holds numbers and in {rows} of 90 rows .* '{first}', .* become a class"):
        data.from_csv(path)


def csv_of(path, codes, targets, **options):
    """A file with three samples for every code and target."""
    lines = [f"{code},{i},{y}" for i, (code, y) in enumerate(zip(codes * 3, targets * 3, strict=True))]
    path.write_text("\n".join(["client,a,y", *lines]) + "\n")
    return data.from_csv(path, **options)


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (["1", "01", "10", "2"], ("01", "1", "2", "10")),
        (["1.50", "1.5", "-3"], ("-3", "1.5", "1.50")),
        (["12345678901234567891", "12345678901234567890"], ("12345678901234567890", "12345678901234567891")),
        (["10", "9", "A"], ("10", "9", "A")),
        ([" 1", "1", "2 "], ("1", "2")),
        (["NA", "nan", "1"], ("1", "NA", "nan")),
        (["True", "TRUE"], ("TRUE", "True")),
    ],
)
def test_codes_of_clients_are_text_as_they_stand_in_a_csv(tmp_path, codes, names):
    clients = csv_of(tmp_path / "a.csv", codes, ["0.5"] * len(codes))
    assert clients.names == names
    held = [sum(samples.n[k] for samples in clients.splits.values()) for k in range(len(names))]
    assert held == [3 * sum(code in (name, f" {name}", f"{name} ") for code in codes) for name in names]


@pytest.mark.parametrize(
    ("targets", "classes"),
    [
        (["1", "0"], (0, 1)),
        (["01", "02"], (1, 2)),
        (["1", "01"], ("01", "1")),
        (["1", "one"], ("1", "one")),
        (["1", "2.5"], None),
        (["1", "1.0", "2.5"], None),
    ],
)
def test_targets_of_a_csv_are_numbers_unless_that_would_merge_them(tmp_path, targets, classes):
    clients = csv_of(tmp_path / "a.csv", ["a"] * len(targets), targets, test=0.0)
    assert clients.classes == classes
    expected = [float(y) if classes is None else y for y in targets]
    found = clients.train.client(0)[1]
    found = found if classes is None else [str(classes[k]) for k in found]
    shown = expected if not isinstance((classes or ("",))[0], int) else [str(int(y)) for y in targets]
    assert sorted(found) == sorted(shown * 3)


@pytest.mark.slow
@pytest.mark.parametrize("column", ["client", "y"])
def test_one_text_among_hundreds_of_thousands_of_numbers_is_read(tmp_path, column):
    count, path = 700_000, tmp_path / "long.csv"
    table = pd.DataFrame({"client": np.arange(count) % 3, "a": 0.5, "y": np.arange(count) % 2})
    table[column] = [*table[column].astype(str)[:-4], *["x"] * 4]
    table.to_csv(path, index=False)
    clients = data.from_csv(path)
    assert (clients.names if column == "client" else clients.classes) == (*"012"[: 3 if column == "client" else 2], "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("client,a,y\n1,2,0\n1,2,0,9\n", "ragged.*line 3"),
        ("client,a,y\n1,2,0\n1,2\n", "line 3: no value in column 'y'"),
        ('client,a,y\n"of two\nlines",2,0\n1,2\n', "line 4: no value in column 'y'"),
        *((f"client,a,y\n1,2,0.5\n1,2,{y}\n1,2,2.5\n", "line 3: no value in column 'y'") for y in ("NA", " ", "null ")),
        ("client,a,y\n1,2,ill\n1,2,N/A\n1,2,well\n", "line 3: no value in column 'y'.*NA, NaN and null"),
        ("client,a,y\n1,2,\n1,2,\n", "line 2: no value in column 'y'"),
        ("client,a,y\n1,,0\n", "line 2: no value in column 'a'"),
        ("client,a,y\n1,2,0\n,2,0\n", "line 3: no value in column 'client'"),
        ("client,a,y\n1,2,0\n1,1e999,0\n", "x must be finite"),
        ("client,a,y\n1,red,0\n1,2,0\n", "column 'a' is not numeric"),
        ("who,a,y\n1,2,0\n", "no column 'client'; it has 'who', 'a', 'y'"),
        ("client,y\n1,0\n", "no input columns"),
        ("client,a,y\n1,2,0,9\n1,2,0,9\n", "ragged"),
        ("client,a,y,y\n1,2,0,9\n", "two columns named 'y'"),
        ("client,a,y\n", "no samples"),
        ("client,a,y\n1,2,0\n\n1,,0\n", "line 3"),
    ],
)
def test_bad_csv_names_line_or_column(tmp_path, text, message):
    path = tmp_path / "clients.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        data.from_csv(path)


X, Y, CLIENT = np.ones((6, 2)), np.arange(6) % 2, np.repeat([0, 1], 3)
TEXT = np.arange(6)[:, None]


class Endless:
    """A data set that makes a sample for every number, and says how many are meant, as torch's may."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        return [float(i)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: data.from_arrays(np.full((6, 2), np.nan), Y, CLIENT),
            r"x must be finite; client 0, sample 0 .*impute",
        ),
        (lambda: data.from_arrays(X * np.inf, Y, CLIENT), r"client 0, sample \d holds -?inf\. Drop such samples\.$"),
        (lambda: data.from_arrays(X, Y + np.inf, CLIENT), "y must be finite"),
        (lambda: data.from_arrays(Endless(), Y, CLIENT), "x must be an array, got a Endless. Stack its samples first"),
        (lambda: data.from_arrays(Endless(), Y, CLIENT, prepare="standard"), "x must be an array, got a Endless"),
        (lambda: data.from_arrays([[1], [2, 3]], Y, CLIENT), "x must be an array, but its samples differ in shape"),
        (lambda: data.from_arrays(X, Y, np.array([*"aab", None, *"bb"], object)), "client has no value at sample 3"),
        (lambda: data.from_arrays(X[:5], Y, CLIENT), "one entry per sample"),
        (lambda: data.from_arrays(X, Y, []), "client must be a non-empty vector"),
        (lambda: data.from_arrays(np.array([["a"]] * 6), Y, CLIENT), "x must be numeric"),
        (lambda: data.from_arrays(X, Y, CLIENT, test=1.0), "test \\+ validation < 1"),
        (lambda: data.from_arrays(X, Y, [0, 0, 0, 0, 0, 1]), "client 1 has 1 sample: too few"),
        (lambda: data.from_indices(X, Y, [np.arange(6), np.arange(0)]), "client 1 has 0 samples"),
        (lambda: Samples.from_rows(np.ones((2, 3, 1)), np.ones((2, 3)), np.array([3, 0])), r"clients \[1\] are empty"),
        (
            lambda: data.from_arrays(X, np.array([0, 1, np.nan, 1, 0, 1], dtype=object), CLIENT),
            "y has no value at sample 2",
        ),
        (lambda: data.from_arrays(X, Y, np.array([0, 0, 0, np.nan, 1, 1])), "client has no value at sample 3"),
        (lambda: data.from_arrays(X * 1j, Y, CLIENT), "x must be numeric"),
        (lambda: data.from_indices(X, Y, [np.array([True] * 6)]), "client 0 must hold sample numbers in train"),
        (lambda: data.from_indices(X, Y, [np.array([0, 9])]), "client 0 must hold sample numbers 0..5, got 9"),
        (lambda: data.from_indices(X, Y, [[0, 1], [4, 2, 4]]), "client 1 must hold .* name sample 4 several times"),
        (
            lambda: data.from_indices(X, Y, data.Partition(([0], [1]), ([2], [3, 3]), ("ann", "bob"))),
            "client bob must hold each sample once, but its indices name sample 3",
        ),
        (lambda: data.from_indices(X, Y, []), "at least one client"),
        (lambda: data.from_indices(X, Y, [[0, 1]], classes="a"), "codes 0..0 of the classes; sample 1 has 1"),
        (lambda: data.from_indices(X, Y, [[0, 1]], classes="ab", common=[6]), r"common must hold sample numbers 0..5"),
        (lambda: data.from_indices(X, Y, [[0, 1]], tokens=True), "x must hold tokens 0, 1, ..., got float64"),
        (lambda: data.from_arrays(X, Y, CLIENT, tokens=True), "x must hold tokens 0, 1, ..., got float64"),
        (lambda: data.from_arrays(-TEXT, Y, CLIENT, tokens=True), "x must hold tokens 0, 1, ..., got int64 from -5"),
        (lambda: data.from_arrays(TEXT, Y, CLIENT, tokens=True, prepare="standard"), "prepare is for columns of num"),
        (
            lambda: data.from_indices(X, Y, data.Partition(([0], [1]), ([2], []), ("ann", "bob"))),
            "client bob has no test samples",
        ),
        (
            lambda: Clients(Samples.from_rows(np.ones((1, 2, 1)), np.array([[0, 2]]), np.array([2])), classes=(0, 1)),
            "codes 0..1",
        ),
        (lambda: Samples.from_rows(np.ones((1, 2, 1)), np.ones((1, 2)), np.array([3])), "n counts up to 3"),
        (lambda: data.relu_mixture(noise=-1), r"noise must be a number in \[0, inf\)"),
        (lambda: data.relu_mixture(validation=-1), "validation must be a whole number, at least 0"),
        (lambda: data.iid(5, 6), "clients must be between 1 and the number of samples, 5; got 6"),
        (lambda: data.one_label_shards(Y, 3), "multiple of the 2 classes, got 3"),
        (lambda: data.one_label_shards([0, 0, 0, 1], 4), "class 1 has 1 sample, fewer than its 2 clients"),
        (lambda: data.dirichlet(Y, 2, 0.0), r"alpha must be a number in \(0, inf\)"),
        (lambda: data.dirichlet(np.zeros(40), 20, 0.01, min_size=2, tries=5), "in 5 tries .* Raise alpha, or lower"),
        (lambda: data.relu_mixture(shared_units=1.2), "shared_units must be a number"),
        (lambda: data.relu_mixture(balance="no"), "balance must be"),
        (lambda: data.relu_mixture(correlation=1), "correlation must be a number in"),
        (lambda: data.relu_mixture(clients=0), "clients must be a whole number, at least 1"),
        (lambda: data.gaussian_task(covariance=[[1, 2], [2, 1]]), "positive definite"),
        (lambda: data.gaussian_task(spread=-1.0), "spread must be a number in .0, inf., got -1"),
        (lambda: data.gaussian_task(samples=0), "samples must be a whole number, at least 1, got 0"),
    ],
)
def test_bad_input_names_argument_value_and_remedy(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@given(clients=st.integers(1, 8), seed=st.integers(0, 50), kind=st.sampled_from(["iid", "shards", "dirichlet"]))
def test_partitions_are_disjoint_and_complete(clients, seed, kind):
    y = np.repeat(np.arange(4), 30)
    if kind == "iid":
        parts = data.iid(len(y), clients, seed=seed)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    elif kind == "shards":
        parts = data.one_label_shards(y, 4 * clients, seed=seed)
        assert all(len(np.unique(y[part])) == 1 for part in parts)
    else:
        parts = data.dirichlet(y, clients, 1.0, seed=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))


def test_dirichlet_concentration_decides_how_alike_clients_are():
    y = np.repeat(np.arange(5), 200)

    def spread(alpha):
        parts = data.dirichlet(y, 5, alpha, seed=1)
        return np.mean([np.bincount(y[part], minlength=5).max() / len(part) for part in parts])

    assert spread(0.05) > spread(1.0) > spread(1000.0)
    assert spread(1000.0) < 0.25


def generated(**options):
    return data.relu_mixture(
        **{"clients": 20, "d": 20, "units": 24, "test": 400, "seed": 3, "balance": "median"} | options
    )


def test_relu_mixture_is_what_its_truth_says():
    clients = generated(noise=0.0)
    truth = clients.truth
    for samples in clients.splits.values():
        hidden = np.maximum(
            np.einsum(
                "cnd,cmd->cnm", samples.x.reshape(len(clients), -1, samples.x.shape[-1]).astype(float), truth.weights
            ),
            0,
        )
        margin = hidden @ truth.output - truth.offset[:, None]
        clear = np.abs(margin) > 1e-3  # inputs are stored in single precision
        np.testing.assert_array_equal(samples.y[clear.ravel()], (margin > 0)[clear])
    shared, own = ~truth.personal_units, truth.personal_inputs
    assert shared.sum() == 12
    assert own.sum() == 12
    assert (truth.weights[:, shared] == truth.weights[:1, shared]).all()
    assert np.abs(truth.weights[:, shared][:, :, own]).max() <= 0.1
    assert 0.9 < np.abs(truth.weights[:, shared][:, :, ~own]).max() <= 1.0
    assert np.abs(truth.weights[:, ~shared][:, :, ~own]).max() <= 0.1


def test_relu_mixture_noise_flips_labels_near_the_boundary():
    quiet, loud = generated(noise=0.0).test.y, generated(noise=20.0).test.y
    assert 0.02 < (quiet != loud).mean() < 0.4


def test_relu_mixture_inputs_have_the_stated_moments():
    samples = generated(clients=3, test=40_000, correlation=0.5).test
    x = [samples.client(k)[0].astype(float) for k in range(3)]
    truth = generated(clients=3, correlation=0.5).truth
    own = truth.personal_inputs
    lag = np.abs(np.subtract.outer(np.arange(own.sum()), np.arange(own.sum())))
    for k in range(3):
        np.testing.assert_allclose(np.cov(x[k][:, own].T), 0.5**lag, atol=0.05)
        np.testing.assert_allclose(np.cov(x[k][:, ~own].T), np.eye((~own).sum()), atol=0.05)
        np.testing.assert_allclose(x[k][:, ~own].mean(axis=0), 0, atol=0.05)
        # personal units weigh personal covariates around that client's mean of these covariates
        mean = truth.weights[k][truth.personal_units][:, own].mean(axis=0)
        assert np.corrcoef(mean, x[k][:, own].mean(axis=0))[0, 1] > 0.8


def test_balance_options():
    with pytest.warns(UserWarning, match='majority class above 95%.*"center" makes it rare'):
        written = generated(balance="none", clients=40, d=40, units=64, seed=0)
    with pytest.warns(UserWarning, match='"median" makes it impossible'):
        centred = generated(balance="center", clients=40, d=40, units=64, seed=1)
    median = generated(clients=40, d=40, units=64, seed=0)
    assert written.majority_share("test").mean() > 0.9
    assert median.majority_share("test").max() < 0.6
    for group in (centred.truth.personal_units, ~centred.truth.personal_units):
        assert abs(centred.truth.output[group].sum()) < 1e-9


def test_generators_repeat_and_depend_on_the_seed():
    a, b, c = generated(), generated(), generated(seed=4)
    np.testing.assert_array_equal(a.train.x, b.train.x)
    assert not np.array_equal(a.train.x, c.train.x)


@pytest.mark.parametrize(("clients", "samples", "spread"), [(4, 50_000, 0.0), (50_000, 4, 1.5)])
def test_gaussian_task_has_the_stated_optimum(clients, samples, spread):
    covariance = np.array([[1.0, 0.3], [0.3, 2.0]])
    drawn = data.gaussian_task(clients=clients, samples=samples, covariance=covariance, spread=spread, test=0, seed=0)
    x, y, truth = drawn.train.x.astype(float), drawn.train.y.astype(float), drawn.truth
    fitted, *_ = np.linalg.lstsq(x, y, rcond=None)
    np.testing.assert_allclose(fitted, truth.weights, atol=0.01)
    for w in (fitted, np.zeros(2), np.array([0.5, -0.2])):
        assert ((y - x @ w) ** 2).mean() == pytest.approx(truth.risk + truth.excess(w), rel=0.02)


def test_centres_of_the_gaussian_task_are_the_clients():
    clients = data.gaussian_task(clients=3, samples=20_000, test=20_000, spread=2.0, seed=1)
    assert np.ptp(clients.truth.centres, axis=0).min() > 0.5
    for split in (clients.train, clients.test):
        means = [(y[:, None] * x).mean(axis=0) for x, y in map(split.client, range(3))]
        np.testing.assert_allclose(means, clients.truth.centres, atol=0.05)


def test_the_gaussian_task_draws_from_a_generator_as_from_its_seed():
    drawn = [data.gaussian_task(spread=1.0, test=0, seed=seed) for seed in (7, stream(7, "data"))]
    np.testing.assert_array_equal(*(clients.train.x for clients in drawn))
    assert drawn[0].test is None


def test_the_product_model_learns_the_gaussian_task():
    clients = data.gaussian_task(clients=5, samples=200, seed=0)
    result = fs.federate(
        fs.FedAvg(), fs.models.atom_linear(2), clients, fs.Training(lr=0.02, batch_size=20), rounds=20, seed=1
    )
    mse = result.history.query("round == 20 and metric == 'mse'")["value"].mean()
    assert mse < clients.truth.risk + 0.02


def test_digits_come_as_shares():
    x, y = data.digits()
    assert x.shape == (1797, 8, 8)
    assert x.max() == 1.0
    assert len(y) == 1797
