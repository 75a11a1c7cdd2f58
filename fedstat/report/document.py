"""Typeset a PDF or a web page from a Typst template, a JSON file of data, pictures and further Typst files."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from fedstat._files import atomic_file

STYLE = tuple(Path(__file__).parent / name for name in ("style.typ", "style.css"))


def typeset(template: Path, data: Mapping[str, Any], files: Mapping[str, Path], target: Path, *, day: date) -> None:
    """Compile `template` to `target` by Typst.

    Parameters
    ----------
    template : Path
        A Typst file. It reads ``data.json``, imports ``style.typ`` and finds the files by their names.
    data : mapping
        Numbers and words, which the template reads as JSON. Nothing is pasted into markup.
    files : mapping of file name to Path
        Pictures (SVG or PDF) that the template shows, and Typst files that it imports. They lie as named, so that
        ``"/NAME"`` is a file's path in each of them.
    target : Path
        A ``.pdf``, or an ``.html`` with its pictures inside. Written whole or not at all; the same inputs give the same
        bytes.
    day : date
        The document's date.

    Raises
    ------
    ValueError
        If the target's suffix is another.

    Examples
    --------
    >>> import tempfile
    >>> from datetime import date
    >>> from pathlib import Path
    >>> from fedstat.report import typeset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     template, target = Path(folder) / "page.typ", Path(folder) / "page.pdf"
    ...     size = template.write_text('#json("data.json").words')
    ...     typeset(template, {"words": "FedPer is better."}, {}, target, day=date(2026, 1, 1))
    ...     target.read_bytes()[:4]
    b'%PDF'
    """
    import typst

    form = target.suffix[1:]
    if form not in ("pdf", "html"):
        raise ValueError(f"target must end in .pdf or .html, got {target}.")
    with staged(template, {**data, "date": day.isoformat()}, files) as main, atomic_file(target) as temporary:
        typst.compile(
            str(main),
            output=str(temporary),
            format="html" if form == "html" else "pdf",
            sys_inputs={"format": form},
            ignore_system_fonts=True,
            timestamp=int((day - date(1970, 1, 1)).total_seconds()),
        )


@contextmanager
def staged(template: Path, data: Mapping[str, Any], files: Mapping[str, Path]) -> Iterator[Path]:
    """Lay a template, its data and its files into a folder for now, as `typeset` does; yield the file to compile."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(template, folder / "main.typ")
        for source in STYLE:
            shutil.copy(source, folder)
        for called, source in files.items():
            (folder / called).parent.mkdir(exist_ok=True)
            shutil.copy(source, folder / called)
        (folder / "data.json").write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
        yield folder / "main.typ"
