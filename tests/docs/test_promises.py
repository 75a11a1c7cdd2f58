"""A method is a file, a claim a file and its entry in the ledger, a study a folder: in a copy, none turns a test red.

The method is that of the contributing page; a refuted claim with its correction, and the study, are those of the pages
on one's own. So these pages name all that is needed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# one worker makes the copy, for all tests
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("promises")]

ROOT = Path(__file__).parents[2]
FOLDERS = (".ci", "benchmarks", "docs", "fedstat", "reports", "simulations", "tests", "theory_checks")

TRUE_CLAIM = '''
"""FS-99: the first odd numbers add up to a square."""

from fedstat.claims import Claim, enumeration

FS99 = Claim(
    id="FS-99", place="folklore", said_by="paper", severity="false", sensitivity="any difference",
    words="For n up to 29 the first n odd numbers add up to the square of n.", statement="1 + ... + (2 n - 1) = n^2",
)


def squares(first):
    return enumeration(range(1, 30), lambda n: sum(range(first, first + 2 * n, 2)) == n * n, of="numbers of terms")


@FS99.reading("as printed")
def as_printed():
    return squares(1)


@FS99.mutant("even numbers")
def even():
    return squares(2)
'''

CELLS = re.DOTALL | re.MULTILINE
#: Where tests speak of all methods, claims and studies: cards, bench, ledger, catalogue, pages, chains, Flower.
WHERE_ALL_MEET = (
    "tests/docs", "tests/reports", "tests/testing", "theory_checks", "tests/simulations/test_bench.py",
    "tests/simulations/test_catalogue.py", "tests/federated/test_arguments.py",
    "tests/federated/engine/test_dense_chain.py", "tests/federated/engine/test_layer_chain.py",
    "tests/export/test_flower_export.py",
)  # fmt: skip
#: A plugin that selects tests: those of the new method, claims and study, and in the files where all meet those that
#: are not parametrised, the quick ones. So the tests are collected once.
CHOSEN = f"""
import re

NEW = re.compile(r"FedRidge|fedridge|FS-99|EX-01|crowd|\\[fedstat\\.methods\\]")


def chosen(item):
    said_of_all = "[" not in item.name and not item.get_closest_marker("slow")
    return NEW.search(item.name) or (said_of_all and item.nodeid.startswith({WHERE_ALL_MEET}))


def pytest_collection_modifyitems(items):
    items[:] = filter(chosen, items)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return a function that runs Python in a copy of the repository with a method, claims and a study more."""
    copy = tmp_path_factory.mktemp("grown")
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    for folder in FOLDERS:
        # what is compiled remains so; files that another worker writes bear its number at the end
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("*.pyc.*"))
    (copy / "chosen.py").write_text(CHOSEN)

    (method,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    (copy / "fedstat" / "methods" / "fedridge.py").write_text(method)
    (copy / "theory_checks" / "fedsplit" / "fs99_odd_numbers.py").write_text(TRUE_CLAIM.lstrip())
    ((_, claims),) = written("claim")
    (copy / "theory_checks" / "classics" / "ex01_averages.py").write_text(claims)
    (copy / "simulations" / "crowd").mkdir()
    for name, text in written("study"):
        (copy / name).write_text(text)

    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
        return done.stdout

    run("-m", "theory_checks", "--update", "FS-99", "EX-01", "EX-01c")
    return run


def written(page):
    """Return the files that a page on one's own writes, by name."""
    text = (ROOT / "docs" / "own" / f"{page}.md").read_text()
    return re.findall(r"^%%writefile (\S+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_what_is_said_of_all_and_what_holds_for_each_holds_with_them(python):
    tried = python("-m", "pytest", "-n0", "-m", "", "-vv", "-p", "chosen", "tests", "theory_checks")
    for some in ("laws[many-FedRidge]", "ledger[FS-99]", "ledger[EX-01]", "missing[crowd]"):
        assert f"{some} PASSED" in tried
    for some in ("test_some_are_measured_anew", "test_a_broken_method_is_caught_with_a_small_population"):
        assert f"{some} PASSED" in tried


def test_the_report_has_them(python):
    python("-m", "reports", "--scale", "smoke", "--only", "claims", "crowd", "--out", "out")
    pages = "pathlib.Path('out/smoke/supplement').glob('*.html')"
    words = " ".join(python("-c", f"import pathlib; print(*(page.read_text() for page in {pages}))").split())
    for said in ("EX-01", "FS-99", "Every seed’s accuracy by number of clients"):
        assert said in words
    assert re.search(r"Not measured yet: [^.<]*\bFedRidge\b", words)


def test_the_page_for_choosing_a_method_says_what_is_not_known(python):
    pytest.importorskip("IPython")  # which comes with the tools that make the site
    code = re.findall(r"^```{code-cell} python\n(.*?)^```", (ROOT / "docs" / "which-method.md").read_text(), CELLS)
    said = python("-c", "\n".join(re.sub(r"^:.*\n", "", cell, flags=re.MULTILINE) for cell in code))
    assert "FedRidge: has no arm yet" in said
    assert re.search(r"^FedRidge +not measured", said, re.MULTILINE)


def test_the_site_has_a_page_for_each(python):
    code = """
import sys
from pathlib import Path

sys.path.insert(0, "docs/_ext")
import api_pages, gallery_pages, trial_pages

assert "methods.FedRidge.rst" in api_pages.pages()
assert {"EX-01.md", "EX-01c.md", "FS-99.md"} <= trial_pages.pages().keys()
print(gallery_pages._page("crowd", Path("pictures")))
"""
    assert "No tables of it are committed yet." in python("-c", code)
