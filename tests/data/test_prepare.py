"""Inputs prepared by what training samples teach, and by nothing else."""

from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fedstat as fs
from fedstat.inference.comparing.notes import _beside_majority
from tests.support.comparisons import scores

RNG = np.random.default_rng(0)
Y, CLIENT = RNG.integers(0, 2, 90), np.repeat([0, 1, 2], [20, 30, 40])
X = RNG.normal(size=(90, 3)) * [1, 100, 5] + [0, 100, 3] + CLIENT[:, None]
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)


def splits(clients):
    return {name: samples for name, samples in clients.all_splits.items() if name != "common"}


@pytest.mark.parametrize("fit_on", ["pooled", "client"])
def test_training_samples_alone_are_learnt_from(fit_on):
    plain = fs.data.from_arrays(X, Y, CLIENT, validation=0.2, seed=4)
    found = fs.data.from_arrays(X, Y, CLIENT, validation=0.2, seed=4, prepare=StandardScaler(), fit_on=fit_on)
    for name, samples in splits(plain).items():
        got = splits(found)[name]
        np.testing.assert_array_equal(got.n, samples.n)
        np.testing.assert_array_equal(got.y, samples.y)
        for k in range(3):
            train = plain.train.x if fit_on == "pooled" else plain.train.client(k)[0]
            due = (samples.client(k)[0] - train.mean(axis=0)) / train.std(axis=0)
            np.testing.assert_allclose(got.client(k)[0], due, rtol=1e-5, atol=1e-5)
    assert f"StandardScaler(), fitted on {dict(pooled='all', client='each')[fit_on]} client" in str(found)
    assert (found.transformer is None) == (fit_on == "client")


@pytest.mark.parametrize("fit_on", ["pooled", "client"])
def test_who_trains_on_an_input_is_told_of_inputs_as_they_were_given(fit_on):
    x, client = np.concatenate([HOLES, HOLES[:20]]), np.append(CLIENT, [3] * 20)  # the first client's, at a fourth
    clients = fs.data.from_arrays(x, np.append(Y, Y[:20]), client, test=0.3, prepare="standard", fit_on=fit_on)
    known = {x[row].tobytes() for row in clients.train.row}
    again = sum(x[row].tobytes() in known for row in clients.test.row)
    assert again > 0
    assert f"{again} of {clients.test.n.sum()} test inputs also occur in training data (0 in " in str(clients)


def test_what_is_held_out_changes_nothing_that_is_learnt():
    plain = fs.data.from_arrays(np.arange(90.0)[:, None], Y, CLIENT)
    tested = np.isin(np.arange(90.0), plain.test.x[:, 0])
    wild = np.where(tested[:, None], 1e6, HOLES)
    calm, other = (fs.data.from_arrays(x, Y, CLIENT, prepare="standard").train.x for x in (HOLES, wild))
    np.testing.assert_array_equal(calm, other)


def test_missing_values_are_imputed_and_clients_that_come_later_are_treated_alike():
    clients = fs.data.from_arrays(HOLES, Y, CLIENT, prepare="standard")
    assert np.isfinite(clients.test.x).all()
    np.testing.assert_allclose(clients.train.x.mean(axis=0), 0, atol=1e-6)
    later = fs.data.from_arrays(HOLES, Y, CLIENT, prepare=clients.transformer, fit_on="fitted")
    np.testing.assert_array_equal(later.train.x, clients.train.x)
    kind = SimpleImputer()
    fs.data.from_arrays(HOLES, Y, CLIENT, prepare=kind)
    assert not hasattr(kind, "statistics_")  # a copy is fitted


def test_a_csv_with_text_and_gaps(tmp_path):
    table = pd.DataFrame(HOLES, columns=list("abc")).assign(sex=np.where(Y, "f", "m"), y=Y, client=CLIENT)
    table.to_csv(tmp_path / "t.csv", index=False, na_rep="NA")
    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder=SimpleImputer())
    clients = fs.data.from_csv(tmp_path / "t.csv", prepare=encode)
    np.testing.assert_array_equal(clients.train.x[:, 0], clients.train.y)
    table.drop(columns="sex").to_csv(tmp_path / "gaps.csv", index=False)
    with pytest.raises(ValueError, match=r"no value in column '.'.*or impute by prepare=\"standard\""):
        fs.data.from_csv(tmp_path / "gaps.csv")
    assert len(fs.data.from_csv(tmp_path / "gaps.csv", prepare="standard").train.y) == 72


CONFIG = """
rounds = 1
[data]
file = "t.csv"
prepare = "mine.py:shape"
[partition]
kind = "group"
new_clients = 0.4
[model]
name = "mlp"
widths = [4]
[method.FedAvg]
[training]
lr = 0.1
"""
MINE = """
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

def shape():
    return make_column_transformer((OneHotEncoder(), ["sex"]), remainder=SimpleImputer())
"""


def test_an_experiment_prepares_a_file_and_clients_that_come_later_alike(tmp_path):
    sex = np.where(RNG.random(90) < 0.5, "f", "m")
    table = pd.DataFrame(HOLES, columns=list("abc")).assign(sex=sex, y=Y, client=CLIENT)
    table.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "e.toml").write_text(CONFIG)
    experiment = fs.experiment.read(tmp_path / "e.toml")
    clients, later = fs.experiment.population(experiment)
    assert clients.train.x.shape[1] == later.train.x.shape[1] == 5
    gaps = [one.x[:, 2] for one in splits(later).values()]  # filled with the means of those who train
    filled = {float(v) for column in gaps for v in column} - {float(v) for v in HOLES[:, 0]}
    assert filled == {float(clients.transformer.named_transformers_["remainder"].statistics_[0])}
    fs.experiment.run(experiment, tmp_path / "out", progress=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prepare": StandardScaler}, 'prepare must be "standard" or a transformer'),
        ({"prepare": "scale"}, 'prepare must be "standard"'),
        ({"prepare": StandardScaler(), "fit_on": "test"}, 'fit_on must be "pooled" or "client" or "fitted", got'),
        ({"prepare": StandardScaler()}, "leaves missing or infinite numbers in column"),
        (
            {"prepare": StandardScaler(), "fit_on": "fitted"},
            "cannot transform the samples of all clients: .*not fitted",
        ),
        ({}, 'x must be finite; client 0, sample . holds nan.*prepare="standard"'),
    ],
)
def test_what_cannot_be_prepared_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        fs.data.from_arrays(HOLES, Y, CLIENT, **given)


def test_a_client_whose_categories_are_others_is_refused():
    x = np.where(CLIENT[:, None] == 0, "a", np.where(X[:, :1] > 0, "b", "c")).astype(object)
    with pytest.raises(ValueError, match=r"prepare makes \d to \d columns, by client.*fit_on=\"pooled\""):
        fs.data.from_arrays(x, Y, CLIENT, prepare=OneHotEncoder(handle_unknown="ignore"), fit_on="client")


def test_a_few_whole_floating_outcomes_are_said_to_be_a_regression():
    for y, said in (
        (Y, r"2 different floating numbers, whole ones from 0\.0 to 1\.0"),
        (np.sort(np.arange(len(Y)) % 20), "20"),
    ):
        with pytest.warns(UserWarning, match=rf"y holds {said}.*which makes a regression.*astype\(int\)"):
            assert fs.data.from_arrays(X, y.astype(float), CLIENT).classes is None
    for y in (np.arange(len(Y)) % 21, np.ones(len(Y)), Y / 2):
        assert fs.data.from_arrays(X, y.astype(float), CLIENT).classes is None


@pytest.mark.parametrize(("prepare", "said"), [(None, True), ("standard", False)])
def test_methods_below_the_majority_share_are_named(prepare, said):
    x, y = load_breast_cancer(return_X_y=True)
    mostly = np.where(np.arange(len(y)) % 5, y, 1 - y)  # clients have four fifths of either class
    clients = fs.data.from_arrays(x, y, mostly, prepare=prepare)
    training = fs.Training(lr=0.1)
    found = fs.federate(
        fs.FedAvg(), fs.models.mlp(30, 8, 2), clients, training, rounds=12, seed=range(3), progress=False
    )
    notes = " ".join(fs.compare(found).notes)
    assert ("Always naming a client's most frequent class beats FedAvg by" in notes) == said
    assert "Not shown to beat" not in notes


def test_a_method_at_the_majority_share_is_not_shown_to_beat_it():
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.04).astype(int)  # and nothing foretells it
    drawn = partial(fs.data.from_arrays, rng.normal(size=(400, 3)), y, np.arange(400) % 4, test=0.4, stratify=True)
    found = fs.federate(
        fs.FedAvg(), fs.models.mlp(3, 4, 2), lambda seed: drawn(seed=seed), fs.Training(lr=0.1), rounds=12,
        seed=range(4), progress=False,
    )  # fmt: skip
    (said,) = [note for note in fs.compare(found).notes if "most frequent class" in note]
    assert said.startswith("Not shown to beat always predicting a client's most frequent class: FedAvg (")


def test_no_difference_to_the_majority_share_exceeds_a_hundred_points():
    values = np.array([[[0.05, 0.1], [0.95, 0.9]]])
    accuracy = replace(scores(["A"], seeds=2, clients=2), values=values)
    (said,) = _beside_majority(accuracy, replace(accuracy, values=np.full_like(values, 0.9)), 0.95)
    assert "A (a difference of −40.0 points [−100.0, 100.0])" in said


def test_standard_encodes_text_and_gaps_in_it(tmp_path):
    stage = RNG.choice(["I", "II", "III"], 90)
    table = pd.DataFrame(HOLES, columns=list("abc")).assign(stage=stage, y=Y, client=CLIENT)
    table.loc[:4, "stage"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    table.drop(columns=list("abc")).fillna("I").to_csv(tmp_path / "full.csv", index=False)
    with pytest.raises(
        ValueError, match=r"column 'stage' is not numeric.*prepare=\"standard\" makes a column for each"
    ):
        fs.data.from_csv(tmp_path / "full.csv")
    clients = fs.data.from_csv(tmp_path / "t.csv", prepare="standard")
    assert "standardised columns, a column for each word of stage, fitted on all" in clients.prepared
    words = clients.train.x[:, :4]  # I, II, III and none
    np.testing.assert_array_equal(words.sum(axis=1), 1)
    assert set(np.unique(words)) == {0, 1}
    np.testing.assert_allclose(clients.train.x[:, 4:].mean(axis=0), 0, atol=1e-6)
    ids = table.assign(stage=[f"patient {k}" for k in range(90)])
    ids.to_csv(tmp_path / "ids.csv", index=False)
    with pytest.raises(
        ValueError, match=r"'stage' holds text with 90 different values in 90 rows.*drop = \[\"stage\"\]"
    ):
        fs.data.from_csv(tmp_path / "ids.csv", prepare="standard")
    assert fs.data.from_csv(tmp_path / "ids.csv", prepare="standard", drop=["stage"]).train.x.shape[1] == 3
    meant = fs.data.from_csv(tmp_path / "ids.csv", prepare="standard", inputs=["stage", "a"])
    assert meant.train.x.shape[1] == 32 + 1


def test_numbers_that_are_objects_are_numbers():
    town = np.array(["a", "b", "c"])[CLIENT]
    table = pd.DataFrame({"a": HOLES[:, 0], "n": np.arange(90), "town": town})
    held = table.astype(object).where(table.notna(), None)  # as a database returns it
    for prepare, columns in (("standard", ["a", "n", "town"]), (None, ["n"])):
        due = fs.data.from_arrays(table[columns], X[:, 0], CLIENT, prepare=prepare)
        found = fs.data.from_arrays(held[columns], X[:, 0].astype(object), CLIENT, prepare=prepare)
        assert found.classes is None
        np.testing.assert_array_equal(found.train.x, due.train.x)
        np.testing.assert_array_equal(found.train.y, due.train.y)
    assert fs.data.from_arrays(X, Y.astype(object), CLIENT).classes == (0, 1)
    with pytest.raises(ValueError, match="y has no value at sample 3"):
        fs.data.from_arrays(X, [*X[:3, 0], None, *X[4:, 0]], CLIENT)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.date_range("2020-01-01", periods=90, tz="Europe/Berlin"), "datetime64"),
        ([Decimal(k) / 4 for k in range(90)], "decimal"),
        ([*range(89), ">89"], "mixed-integer"),
    ],
)
def test_what_is_neither_number_nor_word_is_refused(values, kind):
    table = pd.DataFrame({"a": X[:, 0], "seen": values})
    with pytest.raises(ValueError, match=f"column 'seen' holds values of kind {kind}. Write numbers"):
        fs.data.from_arrays(table, Y, CLIENT, prepare="standard")


def test_codes_are_the_same_words_whether_gaps_made_them_floats_or_not():
    code = np.arange(90) % 3 + 1
    found = []
    for kept in (pd.Categorical(code), pd.Categorical(code.astype(float)), pd.Categorical(code.astype(str))):
        clients = fs.data.from_arrays(pd.DataFrame({"grade": kept}), Y, CLIENT, prepare="standard")
        later = [pd.DataFrame({"grade": column}) for column in ([2, 3], [2.0, 3.0, np.nan], ["2", "3"])]
        found += [clients.transformer.transform(table)[:2].tolist() for table in later]
    assert found == [[[0, 1, 0], [0, 0, 1]]] * 9


@pytest.mark.parametrize("fit_on", ["pooled", "client"])
def test_a_word_has_one_column_under_all_seeds_and_at_all_clients_and_counts_where_training_knows_it(fit_on):
    town = np.array(["a", "b", "c"])[CLIENT] + np.where(np.arange(90) == 7, "!", "")  # each its own, and one alone
    table = pd.DataFrame({"town": town, "age": X[:, 0]})
    held = set()
    for seed in range(6):
        clients = fs.data.from_arrays(table, Y, CLIENT, test=0.4, seed=seed, prepare="standard", fit_on=fit_on)
        for split, samples in splits(clients).items():
            words = samples.x[:, :4]  # a, a!, b, c
            alone = words.sum(axis=1) == 0
            np.testing.assert_array_equal(words[:, [0, 2, 3]].argmax(axis=1)[~alone], samples.owners[~alone])
            assert alone.sum() == (split == "test" and not splits(clients)["train"].x[:, 1].any())
            held |= {split} if alone.any() or words[:, 1].any() else set()
    assert held == {"train", "test"}


def test_samples_that_are_split_anew_are_known_again_though_prepared_otherwise(tmp_path):
    pd.DataFrame(HOLES, columns=list("abc")).assign(y=Y, client=CLIENT).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame(X, columns=list("abc")).assign(y=Y, client=CLIENT).to_csv(tmp_path / "full.csv", index=False)

    def compared(file, **how):
        def drawn(seed):
            return fs.data.from_csv(tmp_path / file, seed=seed, test=0.3, **how)

        result = fs.federate(
            [fs.FedAvg(), fs.Local()], fs.models.mlp(3, 4, 2), drawn, fs.Training(lr=0.1), rounds=2, seed=range(3),
            progress=False,
        )  # fmt: skip
        return fs.compare(result)

    for file in ("t.csv", "full.csv"):
        for fit_on in ("pooled", "client"):
            found = compared(file, prepare="standard", fit_on=fit_on)
            said = " ".join(str(found).split())
            assert "other runs on these clients with other samples of theirs" in said
            assert "for the overlap of splits of the same samples the interval allows" in said
