"""Runs that collapse: which they are, what few runs leave open, and what is said of the others."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedstat.inference import Design, compare, shape_notes
from fedstat.inference.comparing.collapse import collapse_sentence, collapsed
from fedstat.inference.comparing.conclusions import conclude
from fedstat.inference.comparing.differences import tabulate_differences
from fedstat.inference.intervals.shape import HELD
from tests.support.comparisons import scores

DRAWN = Design(clients="new", data="drawn")


def scored(*runs, metric="accuracy"):
    """Scores of methods A, B, ... with one client, of one value for each seed."""
    values = np.array(runs, float)[:, :, None]
    of = scores("ABCDEFGHIJ"[: len(runs)], seeds=values.shape[1], clients=1, rounds=2, metric=metric)
    return replace(of, values=values, ran=np.isfinite(values[:, :, 0]))


def table(**runs):
    """One row for each method, seed and client; clients lie around the run's mean."""
    rows = [(m, s, c, v + 0.01 * (c - 1)) for m, of in runs.items() for s, v in enumerate(of) for c in range(3)]
    return pd.DataFrame(rows, columns=["method", "seed", "client", "accuracy"])


STEADY = (0.70, 0.71, 0.69, 0.705, 0.70)


@pytest.mark.parametrize(
    ("metric", "runs", "found"),
    [
        ("accuracy", (0.80, 0.81, 0.30, 0.79, 0.80), [2]),
        ("accuracy", (0.80, 0.10, 0.30, 0.79, 0.80), [1, 2]),
        ("accuracy", (0.80, 0.81, 0.70, 0.79, 0.80), []),  # apart, and still of use
        ("accuracy", (0.85, 0.70, 0.50, 0.90, 0.60), []),  # noisy, and not apart
        ("accuracy", (0.80, 0.81, 0.79, 0.80, 1.00), []),  # better than the others
        ("accuracy", (0.80, np.nan, 0.30, 0.79, 0.80), [2]),
        ("auc", (0.85, 0.86, 0.84, 0.85, 0.50), [4]),
        ("log_loss", (0.31, 0.30, 0.32, 2.30, 0.30), [3]),
        ("log_loss", (0.31, 0.30, 0.32, 0.01, 0.30), []),
        ("mse", (1e-6, 2e-6, 4e-6, 3e-6, 8e-6), []),
    ],
)
def test_a_run_collapses_that_lies_apart_and_is_of_little_use(metric, runs, found):
    for unit in (1.0, 0.01):  # the same in another unit
        got = collapsed(scored(unit * np.array(STEADY), unit * np.array(runs), metric=metric))
        assert not got[0].any()
        assert np.flatnonzero(got[1]).tolist() == found


def test_what_is_not_above_the_majority_share_is_of_no_use():
    falls = (0.66, 0.67, 0.60, 0.665, 0.66)
    of, share = (scored(STEADY, runs) for runs in (falls, (0.6,) * 5))
    assert not collapsed(of).any()
    assert np.argwhere(collapsed(of, replace(share, values=np.full_like(share.values, 0.6)))).tolist() == [[1, 2]]


def test_two_seeds_show_a_collapse_beside_methods_that_show_none_and_half_of_the_runs_are_no_exception():
    assert np.argwhere(collapsed(scored((0.70, 0.71), (0.80, 0.10), (0.75, 0.74)))).tolist() == [[1, 1]]
    assert not collapsed(scored(STEADY, (0.8, 0.1, 0.1, 0.1, 0.8))).any()


def test_where_no_direction_is_known_or_one_seed_ran_nothing_is_said():
    assert collapsed(scored(STEADY, STEADY, metric="depth")) is None
    assert collapsed(scored((0.7,), (0.1,))) is None
    rows = table(A=STEADY, B=STEADY[::-1]).rename(columns={"accuracy": "value"}).assign(metric="depth")
    found = compare(rows)
    assert not any("collapse" in words for words in (*found.conclusions, *found.differences, *found.summary))


@pytest.mark.parametrize("near", [0.6, 0.5])
def test_methods_that_are_noisy_or_near_chance_do_not_collapse_by_chance(near):
    """Normal runs about the majority share, or below it, with spreads from a point to ten."""
    rng = np.random.default_rng(0)
    share = scored(*np.full((4, 5), 0.6))
    alarms = []
    for _ in range(300):
        sd = np.array([0.01, 0.02, 0.04, 0.1])[:, None]
        alarms.append(collapsed(scored(*(near + sd * rng.standard_normal((4, 5)))), share).any())
    assert np.mean(alarms) < 0.04


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_without_a_collapse_the_limit_is_the_closed_form(n, level):
    up_to = f"up to {100 * (1 - (1 - level) ** (1 / n)):.0f}% may."
    of = scored(np.linspace(0.7, 0.71, n), np.linspace(0.71, 0.72, n))
    assert collapse_sentence(of, collapsed(of), level) == (f"None of any method's {n} runs collapsed; {up_to}",)
    alone = scored(np.linspace(0.7, 0.71, n))
    assert collapse_sentence(alone, collapsed(alone), level) == (f"None of {n} runs collapsed; {up_to}",)


def test_methods_that_collapse_are_named_and_of_many_counted():
    bad = (0.1, *STEADY[1:])
    of = scored(STEADY, bad, (0.1, 0.1, *STEADY[2:]), STEADY)
    one, two = (100 * stats.binomtest(k, 5).proportion_ci(0.9).high for k in (1, 2))
    assert collapse_sentence(of, collapsed(of), 0.95) == (
        f"Collapsed: B in 1 of 5 runs (up to {one:.0f}% may) and C in 2 of 5 runs (up to {two:.0f}% may). None of any "
        "other method's 5 runs collapsed; up to 45% may.",
    )
    many = scored(*[bad] * 7)
    assert collapse_sentence(many, collapsed(many), 0.95) == (
        f"7 of 7 methods collapsed in some of their runs (up to {one:.0f}% may).",
    )
    (said,) = collapse_sentence(with_lost := scored(*[bad] * 7, (0.7, *[np.nan] * 4)), collapsed(with_lost), 0.95)
    assert said.startswith(f"7 of 8 methods collapsed in some of their runs (up to {one:.0f}% may). None of any other")


def fallen(skewed=False, seeds=10):
    rng = np.random.default_rng(1)
    base = 0.7 + 0.02 * rng.standard_normal(seeds)
    runs = {"FedAvg": base, "A": base + 0.05 + 0.01 * rng.standard_normal(seeds), "B": base + 0.1}
    runs["B"] = runs["B"] + 0.01 * rng.standard_normal(seeds)
    runs["A"][3] = runs["FedAvg"][6] = 0.1
    return runs, compare(table(**runs), skewed=skewed)


def test_the_two_parts_are_exact_limits_and_the_paired_t_of_the_other_runs():
    runs, found = fallen()
    for label, hits in {"FedAvg": 1, "A": 1, "B": 0}.items():
        exact = stats.binomtest(hits, 10).proportion_ci(0.95)
        row = found.summary.loc[label, ["collapsed", "collapse low", "collapse high"]]
        np.testing.assert_allclose(row.astype(float), [hits, exact.low, exact.high])
    columns = ["given no collapse", "low given no collapse", "high given no collapse", "pairs without collapse"]
    for label, out in {"A": [3, 6], "B": [6]}.items():
        x, y = (np.delete(runs[name], out) for name in (label, "FedAvg"))
        ends = stats.ttest_rel(x, y).confidence_interval(1 - 0.05 / 2)
        row = found.differences.loc[f"{label} − FedAvg", columns].astype(float)
        np.testing.assert_allclose(row, [(x - y).mean(), ends.low, ends.high, len(x)])
    assert str(found).count("collapsed (%)") == 1
    assert found.to_markdown().count("given no collapse (points)") == 1
    written = pd.read_csv(StringIO(found.to_csv()))
    assert written["pairs without collapse"].dropna().tolist() == [8, 9]
    # a pair without a collapse keeps its interval, moderated as it is
    rng = np.random.default_rng(0)
    many = {f"M{i}": 0.7 + 0.01 * rng.standard_normal(6) for i in range(9)}
    many["M8"][2] = 0.1
    moderated = compare(table(**many), control="M0").differences
    assert (moderated["low given no collapse"] == moderated["low"]).tolist() == [True] * 7 + [False]
    # without a collapse both are what they are without the condition
    whole = compare(table(FedAvg=STEADY, A=STEADY[::-1]))
    assert (whole.differences["given no collapse"] == whole.differences["difference"]).all()
    assert "given no collapse" not in str(whole)


def test_given_no_collapse_intervals_for_skewed_runs_go_with_eight_pairs_that_are_left():
    runs, found = fallen(skewed=True)
    row = found.differences.loc["A − FedAvg"]
    left = table(**{name: np.delete(of, [3, 6]) for name, of in runs.items()})
    alone = compare(left, skewed=True).differences.loc["A − FedAvg"]
    np.testing.assert_allclose(row["low given no collapse"], alone["low"])
    few = fallen(skewed=True, seeds=9)[1].differences.loc["A − FedAvg"]
    assert few["pairs without collapse"] == 7
    assert np.isnan(few["low given no collapse"])


def sentences(runs, control="A"):
    of = scored(*runs)
    pairs = [(1, 0)] if control else [(0, 1)]
    how = {"design": DRAWN, "rule": "bonferroni", "moderated": "auto", "skewed": False}
    rows, _ = tabulate_differences(of, pairs, 0.95, how, None, None, collapsed(of))
    return rows, conclude(of, rows, control, None)


@pytest.mark.parametrize("control", ["A", None])
def test_a_pair_whose_runs_lie_far_apart_is_not_plainly_better(control):
    rng = np.random.default_rng(0)
    runs = 0.7 + 0.001 * rng.standard_normal((2, 10))
    runs[1] += 0.02
    runs[1, 4] -= 0.015
    rows, said = sentences(runs, control)
    assert rows["outcome"].tolist() == ["different"]
    assert shape_notes((runs[1] - runs[0])[None])
    (only,) = said
    assert only.startswith(f"On average, but with runs far apart (such intervals hold in only {HELD} of cases): B ")
    assert "is better than A" in only
    runs[1, 4] += 0.015
    assert not any(words.startswith("On average") for words in sentences(runs, control)[1])


def test_nor_is_it_plainly_better_than_several_controls():
    rng = np.random.default_rng(0)
    base = 0.7 + 0.001 * rng.standard_normal((4, 10))
    base[2:] += 0.02
    base[3, 4] -= 0.015
    first, second, *_ = compare(table(**dict(zip("ABCD", base, strict=True))), control=("A", "B")).conclusions
    assert first.startswith("C (by ")
    assert second.startswith("On average, but with runs far apart")
    assert ": D (by " in second
    assert all(words.endswith("better than both A and B.") for words in (first, second))


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "depth"), [(5, 30), (10, 30), (10, 8), (20, 8)])
def test_how_often_a_method_that_collapses_now_and_then_is_plainly_better(seeds, depth):
    """It gains 3 sd and loses `depth` sd in a tenth of its runs; what no run has shown yet, no interval knows."""
    rng, firm, plain, clean = np.random.default_rng(0), 0, 0, 0
    for _ in range(200):
        e = 0.01 * rng.standard_normal((2, seeds))
        hit = rng.random(seeds) < 0.1
        e[1] += 0.03 - 0.01 * depth * hit
        rows, said = sentences(0.6 + e)
        different = rows["outcome"].iloc[0] == "different" and rows["difference"].iloc[0] > 0
        better = any("is better than" in words and not words.startswith("On average") for words in said)
        assert better == (different and not rows["runs apart"].iloc[0])
        firm, plain, clean = firm + different, plain + better, clean + (different and not hit.any())
    # nearly all that is left comes from families in which nothing has collapsed yet, with 5 seeds more than half
    assert plain <= firm
    if depth == 30:
        assert plain <= clean
        assert (plain > 80) == (seeds == 5)
    else:
        assert plain < {10: 0.8, 20: 0.3}[seeds] * firm


def test_the_sentence_on_collapses_stands_beside_every_better():
    for control in ("FedAvg", None):
        found = compare(table(FedAvg=STEADY, A=np.add(STEADY[::-1], 0.1)), control=control)
        assert any("better than" in words or "worse than" in words for words in found.conclusions)
        assert found.conclusions[-1] == "None of any method's 5 runs collapsed; up to 45% may."
        shown = " ".join(str(found).split())
        assert shown.index(found.conclusions[-1]) < shown.index("accuracy of each")
