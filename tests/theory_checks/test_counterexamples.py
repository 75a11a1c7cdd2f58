"""Every counterexample shows a claim's failure by itself: one file of plain Python, run where nothing is installed."""

import ast
import re
import subprocess
import sys

import pytest

from fedstat.claims import read_claims, read_ledger
from theory_checks import FOLDER, LEDGER

FILES = [file for file in sorted((FOLDER / "counterexamples").glob("*.py")) if file.name != "__init__.py"]
FALLEN = {"refuted", "needs-a-condition", "holds-in-a-reading", "ambiguous"}

pytestmark = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@pytest.fixture(scope="module")
def claims():
    return {claim.file.stem: name for name, claim in read_claims(FOLDER).items() if not name.endswith("c")}


def run(program, folder, *arguments):
    command = [sys.executable, "-I", *arguments, str(program)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_it_shows_the_failure_in_fractions(file, tmp_path):
    done = run(file, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert 1 <= len(done.stdout.splitlines()) <= 2
    assert re.search(r"\b\d+/\d+\b", done.stdout)
    assert not list(tmp_path.iterdir())


def test_it_needs_python_alone(file):
    modules = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a neighbour"
            modules.add(node.module.partition(".")[0])
    assert modules <= sys.stdlib_module_names


def test_it_is_about_a_claim_that_does_not_stand(file, claims):
    assert file.stem in claims
    name = claims[file.stem]
    assert read_ledger(LEDGER)[name]["verdict"] in FALLEN
    assert ast.get_docstring(ast.parse(file.read_bytes())).startswith(f"{name}: ")


def test_importing_it_does_nothing(file, tmp_path):
    (tmp_path / "program.py").write_text(f"import runpy; runpy.run_path({str(file)!r}, run_name='imported')")
    done = run(tmp_path / "program.py", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
