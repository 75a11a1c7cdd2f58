"""What a release says of itself is one story, and what docs/stable.md promises holds: old runs are read, draws stay."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

import fedstat as fs
from fedstat.federated.replicate import participants

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
OLD = ROOT / "tests" / "data" / "run-1.0.0"


def test_the_version_and_its_date_are_the_same_everywhere():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    number, date = re.search(r"^## (\S+) \((\S+)\)$", changes, re.M).groups()
    assert PROJECT["version"] == fs.__version__ == number
    assert re.search(r"^version: (.*)$", CITATION, re.M)[1] == number
    assert re.search(r"^date-released: (.*)$", CITATION, re.M)[1] == date


def test_the_citation_names_the_four_papers():
    assert re.search(r"^abstract: >-\n  \S", CITATION, re.M)
    assert CITATION.count("  - type: ") - CITATION.count("      - type: other") == 4
    for words in ("Wang", "Tang", "Li", "Jeong", "Hwang", "arXiv:2312.04281", "Low-rank", "Filter Decomposition"):
        assert words in CITATION


def test_the_table_of_versions_and_the_metadata_agree():
    page = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
    tried = re.findall(r"^\| (3\.\d+)\S* \| (2\.\d+)\.\d+.*\| (all tests|.*)", page, re.M)
    pythons = {name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)}
    assert pythons == {python for python, *_ in tried}
    lowest = re.search(r">=(\d+\.\d+)", next(name for name in PROJECT["dependencies"] if name.startswith("torch")))[1]
    assert lowest in {torch for _, torch, _ in tried}
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    for name in ("torch", "numpy", "pandas"):
        assert f"{pinned[name]}" in page


def small(seed=range(2)):
    """Return the arguments of the run in tests/data, which 1.0.0 made."""
    clients = fs.data.relu_mixture(clients=4, d=3, units=4, samples=20, validation=4, test=10, seed=0)
    training = fs.Training(lr=0.05, momentum=0.9, batch_size=8)
    methods = {"FedAvg": fs.FedAvg(), "FedPer": fs.methods.FedPer()}
    return methods, fs.models.mlp(3, 4, 1), clients, training, {"rounds": 3, "participation": 0.5, "seed": seed}


def test_a_run_of_the_first_release_is_read():
    run = fs.load(OLD)
    assert run.config["rounds"] == 3
    assert fs.read_results(OLD).history["value"].tolist() == run.history["value"].tolist()
    assert set(run.history["method"]) == {"FedAvg", "FedPer"}
    assert isinstance(run.personal(2, "FedPer", 1), torch.nn.Module)


def test_draws_under_a_seed_stay_as_the_first_release_made_them():
    methods, network, clients, training, options = small()
    run, old = fs.federate(methods, network, clients, training, progress=False, **options), fs.load(OLD)
    columns = ["method", "seed", "round", "client", "estimand", "split", "metric"]
    joined = old.history.merge(run.history, on=columns, suffixes=(" then", " now"), validate="one_to_one")
    assert len(joined) == len(old.history)
    assert joined["value now"].to_numpy() == pytest.approx(joined["value then"].to_numpy(), rel=1e-4, abs=1e-5)
    assert run.traffic[["round", "client"]].to_numpy().tolist() == old.traffic[["round", "client"]].to_numpy().tolist()
    assert participants(0, 0, 20, 0.25).tolist() == [0, 1, 8, 12, 14]
    assert participants(7, 3, 1000, 0.005).tolist() == [143, 364, 382, 446, 826]
    parts = fs.data.dirichlet(np.arange(40) % 2, 3, 1.0, seed=0)
    assert parts[1].tolist() == [0, 19, 24, 28, 34, 36, 38]
