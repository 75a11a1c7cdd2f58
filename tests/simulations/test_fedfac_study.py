"""The FedFac study: its arms at their limits, masking, what it finds of planted differences, and the paper's cells."""

import re
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedstat as fs
from fedstat._random import stream
from fedstat.federated.client.network import build
from simulations.fedfac import cells, numbers, runs
from simulations.published import printed

#: Shape, classes and tokens of each data set of the paper.
FACTS = {
    "cifar10": ((3, 32, 32), 10, None),
    "cifar100": ((3, 32, 32), 100, None),
    "femnist": ((1, 28, 28), 62, None),
    "shakespeare": ((80,), 80, 80),
}
SPLITS = ("FedFac static", "FedFac dynamic", "FedFac agreement", "random split", "random split, every round")


def final(cell, labels):
    """Return the accuracy of every client after three rounds, by arm."""
    clients, _ = cells.populate(cell, 1, 0.1)
    every = runs.arms(cell, 1)
    result = runs.federate(cell, "cpu", {a: every[a] for a in labels}, clients, 0.003, [1], 3, evaluate_at=[3])
    rows = result.history[result.history["metric"] == "log_loss"]
    return {arm: own["value"].to_numpy() for arm, own in rows.groupby(rows["method"].astype(str))}, result, clients


@pytest.fixture(scope="module")
def small():
    """Return a small cell of the digits."""
    return replace(cells.digits(3, clients=6), participation=1.0, local_epochs=1)


@pytest.mark.slow
def test_all_splits_are_fedavg_if_all_units_are_shared_and_the_layer_split_if_none_is(small):
    shared, _, _ = final(replace(small, shared=64), ("FedAvg", *SPLITS))
    for arm in SPLITS:
        np.testing.assert_allclose(shared[arm], shared["FedAvg"], rtol=1e-4)
    none, _, _ = final(replace(small, shared=0), ("layer split", *SPLITS))
    for arm in SPLITS:
        np.testing.assert_allclose(none[arm], none["layer split"], rtol=1e-4)
    assert np.abs(none["layer split"] - shared["FedAvg"]).max() > 0.01


@pytest.mark.slow
def test_masking_replaces_what_it_names_and_nothing_else(small):
    for shared, idle, hit in ((64, "personal", "shared"), (0, "shared", "personal")):
        loss, result, clients = final(replace(small, shared=shared), ("FedFac static", "FedFac dynamic"))
        table = runs._masking(job(small), result, list(loss), clients)
        table = table[table["metric"] == "log_loss"].pivot(index="arm", columns="masked", values="value")
        for arm, values in loss.items():
            assert table.loc[arm, "unmasked"] == pytest.approx(values.mean(), rel=1e-5)
            assert table.loc[arm, f"{idle} masked"] == table.loc[arm, "unmasked"]
            assert abs(table.loc[arm, f"{hit} masked"] - table.loc[arm, "unmasked"]) > 1e-3


def job(cell):
    """Return a job for functions that look at the device alone."""
    return runs.Job(cell, 1, (), {}, 0.1, 1, 1, "cpu")


def test_random_splits_have_the_asked_size_and_differ_between_seeds(small):
    class Known:
        network = build(cells.factory(small, (1, 8, 8), 10), stream(0, "initial weights"))

        def __init__(self, seed):
            self.rng = np.random.default_rng(seed)

    masks = [runs.random_units(Known(seed), ("hidden", "conv2"), 9) for seed in range(20)]
    assert {(int(m["hidden"].sum()), int(m["conv2"].sum())) for m in masks} == {(9, 9)}
    assert len({m["hidden"].tobytes() for m in masks}) == 20


def test_the_papers_summary_weighs_clients_by_their_samples_and_takes_the_best_window():
    means = pd.DataFrame({"method": "a", "metric": "accuracy", "client": [0, 1], "value": [1.0, 0.0]})
    found = runs._summary(means, np.array([30, 10])).set_index("metric")["value"]
    assert found["accuracy"] == 0.5
    assert found["weighted_accuracy"] == 0.75
    by_round = [0.1] * 5 + [0.9] * 10 + [0.2] * 5
    history = pd.DataFrame({"method": "a", "metric": "accuracy", "client": 0, "round": range(20), "value": by_round})
    assert runs._best(history, np.array([7]))["value"].item() == pytest.approx(0.9)


@pytest.mark.parametrize("cell", cells.PAPER, ids=lambda cell: cell.name)
def test_the_papers_cells_build(cell):
    network = build(cells.factory(cell, *FACTS[cell.dataset]), stream(0, "initial weights"))
    for layer in {*cell.layers, *cell.code[0]}:
        units = network.shapes[network.incoming(layer)[0]][0]
        assert 0 < cell.shared < units
    every = runs.arms(cell, 10)
    assert set(every) == set(runs.ARMS) - set(runs.AFTERWARDS) == {*runs.CORE, *runs.OTHERS}
    assert {row["setting"] for row in printed("fedsplit", "table_2")} >= {cell.printed}
    every["LG-FedAvg"].shared(network, None)
    every["FedPer"].shared(network, None)
    assert isinstance(every["FedFac code"], fs.FedFac)
    assert np.isinf(every["FedFac code"].tau) if cell.code[1] is None else every["FedFac code"].tau.q == cell.code[1]


def planted(gain, seeds=5, clients=20, share=0.3, seen=("FedFac dynamic", "FedAvg", "FedPer", "Local")):
    """Return tables in which dynamic FedFac is better than a random split by `gain`, and no other arm differs.

    Clients are kept one by one for the arms that are `seen`.
    """
    rng = np.random.default_rng(3)
    ours = cells.ours(20)
    made = {name: [] for name in ("accuracy", "clients", "curves", "newcomers", "masking")}
    for cell in ours:
        for seed in range(seeds):
            where = {"setting": cell.name, "seed": seed}
            for arm in runs.ARMS:
                value = 0.6 + 0.005 * rng.normal() + (gain if arm == "FedFac dynamic" else 0)
                for metric in (*runs.METRICS, "weighted_accuracy", "weighted_accuracy, best ten rounds"):
                    held = share if metric == "majority_share" else value
                    made["accuracy"].append({**where, "arm": arm, "metric": metric, "value": held})
                for k, v in enumerate(rng.binomial(50, value, clients) / 50 if arm in seen else ()):
                    made["clients"].append({**where, "arm": arm, "client": k, "test": 50, "value": v})
            for arm in runs.CURVES:
                for t in range(1, 5):
                    made["curves"].append({**where, "arm": arm, "round": t, "split": "train", "value": rng.normal()})
            for rule in runs.RULES.values():
                made["newcomers"].append({**where, "rule": rule, "metric": "accuracy", "value": rng.uniform()})
            for arm in ("FedFac dynamic", "FedFac static"):
                for k, which in enumerate(("unmasked", "shared masked", "personal masked")):
                    value = 0.6 - 0.1 * k + 0.005 * rng.normal()
                    made["masking"].append(
                        {**where, "arm": arm, "masked": which, "metric": "weighted_accuracy", "value": value}
                    )
    tables = {name: pd.DataFrame(rows) for name, rows in made.items()}
    wide = tables["clients"].pivot(index=["setting", "seed", "client", "test"], columns="arm", values="value")
    return {**tables, "clients": wide.reset_index()}, ours


@pytest.mark.slow
def test_a_planted_gain_is_found_and_its_absence_is_not_called_one():
    for gain, sign in ((0.05, "more"), (0.0, "unclear"), (-0.05, "less")):
        tables, ours = planted(gain)
        found = numbers.findings(tables)
        for other in numbers.QUESTION:
            assert found[f"images FedFac dynamic − {other}"].sign == sign
            assert found[f"images FedFac static − {other}"].sign == "unclear"
        assert found["images masking"].sign == "less"
        # every seed deals the same samples anew, a third as many for tests as for training
        points = 100 * numbers.pooled(tables, "images")
        d = points["random split, every round"] - points["random split"]
        half = stats.t.isf(0.025, 4) * d.std() * np.sqrt(1 / 5 + 1 / 3)
        redrawn = found["images redrawn"]
        assert (redrawn.low, redrawn.high) == pytest.approx((d.mean() - half, d.mean() + half))
    untaught, _ = planted(0.05, share=0.63)
    told = numbers.findings(untaught)["images FedFac dynamic − FedPer"]
    assert told.text == "not judged"
    assert re.fullmatch(r"FedPer \(accuracy .* at Dirichlet .*\) is not trained enough", told.why)
    untaught, _ = planted(0.0, share=0.9)
    found = numbers.findings(untaught)
    for key in ("masking", "new, ensemble", "new, tuned", "loss by heterogeneity"):
        assert found[f"images {key}"].text == "not judged", "what rests on dynamic FedFac, which has not learnt"
    rates = [{"dataset": "cifar10", "arm": arm, "lr": 1e-3, "chosen": True} for arm in runs.TUNED]
    config = {
        "cells": [asdict(cell) for cell in ours],
        "seeds": 5,
        "cheap": 12,
        "few": 3,
        "fine_tune": 5,
        "tuning_rounds": 10,
    }
    every = planted(-0.05, seen=runs.ARMS)[0]
    shown = numbers.numbers({**every, "tuning": pd.DataFrame(rates)}, config)
    assert shown["counts"]["FedFac dynamic"]["less"] == shown["counts"]["FedFac dynamic"]["of"] == 18
    assert [a["sign"]["of"] for a in shown["printed_2"]] == [7, 7, 7]
    assert {row["outcome"] for row in shown["differences"]["images"]["rows"][:4]} == {"different"}
