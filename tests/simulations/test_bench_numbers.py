"""What the bench's chapter is told of planted tables: counts, outcomes, ranks, bytes, readings, and what is missing."""

import json
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from simulations.bench import compared, numbers
from simulations.bench.effects import LONGER, READINGS, against, effects, outcomes
from simulations.bench.outcomes import NOT_RESOLVED, outcome

CELLS = ("digits", "images", "roles")
#: Arm: budget, accuracy less FedAvg's of that budget in points by data set, kilobytes up, models.
PLANTED = {
    "Local": ("one", (2.0, 9.0, -6.0), 0.0, "personal"),
    "FedAvg": ("one", (0.0, 0.0, 0.0), 80.0, "global"),
    "FedPer": ("one", (5.0, 12.0, 1.0), 60.0, "personal"),
    "FedRep": ("one", (4.0, 11.0, -9.0), 60.0, "personal"),
    "FedBN": ("one", (3.5, 4.0, 0.0), 79.0, "personal"),
    "FedProx": ("one", (0.1, -0.1, 0.1), 80.0, "global"),
    "LG-FedAvg": ("one", (-5.0, -6.0, -12.0), 20.0, "personal"),
    "FedPara": ("one", (-4.0, -3.0, -2.0), 10.0, "global"),
    "FedDecomp code": ("one", (5.5, 13.0, 2.0), 80.0, "personal"),
    "FedDecomp text": ("one", (1.5, 13.0, -8.0), 80.0, "personal"),
    "FedFac dynamic": ("one", (4.5, 8.0, 0.2), 70.0, "personal"),
    "FedAvg + FT": ("one", (4.0, 10.0, 1.0), 80.0, "fine-tuned"),
    "FedProx + FT": ("one", (4.5, 11.5, 1.0), 80.0, "fine-tuned"),
    "Local, 2E": ("two", (2.5, 9.5, -5.0), 0.0, "personal"),
    "FedAvg, 2E": ("two", (0.5, 0.5, 0.5), 80.0, "global"),
    "Ditto": ("two", (6.0, 12.0, 2.0), 80.0, "personal"),
}
#: The data sets' sizes, as the study's config holds them.
CONFIG = {
    "scale": "desk",
    "cells": [
        {"name": cell, "samples": None if cell == "digits" else 200, "alpha": 0.0 if cell == "roles" else 0.1,
         "batch_size": 20, "local_epochs": 4, "rounds": 15, "last": 5, "rates": [0.01, 0.03, 0.1]}
        for cell in CELLS
    ]
}  # fmt: skip
BASE = {"digits": 85.0, "images": 45.0, "roles": 30.0}


def control(kind, budget):
    """Name the control of a budget."""
    return kind if budget == "one" else f"{kind}, 2E"


def planted(seeds=8, noise=0.3, lacking=(), truth=None, draw=3, share=0.15, cells=CELLS):
    """Make the tables of a bench whose truth is known.

    Parameters
    ----------
    seeds : int
        Of the results.
    noise : float
        Standard deviation over seeds of an arm's accuracy, in points.
    lacking : sequence of (arm, cell)
        What did not run.
    truth : dict, optional
        Accuracies less FedAvg's that replace planted ones, by arm.
    draw : int
        Which noise is drawn.
    share : float
        The share of each client's most frequent class.
    cells : sequence of str
        The data sets, the first ones of `CELLS`.
    """
    rng = np.random.default_rng(draw)
    found = {name: [] for name in ("tuning", "accuracy", "costs")}
    for (place, cell), (arm, (budget, gain, up, estimand)) in product(enumerate(cells), PLANTED.items()):
        if (arm, cell) in lacking:
            continue
        level = BASE[cell] + (truth or {}).get(arm, gain)[place]
        common = {"cell": cell, "arm": arm}
        values = level + noise * rng.normal(size=seeds) + np.random.default_rng(7).normal(size=seeds)
        for seed, value in enumerate(values, start=100):
            row = {**common, "estimand": estimand, "own": True, "seed": seed}
            found["accuracy"] += [
                {**row, "metric": metric, "value": number}
                for metric, number in (
                    ("accuracy", value / 100), ("balanced_accuracy", value / 110), ("log_loss", 3 - value / 50),
                    ("majority_share", share),
                )
            ]  # fmt: skip
            if arm == "Ditto":
                found["accuracy"].append(
                    {**row, "estimand": "global", "own": False, "metric": "accuracy", "value": BASE[cell] / 100}
                )
        for lr, setting, seed in product((0.01, 0.03, 0.1), ("", "0.5"), range(10_000, 10_003)):
            chosen = lr == 0.03 and not setting
            value = level / 100 - (0 if chosen else 0.05) + 0.001 * rng.normal()
            row = {**common, "lr": lr, "setting": setting, "seed": seed, "accuracy": value}
            found["tuning"].append({**row, "chosen": chosen, "end": arm == "FedPara"})
        found["costs"].append(
            {
                **common, "lr": 0.03, "setting": "", "epochs": "4" if budget == "one" else "2 x 4",
                "times": (1.0 if budget == "one" else 2.0) + 0.05 * arm.endswith("+ FT"), "budget": budget,
                "control_local": control("Local", budget),
                "control_fedavg": "FedAvg + FT" if arm == "FedProx + FT" else control("FedAvg", budget),
                "up": 1000 * up, "down": 1000 * up, "state": 500.0, "clients": 20, "rounds": 20, "test_to_train": 0.0,
            }
        )  # fmt: skip
    tables = {name: pd.DataFrame(rows) for name, rows in found.items()}
    return tables


def test_what_does_no_better_than_the_most_frequent_class_is_not_judged():
    tables = planted(share=0.45)
    found = outcomes(tables, effects(tables)).set_index(["cell", "arm"])["outcome"]
    assert set(found["roles"]) == {"still learning"}  # all arms lie below, and FedAvg speaks their language
    assert "still learning" not in set(found["digits"])
    # on images a model for all clients is held against chance alone
    assert found["images", "FedPara"] != "still learning"


def differences(tables, cell):
    """Return each arm's difference to each kind of control in a cell, by arm and kind."""
    return against(tables, effects(tables), cell)


@pytest.fixture(scope="module")
def tables():
    """Return the planted tables without gaps."""
    return planted()


@pytest.fixture(scope="module")
def told(tables):
    """Return what the chapter is told of them, by data set."""
    return {cell["cell"]: cell for cell in numbers.numbers(tables, CONFIG)["cells"]}


# --- outcomes --------------------------------------------------------------------------------------------------


def test_outcome_words_are_those_of_the_planted_truth(tables, told):
    found = outcomes(tables, effects(tables)).set_index(["cell", "arm"])["outcome"]
    assert found["digits", "FedPer"] == "above both"
    assert found["digits", "FedProx"] == "below Local"
    assert found["roles", "LG-FedAvg"] == "below both"
    assert found["roles", "FedPer"] == "above both"
    assert found["roles", "FedPara"] == "above Local, below FedAvg"
    assert found["images", "FedBN"] == "above FedAvg, below Local"
    assert found["digits", "Local"] == "above FedAvg"  # it is not compared with itself
    assert {row["arm"]: row["outcome"] for row in told["digits"]["groups"][0]["arms"]} == {
        arm: found["digits", arm] for arm in PLANTED if PLANTED[arm][0] == "one"
    }


def test_every_outcome_has_words_of_its_own():
    assert len({outcome({"Local": a, "FedAvg": b}) for a, b in product((-1, 0, 1), repeat=2)}) == 9
    assert outcome({"Local": 0}) == NOT_RESOLVED


def test_a_method_of_equal_accuracy_is_above_both_controls_as_rarely_as_it_may():
    """Thirteen methods equal the better control: one is called better than both in 5% of benches at most."""
    wrong = 0
    for seed in range(40):
        truth = dict.fromkeys(PLANTED, (2.0,) * 3) | {"FedAvg": (0.0,) * 3}
        small = planted(truth=truth, draw=seed, cells=CELLS[:1])
        found = outcomes(small, effects(small))
        wrong += "above both" in set(found["outcome"])
    assert wrong <= stats.binom.isf(0.001, 40, 0.05)


def test_counts_leave_out_the_controls_and_add_up(tables, told):
    for cell in CELLS:
        joint = differences(tables, cell)
        others = [arm for arm in PLANTED if arm not in ("Local", "FedAvg", "Local, 2E", "FedAvg, 2E")]
        assert told[cell]["of"] == len(others) == 12
        for count in told[cell]["counts"]:
            rows = [joint[arm, count["control"]] for arm in others]
            assert count["above"] == sum(effect.low > 0 for effect in rows)
            assert count["below"] == sum(effect.high < 0 for effect in rows)
            assert count["above"] + count["below"] + count["neither"] == count["of"] == len(others)
        assert sum(len(word["arms"]) for word in told[cell]["came_out"]) == len(others)


def test_controls_are_their_own_and_fine_tuning_is_compared_with_fine_tuning(tables, told):
    assert compared.controls(tables) == {"Local", "FedAvg", "Local, 2E", "FedAvg, 2E"}
    assert [group["controls"] for group in told["digits"]["groups"]] == [
        ["Local", "FedAvg"],
        ["Local, 2E", "FedAvg, 2E"],
    ]
    assert [group["times"] for group in told["digits"]["groups"]] == ["1", "2"]
    assert told["digits"]["tuned_after"] == [{"control": "FedAvg + FT", "arms": ["FedProx + FT"]}]
    assert compared.own_controls(tables, "digits", "two") == {"Local": "Local, 2E", "FedAvg": "FedAvg, 2E"}


def test_what_a_longer_training_adds_to_the_controls_is_the_planted_gain(tables, told):
    found = [e for e in effects(tables).among(LONGER) if e.setting == "digits"]
    assert [(e.first, e.second) for e in found] == [("Local, 2E", "Local"), ("FedAvg, 2E", "FedAvg")]
    assert all(e.low < 0.5 < e.high for e in found)
    assert [row["control"] for row in told["digits"]["longer"]] == ["Local", "FedAvg"]


@pytest.mark.slow
def test_equal_is_what_lies_within_the_margin_and_unresolved_what_reaches_beyond():
    truth = {"FedProx": (0.0, 0.0, 0.0)}
    sharp, blurred = (numbers.numbers(planted(noise=s, truth=truth), CONFIG)["cells"][1] for s in (0.02, 3.0))
    assert sharp["margin"] == blurred["margin"] == "1"
    assert sharp["counts"][1]["equal"] == 1
    assert blurred["counts"][1]["equal"] == 0
    assert float(blurred["counts"][1]["half"]) > 10 * float(sharp["counts"][1]["half"])
    assert sharp["controls"]["sign"] == "more"
    frugal = sharp["counts"][1]["frugal"]
    assert frugal["of"] == sharp["counts"][1]["of"]  # nothing here sends more than FedAvg
    assert frugal["above"] == sharp["counts"][1]["above"]


@pytest.mark.slow
def test_words_turn_with_the_sign():
    turned = planted(truth={arm: tuple(-v for v in gain) for arm, (_, gain, _, _) in PLANTED.items()})
    before, after = numbers.findings(planted()), numbers.findings(turned)
    opposite = {"more": "less", "less": "more", "unclear": "unclear"}
    clear = [key for key in before if "favourite" not in key and before[key].sign != "unclear"]
    assert len(clear) > 5
    assert all(after[key].sign == opposite[before[key].sign] for key in clear)
    counts = [
        {c["control"]: c for c in numbers.numbers(t, CONFIG)["cells"][1]["counts"]}["FedAvg"]
        for t in (planted(), turned)
    ]
    assert counts[0]["above"] == counts[1]["below"] > 0


# --- ranks -----------------------------------------------------------------------------------------------------


def test_the_critical_difference_groups_are_those_of_a_direct_computation(tables):
    found = compared.over_seeds(tables)
    arms = [arm for arm in PLANTED if PLANTED[arm][0] == "one"]
    assert set(found.methods) == set(arms)
    places = np.vstack(
        [
            stats.rankdata(-compared.by_seed(tables, cell)[arms].to_numpy(), axis=1) for cell in CELLS
        ]
    )  # fmt: skip
    mean = dict(zip(arms, places.mean(axis=0), strict=True))
    k, n = len(arms), len(places)
    critical = stats.studentized_range.isf(0.05, k, np.inf) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
    assert n == 3 * 8
    assert found.critical_difference == pytest.approx(critical)
    together = {frozenset(pair) for group in found.groups for pair in combinations(group, 2)}
    assert together == {frozenset((a, b)) for a, b in combinations(arms, 2) if abs(mean[a] - mean[b]) < critical}
    assert compared.told_apart(found) == (k * (k - 1) // 2 - len(together), k * (k - 1) // 2)
    assert 0 < compared.told_apart(found)[0] < k * (k - 1) // 2


def test_the_concordance_of_data_sets_is_kendalls(tables):
    found = compared.over_cells(tables)
    arms = compared.ranked_arms(tables)
    places = np.array([stats.rankdata([-compared.by_seed(tables, c)[a].mean() for a in arms]) for c in CELLS])
    m, k = places.shape
    kendall = 12 * ((places.sum(axis=0) - m * (k + 1) / 2) ** 2).sum() / (m**2 * (k**3 - k))
    assert compared.concordance(found) == pytest.approx(kendall)
    mean_rho = np.mean([stats.spearmanr(*places[list(pair)]).statistic for pair in combinations(range(m), 2)])
    assert kendall == pytest.approx(((m - 1) * mean_rho + 1) / m)
    between = [value for a, b, value in compared.correlations(tables) if a != b]
    assert np.mean(between) == pytest.approx(mean_rho)


@pytest.mark.slow
def test_data_sets_that_rank_alike_agree_and_those_that_differ_do_not():
    alike = {arm: (gain[0],) * 3 for arm, (_, gain, _, _) in PLANTED.items()}
    same = numbers.numbers(planted(noise=0.05, truth=alike), CONFIG)["ranks"]
    assert same["agree"]
    assert float(same["concordance"]) > 0.95
    rng = np.random.default_rng(0)
    apart = {arm: tuple(rng.uniform(-8, 8, size=3)) for arm in PLANTED}
    other = numbers.numbers(planted(noise=0.05, truth=apart), CONFIG)["ranks"]
    assert not other["agree"]


# --- bytes -----------------------------------------------------------------------------------------------------


def test_arms_that_none_dominates_are_those_of_brute_force(tables):
    rng = np.random.default_rng(1)
    for _ in range(50):
        spent, gained = rng.integers(0, 5, 12).astype(float), rng.integers(0, 5, 12).astype(float)
        expected = []
        for i in range(12):
            beaten = False
            for j in range(12):
                if spent[j] <= spent[i] and gained[j] >= gained[i] and (spent[j] < spent[i] or gained[j] > gained[i]):
                    beaten = True
            expected.append(not beaten)
        assert compared.front(spent, gained).tolist() == expected
    found = compared.undominated(tables, "images")
    assert {"Local", "FedPer"} < set(found.index) <= {"Local", "FedPer", "FedDecomp code", "FedDecomp text"}
    assert found["spent"].is_monotonic_increasing
    assert found.loc["FedPer", "spent"] == pytest.approx(2 * 60_000 * 20 / 1e6)


# --- what is missing -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_missing_arms_are_named_and_not_ranked():
    tables = planted(lacking=[("FedBN", "roles"), ("FedDecomp text", "images"), ("Ditto", "roles")])
    lost = pd.DataFrame(
        [{"cell": "roles", "arm": "Ditto", "lr": 0.1, "setting": "", "seed": 10_000, "accuracy": np.nan,
          "chosen": False, "end": False}]
    )  # fmt: skip
    tables["tuning"] = pd.concat([tables["tuning"], lost])
    rows = tables["accuracy"]
    tables["accuracy"] = rows[~((rows["arm"] == "FedPara") & (rows["cell"] == "images") & (rows["seed"] == 103))]
    rows, prices = tables["accuracy"], tables["costs"]
    at = (rows["arm"] == "LG-FedAvg") & (rows["cell"] == "digits")
    rows = rows[~at | (rows["metric"] == "accuracy")].copy()
    rows.loc[(rows["arm"] == "LG-FedAvg") & (rows["cell"] == "digits"), ["value", "estimand"]] = [np.nan, ""]
    prices.loc[(prices["arm"] == "LG-FedAvg") & (prices["cell"] == "digits"), ["up", "down", "state"]] = np.nan
    tables["accuracy"] = rows
    assert set(compared.absent(tables)) == {
        ("LG-FedAvg", "digits", "diverged"),
        ("FedBN", "roles", "not run"), ("FedDecomp text", "images", "not run"), ("Ditto", "roles", "diverged"),
        ("FedPara", "images", "lacks seeds"),
    }  # fmt: skip
    assert not {"FedBN", "FedDecomp text", "Ditto", "FedPara", "LG-FedAvg"} & set(compared.ranked_arms(tables))
    found = numbers.numbers(tables, CONFIG)
    assert set(found["ranks"]["left_out"]) >= {"FedBN", "FedPara"}
    assert "images FedDecomp text - FedDecomp code" not in numbers.findings(tables)
    assert "digits FedDecomp text - FedDecomp code" in numbers.findings(tables)
    assert found["cells"][0]["of"] == 11
    assert {count["of"] for count in found["cells"][0]["counts"]} == {11}
    json.dumps(found, allow_nan=False)
    assert set(numbers.figures(tables)) == {"forest", "bytes", "ranks"}


def test_two_seeds_of_one_data_set_and_three_arms_are_enough():
    few = planted(seeds=2)
    small = {name: table[(table["cell"] == "digits") & table["arm"].isin(["Local", "FedAvg", "FedPer"])]
             for name, table in few.items()}  # fmt: skip
    found = numbers.numbers(small, CONFIG)
    json.dumps(found, allow_nan=False)
    assert found["ranks"]["over_cells"] is None
    assert numbers.findings(small)
    assert set(numbers.figures(small)) == {"forest", "bytes", "ranks"}


# --- choices ---------------------------------------------------------------------------------------------------


def test_the_favourite_is_chosen_on_tuning_seeds_alone(tables):
    assert compared.favourite(tables, "images") in ("FedDecomp code", "FedDecomp text")
    changed = dict(tables)
    rows = tables["tuning"].copy()
    rows.loc[(rows["arm"] == "LG-FedAvg") & rows["chosen"], "accuracy"] = 0.99
    changed["tuning"] = rows
    assert compared.favourite(changed, "images") == "LG-FedAvg"
    found = numbers.findings(changed)
    assert found["images favourite"].sign == "less"
    assert numbers.findings(tables)["images favourite"].sign == "more"


def test_a_choice_by_chance_is_flattered_and_a_clear_one_is_not(tables):
    clear = compared.optimism(tables, "digits")
    assert clear[0] == 0
    rows = tables["tuning"].copy()
    rng = np.random.default_rng(5)
    rows["accuracy"] = 0.5 + 0.02 * rng.normal(size=len(rows))
    means = rows.groupby(["cell", "arm", "lr", "setting"])["accuracy"].transform("mean")
    rows["chosen"] = means == means.groupby([rows["cell"], rows["arm"]]).transform("max")
    chance = compared.optimism({**tables, "tuning": rows}, "digits")
    assert 1 < chance[0] < 5  # points; the largest of six means of three lies 1.27 / sqrt(3) sd above their mean


def test_readings_are_a_family_of_their_own(tables):
    found = effects(tables)["accuracy", "digits", "FedDecomp text", "FedDecomp code"]
    assert found.together == sum({a, b} <= set(PLANTED) for a, b in READINGS) == 1
    wide = 100 * compared.by_seed(tables, "digits")
    d = stats.ttest_rel(wide["FedDecomp text"], wide["FedDecomp code"]).confidence_interval()
    assert (found.low, found.high) == pytest.approx((d.low, d.high))
    (row,) = [
        r
        for r in numbers.numbers(tables, CONFIG)["readings"]
        if r["cell"] == "digits" and r["first"] == "FedDecomp text"
    ]
    assert row["sign"] == "less"


def test_a_choice_at_an_end_of_its_grid_and_another_rate_are_marked(tables):
    prices = tables["costs"].copy()
    prices.loc[(prices["arm"] == "FedPer") & (prices["cell"] == "digits"), "lr"] = 0.01
    found = numbers.numbers({**tables, "costs": prices}, CONFIG)
    rows = {row["arm"]: row for group in found["cells"][0]["groups"] for row in group["arms"]}
    assert rows["FedPara"]["rate"] == "0.03*"
    assert rows["FedPer"]["rate"] == "0.01§"
    assert rows["FedRep"]["rate"] == "0.03"
    assert found["tuning"][0]["ends"] == ["FedPara"]


@pytest.mark.slow
def test_all_figures_are_drawn_and_fill_what_leaves_out_zero(tables):
    found = numbers.figures(tables)
    assert set(found) == {"forest", "bytes", "ranks"}
    axis = found["forest"].axes[0]
    filled = sum(line.get_marker() == "o" and line.get_markerfacecolor() != "white" for line in axis.lines)
    rows = [effect for (_, kind), effect in differences(tables, "digits").items() if kind == "Local"]
    assert filled == sum(effect.low > 0 or effect.high < 0 for effect in rows)
    assert 0 < filled < len(rows)
