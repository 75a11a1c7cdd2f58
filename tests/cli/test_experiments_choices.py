"""What an experiment says of its evaluation holds in all that reads its run, where nobody says otherwise."""

import shutil

import pytest
from typer.testing import CliRunner

import fedstat as fs
from fedstat.cli import app
from fedstat.experiment import run
from fedstat.experiment.parsing import parse
from fedstat.inference import compare
from tests.support.experiments import changed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("choices")
    experiment = changed(
        seed=[0, 1, 2], rounds=6, partition__clients=3, model__widths=[4], method={"Local": {}, "FedAvg": {}},
        evaluation={"last": 2, "control": "Local", "margin": 0.02, "predictions": True},
    )  # fmt: skip
    run(parse(experiment, place), place / "out", progress=False)
    return place / "out"


def test_control_rounds_and_margin_are_those_of_the_experiment_unless_one_says_otherwise(folder, tmp_path):
    found = compare(folder)
    assert (found.control, found.scores.averaged, found.margin) == ("Local", (5, 6), 0.02)
    asked = compare(folder, control="FedAvg", last=3, margin=0.05)
    assert (asked.control, asked.scores.averaged, asked.margin) == ("FedAvg", (4, 5, 6), 0.05)
    assert compare(folder, metric="log_loss").margin is None
    assert fs.assess(folder, "accuracy").control == "Local"
    assert fs.assess(folder, "accuracy", control="FedAvg").control == "FedAvg"
    other = shutil.copytree(folder, tmp_path / "other")  # the experiment is not known where the run alone is
    (other / "experiment.toml").unlink()
    bare = compare(other)
    assert (bare.control, len(bare.scores.averaged), bare.margin) == ("FedAvg", 6, None)
    assert fs.assess(other, "accuracy").control == "FedAvg"


def test_a_metric_that_follows_from_predictions_names_the_command_that_has_it(folder):
    for command in (["compare"], ["report", "--out", str(folder.parent / "a.pdf")]):
        done = CliRunner().invoke(app, [*command, str(folder), "--metric", "brier"])
        assert done.exit_code == 1
        words = " ".join(done.output.split())
        assert f"the run keeps: `fedstat assess {folder} --metric brier`." in words
    done = CliRunner().invoke(app, ["assess", str(folder), "--metric", "brier"])
    assert done.exit_code == 0, done.output
    assert "follows from" not in CliRunner().invoke(app, ["compare", str(folder), "--metric", "nope"]).output
