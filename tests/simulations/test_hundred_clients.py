"""The study of filter decomposition with the paper's clients: its runs, and what it says of its tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from simulations.filterdecomp.arms import OURS, OURS_HEAD
from simulations.filterdecomp.runs import Run
from simulations.filterdecomp.runs import measure as measure_alone
from simulations.filterdecomp.study import ABOUT
from simulations.hundred_clients import numbers
from simulations.hundred_clients.numbers import FINE_TUNED, GLOBAL, OWN
from simulations.hundred_clients.runs import ARMS, measure
from simulations.hundred_clients.study import PAPER_RATE, SCALES, evidence, jobs
from simulations.studies import tell

DESK = SCALES["desk"]
COMMITTED = Path(__file__).parents[2] / "reports" / "results" / "hundred_clients"
#: Late accuracies in per cent that `planted` makes, by arm and model.
MEANS = {
    ("FedAvg", "global"): 40.0, ("FedProx", "global"): 40.0, ("FilterDecomp", "global"): 45.0,
    ("FedAvg", "fine-tuned"): 85.0, ("FedProx", "fine-tuned"): 85.0, ("FilterDecomp", "personal"): 80.0,
    ("Local", "personal"): 80.0, ("Ditto", "personal"): 83.0, (OURS_HEAD, "personal"): 80.0,
}  # fmt: skip


def planted(means=MEANS, rise=0.0):
    """Make tables as the desk run's: level curves, or global ones that gain `rise` points in the last fifth."""
    rng, rows = np.random.default_rng(0), []
    for (arm, model), mean in means.items():
        for seed in (100, 101, 102):
            level = mean + seed % 3 + 0.1 * rng.normal()
            for now in DESK.own if model == "fine-tuned" else range(DESK.every, DESK.rounds + 1, DESK.every):
                gain = rise * (now - DESK.rounds) / DESK.rounds * 5 if model == "global" else 0.0
                where = {"arm": arm, "model": model, "seed": seed, "round": now}
                where["split"] = "common" if model == "global" else "test"
                share = 0.1 if model == "global" else 0.5
                known = {"accuracy": (level + gain + 0.05 * rng.normal()) / 100, "balanced_accuracy": level / 100}
                known |= {"log_loss": 1 + 0.01 * rng.normal(), "majority_share": share}
                rows += [{**where, "metric": metric, "value": value} for metric, value in known.items()]
    none = pd.DataFrame({"seed": pd.Series(dtype=int), "arm": pd.Series(dtype=str)})
    tuning = pd.DataFrame({"arm": "FedAvg", "lr": (0.003, 0.01, 0.03), "seed": 10_000, "accuracy": 0.4})
    return {"curves": pd.DataFrame(rows), "diverged": none, "tuning": tuning}


def job_of(arm):
    return next(job for job in jobs(SCALES["smoke"]) if job.arm == arm)


def test_own_atoms_leave_the_global_model_what_it_is_without_them():
    job = job_of("FilterDecomp")
    both = measure(job)["curves"].query("model == 'global' and metric == 'accuracy'")
    alone = Run("Figure 2", job.cell, job.size, job.arm, job.lr, job.seeds, job.rounds, (1, 2), 1)
    wanted = measure_alone(alone)["curves"].set_index(["seed", "round"])["accuracy"].sort_index()
    found = both.set_index(["seed", "round"])["value"].sort_index()
    assert found.to_dict() == pytest.approx(wanted.to_dict())


def test_fine_tuning_is_measured_now_and_then_and_changes_no_round():
    job = job_of("FedAvg")
    seldom, often = (measure(replace(job, own=own))["curves"] for own in ((2,), (1, 2)))
    of_all = [curves[curves["model"] == "global"].reset_index(drop=True) for curves in (seldom, often)]
    pd.testing.assert_frame_equal(*of_all)
    assert {now for now in seldom.loc[seldom["model"] == "fine-tuned", "round"]} == {2}
    last = [curves.query("model == 'fine-tuned' and round == 2")["value"].tolist() for curves in (seldom, often)]
    assert last[0] == pytest.approx(last[1])


def test_a_seed_under_which_training_diverges_is_told():
    found = measure(replace(job_of("FedProx"), lr=1e30))
    assert sorted(found["diverged"]["seed"]) == [1100, 1101]
    assert "curves" not in found


def test_sizes_are_the_papers_but_for_rounds_and_the_network():
    assert (DESK.cell.clients, DESK.cell.classes, DESK.size.participants) == (100, 2, 0.1)
    assert (DESK.size.epochs, DESK.size.batch, DESK.size.held) == (10, 10, 0)
    assert {(job.arm, job.lr) for job in jobs(DESK)} == {(arm, PAPER_RATE) for arm in ARMS}
    assert max(DESK.own) == DESK.rounds


def test_differences_are_those_of_late_means_within_the_limits_of_the_design():
    tables = evidence(planted())
    found = numbers.findings(tables)
    for kind, first, second, sign in (
        (GLOBAL, "FilterDecomp", "FedAvg", "more"), (GLOBAL, "FilterDecomp", "FedProx", "more"),
        (OWN, OURS_HEAD, FINE_TUNED, "less"), (OWN, OURS_HEAD, "Local", "unclear"), (OWN, OURS, "Ditto", "less"),
        (OWN, FINE_TUNED, "Local", "more"), (OWN, "Ditto", "Local", "more"),
    ):  # fmt: skip
        one = found[f"{kind} accuracy: {first} - {second}"]
        wide = numbers.by_seed(tables, kind)
        difference = wide[first] - wide[second]
        assert one.sign == sign
        assert one.mean == pytest.approx(difference.mean())
        # four fifths of the images train under each seed, and a fifth as many as these test
        together = {GLOBAL: 2, first: 3, OURS_HEAD: 4, OURS: 5}[kind if kind == GLOBAL else first]
        alone = t(2).ppf(1 - 0.025 / together) * difference.std(ddof=1) / np.sqrt(3)
        assert one.high - one.mean == pytest.approx(alone * np.sqrt(1 + 3 * 0.25), rel=1e-3)
    late = numbers.by_seed(tables, OWN)[FINE_TUNED]
    assert late.mean() == pytest.approx(86, abs=0.3)


@pytest.mark.parametrize(("means", "rise", "words"), [
    ({("FedAvg", "global"): 17.0}, 0.0, "chance 10%"), ({}, 3.0, "still rises by"),
    ({("FedAvg", "fine-tuned"): 45.0}, 0.0, "most frequent class 50%"),
])  # fmt: skip
def test_what_has_not_learnt_is_not_judged(means, rise, words):
    tables = planted(MEANS | means, rise)
    made = numbers.numbers(tables, {"cell": {"printed": DESK.cell.printed}})
    assert any(words in row["why"] for row in made["untrained"])
    pair = f"own accuracy: {OURS} - {FINE_TUNED}" if "class" in words else "global accuracy: FilterDecomp - FedAvg"
    assert numbers.findings(tables)[pair].text == "not judged"


def test_the_table_of_the_paper_stands_beside_as_far_as_it_ran():
    means = {key: mean for key, mean in MEANS.items() if key[0] in ("FedAvg", "FilterDecomp")}
    all_of_them = ["Local", FINE_TUNED, "FedProx + FT", "Ditto", OURS]
    for some, names, pairs in ((MEANS, all_of_them, 10), (means, [FINE_TUNED, OURS], 1)):
        made = numbers.numbers(planted(some), {"cell": {"printed": DESK.cell.printed}})
        assert [row["method"] for row in made["paper"]["rows"]] == names
        assert {row["arm"] for row in made["own"]} - {OURS_HEAD} == set(names)
        assert made["paper"]["order"]["of"] == pairs
    assert [row["printed"] for row in made["own"]] == ["93.5", "94.1"]
    assert numbers.numbers(planted(), {"cell": {"printed": ""}})["paper"] is None


def test_what_came_out_is_what_the_tables_say():
    _, made, found = tell("hundred_clients", COMMITTED)
    outcome = {shown.number: shown.outcome for shown in ABOUT.shows}
    assert "not shown to differ from FedAvg’s and FedProx’s" in outcome["Figure 2"]
    assert {found[f"global accuracy: FilterDecomp - {other}"].sign for other in ("FedAvg", "FedProx")} == {"unclear"}
    assert "nor are its rounds to 90% of FedAvg’s late accuracy" in outcome["Figure 2"]
    assert (made["share"], found["rounds"].sign) == ("90%", "unclear")
    assert "fine-tuned FedAvg and FedProx are above Local" in outcome["Table 1"]
    assert {found[f"own accuracy: {arm} - Local"].sign for arm in (FINE_TUNED, "FedProx + FT")} == {"more"}
    assert "stay below the share of a client’s commonest class" in outcome["Table 1"]
    assert "and above personal atoms with a local head, which are shown to be above FedPAC alone" in outcome["Table 1"]
    start = f"own accuracy: {OURS_HEAD} - "
    against = {key.removeprefix(start): f.sign for key, f in found.items() if key.startswith(start)}
    assert len(against) == 8
    assert [arm for arm, sign in against.items() if sign == "more"] == ["FedPAC"]
    assert {arm for arm, sign in against.items() if sign == "less"} == {FINE_TUNED, "FedProx + FT"}
    assert made["waiting"] == []
    (one,) = made["untrained"]
    assert one["arm"] == OURS
    assert "most frequent class" in one["why"]
