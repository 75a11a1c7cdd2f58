"""A history reduced while it streams, against pandas on the whole of it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedstat.inference import reduce
from fedstat.inference.reading.reduction import survey

KEYS = ["method", "estimand", "seed", "round", "client"]


def history(seed: int = 0, *, methods=3, seeds=(7, 2, 40), rounds=(1, 3, 4, 9), clients=(0, 5, 2), share=1.0):
    """A history with all combinations, of which a share is drawn, in random order."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"m{m}", estimand, s, t, k)
        for m in range(methods)
        for estimand in ["global", "personal"][: 1 + m % 2]
        for s in seeds
        for t in rounds
        for k in clients
    ]
    table = pd.DataFrame(rows, columns=KEYS)
    for name, values in {"split": ("test", "validation"), "metric": ("accuracy", "log_loss")}.items():
        table = pd.concat([table.assign(**{name: value}) for value in values])
    table["value"] = rng.random(len(table))
    return table.sample(frac=share, random_state=seed).reset_index(drop=True)


def expected(table: pd.DataFrame, window: pd.Series) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return windows by client and curves by round as pandas computes them, NaN where a value is not finite."""

    def mean(values: pd.Series) -> float:
        return values.mean() if np.isfinite(values).all() else np.nan

    def gaps(values: pd.Series) -> int:
        return int((~np.isfinite(values)).sum())

    by = [["method", "estimand", "seed", "client"], ["method", "estimand", "seed", "round"]]
    of = [table[window], table]
    return tuple(rows.groupby(names)["value"].agg([mean, "size", gaps]) for rows, names in zip(of, by, strict=True))


def agree(reduced, table, window):
    """Check every number of a reduced history, absent cells included."""
    by_client, by_round = expected(table, window)
    assert np.isfinite(reduced.values).sum() == by_client["mean"].notna().sum()
    assert np.isfinite(reduced.curves).sum() == by_round["mean"].notna().sum()
    assert reduced.counts.sum() == by_client["size"].sum()
    assert reduced.present.sum() == by_round["size"].sum()
    assert reduced.missing.sum() == by_client["gaps"].sum()
    seeds, clients, rounds = (list(axis) for axis in (reduced.seeds, reduced.clients, reduced.rounds))
    for (method, estimand, seed, client), row in by_client.iterrows():
        at = reduced.methods.index((method, estimand)), seeds.index(seed), clients.index(client)
        np.testing.assert_allclose(reduced.values[at], row["mean"], rtol=1e-13)
        assert reduced.counts[at] == row["size"]
    for (method, estimand, seed, round), row in by_round.iterrows():
        at = reduced.methods.index((method, estimand)), seeds.index(seed), rounds.index(round)
        np.testing.assert_allclose(reduced.curves[at], row["mean"], rtol=1e-13)
        assert reduced.present[at] == row["size"]
    last = table.groupby(["method", "estimand", "seed"])["round"].max()
    for (method, estimand, seed), round in last.items():
        assert reduced.last_round[reduced.methods.index((method, estimand)), seeds.index(seed)] == round
    assert (reduced.last_round >= 0).sum() == len(last)


def batches(table: pd.DataFrame, kind: str, pieces: int):
    """Cut a table into batches of one kind."""
    parts = [table.iloc[i] for i in np.array_split(np.arange(len(table)), pieces)]
    text = ["method", "estimand", "split", "metric"]
    if kind == "text":
        return parts
    if kind == "categories":  # every batch with categories, and codes, of its own
        return [part.astype(dict.fromkeys(text, "category")) for part in parts]
    whole = [pa.RecordBatch.from_pandas(part, preserve_index=False) for part in parts]
    if kind == "arrow text":
        return whole
    coded = pa.schema(
        [f.with_type(pa.dictionary(pa.int32(), pa.string())) if f.name in text else f for f in whole[0].schema]
    )
    return [part.cast(coded) for part in whole]


@pytest.mark.parametrize("kind", ["text", "categories", "arrow text", "arrow dictionary"])
@pytest.mark.parametrize("last", [1, 6, 100])
def test_windows_and_curves_are_those_of_pandas(kind, last):
    table = history(share=0.7)
    table.loc[table.index[::17], "value"] = np.tile([np.nan, np.inf, -np.inf], 100)[: len(table.index[::17])]
    own = table[(table["metric"] == "log_loss") & (table["split"] == "validation")]
    for pieces in (1, 7):
        reduced = reduce(batches(table, kind, pieces), "log_loss", "validation", last=last)
        agree(reduced, own, own["round"] > 9 - last)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    share=st.floats(0.05, 1),
    far=st.sampled_from([1, 10**6, 2**40]),
    pieces=st.integers(1, 5),
    last=st.integers(1, 12),
)
def test_any_order_any_labels_any_batches(seed, share, far, pieces, last):
    table = history(seed, share=share, clients=(-1, 0, 4 * far), seeds=(0, far, 3), rounds=(0, 2, 5 * far))
    own = table[(table["metric"] == "accuracy") & (table["split"] == "test")]
    if own.empty:
        return
    reduced = reduce(batches(table, "text", pieces), "accuracy", "test", last=last)
    agree(reduced, own, own["round"] > own["round"].max() - last)
    assert (np.diff(reduced.seeds) > 0).all()
    assert (np.diff(reduced.clients) > 0).all()
    assert list(dict.fromkeys(zip(own["method"], own["estimand"], strict=True))) == list(reduced.methods)


def test_the_codes_of_categories_do_not_overflow():
    table = history(methods=30, seeds=range(20), rounds=(1, 2), clients=range(3))
    assert table.astype({"method": "category"})["method"].cat.codes.dtype == np.int8
    own = table[(table["metric"] == "accuracy") & (table["split"] == "test")]
    agree(reduce(batches(table, "categories", 2), last=1), own, own["round"] == 2)


def test_a_run_that_ends_earlier_shows_in_counts_and_last_round():
    table = history(methods=1, rounds=range(1, 21))
    table = table[(table["seed"] != 7) | (table["round"] <= 12)]
    reduced = reduce([table])
    assert (reduced.metric, reduced.split) == ("accuracy", "test")
    assert reduced.last_round.tolist() == [[20, 12, 20]]
    assert reduced.counts[0, :, 0].tolist() == [10, 2, 10]  # rounds 11 and 12 lie in the window of all


def test_kept_rounds_are_the_window():
    table = history(methods=1)
    table["kept"] = table["round"] == np.where(table["seed"] == 7, 3, 4)
    own = table[(table["metric"] == "accuracy") & (table["split"] == "test")]
    agree(reduce([table], "accuracy", "test"), own, own["kept"])


def test_the_survey_lists_rounds_by_metric_and_split():
    table = history()
    table = table[(table["metric"] == "accuracy") | (table["round"] == 3)]
    known = survey(batches(table, "arrow dictionary", 4))
    assert {pair: rounds.tolist() for pair, rounds in known.items()} == {
        ("accuracy", "test"): [1, 3, 4, 9],
        ("accuracy", "validation"): [1, 3, 4, 9],
        ("log_loss", "test"): [3],
        ("log_loss", "validation"): [3],
    }
    once = (part for part in batches(table, "text", 2))
    assert reduce(once, known=known).counts.sum() > 0  # a known survey spares the first pass


def test_repeated_rows_are_refused_whether_cells_are_kept_or_only_counted(monkeypatch):
    table = history(methods=1)
    twice = pd.concat([table, table[(table["client"] == 5) & (table["round"] == 9)]])
    with pytest.raises(ValueError, match="3 of 39 rows repeat an earlier row's method"):
        reduce(batches(twice, "text", 3), "accuracy", "test")
    monkeypatch.setattr("fedstat.inference.reading.reduction._CELLS", 10)
    assert reduce([table]).counts.sum() == 36
    with pytest.raises(ValueError, match="repeat an earlier row"):
        reduce(batches(twice, "text", 3), "accuracy", "test", last=20)


def test_bad_tables_are_refused():
    table = history(methods=1)
    with pytest.raises(ValueError, match=r"metric must be one of .*, got 'auc'"):
        reduce([table], "auc")
    with pytest.raises(ValueError, match=r"split must be one of .* for accuracy, got 'train'"):
        reduce([table], split="train")
    with pytest.raises(ValueError, match="last must be a whole number, at least 1, got 0"):
        reduce([table], last=0)
    with pytest.raises(ValueError, match="passed over twice, got a generator"):
        reduce(part for part in [table])
    with pytest.raises(ValueError, match="lacks the column 'estimand'; it has method"):
        reduce([table.drop(columns="estimand")])
    with pytest.raises(ValueError, match="column 'seed' must hold whole numbers, got float64"):
        reduce([table.assign(round=table["round"]).astype({"round": int, "seed": float})])
    with pytest.raises(ValueError, match="column 'method' has 1 empty places"):
        reduce([table.assign(method=table["method"].where(table.index != 3))])
    with pytest.raises(ValueError, match="the history has no rows"):
        reduce([table.iloc[:0]])
    with pytest.raises(ValueError, match="metric must be one of a, b, got None"):
        reduce([table.assign(metric=np.where(table["metric"] == "accuracy", "a", "b"))])
