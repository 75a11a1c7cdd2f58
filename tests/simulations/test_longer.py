"""The study of FedDecomp trained longer runs what that of FedDecomp runs, but for rounds, and tells what it found."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedstat.inference.intervals.design import overlap_ratio
from simulations.feddecomp import study as feddecomp
from simulations.feddecomp.cells import CODE, decomp
from simulations.feddecomp.per_seed import layouts
from simulations.longer import numbers
from simulations.longer.study import METHODS, SCALES, jobs
from simulations.published import printed
from simulations.rates import chosen
from simulations.studies import tell

COMMITTED = Path(__file__).parents[2] / "reports" / "results" / "longer"
LONG, APART = SCALES["paper"].experiments
RATES = {arm: 0.01 * i for i, arm in enumerate(METHODS, start=1)}
OTHERS = [arm for arm in METHODS if arm != CODE]
RANKS = [(a, b) for a in (0.2, 0.6, 1.0) for b in (0.2, 0.6, 1.0) if (a, b) != (0.6, 0.6)]
#: Epochs of the low-rank part, other than those of the code, of which tables are committed; with others nothing ran.
EPOCHS = (0, 1, 3, 4, 5)


@pytest.fixture(scope="module")
def told():
    return tell("longer", COMMITTED)


def wide(tables, experiment, dirichlet, metric="accuracy"):
    """Return one row per seed and one column per arm, straight from the table."""
    rows = tables["accuracy"]
    here = (rows["world"] == experiment.world.name) & (rows["dirichlet"] == dirichlet) & (rows["metric"] == metric)
    return rows[here].pivot(index="seed", columns="arm", values="value") * (1 if metric == "log_loss" else 100)


def last(tables, experiment, dirichlet, first, end):
    """Return mean accuracy over some rounds by seed and arm, straight from the curves."""
    rows = tables["curves"]
    here = (rows["world"] == experiment.world.name) & (rows["dirichlet"] == dirichlet)
    rows = rows[here & rows["round"].between(first, end)]
    return 100 * rows.pivot_table(index="seed", columns="arm", values="accuracy", aggfunc="mean")


# --- the study ----------------------------------------------------------------------------------------------------


def test_images_network_and_sizes_are_those_of_the_study_of_feddecomp():
    of = feddecomp.SCALES["desk"].experiments[0]
    for experiment, rounds in ((APART, of.setup.rounds), (LONG, 2 * of.setup.rounds)):
        assert experiment.world.name == f"{of.world.name}, {rounds} rounds"
        assert replace(experiment.world, name=of.world.name) == of.world
        assert experiment.setup == replace(of.setup, rounds=rounds)
        assert (experiment.rates, experiment.tuning_seeds, experiment.tuned_at, experiment.tuning_rounds) == (
            of.rates, of.tuning_seeds, of.tuned_at, rounds,
        )  # fmt: skip
    assert (LONG.main, APART.main) == (of.main, of.main[:1])


def test_every_arm_has_its_own_rate_and_feddecomp_taken_apart_that_of_feddecomp():
    scale = SCALES["paper"]
    long, apart = (list(jobs(scale, of, RATES)) for of in scale.experiments)
    assert {(job.arm, job.dirichlet) for job in long} == {(arm, a) for arm in METHODS for a in (0.1, 0.5, 1.0)}
    assert all(job.lr == RATES[job.arm] for job in long)
    assert {job.lr for job in apart} == {RATES[CODE]}
    ranks = {(job.method.dense_ratio, job.method.conv_ratio) for job in apart}
    assert ranks == {(0.6, 0.6), *RANKS}
    assert sorted(job.method.lora_epochs for job in apart if "R_l" not in job.arm) == [0, 1, 2, 3, 4, 5]
    assert len({job.name for job in (*long, *apart)}) == len(long) + len(apart) == 12 + 1 + 8 + 5
    assert {job.seeds for job in long} == {tuple(range(100, 105))}
    assert {job.seeds for job in apart} == {tuple(range(100, 103))}


def test_runs_of_one_arm_need_no_other_rate():
    alone = [job for arm in LONG.arms for job in jobs(SCALES["paper"], LONG, {arm: RATES[arm]}) if job.arm == arm]
    together = list(jobs(SCALES["paper"], LONG, RATES))
    assert sorted((job.name, job.lr) for job in alone) == sorted((job.name, job.lr) for job in together)


def test_what_the_second_half_gave_is_taken_within_runs():
    rounds = np.arange(1, 17)
    curves = [
        {"seed": seed, "round": r, "accuracy": (r * slope + seed) / 100, "world": "w", "arm": arm, "dirichlet": 0.1,
         "train": 30}
        for seed in (1, 2) for arm, slope in ((CODE, 2), ("Local", 1)) for r in rounds
    ]  # fmt: skip
    tables = {"curves": pd.DataFrame(curves), "accuracy": pd.DataFrame(curves).rename(columns={"accuracy": "value"})}
    found = numbers.by_halves(tables, layouts(tables)[0], 0.1)
    assert found.loc[2, CODE] == pytest.approx(2 * 15.5 + 2)
    assert found.loc[1, numbers.half("Local")] == pytest.approx(7.5 + 1)


# --- what is committed --------------------------------------------------------------------------------------------


def test_the_committed_tables_hold_the_runs_of_the_study_in_their_order(told):
    tables, record, _ = told
    committed = [(of["world"], {**of["setup"], "device": "cpu"}, of["seeds"]) for of in record["config"]["experiments"]]
    assert committed == [(asdict(of.world), asdict(of.setup), of.seeds) for of in (LONG, APART)]
    absent = [e for e in range(6) if e not in (*EPOCHS, 2)]
    assert record["absent"] == [str(e) for e in absent]
    unrun = [decomp(APART.world, APART.setup, lora_epochs=e) for e in absent]
    held = []
    for of in (LONG, APART):
        rates = chosen(tables["tuning"][tables["tuning"]["world"] == of.world.name])
        assert set(rates) == set(of.arms)
        some = [job for job in jobs(SCALES["paper"], of, rates) if job.method not in unrun]
        held += [(job.world.name, job.arm, job.dirichlet, job.seeds) for job in some]
    rows = tables["accuracy"][tables["accuracy"]["metric"] == "accuracy"]
    ran = rows.groupby(["world", "arm", "dirichlet"], sort=False)["seed"].agg(tuple)
    assert [(*key, seeds) for key, seeds in ran.items()] == held
    longest = tables["curves"].groupby("world", sort=False)["round"].max()
    assert list(longest) == [LONG.setup.rounds, APART.setup.rounds]


def test_the_chosen_rate_is_best_of_its_grid_and_not_at_its_end(told):
    for (_, _), own in told[0]["tuning"].groupby(["world", "arm"]):
        means = own.groupby("lr")["accuracy"].mean()
        best = means.idxmax()
        assert set(own.loc[own["chosen"], "lr"]) == {best}
        assert means.index.min() < best < means.index.max()


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "log_loss"])
def test_differences_between_methods_are_paired_on_seeds(told, metric):
    tables, _, findings = told
    for a in LONG.main:
        table = wide(tables, LONG, a, metric)
        for other in OTHERS:
            assert findings[f"{metric} {other}, {a:g}"].mean == pytest.approx((table[CODE] - table[other]).mean())


def test_gains_are_the_ends_of_runs_minus_their_middles(told):
    tables, record, findings = told
    assert record["halves"] == ["16 to 20", "36 to 40"]
    for a in LONG.main:
        gain = last(tables, LONG, a, 36, 40) - last(tables, LONG, a, 16, 20)
        for arm in METHODS:
            assert findings[f"gain {arm}, {a:g}"].mean == pytest.approx(gain[arm].mean())
        for other in OTHERS:
            assert findings[f"gain − {other}, {a:g}"].mean == pytest.approx((gain[CODE] - gain[other]).mean())


def test_ranks_and_epochs_are_compared_with_those_of_the_code(told):
    tables, record, findings = told
    table = wide(tables, APART, APART.main[0])
    unjudged = {row["arm"] for row in record["untrained"] if not row["long"]}
    names = [f"{CODE}, R_l {a:g}, R_c {b:g}" for a, b in RANKS]
    epochs = {f"{CODE}, E_lora {e}": e for e in EPOCHS}
    assert set(table) == {CODE, *names, *epochs}
    for kind, arms in (("ranks", names), ("epochs", epochs)):
        assert [key for key in findings if key.startswith(kind)] == [f"{kind}, {arm}" for arm in arms]
        for arm in arms:
            finding = findings[f"{kind}, {arm}"]
            if arm in unjudged:
                assert finding.text == "not judged"
            else:
                assert finding.mean == pytest.approx((table[arm] - table[CODE]).mean())
    theirs = {(r["dense_ratio"], r["conv_ratio"]): r["accuracy"] for r in printed("feddecomp", "table_2")
              if r["data"] == "CIFAR-10"}  # fmt: skip
    assert [(r["dense"], r["conv"], r["printed"]) for r in record["table_2"]] == [
        (f"{a}%", f"{b}%", theirs[str(a), str(b)]) for a in (20, 60, 100) for b in (20, 60, 100)
    ]
    for row in (*record["table_2"], *record["epochs"]):
        own = table[row["arm"]]
        assert row["ours"] == f"{own.mean():.1f} ({own.std():.1f})"


def test_who_is_not_judged_still_rises_or_names_the_most_frequent_class_as_well(told):
    tables, record, findings = told
    refused = {(row["long"], row["dirichlet"], row["arm"]) for row in record["untrained"]}
    for of in (LONG, APART):
        for a in of.main:
            table, share = (wide(tables, of, a, metric) for metric in ("accuracy", "majority_share"))
            for arm in table:
                low = arm not in ("FedAvg", f"{CODE}, E_lora 0") and table[arm].mean() <= share[arm].mean()
                if (of is LONG, f"{a:g}", arm) not in refused:
                    assert not low
    assert not any(long for long, *_ in refused), "the chapter says that all methods are judged after 40 rounds"
    for _, dirichlet, arm in refused:
        gain = last(tables, APART, float(dirichlet), 20, 20)[arm] - last(tables, APART, float(dirichlet), 16, 16)[arm]
        assert gain.mean() > 1
    assert "not judged" not in {f.text for key, f in findings.items() if not key.startswith(("ranks", "epochs"))}


def test_intervals_of_a_question_hold_together_and_allow_for_common_images(told, monkeypatch):
    tables, _, findings = told
    monkeypatch.setattr(numbers, "_COMMON", 1e-12)
    copies = {name: table.copy() for name, table in tables.items()}  # effects are kept for the tables in hand
    apart = numbers.findings(copies)
    single = {5: 2.7764451, 3: 4.3026527}  # Student's t at 97.5% with 4 and 2 degrees of freedom
    shown = {f"accuracy {other}, {a:g}": wide(tables, LONG, a)[[CODE, other]] for a in LONG.main for other in OTHERS}
    first = wide(tables, APART, APART.main[0])
    shown |= {key: first[[key.partition(", ")[2], CODE]] for key in findings if key.startswith(("ranks", "epochs"))}
    for key, pair in shown.items():
        if findings[key].text == "not judged":
            continue
        difference = pair.iloc[:, 0] - pair.iloc[:, 1]
        n = len(difference)
        half, alone = (of[key].high - difference.mean() for of in (findings, apart))
        assert half / alone == pytest.approx(np.sqrt(1 + n * overlap_ratio(100, 300, 0.1)))
        assert alone > single[n] * difference.std(ddof=1) / np.sqrt(n), "several hold together"


def test_the_papers_table_1_stands_beside_and_is_not_contradicted(told):
    _, record, _ = told
    theirs = {(r["dirichlet"], r["method"]): r["accuracy"] for r in printed("feddecomp", "table_1")
              if r["data"] == "CIFAR-10"}  # fmt: skip
    for table in record["table_1"]:
        for row in table["rows"]:
            value = theirs[f"{float(table['dirichlet']):.1f}", row["method"].partition(" (")[0]]
            assert row["printed"] == f"{float(value):.1f}"
        assert table["order"]["opposite"] == 0
    shown = {s.number: s for s in feddecomp.ABOUT.shows}
    order = [table["order"] for table in record["table_1"]]
    same, unresolved, of = (sum(o[key] for o in order) for key in ("same", "unresolved", "of"))
    assert f"{same} of {of} pairs stand in the printed order and {unresolved} are" in shown["Table 1"].outcome


def test_a_processor_and_a_gpu_come_to_the_same_accuracy(told):
    """The chapter says how far the runs with two epochs lie apart, which the study of FedDecomp made on a processor."""
    rows = pd.read_csv(COMMITTED.parent / "feddecomp" / "accuracy.csv")
    rows = rows[(rows["world"] == APART.world.name.rpartition(",")[0]) & (rows["arm"] == CODE)]
    rows = rows[(rows["metric"] == "accuracy") & (rows["dirichlet"] == 0.1) & (rows["train"] == APART.setup.train)]
    far = 100 * rows.set_index("seed")["value"] - wide(told[0], APART, 0.1)[CODE]
    assert far.count() == 3
    assert 0.1 < far.abs().max() < 0.15


def test_what_the_catalogue_says_of_table_2_and_figure_5_is_what_was_found(told):
    _, _, findings = told
    shown = {s.number: s for s in feddecomp.ABOUT.shows}
    signs = [f.sign for key, f in findings.items() if key.startswith("ranks")]
    assert (len(signs), signs.count("unclear"), signs.count("undefined")) == (8, 7, 1)
    assert "none of eight other pairs" in shown["Table 2"].outcome
    assert "one of them is not judged" in shown["Table 2"].outcome
    epochs = {e: findings[f"epochs, {CODE}, E_lora {e}"].sign for e in EPOCHS}
    assert epochs == {0: "less", 1: "undefined", 3: "unclear", 4: "unclear", 5: "unclear"}
    words = "lower with no epoch than with two, with three and more it is not shown to differ, and one is not judged"
    assert words in shown["Figure 5"].outcome
