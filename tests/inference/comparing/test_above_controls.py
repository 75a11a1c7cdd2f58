"""Better than every one of several controls: against closed forms, at the least favourable point, and in words."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedstat.inference import AnalysisPlan, Design, compare
from fedstat.inference.comparing.differences import tabulate_above
from tests.support.comparisons import scores

CONTROLS = ("Local", "FedAvg")
DRAWN = Design(clients="new", data="drawn")


def table(runs, metric="accuracy"):
    """Rows of one client per seed from a vector per method."""
    rows = [(label, seed, 0, value) for label, values in runs.items() for seed, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["method", "seed", "client", metric])


def drawn(means, seeds=6, sd=0.01, key=0):
    rng = np.random.default_rng(key)
    base = 0.6 + rng.normal(0, 0.02, seeds)
    return {label: base + mean + rng.normal(0, sd, seeds) for label, mean in means.items()}


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(3, 8), st.sampled_from(["accuracy", "log_loss"]), st.booleans())
def test_p_is_the_largest_of_the_one_sided_ones_adjusted_for_methods_alone(key, seeds, metric, simultaneous):
    rng = np.random.default_rng(key)
    runs = drawn({label: rng.normal(0, 0.01) for label in (*CONTROLS, "A", "B", "C")}, seeds, key=key)
    found = compare(table(runs, metric), control=CONTROLS, simultaneous=simultaneous).above
    side = "greater" if metric == "accuracy" else "less"
    for label, row in found.iterrows():
        tests = {c: stats.ttest_rel(runs[label], runs[c], alternative=side) for c in CONTROLS}
        assert row["p"] == pytest.approx(max(test.pvalue for test in tests.values()))
        gains = {c: (runs[label] - runs[c]).mean() * (1 if side == "greater" else -1) for c in CONTROLS}
        assert row["against"] == min(gains, key=gains.get)
        assert row["gain"] == pytest.approx(min(gains.values()))
    times = dict(zip(found["p"].sort_values().index, (3, 2, 1) if simultaneous else (1, 1, 1), strict=True))
    steps = [min(1, times[label] * found.loc[label, "p"]) for label in times]
    np.testing.assert_allclose(found.loc[list(times), "p (adjusted)"], np.maximum.accumulate(steps))
    assert (found["better"] == (found["p (adjusted)"] < 0.05)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("methods", "seeds"), [(1, 5), (4, 5), (12, 6)])
def test_the_level_holds_at_the_least_favourable_point(methods, seeds):
    """Methods equal one control and are far above the other; from 8 methods on variances are moderated."""
    rng, repeats, wrong = np.random.default_rng(1), 500, 0
    pairs = [(i, c) for c in (0, 1) for i in range(2, 2 + methods)]
    how = {"design": DRAWN, "rule": "bonferroni", "moderated": "auto"}
    limits = pd.DataFrame(0.0, index=range(len(pairs)), columns=["low", "high"])  # of which no claim is made
    blank = scores([*CONTROLS, *(f"M{i}" for i in range(methods))], seeds, 1)
    for _ in range(repeats):
        values = 0.6 + rng.normal(0, 0.01, (methods + 2, seeds, 1))
        values[0] -= 0.3
        blank.values[:] = values
        wrong += bool(tabulate_above(blank, pairs, limits, 0.95, how)["better"].any())
    low, high = stats.binom.interval(0.999, repeats, 0.05)
    assert wrong <= high
    assert wrong >= low or methods > 1  # exact for a single method


def test_the_gain_that_could_have_been_shown_has_a_power_of_80_per_cent():
    runs = drawn(dict.fromkeys([*CONTROLS, "A", "B", "C"], 0), 5)
    found = compare(table(runs), control=CONTROLS)
    for label, row in found.above.iterrows():
        se = stats.sem(runs[label] - runs[row["against"]])
        assert stats.nct.sf(stats.t.isf(0.05 / 3, 4), 4, row["detectable"] / se) == pytest.approx(0.8, abs=1e-6)
        own = found.differences[found.differences["method"] == label]
        assert row["at most"] == own["high"].min()
    low, high, most = (
        f"{100 * v:.1f}" for v in (*found.above["detectable"].agg(["min", "max"]), found.above["at most"].max())
    )
    assert found.conclusions[0] == (
        f"None of 3 methods is shown to be better than both Local and FedAvg: a gain of {low} to {high} points over "
        f"the better of them would have been shown with a power of 80%, and the limits allow {most} at most."
    )


def test_each_method_is_compared_with_each_control_in_one_family():
    runs = drawn({"Local": 0, "FedAvg": 0.03, "A": 0.1, "B": 0.05, "C": -0.1})
    found = compare(table(runs), control=list(CONTROLS))
    assert found.control is None
    assert list(found.differences.index) == [f"{m} − {c}" for c in CONTROLS for m in "ABC"]
    each = compare(
        table({label: runs[label] for label in ("Local", "A", "B", "C")}), control="Local", level=1 - 0.05 / 2
    )
    np.testing.assert_allclose(found.differences[["low", "high"]][:3], each.differences[["low", "high"]])
    assert "differences to Local and FedAvg, paired on seeds, simultaneous 95% intervals" in found.estimand
    # the table for a paper has both differences of each method
    (row,) = [line.split(" & ") for line in found.to_latex().splitlines() if line.startswith("A & ")]
    pairs = [found.differences.loc[f"A − {c}", ["difference", "low", "high"]].astype(float) for c in CONTROLS]
    shown = [[float(n) for n in re.findall(r"-?[\d.]+", row[i].replace("$-$", "-"))] for i in (2, 4)]
    np.testing.assert_allclose(shown, 100 * np.array(pairs), atol=0.051)
    one, other = (compare(table(runs), control=control) for control in ("Local", ("Local",)))
    assert str(one) == str(other)
    assert other.above is None


def test_the_table_is_written_with_the_others():
    found = compare(table(drawn(dict.fromkeys([*CONTROLS, "A", "B"], 0))), control=CONTROLS)
    written = pd.read_csv(io.StringIO(found.to_csv())).query("table == 'above'").set_index("method")
    np.testing.assert_allclose(written["p"], found.above["p"])
    # a table for a paper has no seeds needed, and no note on them
    assert "Seeds needed" in str(found)
    assert "Seeds needed" not in found.to_latex()


def test_sentences_name_the_better_control_and_contradict_nobody():
    runs = drawn({"Local": 0, "FedAvg": 0.03, "A": 0.1, "B": 0.045, "C": -0.1}, key=5)
    found = compare(table(runs), control=CONTROLS)
    assert found.differences.loc["B − FedAvg", "outcome"] == "undecided"
    assert found.above.loc["B", "better"]
    first, second, *rest = found.conclusions
    assert re.fullmatch(
        r"A \(by \S+ points over FedAvg, p < 0.001\) and B \(by \S+ points over FedAvg, p = 0\.0\d\d\) are better than "
        r"both Local and FedAvg\.",
        first,
    )
    assert second.startswith("C is not shown to be better than both Local and FedAvg: a gain of ")
    assert second.endswith("and the limits allow none.")
    assert not any("told apart" in words for words in rest)
    # less is better of losses, and of other metrics it is not known
    losses = compare(table(runs, "log_loss"), control=CONTROLS).conclusions
    assert losses[0].startswith("C (by 0.1")
    assert losses[0].endswith("is better than both Local and FedAvg.")
    assert losses[1].startswith(
        "None of the other 2 methods is shown to be better than both Local and FedAvg: a gain of"
    )
    odd = compare(table(runs, "value").assign(metric="depth"), control=("Local", "FedAvg", "C")).conclusions
    assert odd[0].endswith("are above all of Local, FedAvg and C.")


def test_a_method_without_spread_or_a_control_without_values_answers_nothing():
    runs = drawn(dict.fromkeys([*CONTROLS, "A"], 0.0)) | {"B": np.full(6, 0.5)}
    runs["Same"] = runs["Local"] + 0.1
    found = compare(table(runs), control=CONTROLS)
    assert np.isnan(found.above.loc["Same", "p"])
    assert not found.above.loc["Same", "better"]
    assert found.conclusions[0].startswith("None of 2 methods")
    assert "Same and Local differ by the same amount under every seed: there is no test." in found.conclusions
    gap = table(runs)
    gap.loc[0, "accuracy"] = np.nan
    found = compare(gap, control=CONTROLS)
    assert found.above is None
    assert set(found.differences["against"]) == {"FedAvg"}
    assert any(words.startswith("Local is not compared: values are missing") for words in found.conclusions)


def test_a_plan_may_have_several_controls(tmp_path):
    plan = AnalysisPlan(arms=["Local", "FedAvg", "A"], control=CONTROLS, seeds=6)
    plan.write(tmp_path / "plan.toml")
    assert AnalysisPlan.read(tmp_path / "plan.toml") == plan
    one, other = (AnalysisPlan(arms=["Local", "FedAvg"], control=of) for of in ("Local", ["Local"]))
    assert one.digest == other.digest
    runs = table(drawn(dict.fromkeys([*CONTROLS, "A"], 0)))
    found = compare(runs, plan=plan)
    assert found.above is not None
    assert found.notes[-1] == "All of it is as this plan says."
    other = compare(runs, plan=plan, control="Local")
    assert other.notes[-1] == "Not as this plan says: control Local (planned: Local and FedAvg)."


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"control": ("Local", "Other")},
            "control must be one of Local, FedAvg, A, or None for all pairs, got 'Other'",
        ),
        ({"control": ("Local", "Local")}, r"control must name different methods, got \['Local', 'Local'\]"),
        ({"control": ()}, r"control must name different methods, got \[\]"),
        ({"control": ("Local", "FedAvg", "A")}, "control must leave a method to compare"),
        ({"control": CONTROLS, "level": 0.5}, "level must exceed 0.5 where there are several controls, got 0.5"),
    ],
)
def test_bad_controls_are_named(how, message):
    with pytest.raises(ValueError, match=message):
        compare(table(drawn(dict.fromkeys([*CONTROLS, "A"], 0))), **how)
    for controls in (("A", "C"), ("A", "A"), ("A", "B"), (), [["A"], "B"]):
        with pytest.raises(ValueError, match=r"arms A, B, got .* Several must differ, and leave an arm"):
            AnalysisPlan(arms=["A", "B"], control=controls)
