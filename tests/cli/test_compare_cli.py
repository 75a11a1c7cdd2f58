"""``fedstat compare`` from anybody's files."""

import html
import re
import shlex

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


@pytest.mark.parametrize("word", ["acc", "Test Accuracy (%)"])
def test_an_error_says_which_options_to_add_and_they_work(theirs, word):
    theirs.write_text(theirs.read_text().replace("acc", word))
    refused = compare(theirs)
    assert refused.exit_code == 1
    proposed = shlex.split(re.search(r"Did you mean (--.*)\?", " ".join(refused.output.split()))[1])
    assert proposed == [word if option == "acc" else option for option in NAMED]
    assert "Traceback" not in refused.output
    done = compare(theirs, *proposed)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(theirs).set_axis(["method", "seed", "client", "accuracy"], axis=1)
    assert fs.compare(table).conclusions[0] in " ".join(done.output.split())


def test_intervals_for_skewed_runs_need_eight_seeds(theirs):
    refused = compare(theirs, *NAMED, "--skewed")
    assert refused.exit_code == 1
    assert "--skewed needs at least 8 seeds, got 4" in " ".join(refused.output.split())
    rows = pd.read_csv(theirs)
    pd.concat([rows, rows.assign(run=rows["run"] + 4, acc=rows["acc"] + 0.01)]).to_csv(theirs, index=False)
    done = compare(theirs, *NAMED, "--skewed")
    assert done.exit_code == 0, done.output
    assert "bootstrap-t" in done.output


def test_formats_pairs_and_pictures(theirs, tmp_path):
    assert r"\toprule" in compare(theirs, *NAMED, "--format", "latex").output
    both = " ".join(compare(theirs, *NAMED, "--control", "Local", "--control", "FedAvg").output.split())
    assert "better than both Local and FedAvg" in both
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
        (("--control", "Local", "--control", "Local"), "--control must name different methods, got"),
        (("--control", "Scaffold"), "--control must be one of FedAvg, Ditto, Local, or left out for --all-pairs"),
        (("--format", "pdf"), "--format must be one of text, markdown, latex, csv, got 'pdf'"),
        (("--estimand", "global", "--estimand", "personal"), "--estimand names several models"),
        (("--level", "95"), "level"),
        (("--margin", "1"), "margin must be below 1 for accuracy, whose values are shares, got 1"),
        (("--out", "table.docx"), "--out must end in .md, .tex, .csv or .txt, got table.docx"),
        (("--out", "table.csv", "--format", "latex"), "--out table.csv and --format latex contradict each other"),
        (("--plot", "forest.docx"), "--plot must end in .pdf, .svg or .png, got forest.docx"),
    ],
)
def test_bad_options_are_named(theirs, arguments, message):
    refused = compare(theirs, *NAMED, *arguments)
    assert refused.exit_code == 1
    assert message in " ".join(refused.output.split())
    assert "Traceback" not in refused.output


def test_percent_is_said_and_can_be_told_where_it_is_unclear(theirs, tmp_path):
    table = pd.read_csv(theirs)
    theirs_own = table.columns
    for names in (theirs_own, ["method", "seed", "client", "accuracy"]):
        percent = table.assign(acc=100 * table["acc"]).set_axis(names, axis=1)
        percent.to_csv(tmp_path / "percent.csv", index=False)
        said = " ".join(compare(tmp_path / "percent.csv", *NAMED * (names is theirs_own)).output.split())
        assert "percent and divided by 100" in said
    table["acc"] = (100 * table["acc"]).where(table.index > 0, 0.5)
    table.to_csv(tmp_path / "unclear.csv", index=False)
    refused = compare(tmp_path / "unclear.csv", *NAMED)
    proposed = "--value NAME --metric 'accuracy %'"
    assert f"write {proposed} if" in " ".join(refused.output.split())
    done = compare(tmp_path / "unclear.csv", *NAMED[:-1], "accuracy %")
    assert done.exit_code == 0, done.output


def test_what_is_missing_is_said_first_and_a_note_on_many_files_is_said_once(theirs, tmp_path):
    table = pd.read_csv(theirs).set_axis(["method", "seed", "client", "accuracy"], axis=1)
    table.loc[0, "accuracy"] = np.nan
    table.to_csv(tmp_path / "gap.csv", index=False)
    gap = " ".join(compare(tmp_path / "gap.csv").output.split())
    assert gap.startswith("Nothing is compared with FedAvg, of which values are missing. Measure them, or leave")
    gap = " ".join(compare(tmp_path / "gap.csv", "--control", "Local").output.split())
    assert "FedAvg is not compared: values are missing." in gap
    files = []
    for seed, own in table[table["method"] != "FedAvg"].groupby("seed"):
        own.to_csv(file := tmp_path / f"{seed}.csv", index=False)
        files.append(file)
    done = " ".join(compare(*files, "--control", "Local").output.split())
    assert done.count("no column round") == 1
    assert "0.csv to " in done
    assert "3.csv (4 results): no column round" in done


def test_a_report_takes_the_options_of_a_comparison(theirs, tmp_path):
    def report(*arguments):
        return CliRunner().invoke(app, ["report", str(theirs), "--out", str(tmp_path / "r.html"), *arguments])

    assert re.search(r"Did you mean (--.*)\?", " ".join(report().output.split()))[1].split() == list(NAMED)
    asked = (
        "--control",
        "Local",
        "--control",
        "FedAvg",
        "--margin",
        "0.02",
        "--level",
        "0.9",
        "--separate",
        "--last",
        "5",
        "--estimand",
        "FedAvg=not named",
    )
    done = report(*NAMED, *asked)
    assert done.exit_code == 0, done.output
    compared = compare(theirs, *NAMED, *asked, "--out", tmp_path / "table.csv")
    assert done.output.splitlines()[:-1] == compared.output.splitlines()[:-1]
    # the report ends with the command that makes it again
    page = re.sub(r"<[^>]*>|\u200b", "", (tmp_path / "r.html").read_text())
    again = re.search(r"fedstat report (.*?--separate)", html.unescape(page))[1].replace("\n", " ")
    assert sorted(shlex.split(again)[3:]) == sorted([*NAMED, *asked])
    before = (tmp_path / "r.html").read_bytes()
    assert CliRunner().invoke(app, ["report", *shlex.split(again)]).exit_code == 0
    assert (tmp_path / "r.html").read_bytes() == before
    assert "exclude each other" in report(*NAMED, "--control", "FedAvg", "--all-pairs").output
    both = CliRunner().invoke(app, ["report", str(theirs), str(theirs), "--out", str(tmp_path / "r.html"), *NAMED])
    assert "one place twice" in both.output


@pytest.fixture
def runs(tmp_path):
    """Write a table of runs that has no clients, under names of its own."""

    def written(**columns):
        rows = [(s, m) for m in ("FedAvg", "Mine", "Other") for s in range(6)]
        table = pd.DataFrame(rows, columns=["seed", "method"])
        base = 0.7 + 0.03 * (table["method"] == "Mine") + np.random.default_rng(0).normal(0, 0.01, len(table))
        for name, of in columns.items():
            table[name] = of(base)
        table.to_csv(tmp_path / "runs.csv", index=False)
        return tmp_path / "runs.csv"

    return written


@pytest.mark.parametrize("option", [("--runs", 3), ("--spread", "sd")])
def test_a_file_of_runs_is_no_table_of_a_paper(runs, option):
    file = runs(accuracy=lambda base: base)
    refused = compare(file, *option)
    assert refused.exit_code == 1
    assert "it holds runs, by column 'seed', and no means: compare it without --spread and" in " ".join(
        refused.output.split()
    )
    assert compare(file).exit_code == 0
    with pytest.raises(ValueError, match="'seeds' holds no scores"):
        fs.read_printed("| Method | acc | seeds |\n|---|---|---|\n| A | 0.7 | 3 |", runs=3)


@pytest.mark.parametrize("method", ["FedAvg", "Other"])
def test_an_empty_cell_of_a_run_without_clients_is_an_absent_run(runs, method):
    file = runs(accuracy=lambda base: base.round(4))
    table = pd.read_csv(file)
    gone = (table["method"] == method) & (table["seed"] == 1)
    table[~gone].to_csv(file, index=False)
    without = compare(file).output
    table.assign(accuracy=table["accuracy"].mask(gone)).to_csv(file, index=False)
    assert compare(file).output == without
    assert f"1 of 6 runs of {method} (seed 1) is absent or has no value: a pair is compared on" in without


def test_smaller_says_that_less_is_better_of_any_metric(runs):
    wer = compare(runs(WER=lambda base: base), "--value", "WER", "--metric", "WER").output
    assert re.match(r"Mine \(by .*\) is worse than FedAvg", wer)
    named = ("--value", "TER", "--metric", "TER")
    file = runs(TER=lambda base: base)
    assert "is above FedAvg" in compare(file, *named).output
    assert compare(file, *named, "--smaller").output == wer.replace("WER", "TER")
    file = runs(accuracy=lambda base: base)
    assert "is better than FedAvg" in compare(file).output
    assert "is worse than FedAvg" in compare(file, "--smaller").output
    assert fs.compare(str(file), smaller=True).to_latex().count(r"\textbf") == 1


@pytest.mark.parametrize("name", ["F1 %", "F1 (%)", "F1%"])
def test_percent_in_a_name_is_told_and_shares_are_not_divided_again(runs, name):
    named = ("--value", name, "--metric", name)
    plain = compare(runs(F1=lambda base: base), "--value", "F1", "--metric", "F1").output.split("note:")[0]
    file = runs(**{name: lambda base: 100 * base})
    divided = compare(file, *named).output
    assert divided.split("note:")[0] == plain
    assert f"column '{name}' is divided by 100, being in percent" in " ".join(divided.split())
    shares = compare(runs(**{name: lambda base: base}), *named).output
    assert shares.split("note:")[0] == plain
    assert f"column '{name}' lies in [0, 1] and is read as shares, not in percent" in " ".join(shares.split())


def test_a_table_for_a_paper_has_no_notes_on_the_columns_of_a_file(runs, tmp_path):
    file = runs(accuracy=lambda base: 100 * base, n=lambda base: 10)
    done = compare(file, "--out", tmp_path / "x.tex")
    assert done.exit_code == 0, done.output
    told = compare(file).output
    assert "no column round" in told
    assert "columns not read: n" in told
    written = (tmp_path / "x.tex").read_text()
    assert "column" not in written
    assert "divided by 100" in written


def test_repeated_rows_name_the_column_that_tells_them_apart(runs):
    file = runs(accuracy=lambda base: base, n=lambda base: 10)
    table = pd.read_csv(file)
    pd.concat([table.assign(dataset="A"), table.assign(dataset="B")]).to_csv(file, index=False)
    said = " ".join(compare(file).output.split())
    assert "18 of 36 rows repeat" in said
    assert "; if dataset names the clients, say --client dataset, else keep one value of dataset, and" in said
    pd.concat([table, table.iloc[[7]]]).to_csv(file, index=False)
    said = " ".join(compare(file).output.split())
    method, seed = table.iloc[7][["method", "seed"]]
    assert f"line 20, seed {seed}, method {method}); leave repeated rows out, and" in said
