"""The notebooks are committed as they should be: without outputs, with ids. The site, when it is built, runs them."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path):
    book = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(book)
    return book


@pytest.mark.parametrize("path", BOOKS, ids=[path.stem for path in BOOKS])
def test_notebooks_are_small_and_without_outputs(path):
    book = read(path)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert book.metadata.kernelspec.name == "python3"
    assert len({cell.id for cell in book.cells}) == len(book.cells)
    for cell in book.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert path.stat().st_size < 30_000
    assert book.cells[0].cell_type == "markdown"
    assert book.cells[0].source.startswith("# ")


def test_all_three_are_there():
    assert [path.stem for path in BOOKS] == ["another-framework", "claim-on-trial", "first-hour"]
