"""Figures as files that can be shown elsewhere, each with its caption in plain text beside it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedstat._files import atomic_file
from fedstat._tables import Tables
from fedstat.report.document import staged
from simulations.studies import WORDS, chapter, draw, record, study, tell

#: What stands for content without a text of its own.
_SIGNS = {"space": " ", "linebreak": " ", "parbreak": " "}


def publish(name: str, tables: Tables, folder: Path) -> list[Path]:
    """Draw a study's figures as SVG, PDF and PNG, each with its caption in a ``.txt`` beside it.

    Parameters
    ----------
    name : str
        Which study.
    tables : mapping of str to DataFrame
        What the study commits.
    folder : Path
        Where its tables lie; the figures come beside them.

    Returns
    -------
    list of Path
        The SVG files.
    """
    files = draw(name, tables, folder, ("svg", "pdf", "png"))
    about, told = study(name).ABOUT, captions(name, folder)
    origin = f"fedstat, study {name}: {about.title}" + f" ({about.paper}, {about.where})" * bool(about.paper)
    for stem in files:
        with atomic_file(folder / f"{stem}.txt") as path:
            words = [textwrap.fill(told[stem], 100)] if stem in told else []
            path.write_text("\n\n".join([*words, f"({origin})"]) + "\n", encoding="utf-8")
    return list(files.values())


def captions(name: str, folder: Path) -> dict[str, str]:
    """Return the captions of a chapter's pictures in plain text, by the pictures' names.

    Parameters
    ----------
    name : str
        Which study.
    folder : Path
        Where its tables lie, with its figures as SVG.
    """
    _, numbers, findings = tell(name, folder)
    pictures = {path.name: path for path in folder.glob("*.svg")}
    found = alone(record(name, numbers, findings, pictures), pictures, "figure")
    return {
        Path(source).stem: " ".join(plain(figure["caption"]["body"]).split())
        for figure in found
        if figure.get("caption")
        for source in _sources(figure["body"])
    }


def alone(record: Mapping[str, Any], pictures: Mapping[str, Path], asked: str) -> Any:
    """Typeset a chapter without the report around it, and return what of it is asked for.

    Parameters
    ----------
    record : mapping
        Of the study, as `simulations.studies.record` makes it.
    pictures : mapping of file name to Path
        What the chapter shows.
    asked : str
        A selector of Typst: ``"figure"``, or ``"<message>"`` for what the study found in one or two sentences.
    """
    import typst

    files = {"words.typ": WORDS, "chapter.typ": chapter(record["name"]), **pictures}
    with staged(Path(__file__).parent / "alone.typ", record, files) as main:
        return json.loads(typst.query(str(main), asked, sys_inputs={"format": "pdf"}, ignore_system_fonts=True))


def plain(content: Any) -> str:
    """Return the text of Typst content, as `typst.query` gives it."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(plain, content))
    if not isinstance(content, Mapping):
        return ""
    if content.get("func") == "smartquote":
        return '"' if content.get("double", True) else "’"
    inner = "".join(plain(content[key]) for key in ("text", "base", "children", "child", "body") if key in content)
    below, above = (plain(content.get(key)) for key in ("b", "t"))
    return _SIGNS.get(content.get("func", ""), "") + inner + f"_{below}" * bool(below) + f"^{above}" * bool(above)


def _sources(content: Any) -> Iterator[str]:
    """Yield the files of all pictures inside content."""
    if isinstance(content, Mapping):
        if content.get("func") == "image":
            yield content["source"]
        for entry in content.values():
            yield from _sources(entry)
    elif isinstance(content, list):
        for entry in content:
            yield from _sources(entry)
