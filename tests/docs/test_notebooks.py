"""The notebooks hold what their code shows: outputs are stored, belong to this code, and come out again."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("nbclient")
FILE = Path(__file__).parents[2] / "docs" / "_ext" / "run_notebooks.py"
SPEC = importlib.util.spec_from_file_location("run_notebooks", FILE)
notebooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(notebooks)
books = pytest.mark.parametrize("path", notebooks.BOOKS, ids=[path.stem for path in notebooks.BOOKS])


def words(out):
    data = out.get("data", {})
    return out.get("text") or data.get("text/html") or data.get("text/plain", "")


def shown(book):
    """Return what each cell shows as text, digits left out."""
    texts = ("".join(map(words, cell.outputs)) for cell in notebooks.code(book))
    return [" ".join(re.sub(r"-?\d+(\.\d+)?", "#", text.replace("−", "-")).split()) for text in texts]


@books
def test_notebooks_hold_what_their_code_shows(path):
    book = notebooks.read(path)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert book.metadata.kernelspec.name == "python3"
    assert len({cell.id for cell in book.cells}) == len(book.cells)
    assert book.cells[0].cell_type == "markdown"
    assert book.cells[0].source.startswith("# ")
    assert book.metadata.made_by == notebooks.digest(book), "code was changed: python docs/_ext/run_notebooks.py"
    cells = notebooks.code(book)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(shown(book))
    assert path.stat().st_size < 300_000


@books
def test_notebooks_name_no_machine(path):
    text = path.read_text()
    assert not re.search(r"/tmp/|/home/|/root/|/Users/|site-packages|\"stderr\"|iopub\.", text)


@pytest.mark.slow
@books
def test_outputs_come_out_again(path):
    book = notebooks.read(path)
    stored = shown(book)
    notebooks.run(book)
    assert shown(book) == stored


def test_both_are_there():
    assert [path.stem for path in notebooks.BOOKS] == ["another-framework", "claim-on-trial"]
