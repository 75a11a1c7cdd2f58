"""The phase study: limit cases, nesting, its rule on made-up numbers, and planted gains that it must find."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from simulations.effects import Effects
from simulations.phase import effects, numbers, study
from simulations.phase.study import LAYER, SCALES

SMALL = replace(SCALES["smoke"], shift=0)


def trained(method, p):
    """Return the smoke scale's final histories of a method on clients of a share p of shared units."""
    clients = study.draw(SMALL, p, 0.8, 20, 3)
    result = study.federate(
        SMALL, {"it": method}, fs.models.mlp(SMALL.d, SMALL.units, 1), lambda seed: clients, 20, 0.03, 3, [3]
    )
    rows = result.history[result.history["metric"].isin(["accuracy", "log_loss"])]
    assert rows["estimand"].nunique() == 1
    return rows.sort_values(["metric", "round", "client"])["value"].to_numpy()


def test_a_split_that_shares_all_is_fedavg_and_one_that_shares_nothing_is_local():
    every = study.arms()
    np.testing.assert_allclose(trained(every["split"], 1.0), trained(every["FedAvg"], 1.0), rtol=1e-5, atol=1e-6)
    nothing = fs.FedSplit(shared_units={LAYER: np.zeros(SMALL.units, dtype=bool), "head": np.zeros(1, dtype=bool)})
    local = trained(every["Local"], 0.5)
    np.testing.assert_allclose(trained(nothing, 0.5), local, rtol=1e-5, atol=1e-6)
    assert np.abs(trained(every["split"], 0.5) - local).max() > 1e-3  # half a split is neither


@pytest.mark.parametrize("which", ["generator", "images"])
def test_fewer_samples_are_the_first_of_more_and_test_samples_stay(which):
    few, many = ((20, 160), (10, 30))[which == "images"]
    deal = study.draw if which == "generator" else study.deal
    place = (0.5, 0.4) if which == "generator" else (0.3,)
    a, b = (deal(SMALL, *place, n, 5) for n in (few, many))
    np.testing.assert_array_equal(a.train.x, b.train.of(most=few).x)
    np.testing.assert_array_equal(a.train.y, b.train.of(most=few).y)
    np.testing.assert_array_equal(a.test.x, b.test.x)
    assert (a.train.n == few).all()
    assert (b.train.n == many).all()
    images = [np.asarray(s.x).reshape(len(s.n), -1, np.prod(s.x.shape[1:])) for s in (b.validation, b.test, b.train)]
    for client in range(len(b.train.n)):
        tuned_on, tested_on, trained_on = ({row.tobytes() for row in x[client]} for x in images)
        assert not tuned_on & tested_on
        assert not trained_on & tested_on


def test_every_sample_size_makes_as_many_steps():
    for scale in SCALES.values():
        for samples in (*scale.samples, *scale.images.samples):
            batch = -(-samples // scale.batches)
            assert -(-samples // batch) == scale.batches


@pytest.mark.parametrize(
    ("low", "high", "p", "expected"),
    [(0.1, 3, 0.01, "pays"), (-0.1, 3, 0.04, "pays"), (-3, -0.1, 1, "harms"), (-0.8, 0.8, 1, "level"),
     (-0.8, 1.1, 1, "undecided"), (-1.1, 0.8, 1, "undecided"), (-0.9, -0.1, 1, "harms"), (0, 3, 0.06, "undecided"),
     (float("nan"), float("nan"), 1, "undecided")],
)  # fmt: skip
def test_the_rule(low, high, p, expected):
    assert effects.outcome(low, high, (low + 0.05, high - 0.05), p) == expected


def planted(truth, seeds=8, noise=0.002, seed=0):
    """Make a table of accuracies: `truth` maps (samples, p, alpha) to the three arms' accuracies."""
    rng = np.random.default_rng(seed)
    rows = []
    for (n, p, alpha), arms in truth.items():
        for s in range(seeds):
            common = rng.normal(0, 0.02)  # of a seed: pairing must remove it
            rows += [
                {"seed": s, "arm": arm, "accuracy": value + common + rng.normal(0, noise),
                 "samples": n, "p": p, "alpha": alpha}
                for arm, value in arms.items()
            ]  # fmt: skip
    return pd.DataFrame(rows)


def gains(table):
    """Return the gains of the split in all cells of a table."""
    found = Effects([effects.question("it", table, effects.CELL, ["split"])])
    return effects.gains(found, table[effects.CELL], ["split"])


def test_planted_gains_are_found_where_they_are():
    truth = {
        (n, p, 0.4): {"Local": 0.8, "FedAvg": 0.7 + 0.2 * (p > 0.5), "split": 0.8}
        for n, p in product((10, 20, 40, 80), (0.1, 0.9))
    }
    truth[20, 0.1, 0.4] = {"Local": 0.8, "FedAvg": 0.7, "split": 0.85}  # beats both
    truth[40, 0.9, 0.4] = {"Local": 0.7, "FedAvg": 0.8, "split": 0.75}  # beats Local alone
    grid = gains(planted(truth)).set_index(["samples", "p"])
    assert grid.loc[(20, 0.1), "outcome"] == "pays"
    assert grid.loc[(20, 0.1), "mean"] == pytest.approx(5, abs=0.3)
    assert grid.loc[(40, 0.9), "outcome"] == "harms"
    assert grid.loc[(40, 0.9), "Local"] == pytest.approx(5, abs=0.3)
    assert (grid.loc[(slice(None), 0.1), "outcome"] == "pays").sum() == 1
    assert (grid.loc[(slice(None), 0.9), "outcome"] == "harms").all()  # FedAvg is ten points above the split
    with_level = truth | {(80, 0.1, 0.4): {"Local": 0.8, "FedAvg": 0.8, "split": 0.8}}
    grid = gains(planted(with_level, noise=0.001)).set_index(["samples", "p"])
    assert grid.loc[(80, 0.1), "outcome"] == "level"


@pytest.mark.slow
@pytest.mark.parametrize("fedavg", [0.8, 0.7])
def test_simultaneous_limits_cover_all_gains_together(fedavg):
    """No gain anywhere, with one yardstick as good as the split or both: any 'pays' or 'harms' is an error."""
    arms = {"Local": 0.8, "FedAvg": fedavg, "split": 0.8}
    cells = list(product((10, 20, 40, 80), (0.1, 0.5, 0.9), (0.4, 0.8)))
    wrong = []
    for seed in range(100):  # noise differs fourfold between cells, against the prior's shape
        tables = [
            planted({cell: arms}, noise=0.002 * 4 ** (i % 2), seed=1000 * seed + i) for i, cell in enumerate(cells)
        ]
        found = gains(pd.concat(tables))
        wrong.append([(found["outcome"] == kind).any() for kind in ("pays", "harms")])
    assert (np.sum(wrong, axis=0) <= 12).all()  # 5% each: 13 of 100 or more come with a probability of 0.1%


def test_the_papers_scale_can_be_built():
    scale = SCALES["paper"]
    few = replace(scale, clients=2, test=10)
    clients = study.draw(few, 0.5, 0.4, 10, 0)
    for method in study.arms().values():
        fs.describe(method, fs.models.mlp(scale.d, scale.units, 1), clients)
    size = replace(scale.images, dataset="digits", clients=2, samples=(25,))
    images = study.deal(replace(scale, images=size), 1.0, 25, 0)
    for method in study.image_arms(size).values():
        fs.describe(method, study.image_model(size), images)


@pytest.mark.slow
def test_smoke_hands_over_all_that_the_chapter_needs(tmp_path):
    tables = study.evidence(study.run(SCALES["smoke"], tmp_path))
    found = numbers.findings(tables)
    assert {"best", "design", "control", "FedFac 1 most", "random split 0.3 fewest"} <= set(found)
    assert found["best"].mean == max(f.mean for key, f in found.items() if key in ("best", "design", "control"))
    shown = numbers.numbers(tables, {})
    assert shown["cells"] == len(SCALES["smoke"].cells) == sum(shown["counts"].values())
    assert not tables["tuning"]["end"].any()
    assert {int(s) for s in tables["grid"]["seed"]} >= {study.FIRST_SEED + SCALES["smoke"].shift}
    assert set(numbers.figures(tables)) == {"phase", "images"}
