"""``fedstat compare`` from anybody's files."""

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedstat as fs
from fedstat.cli import app


def compare(*arguments):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


@pytest.fixture
def theirs(tmp_path):
    """Results of another program, under its own names."""
    rng = np.random.default_rng(0)
    rows = [
        {"algo": label, "run": s, "site": site, "acc": 0.6 + 0.1 * (label == "Ditto") + 0.01 * rng.normal()}
        for label in ("FedAvg", "Ditto", "Local") for s in range(4) for site in "abc"
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "theirs.csv", index=False)
    return tmp_path / "theirs.csv"


NAMED = ("--method", "algo", "--seed", "run", "--client", "site", "--value", "acc", "--metric", "accuracy")


def test_an_error_says_which_options_to_add_and_they_work(theirs):
    refused = compare(theirs)
    assert refused.exit_code == 1
    proposed = re.search(r"Did you mean (--.*)\?", refused.output)[1].split()
    assert proposed == list(NAMED)
    assert "Traceback" not in refused.output
    done = compare(theirs, *proposed)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(theirs).set_axis(["method", "seed", "client", "accuracy"], axis=1)
    assert fs.compare(table).conclusions[0] in " ".join(done.output.split())


def test_formats_pairs_and_pictures(theirs, tmp_path):
    assert r"\toprule" in compare(theirs, *NAMED, "--format", "latex").output
    done = compare(theirs, *NAMED, "--all-pairs", "--margin", "0.02", "--out", tmp_path / "pairs.csv")
    assert done.exit_code == 0, done.output
    written = pd.read_csv(tmp_path / "pairs.csv")
    pairs = written[written["table"] == "differences"]
    assert list(zip(pairs["method"], pairs["against"], strict=True)) == [
        ("FedAvg", "Ditto"), ("FedAvg", "Local"), ("Ditto", "Local"),
    ]  # fmt: skip
    assert pairs["outcome"].tolist() == ["different", "equivalent", "different"]
    assert compare(theirs, *NAMED, "--plot", tmp_path / "forest.svg").exit_code == 0
    assert (tmp_path / "forest.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--control", "Local", "--all-pairs"), "--control and --all-pairs exclude each other"),
        (("--control", "Scaffold"), "control must be one of FedAvg, Ditto, Local, or None for all pairs"),
        (("--format", "pdf"), "--format must be one of text, markdown, latex, csv, got 'pdf'"),
        (("--estimand", "global", "--estimand", "personal"), "--estimand names several models"),
        (("--level", "95"), "level"),
    ],
)
def test_bad_options_are_named(theirs, arguments, message):
    refused = compare(theirs, *NAMED, *arguments)
    assert refused.exit_code == 1
    assert message in " ".join(refused.output.split())
    assert "Traceback" not in refused.output
