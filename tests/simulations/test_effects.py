"""The table of effects: intervals are those of `fedstat.compare`, a pair has one, and what is missing is said."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedstat as fs
from fedstat.inference import Design
from reports.content import counts, discoveries
from simulations.effects import Effects, Question, above_all

DESIGN = Design(clients="new", data="drawn")


def results(shift: float = 0.0, seeds: int = 6) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    arms = ["FedAvg", "Local", "Ditto"]
    table = pd.DataFrame(rng.normal(70, 1, (seeds, 3)), columns=arms, index=pd.RangeIndex(seeds, name="seed"))
    table["Ditto"] += shift
    return table


def question(table: pd.DataFrame, pairs: list[tuple[str, str]], words: str = "against FedAvg") -> Question:
    return Question(words, "accuracy", {"": table}, {"": pairs}, DESIGN, "points")


def test_an_interval_is_the_one_that_compare_makes() -> None:
    table = results(3.0)
    found = Effects([question(table, [("Local", "FedAvg"), ("Ditto", "FedAvg")])])
    rows = table.reset_index().melt("seed", var_name="method", value_name="mse").assign(client=0)
    told = fs.compare(rows, control="FedAvg", design=DESIGN).differences
    for name in ("Local", "Ditto"):
        effect, row = found["accuracy", "", name, "FedAvg"], told.loc[f"{name} − FedAvg"]
        assert (effect.mean, effect.low, effect.high, effect.p) == pytest.approx(
            tuple(row[["difference", "low", "high", "p (t)"]])
        )
        back = found["accuracy", "", "FedAvg", name]
        assert (back.mean, back.low, back.high) == (-effect.mean, -effect.high, -effect.low)


def test_a_pair_has_one_interval() -> None:
    table = results()
    with pytest.raises(ValueError, match="a pair has one interval"):
        Effects([question(table, [("Local", "FedAvg")]), question(table, [("FedAvg", "Local")], "once more")])


def test_what_is_missing_is_said_and_other_seeds_are_not_missing() -> None:
    table, fewer = results(), results(seeds=4)
    table.loc[2, "Ditto"] = np.inf
    asked = Question(
        "both settings", "accuracy", {"a": table, "b": fewer},
        {s: [("Local", "FedAvg"), ("Ditto", "FedAvg")] for s in ("a", "b")}, DESIGN,
    )  # fmt: skip
    found = Effects([asked])
    lost = found["accuracy", "a", "Ditto", "FedAvg"]
    assert math.isnan(lost.mean)
    assert "1 of 6 values of Ditto" in lost.why
    assert lost.outcome(1.0) == "undefined"
    assert [found["accuracy", s, "Local", "FedAvg"].seeds for s in ("a", "b")] == [6, 4]
    assert found["accuracy", "b", "Ditto", "FedAvg"].together == 3


def test_the_difference_that_could_be_found_is_found_with_that_power() -> None:
    effect = Effects([question(results(), [("Local", "FedAvg")])])["accuracy", "", "Local", "FedAvg"]
    half = (effect.high - effect.low) / 2
    t = stats.t.isf(0.025, effect.seeds - 1)
    missed = stats.nct.cdf(t, effect.seeds - 1, effect.could_find / (half / t))
    assert missed == pytest.approx(0.2, abs=1e-6)


def test_exceeding_both_controls_errs_as_rarely_as_it_may() -> None:
    """At the border, where one control is equal and the other far below, a level of 5% is all but used."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        table = pd.DataFrame(rng.normal(0, 1, (8, 3)), columns=["Local", "FedAvg", "Ditto"])
        table["FedAvg"] -= 50
        found = Effects([question(table, [("Ditto", "Local"), ("Ditto", "FedAvg")])])
        wrong += above_all({"Ditto": list(found.values())})["Ditto"] < 0.05
    assert stats.binomtest(wrong, 400, 0.05).pvalue > 1e-3


def test_exceeding_both_controls_is_what_compare_says_of_it() -> None:
    """With moderated variances as well."""
    rng = np.random.default_rng(5)
    names = [f"M{i}" for i in range(8)]
    table = pd.DataFrame(rng.normal(70, 1, (5, 10)), columns=["Local", "FedAvg", *names]).rename_axis("seed")
    table[names] += np.linspace(0, 3, 8)
    pairs = [(name, control) for name in names for control in ("Local", "FedAvg")]
    found = Effects([question(table, pairs)])
    p = above_all({name: [found["accuracy", "", name, c] for c in ("Local", "FedAvg")] for name in names})
    rows = (table / 100).reset_index().melt("seed", var_name="method", value_name="accuracy").assign(client=0)
    told = fs.compare(rows, control=("Local", "FedAvg"), design=DESIGN).above
    assert told is not None
    assert p == pytest.approx(told["p (adjusted)"].to_dict())


def test_false_discoveries_are_controlled_over_all_studies() -> None:
    """A pure null beside a study of clear differences: what survives of the null is what the rate allows."""
    rng = np.random.default_rng(1)
    names = [f"M{i}" for i in range(20)]
    null = pd.DataFrame(rng.normal(0, 1, (6, 21)), columns=["FedAvg", *names])
    clear = null + np.r_[0.0, np.full(20, 50.0)]
    pairs = [(name, "FedAvg") for name in names]
    tables = {name: Effects([question(table, pairs)]).table() for name, table in {"a": null, "b": clear}.items()}
    found = discoveries(tables)
    survive = found.groupby("study")["survives"].sum()
    assert survive["b"] == 20
    assert survive["a"] <= 3
    told = counts(found)
    assert (told["questions"], told["of"], told["survive"]) == (2, 40, survive.sum())
