"""The notebooks run from top to bottom, and are committed as they should be: without outputs, with ids."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("first-hour", ["FedPer (by", "better than Local", "Optimism", "True"]),
        ("claim-on-trial", ["refuted", "holds-on-cases", "it must be refuted"]),
        ("another-framework", ["FedAvg is worse than all others", "\\begin{tabular}"]),
    ],
)
def test_notebooks_run(name, said, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = read(FOLDER / f"{name}.ipynb")
    nbclient.NotebookClient(book, timeout=240, resources={"metadata": {"path": str(FOLDER)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"]  # a warning is a fault of the notebook
    printed = "".join(output.get("text", "") for output in outputs)
    assert all(words in printed for words in said)
    assert sum("image/png" in output.get("data", {}) for output in outputs) == sum(
        "plt.subplots" in cell.source for cell in book.cells
    )
