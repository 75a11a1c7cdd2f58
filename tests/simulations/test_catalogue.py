"""The list of figures and tables, and what their studies share: tuned rates, printed numbers, data, devices."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedstat as fs
from simulations import NAMES
from simulations.beside import beside_printed
from simulations.catalogue import DECOMP, FACTORIZED, FEDFAC, FILTER, entries, listing
from simulations.images import images, small_cnn
from simulations.rates import chosen, tried, validating
from simulations.studies import simulate, study

ROOT = Path(__file__).parents[2]

FIGURES = {
    FEDFAC: {*(f"Figure {n}" for n in range(1, 11)), *(f"Table {n}" for n in range(1, 9))},
    FACTORIZED: {
        "Figure 1a", "Figure 1b", "Figure 1c", "Figure 2", "Figure 3", "Figure 4", "Figure 5", "Figure 6",
        *(f"Figure 7{panel}" for panel in "afghijk"), "Table 1",
    },
    DECOMP: {*(f"Figure {n}" for n in range(1, 7)), *(f"Table {n}" for n in range(1, 8))},
    FILTER: {
        "Figure 1a", "Figure 1b", "Figure 2", *(f"Figure 3{panel}" for panel in "abc"),
        *(f"Figure 4{panel}" for panel in "abc"), "Figure 5", "Table 1", "Table 2",
    },
}  # fmt: skip


def test_every_figure_and_table_of_the_papers_is_listed_once():
    found = entries()
    for paper, wanted in FIGURES.items():
        numbers = [entry.shown.number for entry in found if entry.paper == paper]
        assert sorted(numbers) == sorted(wanted)
    told = listing()
    assert all(name in told for name in NAMES)


def test_a_study_that_shows_figures_says_what_it_takes_and_how_it_differs():
    for entry in entries():
        if entry.about is None:
            assert entry.shown.state in ("diagram", "summary"), entry.shown.number
            continue
        scales = study(entry.study).SCALES
        assert set(entry.about.times) == set(scales), entry.study
        assert all(hasattr(scale, "shift") for scale in scales.values()), entry.study
        assert entry.shown.state == "measured" or entry.shown.how, entry.shown.number
        assert not entry.shown.how.endswith("."), entry.shown.number


def test_tuned_rates_are_told_by_arm_rate_and_seed():
    """A rate that diverges is in the table, without a number; the chosen one is the best of the others."""
    x = np.random.default_rng(0).normal(size=(200, 3))
    clients = fs.data.from_arrays(x, (x[:, 0] > 0) * 1, np.arange(200) % 5, test=0.2, validation=0.2)
    tuning = fs.tune(
        fs.FedAvg(), {"lr": (0.1, 1e30, 0.01)}, fs.models.mlp(3, 4, 2), validating(clients), fs.Training(lr=0.1),
        rounds=2, last=1, seed=(5, 6), progress=False,
    )  # fmt: skip
    table = tried(tuning, "it")["tuning"]
    assert table[["lr", "seed"]].to_numpy().tolist() == [[lr, s] for lr in (0.01, 0.1, 1e30) for s in (5, 6)]
    assert table.loc[table["accuracy"].isna(), "lr"].tolist() == [1e30, 1e30]
    means = table.groupby("lr")["accuracy"].mean()
    assert chosen(table) == {"it": means.idxmax()}
    alone = fs.federate(
        fs.FedAvg(), fs.models.mlp(3, 4, 2), clients, fs.Training(lr=0.1), rounds=2, seed=(5, 6), progress=False
    ).history.query("round == 2 and metric == 'accuracy' and split == 'test'")
    assert means[0.1] == pytest.approx(alone["value"].mean(), abs=1e-12)


def test_printed_numbers_beside_ours():
    rng = np.random.default_rng(0)
    ours = pd.DataFrame({"FedAvg": 0.5 + 0.01 * rng.normal(size=6), "A": 0.7 + 0.01 * rng.normal(size=6)})
    printed = pd.DataFrame({"value": [0.51, 0.95], "seeds": 1}, index=["FedAvg", "A"])
    drawn = fs.inference.Design(clients="new", data="drawn")
    found = beside_printed(printed, ours, control="FedAvg", difference=drawn, digits=2)
    assert [row["inside"] for row in found["rows"]] == ["yes", "no"]
    assert found["seeds"] == 6
    same = {"of": 1, "same": 1, "opposite": 0, "unresolved": 0, "equal": 0}
    assert found["order"] == found["sign"] == same
    turned = printed.assign(value=[0.95, 0.51])
    opposite = beside_printed(turned, ours, control="FedAvg", difference=drawn)
    assert opposite["sign"] == same | {"same": 0, "opposite": 1}
    # neither if it is not trained enough, nor if the seeds' splits of the same samples leave it open
    for how in (
        {"difference": drawn, "untrained": {"A": "chance"}},
        {"difference": replace(drawn, data="resplit", test_to_train=1e4)},
    ):
        found = beside_printed(turned, ours, control="FedAvg", **how)
        assert found["order"] == found["sign"] == same | {"same": 0, "unresolved": 1}


def test_images_are_standardised_and_the_network_takes_them():
    import torch

    x, y, test = images("digits")
    assert x.shape[1:] == (1, 8, 8)
    assert x.dtype == np.float32
    assert abs(x.mean()) < 1e-4
    assert abs(x.std() - 1) < 1e-4
    assert len(x) == len(y) == len(test)
    for shape in (x.shape, (2, 3, 32, 32), (2, 1, 28, 28)):
        network = small_cnn(np.zeros(shape), 7, norm=True)()
        assert network(torch.zeros(2, *shape[1:])).shape == (2, 7)


def python(*arguments, **environment):
    import os

    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, env=os.environ | environment
    )


def needs_data():
    return next(name for name in NAMES if study(name).ABOUT.data)


@pytest.mark.slow
def test_missing_data_are_named_with_the_command_that_fetches_them(tmp_path):
    name = needs_data()
    done = python("-m", "simulations", name, "--out", str(tmp_path), FEDSTAT_DATA=str(tmp_path / "none"))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    data = study(name).ABOUT.data[0]
    assert f"`fedstat data fetch {data}` downloads it" in done.stderr
    assert study(name).ABOUT.times["quick"] in done.stderr


def test_a_device_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="device must be one that torch finds here"):
        simulate(needs_data(), "smoke", tmp_path, device="cuda:99")
    with pytest.raises(ValueError, match="device must be cpu for the study complexity"):
        simulate("complexity", "smoke", tmp_path, device="cuda:99")
    with pytest.raises(ValueError, match="scale must be one of smoke, quick, paper for the study complexity"):
        simulate("complexity", "desk", tmp_path)
