"""Figures as files that can be shown elsewhere, each with its caption in plain text beside it."""

from __future__ import annotations

import json
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedstat._files import atomic_file
from fedstat._tables import Tables
from fedstat.report.document import STYLE
from simulations.studies import chapter, draw, study, tell

#: A document of one chapter, of which only the figures are asked for.
_MAIN = '#import "style.typ": *\n#import "chapter.typ": chapter\n#chapter(json("data.json"))\n'
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
    import typst

    _, numbers, findings = tell(name, folder)
    pictures = {path.stem: path for path in folder.glob("*.svg")}
    data = numbers | {
        "name": name,
        "figures": {stem: f"/{stem}.svg" for stem in pictures},
        "findings": {key: finding.record() for key, finding in findings.items()},
    }
    with tempfile.TemporaryDirectory() as place:
        for source in (*STYLE, *pictures.values()):
            shutil.copy(source, place)
        shutil.copy(chapter(name), Path(place, "chapter.typ"))
        Path(place, "data.json").write_text(json.dumps(data, allow_nan=False), encoding="utf-8")
        Path(place, "main.typ").write_text(_MAIN, encoding="utf-8")
        found = typst.query(
            str(Path(place, "main.typ")), "figure", sys_inputs={"format": "pdf"}, ignore_system_fonts=True
        )
    return {
        Path(source).stem: " ".join(plain(figure["caption"]["body"]).split())
        for figure in json.loads(found)
        if figure.get("caption")
        for source in _sources(figure["body"])
    }


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
