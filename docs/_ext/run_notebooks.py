"""Run the notebooks and store what they show: ``python docs/_ext/run_notebooks.py``.

Stored outputs are for readers of the repository and of the site, which does not run these pages again. Beside them
stands a digest of the code that made them, by which a test sees that code was changed and not run.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
BOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    """Read and validate a notebook."""
    book = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(book)
    return book


def code(book: NotebookNode) -> list[NotebookNode]:
    """Return the cells with code."""
    return [cell for cell in book.cells if cell.cell_type == "code"]


def digest(book: NotebookNode) -> str:
    """Return the digest of all code."""
    return hashlib.sha256("\0".join(cell.source for cell in code(book)).encode()).hexdigest()


def run(book: NotebookNode) -> None:
    """Run a notebook in an empty folder and keep what its cells show."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(book, timeout=600, resources={"metadata": {"path": folder}}, record_timing=False)
        client.execute(env=environment)
    for cell in code(book):
        cell.outputs = _kept(cell.outputs)
    book.metadata = {
        "kernelspec": book.metadata.kernelspec,
        "language_info": {"name": "python"},
        "made_by": digest(book),
    }


def _kept(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return what is shown to readers: print-outs in one piece, and of a table in HTML not its other forms."""
    kept: list[NotebookNode] = []
    for out in outputs:
        if out.get("name") == "stderr":
            continue
        if out.output_type == "stream" and kept and kept[-1].output_type == "stream":
            kept[-1].text += out.text
            continue
        if "text/html" in out.get("data", {}):
            out.data = {"text/html": out.data["text/html"]}
        kept.append(out)
    return kept


if __name__ == "__main__":
    for path in BOOKS:
        book = read(path)
        run(book)
        nbformat.write(book, path)
