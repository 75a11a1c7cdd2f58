"""Studies, report and command line, end to end."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedstat as fs
from fedstat._tables import read_tables
from fedstat._warnings import plain_warnings
from fedstat._workers import run_jobs
from fedstat.cli import app
from fedstat.inference import interval
from fedstat.report import typeset
from simulations import NAMES, parts
from simulations.contract import Finding, second_look
from simulations.parts import SECOND_LOOK, Part, run_parts
from simulations.showing import fixed, rounded
from simulations.source import fingerprint
from simulations.studies import draw, effects, evidence, handed_over, study, tell
from simulations.tables import read_config, write_tables
from theory_checks import COMMITTED
from theory_checks import __main__ as theory_checks

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Scale:
    size: int = 3


def count_to_three():
    return {"numbers": pd.DataFrame({"n": [1, 2, 3]})}


def leave_a_trace():
    with Path(os.environ["FEDSTAT_TEST_TRACE"]).open("a") as trace:
        trace.write("x")
    return count_to_three()


def fall_over():
    raise RuntimeError("half way")


@pytest.mark.slow
def test_finished_parts_are_read_and_failed_ones_leave_nothing(tmp_path, monkeypatch):
    trace = tmp_path / "trace"
    monkeypatch.setenv("FEDSTAT_TEST_TRACE", str(trace))
    good, bad = Part("good", Scale(), leave_a_trace), Part("bad", Scale(), fall_over)
    run_parts([good], tmp_path / "out", "first")
    with pytest.raises(RuntimeError, match="half way"):
        run_parts([good, bad], tmp_path / "out", "second")
    assert [p.name.split("-")[0] for p in (tmp_path / "out" / "cache").iterdir()] == ["good"]
    tables = run_parts([good, Part("bad", Scale(), count_to_three)], tmp_path / "out", "third")
    assert tables["numbers"]["n"].tolist() == [1, 2, 3, 1, 2, 3]
    assert trace.read_text() == "x"  # computed once


DAMAGE = {
    "flipped": lambda folder: flip(folder / "numbers.parquet", 10),
    "cut": lambda folder: (folder / "numbers.parquet").write_bytes(b""),
    "missing": lambda folder: (folder / "numbers.parquet").unlink(),
    "extra": lambda folder: (folder / "more.parquet").write_bytes((folder / "numbers.parquet").read_bytes()),
    "manifest flipped": lambda folder: flip(folder / "manifest.json", 30),
    "manifest unreadable": lambda folder: flip(folder / "manifest.json", 0),
    "manifest missing": lambda folder: (folder / "manifest.json").unlink(),
}


def flip(file, place):
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.slow
def test_a_damaged_part_is_computed_again_and_said(tmp_path, capsys, monkeypatch):
    trace, out = tmp_path / "trace", tmp_path / "out"
    monkeypatch.setenv("FEDSTAT_TEST_TRACE", str(trace))
    parts = {name: Part(name, Scale(), leave_a_trace) for name in [*DAMAGE, "whole"]}
    before = run_parts(list(parts.values()), out, "first")["numbers"]
    assert trace.read_text() == "x" * len(parts)
    for name, damage in DAMAGE.items():
        damage(parts[name].folder(out))
    capsys.readouterr()
    for _ in range(2):
        pd.testing.assert_frame_equal(run_parts(list(parts.values()), out, "again")["numbers"], before)
    assert trace.read_text() == "x" * (len(parts) + len(DAMAGE))
    for said, name in zip(capsys.readouterr().err.splitlines(), DAMAGE, strict=True):
        assert str(parts[name].folder(out)) in said
        assert said.endswith(f"; {name} is computed again")


def test_any_flipped_byte_of_a_part_is_found_or_harmless(tmp_path):
    part = Part("good", Scale(), count_to_three)
    parts._store(part.compute(), part.folder(tmp_path))
    before = count_to_three()["numbers"]
    for file in part.folder(tmp_path).iterdir():
        content = file.read_bytes()
        for place in range(0, len(content), 23):
            flip(file, place)
            with suppress(ValueError, OSError):
                pd.testing.assert_frame_equal(parts._read(part.folder(tmp_path))["numbers"], before)
                assert file.name == "manifest.json"
            file.write_bytes(content)


def test_damaged_tables_of_a_study_are_named_and_what_it_did_not_write_is_not_read(tmp_path):
    write_tables(tmp_path, count_to_three(), {"scale": "smoke"})
    (tmp_path / "older.csv").write_text("n\n4\n")
    assert read_tables(tmp_path).keys() == {"numbers"}
    assert read_config(tmp_path)["scale"] == "smoke"
    for name, read in (("numbers.csv", read_tables), ("config.json", read_config)):
        flip(tmp_path / name, 3)
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            read(tmp_path)


def test_another_configuration_is_another_part():
    assert Part("a", Scale(3), fall_over).folder(ROOT) != Part("a", Scale(4), fall_over).folder(ROOT)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a function that edits a file in a copy of our code, and says whether a study's code is another then."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("fedstat", "simulations"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    packages = {name: copy / name for name in ("fedstat", "simulations")}

    def code_of(study):
        return fingerprint(f"simulations.{study}.study", copy / "simulations" / study / "study.py", packages)

    def differs(study, file, edit):
        before, path = code_of(study), copy / file
        content = path.read_text()
        path.write_text(edit(content))
        try:
            return code_of(study) != before
        finally:
            path.write_text(content)

    return differs


def more_code(text):
    return text + "\nMORE = 1\n"


@pytest.mark.parametrize(
    ("study", "file"),
    [
        ("wide", "simulations/wide/study.py"),
        ("wide", "simulations/parts.py"),
        ("wide", "fedstat/ntk/gram.py"),  # by `from fedstat.ntk import`
        ("wide", "fedstat/federated/engine/training.py"),  # by `fs.federate`
        ("wide", "fedstat/methods/fedsplit.py"),  # by `fs.FedSplit`
        ("wide", "fedstat/methods/units.py"),  # by fedsplit.py
        ("bench", "fedstat/methods/pfedgate.py"),  # by `methods.PFedGate`
        ("bench", "fedstat/data/datasets/digits.py"),
        ("agreement", "simulations/split/study.py"),
    ],
)
def test_a_change_of_what_a_study_imports_is_another_part(checkout, study, file):
    assert checkout(study, file, more_code)


@pytest.mark.parametrize(
    ("study", "file"),
    [
        ("wide", "simulations/split/study.py"),
        ("wide", "simulations/wide/numbers.py"),
        ("wide", "simulations/wide/chapter.typ"),
        ("wide", "simulations/__main__.py"),
        ("wide", "fedstat/methods/ditto.py"),
        ("complexity", "fedstat/federated/engine/training.py"),
        ("bench", "fedstat/cli/_run.py"),
        ("bench", "fedstat/claims/claim.py"),
        ("bench", "fedstat/experiment/run.py"),
        ("bench", "fedstat/report/document.py"),
        ("bench", "fedstat/demo/__init__.py"),
        ("bench", "fedstat/_progress.py"),
    ],
)
def test_a_change_elsewhere_is_the_same_part(checkout, study, file):
    assert not checkout(study, file, more_code)


def test_comments_docstrings_and_imports_for_type_checkers_are_no_code(checkout):
    def retold(text):
        return "# another comment\n" + re.sub(r'""".*?"""', '"""Told\nagain."""', text, flags=re.DOTALL)

    def typed(text):
        return text + "\nif TYPE_CHECKING:\n    from fedstat.methods import Ditto\n"

    for file in ("simulations/split/study.py", "fedstat/federated/engine/training.py", "fedstat/methods/fedavg.py"):
        assert not checkout("split", file, retold)
        assert not checkout("split", file, typed)
    assert checkout("split", "simulations/split/study.py", lambda text: text.replace("LAST = 10", "LAST = 9"))


def python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, **options)


def positional(value):
    """Lists that hold lists, or numbers: rows without names."""
    if isinstance(value, dict):
        return [found for item in value.values() for found in positional(item)]
    if isinstance(value, list):
        return [item for item in value if not isinstance(item, dict | str)] + positional(dict(enumerate(value)))
    return []


@pytest.mark.parametrize("name", NAMES)
def test_a_study_is_a_folder_with_study_numbers_and_chapter(name):
    folder = ROOT / "simulations" / name
    assert {"study.py", "numbers.py", "chapter.typ"} <= {file.name for file in folder.iterdir()}
    found = study(name)
    assert found.ABOUT.title
    shifts = {scale: size.shift for scale, size in found.SCALES.items()}
    assert shifts.pop("desk", 0) == 0
    assert shifts == {"smoke": SECOND_LOOK, "quick": SECOND_LOOK, "paper": 0}
    chapter = (folder / "chapter.typ").read_text()
    assert re.search(r"^#let message\(d\) =", chapter, re.MULTILINE)
    assert re.search(r"^#let chapter\(d\) =", chapter, re.MULTILINE)
    for file in (ROOT / "reports").glob("*.py"):  # found by its folder; choices.py may give it a place
        assert file.name == "choices.py" or not re.search(rf"([\"']|simulations\.){name}\b", file.read_text()), file


#: The rivals in the proof of a study, how the numbers of its paper are printed, and how many signs are compared.
PROOFS = {
    "factorized": ({"Local", "a private head"}, "Local 63.9, private head 65.3, α 67.9, β 70.6", 10),
    "fedfac": (
        {"FedPer", "a random split"},
        "dynamic minus FedPer: 2.8 to 6.8 points, dynamic minus a random split: 1.2 to 2.4 points",
        9,
    ),
}


def holds_its_method_against_the_rivals(numbers, findings, rivals, printed, signs):
    (one,) = numbers["proof"]
    assert {*one["findings"]} == {*one["names"]} <= {*findings}
    assert {words.partition(" minus ")[2] for words in one["names"].values()} == rivals
    assert one["printed"] == printed
    assert sum(record["sign"]["of"] for record in one["beside"]) == signs


@pytest.fixture(scope="module", params=[name for name in NAMES if (COMMITTED / name).is_dir()])
def told(request):
    """Give a study's name, its committed tables, and what they tell."""
    return request.param, *tell(request.param, COMMITTED / request.param)


def test_a_chapter_is_made_of_the_committed_tables(told, tmp_path):
    name, tables, numbers, findings = told
    for table in tables.values():
        # seeds of tuning lie ten thousand higher
        assert "seed" not in table or (table["seed"] % 10_000 < SECOND_LOOK).all()
    for key, table in evidence(name, tables).items():
        pd.testing.assert_frame_equal(table, tables[key])
    json.dumps(numbers, allow_nan=False)
    assert not positional({key: value for key, value in numbers.items() if key != "config"})
    assert findings
    assert all(isinstance(finding, Finding) for finding in findings.values())
    assert all(path.stat().st_size > 1000 for path in draw(name, tables, tmp_path).values())
    if name in PROOFS:
        holds_its_method_against_the_rivals(numbers, findings, *PROOFS[name])


def test_a_finding_on_a_pair_has_the_interval_of_the_table(told):
    """What a chapter says of a pair is the one interval that it has."""
    name, tables, _, findings = told
    known = effects(name, tables)
    assert bool(known) == hasattr(handed_over(name), "effects")
    sides = {(e.mean, e.low, e.high) for e in known.values()} | {(-e.mean, -e.high, -e.low) for e in known.values()}
    pairs = [f for f in findings.values() if not math.isnan(f.p)]
    minus = [f for f in findings.values() if " minus " in f.what and f.border == 0 and not math.isnan(f.low)]
    if known:
        assert {(f.mean, f.low, f.high) for f in pairs} <= sides
        others = [f.what for f in minus if (f.mean, f.low, f.high) not in sides]
        # not differences of two arms under the same seeds: other seeds, rounds up to a target, a mean of one quantity
        apart = ("tuning seeds minus fresh seeds", "rounds of FilterDecomp", "told by the other seeds")
        assert [what for what in others if not any(words in what for words in apart)] == []


@pytest.mark.parametrize(("first", "second", "outcome"), [
    ((1, 2), (3, 4), "same"), ((1, 2), (-2, -1), "reversed"), ((1, 2), (-1, 1), "lost"), ((-1, 1), (1, 2), "gained"),
])  # fmt: skip
def test_a_second_look_compares_signs(first, second, outcome):
    found, again = (Finding("x", sum(limits) / 2 + 5, *(5 + v for v in limits), border=5) for limits in (first, second))
    assert [row[2] for row in second_look({"x": found, "only here": found}, {"x": again})] == [outcome]


def test_a_table_that_lacks_a_column_is_named(tmp_path):
    for name in ("split", "wide"):
        tables, numbers, _ = tell(name, COMMITTED / name)
        key = {"split": "accuracy", "wide": "curves"}[name]
        write_tables(
            tmp_path / name, {**tables, key: tables[key].drop(columns=tables[key].columns[2])}, numbers["config"]
        )
        with pytest.raises(ValueError, match=rf"{name} lacks .*{key}\.csv holds"):
            tell(name, tmp_path / name)


@pytest.mark.parametrize(
    ("estimates", "most", "decimals"),
    [
        ([(1, 0.65, 1.35)], 3, 2),
        ([(50, 38, 62)], 2, 0),
        ([(5, 2, 8)], 2, 1),
        ([(1, 1, 1)], 2, 2),
        ([(1, 0.999, 1.001)], 1, 1),
    ],
)
def test_a_column_has_no_more_decimals_than_its_intervals_allow(estimates, most, decimals):
    (row,) = rounded([{"x": estimates[0]}], x=most)
    assert len(row["x"].partition(" ")[0].partition(".")[2]) == decimals


def test_numbers_are_rounded_once():
    assert fixed(np.float64(0.925), 2) == f"{0.925:.2f}" == interval((0.925, 0.9, 1), 2)[:4]


#: Studies that are killed on the way.
SOME = ("complexity", "aggregation")


@pytest.mark.slow
def test_a_killed_report_continues_and_ends_with_the_same_bytes(tmp_path):
    """Killed as soon as something is cached, run again; compared with a run that nobody disturbed."""
    command = ["-m", "reports", "--scale", "smoke", "--date", "2026-01-01", "--supplement", "pdf"]
    command += ["--only", *SOME, "--out"]
    killed = subprocess.Popen([sys.executable, *command, str(tmp_path / "killed")], cwd=ROOT, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "killed").rglob("*.parquet")):
        assert killed.poll() is None
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    content = {}
    for name in ("killed", "whole"):
        done = python(*command, str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        content[name] = (tmp_path / name / "smoke" / "supplement.pdf").read_bytes()
    assert content["killed"].startswith(b"%PDF")
    assert content["killed"] == content["whole"]

    study = tmp_path / "whole" / "smoke"
    for name in SOME:
        pictures = list((study / "shown" / name).glob("*.svg"))
        assert pictures
        assert all(file.stat().st_size > 1000 for file in pictures)


@pytest.mark.slow
def test_theory_checks_explain_one_claim_and_print_json(capsys):
    def told(*arguments):
        with pytest.raises(SystemExit) as ended:
            theory_checks.main([*arguments])
        return ended.value.code, *capsys.readouterr()

    code, out, _ = told("FD-01", "--json")
    assert code == 0
    assert [entry["verdict"] for entry in json.loads(out)] == ["holds"]
    _, out, _ = told("FS-02")
    assert "FS-02   ◐ holds-in-a-reading" in out
    assert "in the reading: for some client" in out
    assert "mutants      for some client, as the next paragraph uses it: refuted: the right side a tenth larger" in out
    assert "control      a single client: stands, as it must" in out
    assert "goes wrong   No sample belongs to every client" in out
    assert "corrected    FS-02c: " in out
    code, _, error = told("FS-99")
    assert code == 1
    assert "has no claim FS-99" in error


@pytest.mark.slow
def test_demo_prints_a_table_and_writes_two_pages(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo"), "--seeds", "2"])
    assert done.exit_code == 0, done.output
    assert "differences to FedAvg, paired on seeds, simultaneous 95% intervals" in " ".join(done.output.split())
    pages = re.findall(rb"/Type ?/Page\b", (tmp_path / "demo" / "demo.pdf").read_bytes())
    assert len(pages) == 2
    table = pd.read_csv(tmp_path / "demo" / "comparison.csv")
    assert list(table["method"])[:2] == ["FedAvg", "Local"]
    assert set(fs.load(tmp_path / "demo" / "run").config["methods"]) == set(table["method"])


@pytest.mark.slow
def test_command_line_errors_have_no_traceback(tmp_path):
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file"), "--seeds", "2"])
    assert done.exit_code == 1
    assert "error:" in done.output
    assert "Traceback" not in done.output
    assert "five ways" in CliRunner().invoke(app, ["demo", "--help"]).output
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--seeds", "2"])
    assert done.exit_code == 1
    assert "holds something else than a demo; choose another folder with --out" in " ".join(done.output.split())


def test_the_statistics_wing_and_the_package_import_without_torch():
    for module in ("fedstat", *(f"fedstat.{name}" for name in ("factor", "ntk", "theory", "inference", "claims"))):
        done = python("-c", f"import sys, {module}; sys.exit('torch' in sys.modules)")
        assert done.returncode == 0, f"{module}: {done.stderr}"


def test_data_reach_the_page_as_text_never_as_markup(tmp_path):
    template = tmp_path / "t.typ"
    template.write_text('#import "style.typ": *\n#let data = json("data.json")\n#data.name\n')
    hostile = {"name": '#panic("no") $x$ @y _z_ */'}
    pdfs = []
    for name in ("a.pdf", "b.pdf"):
        typeset(template, hostile, {}, tmp_path / name, day=date(2026, 1, 2))
        pdfs.append((tmp_path / name).read_bytes())
    assert pdfs[0] == pdfs[1]


def warn_and_say_who():
    for k in range(3):
        warnings.warn(f"the same for all\n{k // 2}", UserWarning, stacklevel=1)
    return os.getpid()


def threads_of_torch():
    import torch

    return torch.get_num_threads()


@pytest.mark.slow
def test_jobs_return_in_order_and_their_warnings_are_shown_once_in_one_line(capsys):
    with plain_warnings():
        who = run_jobs("jobs", [warn_and_say_who] * 4)
        assert run_jobs("jobs", [partial(pow, k, 2) for k in range(5)]) == [0, 1, 4, 9, 16]
    assert os.getpid() not in who
    assert sorted(capsys.readouterr().err.splitlines()) == [f"warning: the same for all {k}" for k in (0, 1)]
    assert run_jobs("few", [os.getpid], few=2) == [os.getpid()]


@pytest.mark.slow
@pytest.mark.parametrize("given", [None, "2"])
def test_workers_have_one_thread_whenever_torch_is_loaded(given, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert run_jobs("threads", [threads_of_torch] * 2) == [1, 1]
