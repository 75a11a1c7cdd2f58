"""``fedstat assess``: tables, files and pictures from a file, and errors without tracebacks."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedstat.cli import app


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    outcome = rng.integers(0, 2, 80)
    rows = [
        pd.DataFrame(
            {
                "method": method, "client": np.arange(80) % 2, "name": np.where(np.arange(80) % 2, "Graz", "Lyon"),
                "outcome": outcome,
                "probability": (0.5 + gain * (outcome - 0.5) + 0.2 * rng.normal(size=80)).clip(0.01, 0.99),
            }
        )
        for method, gain in {"FedAvg": 0.5, "Local": 0.1}.items()
    ]  # fmt: skip
    pd.concat(rows).to_csv(tmp_path / "p.csv", index=False)
    return tmp_path / "p.csv"


def run(*arguments):
    return CliRunner().invoke(app, ["assess", *map(str, arguments)])


def test_prints_conclusions_and_hospitals(file):
    done = run(file, "--metric", "auc", "--control", "Local", "--level", "0.9")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("auc over all patients (Local")
    assert "Graz" in done.output
    assert "90% limits" in done.output


def test_writes_a_file_or_a_folder_with_pictures(file, tmp_path):
    assert run(file, "--metric", "brier", "--out", tmp_path / "a.csv").exit_code == 0
    assert set(pd.read_csv(tmp_path / "a.csv")["table"]) == {"pooled", "clients", "differences"}
    done = run(file, "--metric", "auc", "--threshold", 0.4, "--by-clients", "--out", tmp_path / "folder")
    assert done.exit_code == 0, done.output
    names = {"assessment.csv", "assessment.md", "calibration.pdf", "roc.pdf", "decision.pdf"}
    assert {path.name for path in (tmp_path / "folder").iterdir()} - {f".{n}.lock" for n in names} == names


def test_more_methods_than_a_picture_holds_have_tables(file, tmp_path):
    one = pd.read_csv(file).query("method == 'Local'")
    pd.concat([one.assign(method=f"M{k}") for k in range(7)]).to_csv(file, index=False)
    done = run(file, "--metric", "auc", "--out", tmp_path / "folder")
    assert done.exit_code == 0, done.output
    assert "roc.pdf is not drawn: a picture holds 6 methods at most" in done.output
    assert {path.name for path in (tmp_path / "folder").iterdir()} == {"assessment.csv", "assessment.md"}


def test_where_nobody_has_the_event_there_are_tables_and_no_pictures(file, tmp_path):
    pd.read_csv(file).assign(outcome=0).to_csv(file, index=False)
    done = run(file, "--out", tmp_path / "folder")
    assert done.exit_code == 0, done.output
    told = "is not drawn: a picture needs patients with and without the event, got 0 events of 80."
    assert done.output.count(told) == 3
    assert {path.name for path in (tmp_path / "folder").iterdir()} == {"assessment.csv", "assessment.md"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--metric", "nope"], "--metric must be among auc"), (["--control", "X"], "--control must be one of"),
        (["--level", "95"], "--level must be a number in (0, 1)"), (["--out", "a.docx"], "--out must end in .csv"),
    ],
)  # fmt: skip
def test_errors_name_the_option(file, options, words):
    done = run(file, *options)
    assert done.exit_code == 1
    assert words in done.output


def test_an_event_with_a_space_is_named_in_quotes(file):
    rows = pd.read_csv(file)
    expected = run(file)
    rows.assign(outcome=np.where(rows["outcome"] == 1, "is ill", "well")).to_csv(file, index=False)
    for command in ("assess", "compare"):
        done = CliRunner().invoke(app, [command, str(file)])
        assert done.exit_code == 1
        assert "`fedstat assess` takes --event 'is ill' or --event well." in done.stderr
    done = run(file, "--event", "is ill")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[:8] == expected.stdout.splitlines()[:8]


def test_a_column_of_hospitals_by_another_name_is_to_be_called_client(file):
    rows = pd.read_csv(file)
    rows.assign(sample=rows.groupby(["method", "client"]).cumcount()).rename(columns={"client": "hospital"}).to_csv(
        file
    )
    told = run(file).stderr
    assert "one patient twice: method FedAvg, seed 0, client all, sample 0. There is no column client: rename " in told
