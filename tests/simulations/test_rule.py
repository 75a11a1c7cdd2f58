"""The rule of thumb says what the tables say, and another thing when they do."""

import pytest

from fedstat._tables import read_tables
from fedstat.methods import Card, Cards, Variant, available
from simulations.rule import rule_of_thumb
from theory_checks import COMMITTED


@pytest.fixture(scope="module")
def phase():
    """Three settings of the committed grid."""
    tables = read_tables(COMMITTED / "phase")
    grid, images = tables["grid"], tables["images"]
    return {
        "grid": grid[(grid["samples"] == 10) & (grid["p"] == 0.1)],
        "images": images[images["samples"] == images["samples"].min()],
    }


@pytest.fixture
def bench():
    """The committed bench with nothing but its two ends."""
    tables = read_tables(COMMITTED / "bench")
    return {name: table[table["arm"].isin(["FedAvg", "Local"])].copy() for name, table in tables.items()}


def cards(**came_out):
    """Three methods of our own and the two controls."""
    of = {
        name: Variant("", "added part", "head", 1.0, 1.0, state, "", came_out.get(name, {}))
        for name, state in {"FedAvg": 0.0, "Local": 1.0, "Whole": 1.0, "Nothing": 0.0, "Tenth": 0.1}.items()
    }
    return Cards({name: Card(name, "", "", (variant,)) for name, variant in of.items()})


def test_every_data_set_is_spoken_of_once(bench, phase):
    steps = rule_of_thumb(available(), bench, phase)
    assert steps[0][0] == "Run FedAvg and Local first."
    said = " ".join(part for step in steps for part in step)
    for cell in ("digits", "images", "roles"):
        assert said.count(f"On {cell}, ") + said.count(f"nothing of {cell} ") == 1
    assert "a split network did in 0 of 3 settings" in said


def test_who_is_above_fedavg_where_it_is_good_is_worth_a_try(bench, phase):
    (_, (advice, evidence), *_) = rule_of_thumb(cards(), bench, phase)
    assert advice == "Where Local is not shown to be better than FedAvg, stay with FedAvg."
    assert "Of 0 other methods, none" in evidence
    some = cards(Whole={"digits": "above FedAvg"}, Tenth={"digits": "above both"}, Nothing={"digits": "not resolved"})
    ((_, both), (advice, evidence), *_) = rule_of_thumb(some, bench, phase)
    assert advice.endswith("also try Whole and Tenth.")
    assert "Of 3 other methods, 2 came out above FedAvg and 1 above Local" in evidence
    assert "Tenth came out above both" in both


def test_the_cheapest_that_lose_nowhere_are_named_where_local_is_good(bench, phase):
    up = {"images": "above FedAvg"}
    some = cards(Whole=up, Tenth=up, Nothing=up)
    (_, _, (advice, evidence), *_) = rule_of_thumb(some, bench, phase)
    assert advice == "Where Local is better than FedAvg, give each client a model of its own."
    assert evidence.endswith("under `Nothing` (nothing) and `Tenth` (10% of a network).")
    (_, _, (_, evidence), *_) = rule_of_thumb(cards(Whole=up, Tenth={**up, "digits": "below both"}), bench, phase)
    assert evidence.endswith("under `Whole` (100% of a network).")
    (_, _, (advice, _), *_) = rule_of_thumb(cards(), bench, phase)
    assert advice == "Where Local is better than FedAvg, let clients train alone."


def test_the_side_of_a_data_set_is_its_intervals(bench, phase):
    worse = (bench["accuracy"]["arm"] == "FedAvg") & (bench["accuracy"]["metric"] == "accuracy")
    bench["accuracy"].loc[worse & (bench["accuracy"]["cell"] == "digits"), "value"] -= 0.4
    steps = dict(rule_of_thumb(cards(), bench, phase))
    assert not any("not shown" in advice for advice in steps)
    assert "On digits" in steps["Where Local is better than FedAvg, let clients train alone."]
