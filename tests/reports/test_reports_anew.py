"""Whatever becomes of a fresh run, the report is written, and says what failed."""

import os
import sys
from functools import partial

import pymupdf
import pytest

from fedstat._workers import kept_workers, run_jobs
from reports import __main__ as program
from reports import anew, content
from reports.choices import QUICK, RANKING
from simulations import NAMES, studies
from simulations.studies import study
from theory_checks import COMMITTED

pytestmark = pytest.mark.slow


def test_what_is_run_anew_needs_no_data_and_has_committed_tables():
    assert set(QUICK) <= set(NAMES)
    assert not any(study(name).ABOUT.data for name in QUICK)
    assert all((COMMITTED / name).is_dir() for name in (*QUICK, *RANKING) if "-" not in name)
    assert anew.chosen("quick", []) == [name for name in studies.in_order() if name in QUICK]
    assert {name for name in RANKING if "-" not in name} <= set(NAMES)


def report(monkeypatch, capsys, out, *more):
    """Write the supplement of two chapters at smoke scale in this process; return exit status, output and pages."""
    arguments = ["reports", "--scale", "smoke", "--out", str(out), "--supplement", "pdf", *more]
    arguments += ["--only", "complexity", "strongly_convex"]
    monkeypatch.setattr(sys, "argv", arguments)
    with kept_workers():
        code = program.main()
    said = capsys.readouterr()
    with pymupdf.open(out / "smoke" / "supplement.pdf") as document:
        pages = " ".join(" ".join(page.get_text().split()) for page in document)
    return code, said, pages


def fail(*_, **__):
    raise KeyError("no such column")


def test_a_study_that_fails_loses_no_chapter(tmp_path, monkeypatch, capsys):
    command = f"python -m simulations complexity --scale smoke --out {tmp_path}"
    code, said, whole = report(monkeypatch, capsys, tmp_path)
    assert code == 0
    assert said.out.rstrip().splitlines()[-1].startswith(str(tmp_path / "smoke" / "supplement.pdf"))
    assert "Worth reading first" in said.out
    assert "study 2 of 2" in said.err
    assert "failed" not in whole

    with monkeypatch.context() as patch:  # the study itself
        patch.setattr(study("complexity"), "run", fail)
        code, said, pages = report(patch, capsys, tmp_path)
    assert code == 1
    assert f"- complexity: KeyError 'no such column' ({command})" in said.err.splitlines()
    assert "The fresh run failed: KeyError 'no such column'" in pages
    assert not (tmp_path / "smoke" / "complexity").exists()
    for title in (study(name).ABOUT.title for name in ("complexity", "strongly_convex")):
        assert title in pages

    code, said, pages = report(monkeypatch, capsys, tmp_path, "html")  # what ran is kept
    assert code == 0
    names = {page.stem for page in (tmp_path / "smoke" / "supplement").iterdir()}
    assert names == {"index", "findings", "complexity", "strongly_convex", "second-look"}

    with monkeypatch.context() as patch:  # its findings, of the fresh tables alone
        told = content.tell
        patch.setattr(
            content, "tell", lambda name, folder: (fail if tmp_path in folder.parents else told)(name, folder)
        )
        code, said, pages = report(patch, capsys, tmp_path)
    assert code == 1
    assert said.err.count("KeyError 'no such column'") == 2
    assert "The fresh run failed" in pages

    with monkeypatch.context() as patch:  # a chapter that cannot be drawn at all
        patch.setattr(
            content, "draw", lambda name, *rest: (fail if name == "complexity" else studies.draw)(name, *rest)
        )
        code, said, pages = report(patch, capsys, tmp_path)
    assert code == 1
    assert "the chapter of complexity is left out: KeyError 'no such column'" in said.err
    assert study("strongly_convex").ABOUT.title in pages


def kill():
    os._exit(9)


def test_workers_are_there_after_a_failure():
    with kept_workers():
        with pytest.raises(ChildProcessError, match="killed"):
            run_jobs("killed", [kill] * 2)
        with pytest.raises(KeyError):
            run_jobs("failing", [fail] * 2)
        assert run_jobs("later", [partial(pow, 2, 3)]) == [8]
