"""Agreement with printed values: prediction intervals by simulation, directions by exact cases."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedstat.inference import agrees, paired_difference

METHODS = ["FedAvg", "Local", "Ditto", "FedFac"]


def ours(seeds=6, seed=0, shifts=(0.0, 0.01, 0.03, 0.03)):
    rng = np.random.default_rng(seed)
    base = rng.normal(0.7, 0.02, (seeds, 1))
    return pd.DataFrame(base + np.array(shifts) + rng.normal(0, 0.003, (seeds, 4)), columns=METHODS)


def printed(values=(0.7, 0.69, 0.76, 0.74), seeds=5, **columns):
    return pd.DataFrame({"value": values, "seeds": seeds, **columns}, index=METHODS)


def test_the_prediction_interval_is_the_rule_of_the_house():
    runs = ours()
    found = agrees(printed(seeds=[3, 5, 5, 1]), runs, level=0.9).values
    for name, m in zip(METHODS, (3, 5, 5, 1), strict=True):
        half = stats.t.ppf(0.95, 5) * runs[name].std() * np.sqrt(1 / 6 + 1 / m)
        row = found.loc[name]
        np.testing.assert_allclose([row["low"], row["high"]], [runs[name].mean() - half, runs[name].mean() + half])
        assert row["inside"] == (row["low"] <= row["printed"] <= row["high"])


def test_a_printed_sd_gives_welchs_interval():
    """A printed mean on the interval's border has Welch's p-value of one less the level."""
    runs = ours()
    row = agrees(printed(sd=[0.05, np.nan, 0.001, 0.01]), runs).values.loc["FedAvg"]
    p = stats.ttest_ind_from_stats(row["low"], 0.05, 5, runs["FedAvg"].mean(), runs["FedAvg"].std(), 6, False).pvalue
    assert p == pytest.approx(0.05)
    plain = agrees(printed(), runs).values.loc["Local"]
    pd.testing.assert_series_equal(agrees(printed(sd=[0.05, np.nan, 0, 0]), runs).values.loc["Local"], plain)


@pytest.mark.slow
def test_a_paper_of_the_same_law_lies_inside_as_often_as_the_level_says():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(500):
        runs = pd.DataFrame(rng.normal(0.7, 0.02, (5, 4)), columns=METHODS)
        paper = rng.normal(0.7, 0.02, (3, 4)).mean(axis=0)
        inside.append(agrees(printed(paper, seeds=3), runs, level=0.9).values["inside"].mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=3 * np.std(inside) / np.sqrt(500))


def test_three_answers():
    found = agrees(printed(), ours(), control="FedAvg")
    assert list(found.signs["answer"]) == ["opposite", "same", "same"]
    pairs = found.order["answer"]
    assert pairs[("FedAvg", "Local")] == "opposite"
    assert pairs[("Ditto", "FedFac")] == "not resolved"
    assert (pairs == "same").sum() == 4
    assert not (found.values["inside"] & found.values["tells"]).all()
    words = str(found)
    assert "order: 4 of 6 as printed; 1 the other way round: FedAvg − Local (printed 0.01, ours" in words
    assert "1 not resolved: Ditto − FedFac" in words
    assert "sign of the difference to FedAvg: 2 of 3 as printed; 1 the other way round: Local − FedAvg" in words

    apart = ours(shifts=(0.0, 0.02, 0.04, 0.06))
    same = agrees(printed(apart.mean().to_numpy()), apart, control="FedAvg")
    assert (same.values["inside"] & same.values["tells"]).all()
    assert (same.order["answer"] == "same").all()
    assert (same.signs["answer"] == "same").all()
    equal = agrees(printed([0.7] * 4), apart)
    assert (equal.order["answer"] == "printed equal").all()
    assert len(equal.signs) == 0
    assert "sign of" not in str(equal)


def test_directions_are_simultaneous():
    runs = ours()
    found = agrees(printed(), runs, control="FedAvg")
    for pairs in (found.order, found.signs):
        for (a, b), row in pairs.iterrows():
            d = paired_difference(runs[a], runs[b], level=1 - 0.05 / len(pairs))
            assert (row["ours"], row["low"], row["high"]) == (d.mean, d.low, d.high)


def test_runs_that_coincide_resolve_nothing():
    runs = ours().assign(FedFac=lambda t: t["Ditto"])
    found = agrees(printed(), runs)
    assert found.order.loc[("Ditto", "FedFac"), "answer"] == "not resolved"
    assert "nan" not in str(found)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agrees(printed().drop(columns="seeds"), ours()), r"lacks the columns \['seeds'\]; it has \['value'\]"),
        (lambda: agrees(printed(), ours()[["FedAvg"]]), r"our runs lack the printed methods \['Local', 'Ditto'"),
        (lambda: agrees(printed()[:1], ours()), "at least 2 methods"),
        (lambda: agrees(printed(), ours(), control="pFedMe"), "control must be a printed method"),
        (lambda: agrees(printed([0.7, np.nan, 0.7, 0.7]), ours()), "printed value of Local must be finite"),
        (lambda: agrees(printed(seeds=[5, 0, 5, 5]), ours()), "printed seeds of Local must be a whole number"),
        (lambda: agrees(printed(seeds=1, sd=0.1), ours()), "over 2 seeds at least"),
        (lambda: agrees(printed(), ours().assign(Local=0.7)), "Local has the same value under all of our seeds"),
        (lambda: agrees(printed(), ours().assign(Local=np.nan)), "Local lacks 6 of 6 values"),
        (lambda: agrees(printed(), ours(1)), "Run more seeds"),
        (lambda: agrees(printed(), ours(), level=95), "For 95% write 0.95"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_percent_is_not_held_against_shares():
    ours = pd.DataFrame({"A": [0.7, 0.72, 0.71], "B": [0.8, 0.81, 0.79]})
    printed = pd.DataFrame({"value": [70.1, 80.2], "seeds": 3}, index=["A", "B"])
    with pytest.raises(ValueError, match=r"from 70\.1 on, look like percent, and ours are shares: divide value and sd"):
        agrees(printed, ours)
    assert agrees(printed.assign(value=printed["value"] / 100), ours).values["inside"].all()
