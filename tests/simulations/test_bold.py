"""Bold faces of published tables: what is read, what is judged, and that the plan came first."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from fedstat._tables import read_tables
from fedstat.inference import mean_interval
from simulations.bold.numbers import _needed, share
from simulations.bold.page import PAGE, page
from simulations.bold.study import ANSWERS, PLAN, cells, entries, hospitals, judged, literature
from simulations.published import printed
from theory_checks import COMMITTED


def test_the_plan_is_the_one_that_was_written_before():
    assert PLAN.digest.startswith("ad0f7913588976aa")


def test_every_table_has_a_place_and_settings_of_several_methods():
    listed = entries()
    assert not listed.duplicated("file").any()
    assert (listed[["where", "place"]] != "").all(axis=None)
    for file in listed["file"]:
        rows = cells(file)
        assert not rows.duplicated(["setting", "method"]).any(), file
        assert (rows.groupby("setting").size() > 1).all(), file
        numbers = rows[[name for name in ("mean", "sd") if name in rows]].replace("", np.nan).astype(float)
        assert (numbers.fillna(0) >= 0).all(axis=None), file
        assert numbers.max(axis=None) <= 100, file
    looked = {row["paper"] for row in printed("", "looked_for")}
    ours = {"Factorized-FL", "FedDecomp", "FedSplit/FedFac", "Filter decomposition"}
    assert set(listed["paper"]) - ours <= looked


def test_half_of_pfllibs_first_table_is_gpfls():
    theirs, ours = cells("gpfl/table_1"), cells("pfllib/table_1")
    assert len(ours) == 160
    both = ours.merge(theirs, on=["setting", "method"])
    assert both["method"].nunique() == 10
    assert len(both) == 80
    assert (both[["mean_x", "sd_x"]].to_numpy() == both[["mean_y", "sd_y"]].to_numpy()).all()


def test_a_table_that_names_the_runs_of_each_method_is_judged_with_them():
    """Half-widths are the printed ones and half a last digit, means half a last digit nearer."""
    answers = {}
    for setting, rows in cells("flower_baselines/fednova").groupby("setting", sort=False):
        numbers = rows[["mean", "sd", "runs"]].astype(float).to_numpy()
        (low, a, n), (high, b, m) = numbers[numbers[:, 0].argsort()]
        sds = (np.array([a, b]) + 0.005) * np.sqrt([n, m]) / 1.96
        p = stats.ttest_ind_from_stats(high - 0.005, sds[1], m, low + 0.005, sds[0], n, equal_var=False).pvalue
        answers[setting] = "stands" if p < 0.05 / 6 else "not told apart"
    found = judged(cells("flower_baselines/fednova"), 3, "ci").set_index("setting")
    assert found["answer"].to_dict() == answers
    assert set(answers.values()) == {"stands", "not told apart"}
    assert (found["method"] == "FedNova").all()


def test_what_a_table_says_of_its_faces():
    values = {
        "clear": {"A": ("70.0", "0.3", "0"), "B": ("82.0", "0.4", "1"), "C": ("75.0", "0.2", "0")},
        "near": {"A": ("80.0", "0.5", "0"), "B": ("80.6", "0.5", "1"), "C": ("20.0", "0.5", "0")},
        "second": {"A": ("80.2", "9.0", "0"), "B": ("80.1", "9.0", "1"), "C": ("20.0", "9.0", "0")},
        "unmarked": {"A": ("70.0", "0.3", "0"), "B": ("82.0", "0.4", "0")},
    }
    rows = pd.DataFrame(
        [(setting, method, *told) for setting, some in values.items() for method, told in some.items()],
        columns=["setting", "method", "mean", "sd", "bold"],
    )
    found = judged(rows, 3, "sd").set_index("setting")
    assert found["answer"].to_dict() == {
        "clear": "stands", "near": "not told apart", "second": "not the best printed", "unmarked": "stands",
    }  # fmt: skip
    assert found["type"].to_dict() == {"clear": "bold", "near": "bold", "second": "bold", "unmarked": "unmarked"}
    assert found.loc["near", "among"] == "A"
    assert found.loc["near", "needed"] > 3
    assert found.loc["clear", "needed"] == 0
    assert found.loc["second", ["best", "needed"]].tolist() == ["not the best", -1]  # behind, no runs help
    assert (judged(rows, 3, "none")["answer"] == "order only").all()
    standard_errors = judged(rows, 3, "se").set_index("setting")["needed"]
    assert standard_errors["near"] > found.loc["near", "needed"]
    assert _needed(found) == f"{found.loc['near', 'needed']} to more than 10,000"


def test_shares_of_papers_of_one_size_have_the_limits_of_a_mean():
    """With as many faces in every paper the ratio is the mean of the papers' shares, and so are its limits."""
    stands = np.array([2, 7, 5, 4, 9, 3, 6, 5])
    counts = pd.DataFrame(0, index=range(len(stands)), columns=list(ANSWERS)).assign(
        paper=[f"P{i}" for i in range(len(stands))], stands=stands
    )
    counts["not told apart"] = 10 - stands
    assert share(counts) == pytest.approx(tuple(mean_interval(stands / 10)))
    only_order = counts.assign(**{"stands": 0, "not told apart": 0, "order only": 10, "paper": "Q"})
    assert share(pd.concat([counts, only_order])) == pytest.approx(share(counts))
    assert share(counts.head(4)).why == "fewer than 5 papers"


@pytest.mark.slow
def test_committed_answers_and_the_page_come_out_again():
    committed = read_tables(COMMITTED / "bold")
    for name, table in zip(("faces", "counts"), literature(), strict=True):
        again = table.replace("", np.nan)
        pd.testing.assert_frame_equal(again, committed[name], check_dtype=False, check_like=True)
    pd.testing.assert_frame_equal(hospitals(), committed["hospitals"], check_dtype=False, atol=1e-6)
    assert PAGE.read_text(encoding="utf-8") == page()
