"""The study of filter decomposition on images: its formula, its counts, its words."""

from dataclasses import asdict, replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch

import fedstat as fs
from fedstat.data import Clients, Samples
from simulations.filterdecomp import judged, numbers
from simulations.filterdecomp.arms import DITTO, ESTIMAND, GLOBAL, OURS, OURS_HEAD, PERSONAL, SENDING, method, rate_of
from simulations.filterdecomp.cells import Cell, factory, ours
from simulations.filterdecomp.runs import Run, measure, private_numbers
from simulations.filterdecomp.spread import Watch, plain_spread, spread, watch
from simulations.filterdecomp.study import SCALES, curve_runs, evidence, figure_3_runs, table_runs, watches
from simulations.published import printed

DESK = SCALES["desk"]
CELLS = [cell.name for cell in DESK.cells]
MEANS = {arm: 60.0 for arm in PERSONAL} | {OURS: 50.0, OURS_HEAD: 70.0}


def planted(seeds=6, personal=MEANS, gain=3.0, ratio=1.3, slow=2):
    """Make tables as the desk run's, with known truths.

    FilterDecomp is `gain` points above FedAvg in all global accuracies and `slow` rounds or two more behind it; the
    product of averages has `ratio` times the variance of the average of products.
    """
    rng = np.random.default_rng(0)
    every = range(100, 100 + seeds)
    common = pd.Series(rng.normal(0, 1, seeds), index=every)
    values, curves, counts, spreads = [], [], [], []

    def value(shown, cell, arm, mean, atoms=9, epochs=3, participants=5):
        own = ESTIMAND.get(arm, "global")
        for seed in every:
            where = {"shown": shown, "cell": cell, "arm": arm, "atoms": atoms, "epochs": epochs}
            where |= {"participants": participants, "seed": seed, "estimand": own}
            where["split"] = "common" if own == "global" else "test"
            for metric in numbers.METRICS:
                x = (mean + common[seed] + 0.2 * rng.normal()) / 100
                values.append({**where, "metric": metric, "value": 0.1 if metric == "majority_share" else x})
        counts.append({"seed": 100, "private": {OURS: 27 * atoms}.get(arm, 330), "up": 7000.0, "down": 7000.0, **where})

    rounds = (1, *range(2, 25, 2))
    for cell in CELLS:
        shown = "Figure 5" if cell.endswith("iid") else "Figure 2"
        for arm in (*GLOBAL, DITTO, *(SENDING if cell == DESK.cell.name else ())):
            ours = arm == "FilterDecomp"
            here = "A.2" if arm in SENDING else shown
            value(here, cell, arm, 30 + gain * ours)
            for seed in every[:1] if arm == DITTO else every:
                level = 30 + gain * ours + common[seed]
                lag = ours * (slow + seed % 2 * 2) if slow else 0
                for r in rounds:
                    noise = 0.0 if arm in (DITTO, "FedAvg") else 0.1 * rng.normal()
                    accuracy = (10 + (level - 10) * (1 - 0.7 ** max(r - lag, 0)) + noise) / 100
                    sent = r * 7e4 * (0.5 if arm in SENDING else 1)
                    curves.append({"seed": seed, "round": r, "accuracy": accuracy, "log_loss": 2.0, "numbers": sent,
                                   "shown": here, "cell": cell, "arm": arm, "atoms": 9})  # fmt: skip
        if shown == "Figure 2":
            for arm in PERSONAL:
                value("Table 1", cell, arm, personal[arm])
            for atoms in DESK.atoms:
                value("Table 2", cell, OURS, personal[OURS] + (atoms - 9), atoms=atoms)
    for epochs in DESK.epochs:
        for arm in GLOBAL:
            value("Figure 3a", DESK.cell.name, arm, 25 + gain * (arm == "FilterDecomp"), epochs=epochs)
    for count in DESK.participants:
        for arm in ("FedAvg", "FilterDecomp"):
            value("Figure 3c", DESK.cell.name, arm, 25 + count + gain * (arm == "FilterDecomp"), participants=count)
    for arm in ("FedAvg", "FilterDecomp"):
        for seed in every[:4]:
            for r in range(1, 11):
                for layer in ("conv1", "conv2", "conv3"):
                    for m in DESK.few:
                        plain = np.exp(0.1 * rng.normal()) / m
                        apart = np.nan if arm == "FedAvg" else ratio * plain * np.exp(0.01 * rng.normal())
                        spreads.append({"arm": arm, "seed": seed, "round": r, "layer": layer, "clients": m,
                                        "plain": plain, "decomposed": apart, "bias": 0.1 * plain, "energy": 9.0,
                                        "cell": DESK.cell.name})  # fmt: skip
    rates = [
        {"arm": arm, "lr": 0.01, "seed": 10_000, "accuracy": 0.5, "chosen": True, "end": False, "cell": cell}
        for cell in CELLS
        for arm in (*GLOBAL, *(PERSONAL if cell == CELLS[0] else ()))
    ]
    found = {"values": values, "curves": curves, "counts": counts, "spread": spreads, "tuning": rates}
    lost = pd.DataFrame({"seed": pd.Series([], dtype=int), "shown": [], "cell": [], "arm": []})
    return {**{name: pd.DataFrame(rows) for name, rows in found.items()}, "diverged": lost}


# --- the formula --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_the_variance_over_participants_is_that_of_all_choices(m):
    rng = np.random.default_rng(m)
    alpha, atoms = rng.normal(1, 1, (6, 3, 2, 4)), rng.normal(0.5, 1, (6, 2, 2, 3))
    products = np.einsum("kroi,kabr->koiab", alpha, atoms)
    subsets = [list(c) for c in combinations(range(6), m)]
    plain = np.array([products[c].mean(0) for c in subsets])
    apart = np.array([np.einsum("roi,abr->oiab", alpha[c].mean(0), atoms[c].mean(0)) for c in subsets])
    found = spread(alpha, atoms, m)
    assert found.plain == pytest.approx(plain.var(axis=0).sum(), abs=1e-10)
    assert found.decomposed == pytest.approx(apart.var(axis=0).sum(), abs=1e-10)
    assert found.squared_bias == pytest.approx(((apart.mean(0) - products.mean(0)) ** 2).sum(), abs=1e-10)
    assert found.energy == pytest.approx((products.mean(0) ** 2).sum())
    assert plain_spread(products, m).plain == pytest.approx(found.plain, abs=1e-10)


def test_both_aggregates_vary_alike_for_one_participant_and_where_one_factor_is_common():
    rng = np.random.default_rng(0)
    alpha, atoms = rng.normal(size=(7, 3, 2, 4)), rng.normal(size=(7, 3, 3, 3))
    cases = ((alpha, atoms, 1), (alpha, np.repeat(atoms[:1], 7, 0), 3), (np.repeat(alpha[:1], 7, 0), atoms, 3))
    for coefficients, filters, m in cases:
        found = spread(coefficients, filters, m)
        assert found.decomposed == pytest.approx(found.plain, rel=1e-9)
        assert found.squared_bias == pytest.approx(0, abs=1e-9)
    assert spread(alpha, atoms, 3).decomposed != pytest.approx(spread(alpha, atoms, 3).plain, rel=0.05)


@pytest.mark.slow
def test_a_watched_round_has_the_variance_of_what_the_clients_trained():
    cell = ours("digits", 5, "digits")[1]
    size = SCALES["smoke"].size
    job = Watch(cell, size, {"FedAvg": 0.05, "FilterDecomp": 0.05}, 100, 2, 2, (2, 5))
    table = watch(job)["spread"]
    assert (table.loc[table["clients"] == 5, "plain"] < 1e-12).all()  # all clients: one choice
    assert (table.loc[table["clients"] == 2, "plain"] > 0).all()
    assert table.groupby("arm")["layer"].nunique().tolist() == [3, 3]
    assert table.loc[table["arm"] == "FedAvg", "decomposed"].isna().all()


# --- counts -------------------------------------------------------------------------------------------------------


def noise(clients=4, seed=0):
    """Make clients that hold noise in the shape of small colour images."""
    rng = np.random.default_rng(seed)
    x, y = (
        rng.normal(size=(clients, 12, 3, 16, 16)).astype(np.float32),
        np.arange(clients * 12).reshape(clients, 12) % 10,
    )
    return Clients(Samples.from_rows(x, y), Samples.from_rows(x, y), classes=tuple(range(10)))


def played(arm, rounds, clients=4, participation=1.0):
    return fs.federate(
        method(arm, 1), factory("small", 3, 16, 10), noise(clients), fs.Training(lr=0.01, batch_size=6), rounds=rounds,
        participation=participation, evaluate_at=(), progress=False,
    )  # fmt: skip


def numbers_of_small():
    """Count by methods.md, section 7: coefficients and atoms of three layers, and the rest."""
    widths = ((3, 8), (8, 16), (16, 16))
    alpha = sum(9 * a * b for a, b in widths)
    rest = (8 + 16 + 16) + (16 * 4 + 1) * 64 + 65 * 32 + 33 * 10
    return alpha, 3 * 9 * 9, rest, 33 * 10


@pytest.mark.slow
def test_numbers_that_travel_and_stay_are_those_of_the_sheet():
    alpha, atoms, rest, head = numbers_of_small()
    sent = {}
    for arm in (OURS, OURS_HEAD, "FilterDecomp", *list(SENDING)[1:3]):
        result = played(arm, 6)
        up = result.traffic.groupby("round")["bytes_up"].mean() / 4
        sent[arm] = up.tolist()
        kept = {OURS: atoms, OURS_HEAD: atoms + head}.get(arm, 0)
        assert [private_numbers(state) for state in result.states.values()] == [kept]
    whole = alpha + atoms + rest
    assert sent[OURS] == sent["FilterDecomp"] == [whole] * 6
    slow_all, slow_alpha = (sent[arm] for arm in list(SENDING)[1:3])
    assert slow_all == [whole, *[atoms + head] * 4, whole]  # rounds 0 and 5 of beta = 1/5
    assert slow_alpha == [whole, *[whole - alpha] * 4, whole]


@pytest.mark.slow
def test_ditto_has_the_global_model_of_fedavg():
    models = [next(iter(played(arm, 2, participation=0.5).states.values())).server for arm in ("FedAvg", DITTO)]
    for name, leaf in models[0].items():
        torch.testing.assert_close(models[1][name], leaf)


# --- runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no sample is dealt")  # four clients of two classes hold eight of ten
def test_a_run_measures_what_its_figure_speaks_of_and_a_diverged_seed_is_told():
    cell = ours("digits", 4, "digits")[0]
    size = replace(SCALES["smoke"].size, participants=0.5)
    run = Run("Figure 2", cell, size, "FilterDecomp", 0.01, (1100, 1101), 2, (1, 2), 1)
    found = measure(run)
    assert len(found["diverged"]) == 0
    at_end = found["curves"].set_index(["seed", "round"])
    (value,) = found["values"].query("seed == 1101 and metric == 'accuracy' and split == 'common'")["value"]
    assert at_end.loc[(1101, 2), "accuracy"] == value
    assert at_end.loc[(1101, 2), "numbers"] == 2 * at_end.loc[(1101, 1), "numbers"] > 0
    lost = measure(replace(run, lr=1e30))
    assert sorted(lost["diverged"]["seed"]) == [1100, 1101]
    assert "values" not in lost


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_makes_its_runs(name):
    scale = SCALES[name]
    rates = {cell.name: {rate_of(arm): 0.01 for arm in (*GLOBAL, *PERSONAL, *SENDING)} for cell in scale.cells}
    runs = [run for make in (curve_runs, table_runs, figure_3_runs) for run in make(scale, rates)]
    shown = {run.shown for run in runs}
    assert shown >= {"Figure 2", "Table 1", "Table 2", "Figure 3a", "Figure 3c", "A.2"}
    assert all(max(run.at) <= run.rounds for run in runs)
    assert all(min(run.at) > run.rounds - run.last for run in runs if run.shown.startswith("Table"))
    assert list(watches(scale, rates))
    for seeds in (run.seeds for run in runs):
        assert all(seed % 10_000 < 1000 for seed in seeds) or scale.shift


def test_the_papers_scale_has_its_sizes_and_every_arm_can_be_built():
    scale = SCALES["paper"]
    assert (scale.rounds, scale.size.epochs, scale.size.batch, scale.size.participants) == (200, 10, 10, 0.1)
    assert {cell.clients for cell in scale.cells} == {100, 1000}
    assert {cell.printed for cell in scale.cells if cell.printed} >= {r["setting"] for r in printed(*TABLES[0])}
    network = fs.models.alexnet(10)()
    assert network.conv3.weight.shape[:2] == (256, 256)
    for arm in (*GLOBAL, *PERSONAL, *SENDING):
        assert "FilterDecomp" not in arm or fs.describe(method(arm, 10), factory("alexnet", 3, 32, 10))


# --- words --------------------------------------------------------------------------------------------------------

TABLES = (("filter_decomposition", "table_1"), ("filter_decomposition", "table_2"))


def test_printed_tables_hold_the_papers_numbers():
    first, second = (printed(*table) for table in TABLES)
    assert (len(first), len(second)) == (54, 24)
    by = {(r["setting"], r["method"]): r["accuracy"] for r in first}
    assert by["CIFAR10 (100,2)", "Ours"] == "94.14"
    assert by["CIFAR100 (100,20)", "FedPer"] == "37.70"
    assert by["Tiny-ImageNet (1000,50)", "FedProx + FT"] == "14.96"
    atoms = {(r["setting"], r["atoms"]): r["accuracy"] for r in second}
    assert atoms["CIFAR10 (100,5)", "6"] == "85.92"
    assert atoms["Tiny-ImageNet (1000,20)", "9"] == by["Tiny-ImageNet (1000,20)", "Ours"]


@pytest.mark.parametrize("sign", [1, -1])
def test_planted_differences_are_told(sign):
    means = {arm: 60 + 10 * sign * (arm == OURS) for arm in PERSONAL}
    tables = planted(personal=means, gain=4.0 * sign, ratio=2.0**sign)
    found, words = numbers.findings(tables), {1: "more", -1: "less"}[sign]
    cell = "2 classes a client"
    for other in ("FedAvg + FT", "FedPer", "Local"):
        assert found[f"{OURS} - {other}: {cell}"].sign == words
        assert found[f"{OURS_HEAD} - {other}: {cell}"].sign == "unclear"
    assert found[f"global, FilterDecomp - FedAvg: {cell}"].sign == words
    assert found["epochs 30"].sign == found["participants 10"].sign == words
    assert found["variance 5"].sign == words
    assert found["variance 5"].mean == pytest.approx(2.0**sign, rel=0.02)
    assert found["error 5"].mean == pytest.approx(2.0**sign + 0.1, rel=0.02)
    assert found[f"atoms 3: {cell}"].mean == pytest.approx(-6, abs=0.5)
    assert found["more participants: FedAvg"].mean == pytest.approx(8, abs=0.5)
    assert found["rounds, FilterDecomp - FedAvg"].sign == words


def test_a_slower_method_needs_more_rounds():
    quick, slow = (numbers.findings(planted(gain=0.0, slow=rounds)) for rounds in (0, 4))
    key = "rounds: iid"
    assert slow[key].sign == "more"
    assert slow[key].mean == pytest.approx(5, abs=1)
    assert key not in quick or quick[key].sign == "unclear"


def test_numbers_have_the_proof_line_and_equal_budgets_compare_what_was_sent():
    config = {"cells": [asdict(cell) for cell in DESK.cells], "size": asdict(DESK.size), "rounds": DESK.rounds}
    tables = evidence(planted())
    made = numbers.numbers(tables, config)
    (proof,) = made["proof"]
    assert set(proof["findings"]) <= set(numbers.findings(tables))
    assert proof["beside"]["control"] == "FedAvg + FT"
    assert "94.14" in proof["printed"]
    assert "243 private numbers" in proof["what"]
    assert made["ditto"] == {"runs": 3, "largest": "0.00", "equal": True}
    assert {row["cell"] for row in made["agreement"]} == {"2 classes a client", "5 classes a client"}
    rows = judged.sending(tables)
    equal = judged.at_equal_numbers(rows)
    fedavg = rows[(rows["arm"] == "FedAvg") & (rows["round"] == 12) & (rows["seed"] == 100)]["accuracy"]
    assert equal.loc[100, "FedAvg"] == pytest.approx(100 * float(fedavg.iloc[0]))  # half of 24 rounds


def test_a_paper_cell_keeps_its_name():
    assert judged.short("CIFAR10 (100,2)") == judged.printed_name("CIFAR10 (100,2)") == "CIFAR10 (100,2)"
    assert judged.short(CELLS[2]) == "iid"
    assert isinstance(DESK.cells[0], Cell)
