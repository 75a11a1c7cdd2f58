"""The cards of methods: what was measured is so, where methods came out follows from the bench, the page follows."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from fedstat._tables import read_tables
from fedstat.methods import Card, Cards, Variant
from fedstat.methods._cards import CELLS, KINDS, read_variants, source
from reports.chooser import QUESTIONS, chooser
from simulations.chooser.__main__ import BENCH, written
from simulations.chooser.came_out import ARMS, came_out
from simulations.chooser.measured import TRAINING, Case, cases, clients, measured
from tests.support.named import NAMED

QUICK = ("FedAvg", "Local", "FedPer", "FedBN", "FedFOMO", "SCAFFOLD")
#: What it sends shrinks while clients train.
SHRINKING = Case("FactorizedFL", {"variant": "beta", "reading": "text"})


def test_every_method_has_a_card_and_names_are_names():
    found = fs.methods.available()
    assert sorted(found) == list(found) == [name for name in dir(fs.methods) if name in found]
    assert found.keys() >= NAMED
    assert "FedNothing" not in found
    assert ", ".join(found).startswith("APFL, ClusteredFL, Ditto")
    assert all(card.name == name and card.about.endswith(".") for name, card in found.items())
    assert {name for name in NAMED if not found[name].source} == {"Local"}


def test_every_variant_is_in_the_table():
    found = fs.methods.available()
    here = [(name, variant.options) for name, card in found.items() for variant in card.variants]
    bare = [name for name, card in found.items() if not card.variants]
    assert here == [(case.name, case.words) for case in cases() if case.name not in bare]
    assert not NAMED & {*bare}
    table = found.table
    assert len(table) == len(here) + len(bare) == len(repr(found).splitlines()) - 4  # header, index, closing sentence
    assert "'not resolved' does not mean equal" in repr(found)
    assert list(table.loc["FedAvg", ["up", "down", "state"]]) == [1, 1, 0]
    assert set(table["kind"]) - {"not measured"} == set(KINDS)
    assert list(table.index[table["kind"] == "not measured"]) == bare
    assert table.loc["FilterDecomp(personal=True)", "personal"] == "norm statistics, atoms"


def test_what_is_known_beforehand():
    of = {name: card.variants[0] for name, card in fs.methods.available().items() if name in NAMED}
    assert (of["Local"].up, of["Local"].down, of["Local"].state) == (0, 0, 1)
    for name in ("FedPer", "FedRep", "LGFedAvg", "FedBN", "FedSplit"):
        assert of[name].up == of[name].down
    for name in ("FedPer", "FedRep", "LGFedAvg", "FedBN"):  # a leaf is either kept or sent
        assert of[name].up + of[name].state == pytest.approx(1, abs=0.011)
    assert {name for name, v in of.items() if "validation" in v.needs} == {"FedFOMO"}
    assert {name for name, v in of.items() if "convolutions" in v.needs} == {"FilterDecomp"}
    assert {name for name, v in of.items() if "norm layers" in v.needs} == {"FedBN"}
    labelled = {"FedLC", "FedPAC", "FedProto", "FedRoD", "PFedSD"}
    assert {name for name, v in of.items() if "class labels" in v.needs} == labelled
    assert "shared_units given" in of["FedSplit"].needs
    assert "all clients at first" in of["FedFac"].needs
    assert "all clients" not in of["FedAMP"].needs
    assert {name for name, v in of.items() if v.personal == "head"} == {"FedBABU", "FedPAC", "FedPer", "FedRep"}
    assert of["Ditto"].personal == "a second model"
    assert of["SCAFFOLD"].personal == "nothing"  # its controls are no model
    assert of["SCAFFOLD"].state > 0.9


def compared(some):
    for case, variant in zip(some, measured(some), strict=True):
        (kept,) = [v for v in read_variants()[case.name] if v.options == case.words]
        told = f"{case.name}({case.words}) is not what cards.csv says: run python -m simulations.chooser"
        assert (variant.kind, variant.personal, variant.needs) == (kept.kind, kept.personal, kept.needs), told
        for number in ("up", "down", "state"):
            # numbers of what is not zero depend on training, whose last digits depend on the machine
            assert getattr(variant, number) == pytest.approx(getattr(kept, number), abs=0.03), told


def test_some_are_measured_anew():
    compared([Case(name) for name in QUICK])


@pytest.mark.slow
def test_the_others_are_measured_anew(monkeypatch):
    """With half as many samples and fewer epochs, which change nothing that is counted but in one case."""
    every = [case for case in cases() if case.name in read_variants() and case not in map(Case, QUICK)]
    compared([SHRINKING])
    where = "simulations.chooser.measured"
    monkeypatch.setattr(f"{where}.SAMPLES", 200)
    monkeypatch.setattr(f"{where}.TRAINING", replace(TRAINING, local_epochs=2))
    monkeypatch.setattr(f"{where}.clients", cache(clients.__wrapped__))
    compared([case for case in every if case != SHRINKING])
    assert SHRINKING in every


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ('Mixes models (Deng, Kamani and\n    Mahdavi 2020, "Adaptive").', "Deng, Kamani and Mahdavi 2020"),
        ('Factors (Hyeon-Woo, Ye-Bin and Oh, "FedPara: low-rank", ICLR 2022).', "Hyeon-Woo, Ye-Bin and Oh 2022"),
        ("Averages (McMahan et al. 2017, Algorithm 1) as (FedFac paper, section 1) says.", "McMahan et al. 2017"),
        ("Splits (FedSplit/FedFac paper, section 3.2).", "FedSplit/FedFac paper"),
        ("Nobody's (really).", ""),
    ],
)
def test_the_source_is_the_first_work_that_is_cited(words, expected):
    assert source(words) == expected


# --- where methods came out ------------------------------------------------------------------------------------

#: Accuracies in per cent that are planted; runs vary by a tenth of a point.
PLANTED = {
    ("digits", "Local"): 72,
    ("digits", "FedAvg"): 70,
    ("digits", "FedPer"): 75,
    ("digits", "FedRep"): 71,
    ("digits", "Ditto"): 60,
    ("images", "Local"): 50,
    ("images", "FedAvg"): 47,
    ("images", "FedPer"): 43,
    ("images", "FedRep"): 50,
    ("roles", "Local"): 19,
    ("roles", "FedAvg"): 30,
    ("roles", "FedPer"): 25,
    ("roles", "FedRep"): 30,
}
#: What naming the most frequent class reaches on roles, which Local does not.
SHARE = 20
SAID = {
    "FedPer": {"digits": "above both", "images": "below both", "roles": "still learning, below FedAvg"},
    "FedRep": {"digits": "above FedAvg, below Local", "images": "above FedAvg", "roles": "still learning"},
    "Ditto": {"digits": "below both"},
    "Local": {"digits": "above FedAvg", "images": "above FedAvg", "roles": "still learning"},
    "FedAvg": {"digits": "below Local", "images": "below Local", "roles": "still learning"},
    "FedEM": {"digits": "diverged"},
}


def planted():
    """Tables of the bench whose outcomes are known."""
    rng, rows = np.random.default_rng(0), []
    for (cell, arm), mean in PLANTED.items():
        own = {"cell": cell, "arm": arm, "estimand": "personal", "own": True, "metric": "accuracy"}
        values = (mean + 0.1 * rng.normal(size=6)) / 100
        rows += [{**own, "seed": seed, "value": value} for seed, value in enumerate(values)]
        share = {**own, "metric": "majority_share", "value": SHARE / 100}
        rows += [{**share, "seed": seed} for seed in range(6)] * (cell == "roles")
    ran = [*PLANTED, ("digits", "FedEM")]
    told = {"control_local": "Local", "control_fedavg": "FedAvg", "budget": "one", "times": 1, "test_to_train": 0.1}
    costs = [{"cell": c, "arm": arm, "up": float("nan") if arm == "FedEM" else 1.0, **told} for c, arm in ran]
    return {"accuracy": pd.DataFrame(rows), "costs": pd.DataFrame(costs), "tuning": pd.DataFrame(costs)}


def test_outcomes_are_those_that_were_planted():
    assert came_out(planted()) == SAID


def test_outcomes_reach_the_table_by_method():
    some = [Case("FedPer"), Case("FedRep"), Case("FedAvg"), Case("FedAvg", {"fine_tune": 2}), Case("FedSplit")]
    variants = [Variant(case.words, KINDS[0], "nothing", 1.0, 1.0, 0.0, "", {}) for case in some]
    table = written(some, variants, came_out(planted()))
    assert list(table["digits"]) == ["above both", "above FedAvg, below Local", "below Local", "", ""]
    assert list(table["images"]) == ["below both", "above FedAvg", "below Local", "", ""]


def test_every_method_but_the_one_that_must_be_told_has_an_arm():
    every = {(case.name, case.words) for case in cases() if case.name in NAMED}
    assert every - {*ARMS} == {("FedSplit", "")}
    assert {*ARMS} <= every
    assert len({*ARMS.values()}) == len(ARMS)


@pytest.mark.skipif(not Path(BENCH).is_dir(), reason="the bench has no committed tables")
def test_the_committed_table_says_what_the_committed_bench_says():
    tables = read_tables(BENCH)
    found = came_out(tables)
    controls = {arm for arm in tables["costs"]["arm"] if arm.startswith(("Local, ", "FedAvg, "))}
    assert {*tables["tuning"]["arm"]} - controls <= {*ARMS.values()}
    for name, variants in read_variants().items():
        for variant in variants:
            expected = found.get(ARMS.get((name, variant.options), ""), {})
            assert variant.came_out == expected, f"{name}({variant.options}): run python -m simulations.chooser"


# --- the page --------------------------------------------------------------------------------------------------


def made_up():
    """Cards of four methods, of which one is above both controls twice, and one once."""

    def of(name, state, needs="", options="", **outcomes):
        return name, Card(name, "", "", (Variant(options, KINDS[1], "head", 0.9, 0.9, state, needs, outcomes),))

    return Cards(
        dict(
            [
                of("Local", 1.0, digits="above FedAvg", images="below FedAvg"),
                of("Best", 1.0, "class labels", "variant='beta', beta=0.2", digits="above both", images="above both"),
                of("Small", 0.05, digits="above both", images="above Local, below FedAvg"),
                of("None", 0.0, digits="not resolved", images="diverged", roles="still learning, below FedAvg"),
            ]
        )
    )


def test_the_page_has_a_sign_against_each_control():
    (group,) = chooser(made_up())["groups"]
    rows = {row["method"]: row for row in group["rows"]}
    assert [*rows] == ["Local", "Best, β, β = 0.2", "Small", "None"]
    assert [(r["digits"], r["images"], r["roles"]) for r in rows.values()] == [
        ("· +", "· −", "–"),
        ("+ +", "+ +", "–"),
        ("+ +", "+ −", "–"),
        ("0 0", "diverged", "… −"),
    ]


def test_the_guide_says_what_the_table_says():
    told = chooser(made_up())
    guide = {record["question"]: record for record in told["guide"]}
    assert [*guide] == [*QUESTIONS]
    anything, nothing, tenth, half, given = guide.values()
    assert anything["methods"] == [{"method": "Best, β, β = 0.2", "above": ["digits", "images"]}]
    assert (anything["most"], anything["of"], anything["through"]) == (2, 3, 4)
    assert (nothing["most"], nothing["methods"], nothing["through"]) == (0, [], 1)
    assert tenth["methods"] == given["methods"] == []  # the small one is below a control on images
    assert half["through"] == 0
    assert told["both"] == [
        {"method": "Best, β, β = 0.2", "cells": ["digits", "images"]},
        {"method": "Small", "cells": ["digits"]},
    ]


def test_a_method_that_nobody_measured_is_named_and_not_judged():
    told = chooser(Cards({"One": Card("One", "", "", ())}))
    assert told["unmeasured"] == ["One"]
    assert told["groups"] == told["guide"] == told["both"] == []


def test_without_outcomes_there_is_no_guide():
    bare = Cards({"One": Card("One", "", "", (Variant("", KINDS[0], "nothing", 1.0, 1.0, 0.0, "", {}),))})
    assert chooser(bare)["guide"] == []
    (group,) = chooser(bare)["groups"]
    assert {group["rows"][0][cell] for cell in CELLS} == {"–"}
