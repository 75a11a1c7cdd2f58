"""Tables of predictions: what is refused and how the error says it, and scores that `compare` makes of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

import fedstat as fs
from fedstat.inference.predictions.table import arrange, predictions_of

ROWS = pd.DataFrame(
    {
        "method": ["a"] * 8 + ["b"] * 8,
        "client": [0, 0, 0, 0, 1, 1, 1, 1] * 2,
        "sample": list(range(8)) * 2,
        "outcome": [0, 1, 0, 1, 0, 1, 1, 0] * 2,
        "probability": np.linspace(0.1, 0.8, 16),
    }
)


def changed(place, column, value):
    rows = ROWS.astype({"probability": object, "outcome": object, "client": object})
    rows.loc[place, column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROWS.drop(columns="outcome"), "must have the columns method, outcome"),
        (ROWS.iloc[:0], "is empty"),
        (changed(3, "probability", 1.2), r"probability must be in \[0, 1\], got 1.2 in row 3"),
        (ROWS.assign(probability=40.5), "got 40.5 in row 0"),
        (changed(3, "probability", None), "no probability in row 3"),
        (changed(3, "probability", "high"), "got 'high' in row 3"),
        (changed(2, "outcome", 2), r"outcome must be in \{0, 1\}, got 2"),
        (changed(9, "outcome", 0), "agree on outcomes, but differ at 1 patients, the first under seed 0 at client 0"),
        (ROWS.iloc[:-1], "but b lacks some: 1 are not predicted by all, the first under seed 0 at client 1"),
        (pd.concat([ROWS, ROWS.iloc[[5]]]), "one patient twice: method a, seed 0, client 1, sample 5"),
        (ROWS.assign(seed=0.5), "seed must be a whole number"),
        (ROWS.assign(name=["x", "y"] * 8), "client 0 has two names: x and y"),
        (pd.DataFrame({"method": ["a"], "outcome": [1], "p_0": [0.4], "p_1": [0.5]}), "add up to 1, but add up to 0.9"),
        (pd.DataFrame({"method": ["a"], "outcome": [2], "p_0": [0.5], "p_1": [0.5]}), "outcome '2', but no column p_2"),
        (ROWS.assign(split="test", estimand=["x", "y"] * 8), "nothing says which of them is meant"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(rows, words):
    with pytest.raises(ValueError, match=words):
        fs.assess(rows, "brier")


def test_rows_without_names_of_patients_are_said_to_be_in_one_order():
    assert not any("column sample" in note for note in fs.assess(ROWS, "brier").notes)
    found = fs.assess(ROWS.drop(columns="sample"), "brier")
    assert any("No column sample: rows are the same patients" in note for note in found.notes)
    np.testing.assert_array_equal(found.pooled["estimate"], fs.assess(ROWS, "brier").pooled["estimate"])


def test_semicolons_are_read_and_columns_that_are_not_are_named(tmp_path):
    path = tmp_path / "a.csv"
    ROWS.assign(hospital="Graz").to_csv(path, sep=";", decimal=",", index=False)
    found = fs.assess(path, "brier")
    np.testing.assert_array_equal(found.pooled["estimate"], fs.assess(ROWS, "brier").pooled["estimate"])
    assert "Columns not read: hospital." in found.notes


def test_nobody_is_asked_to_beat_a_rule_that_is_never_wrong():
    rows = ROWS.assign(client=ROWS.groupby("method").cumcount())  # a client for each patient
    assert not any("always" in sentence for sentence in fs.assess(rows, "accuracy").conclusions)


def test_arguments_that_do_not_fit_are_named():
    for wrong, words in (
        ({"metrics": "r2"}, "metrics must be among auc"), ({"control": "c"}, "control must be one of a, b"),
        ({"level": 95}, "For 95% write 0.95"), ({"threshold": 2}, "threshold must be"),
        ({"split": "test"}, "no column split"),
        ({"metrics": ["auc", "auc"]}, "each metric once"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            fs.assess(ROWS, **wrong)
    with pytest.raises(ValueError, match="table must be a DataFrame or a file, got int"):
        fs.assess(3)


def test_files_and_rows_without_a_number_read_the_same(tmp_path):
    expected = fs.assess(ROWS, "brier").pooled
    ROWS.to_csv(tmp_path / "p.csv", index=False)
    ROWS.to_parquet(tmp_path / "p.parquet")
    by_order = ROWS.drop(columns="sample")
    two_columns = by_order.assign(p_1=ROWS["probability"], p_0=1 - ROWS["probability"]).drop(columns="probability")
    arrow = ROWS.assign(seed=0).convert_dtypes(dtype_backend="pyarrow")
    classes = two_columns.convert_dtypes(dtype_backend="pyarrow")
    long = ROWS.assign(sample=[f"{10**20 + k}" for k in ROWS["sample"]]).sample(frac=1, random_state=0)
    for given in (tmp_path / "p.csv", str(tmp_path / "p.parquet"), by_order, two_columns, arrow, classes, long):
        pd.testing.assert_frame_equal(fs.assess(given, "brier").pooled, expected)


def test_rounded_probabilities_are_divided_by_their_sum():
    rows = pd.DataFrame({"method": ["a"] * 3, "outcome": [0, 1, 2], "p_0": [0.33, 0.2, 0], "p_1": [0.33, 0.7, 0]})
    found = fs.assess(rows.assign(p_2=[0.33, 0.1, 1]), "log_loss")
    assert found.pooled["estimate"].iloc[0] == pytest.approx(-(np.log(1 / 3) + np.log(0.7) + 0) / 3)
    assert "Where rounded probabilities do not add up to 1, they are divided by their sum." in found.notes
    with pytest.raises(ValueError, match="must add up to 1, but add up to 0"):
        fs.assess(rows.assign(p_2=[0.335, 0.0, 1]), "log_loss")


def test_the_same_patients_under_every_seed_are_one_block():
    both = pd.concat([ROWS.assign(seed=0), ROWS.assign(seed=7, probability=0.5)], ignore_index=True)
    assert len(arrange(predictions_of(both)[0]).blocks) == 1
    both.loc[both["seed"] == 7, "outcome"] = 1 - both["outcome"]
    with pytest.raises(ValueError, match="one patient different outcomes: client 0, sample 0"):
        arrange(predictions_of(both)[0])
    both.loc[both["seed"] == 7, "sample"] += 8
    held = arrange(predictions_of(both)[0])
    assert (len(held.blocks), held.seeds, held.again) == (2, (0, 7), 0.0)


def test_compare_makes_scores_by_client_and_seed(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.concat([ROWS.assign(seed=s, probability=rng.random(16)) for s in range(3)])
    rows["name"] = np.where(rows["client"] == 0, "Lyon", "Graz")
    rows.to_parquet(tmp_path / "p.parquet")
    history = fs.read_results(tmp_path / "p.parquet").history
    for metric, oracle in (("auc", roc_auc_score), ("brier", brier_score_loss)):
        values = history[history["metric"] == metric].set_index(["method", "seed", "client"])["value"]
        for (method, seed, name), own in rows.groupby(["method", "seed", "name"]):
            value = values[method, seed, ["Graz", "Lyon"].index(name)]
            assert value == pytest.approx(oracle(own["outcome"], own["probability"]))
    assert not (history["metric"] == "calibration_slope").any()  # four patients are too few
    found = fs.compare(tmp_path / "p.parquet", metric="auc")
    assert found.scores.clients == ("Graz", "Lyon")
    assert any("fedstat.assess" in note for note in found.notes)


def test_a_client_without_a_value_is_left_out_for_all_methods():
    rows = pd.concat([ROWS.assign(seed=s) for s in range(2)])
    rows.loc[(rows["client"] == 1) & (rows["sample"] > 4), "outcome"] = 0
    found = fs.compare(rows, metric="auc")
    assert found.scores.clients == (0,)
    assert found.summary["mean"].notna().all()
    assert any("auc of 2" in note for note in found.notes)


def two_seeds(samples):
    """One method, and the samples that it is tested on, by seed and client."""
    rng = np.random.default_rng(0)
    rows = [(seed, client, s, s % 2, rng.random()) for (seed, client), own in samples.items() for s in own]
    table = pd.DataFrame(rows, columns=["seed", "client", "sample", "outcome", "probability"])
    return table.assign(method="A")


def test_seeds_that_share_most_patients_are_refused_since_no_rule_of_variances_holds():
    absent = two_seeds({(s, c): range(10) for s in range(5) for c in range(3) if (s, c) != (4, 2)})
    nearly = two_seeds({(s, 0): range(20 - (s == 1)) for s in range(5)})
    for table in (absent, nearly):
        with pytest.raises(ValueError, match=r"absent under some seeds.*Leave these"):
            arrange(predictions_of(table)[0])
    halves = two_seeds({(0, 0): range(10), (1, 0): range(5, 15)})
    assert arrange(predictions_of(halves)[0]).again == 10 / 5
    anew = two_seeds({(0, 0): range(10), (1, 0): range(10, 20)})
    assert arrange(predictions_of(anew)[0]).again == 0
    with pytest.raises(ValueError, match="a column sample must name each"):
        arrange(predictions_of(two_seeds({(0, 0): range(10), (1, 0): range(12)}).drop(columns="sample"))[0])


def test_of_two_classes_with_names_the_event_must_be_named():
    rows, metrics = ROWS.drop(columns="probability"), ["auc", "brier", "accuracy", "sensitivity"]
    for event, told in {
        1: ROWS,
        0: ROWS.assign(outcome=1 - ROWS["outcome"], probability=1 - ROWS["probability"]),
    }.items():
        expected = fs.assess(told, metrics, threshold=0.4)
        numbers = rows.assign(p_1=ROWS["probability"], p_0=1 - ROWS["probability"])  # in whatever order
        words = numbers.rename(columns={"p_1": "p_ill", "p_0": "p_well"})
        words["outcome"] = np.where(rows["outcome"] == 1, "ill", "well")
        for table, name in ((numbers, event), (words, "ill" if event else "well")):
            found = fs.assess(table, metrics, threshold=0.4, event=name)
            pd.testing.assert_frame_equal(found.pooled, expected.pooled)
            assert any("The event is" in note for note in found.notes) == (name != 1)
    assert any("The event is 'well', of the classes 'ill' and 'well'." in note for note in found.notes)
    assert "In accuracy and sensitivity the event is named from a probability of 0.4 on." in found.notes
    with pytest.raises(ValueError, match=r"two classes, ill and well, .* event='ill' or event='well'"):
        fs.assess(words)
    with pytest.raises(ValueError, match="one of two classes, got 'sick', but the table has the classes ill, well"):
        fs.assess(words, event="sick")
    with pytest.raises(ValueError, match="got 1, but the table has no classes with names"):
        fs.assess(ROWS, event=1)
    named = words.drop(columns=["p_ill", "p_well"]).assign(probability=ROWS["probability"])  # that of the event
    found = fs.assess(named, metrics, threshold=0.4, event="ill")
    pd.testing.assert_frame_equal(found.pooled, fs.assess(ROWS, metrics, threshold=0.4).pooled)
    assert "The event is 'ill', of the classes 'well' and 'ill'." in found.notes
    with pytest.raises(ValueError, match=r"two classes, ill and well, .* event='ill' or event='well'"):
        fs.assess(named)
    with pytest.raises(ValueError, match="one of two classes, got 'sick', but the table has the classes ill, well"):
        fs.assess(named, event="sick")
    named.loc[3, "outcome"] = None
    with pytest.raises(ValueError, match="has no outcome in row 3"):
        fs.assess(named, event="ill")
    several = words.assign(p_other=0.0)
    with pytest.raises(ValueError, match=r"threshold must be left out unless outcomes are of two classes, got 0\.2"):
        fs.assess(several, threshold=0.2)


def test_units_of_numbers_do_not_decide_whether_a_difference_has_limits():
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    found = []
    for unit in (1.0, 1e-9, 1e9):
        rows = [
            pd.DataFrame({"method": m, "outcome": unit * y, "value": unit * (y + s * rng_of(m).normal(size=40))})
            for m, s in (("A", 1.0), ("B", 0.5))
        ]
        row = fs.assess(pd.concat(rows), "mse", control="A").differences.iloc[0]
        found.append(row[["difference", "low", "high"]].to_numpy(float) / unit**2)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-6)


def rng_of(method):
    return np.random.default_rng(ord(method))
