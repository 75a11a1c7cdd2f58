"""Write the supplement as a folder of web pages: one for each chapter, with all of them at the side."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape, unescape
from pathlib import Path
from typing import Any

from fedstat._files import atomic_file
from fedstat.report import typeset

LOOK = Path(__file__).parent / "pages.css"
#: Tables with more rows than these are folded, where nothing around them is.
LONG = 12
_SECTION = re.compile(
    r'<section data-group="([^"]*)" data-page="([^"]*)" data-long="([01])">(.*?)</section>', re.DOTALL
)
_HEADING = re.compile(r"<(h[123])[^>]*>(.*?)</\1>", re.DOTALL)
_LINK = re.compile(r'href="#([^"]+)"')
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page: its file's name without the suffix, the group that it stands in, and what it shows."""

    name: str
    group: str
    body: str

    @property
    def title(self) -> str:
        """What its first heading says, without its number."""
        return headings(self.body)[0]


def write_pages(template: Path, data: Mapping[str, Any], files: Mapping[str, Path], folder: Path, *, day: date) -> Path:
    """Typeset a template whose sections name pages, and write each into a file; what is in no section is the index.

    Parameters
    ----------
    template : Path
        A Typst file, with sections made by ``section`` of ``supplement.typ``.
    data, files : mapping
        As `fedstat.report.typeset` takes them.
    folder : Path
        Where the pages go. Pages that lie there already are removed.
    day : date
        The document's date.

    Returns
    -------
    Path
        The index.
    """
    with tempfile.TemporaryDirectory() as name:
        whole = Path(name) / "whole.html"
        typeset(template, data, files, whole, day=day)
        above, main, below = re.split("</?main>", whole.read_text(encoding="utf-8"))
    pages = [Page("index", "Overview", _SECTION.sub("", main))]
    pages += [
        Page(name, unescape(group), fold(body) if long == "1" else body)
        for group, name, long, body in _SECTION.findall(main)
    ]
    home = {name: page.name for page in pages for name in re.findall(r'\bid="([^"]+)"', page.body)}
    above = above.removesuffix("</style>") + LOOK.read_text(encoding="utf-8") + "</style>"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.html"):
        old.unlink()
    for page in pages:
        head = above.replace("<title>", f"<title>{escape(page.title)} – ", 1)
        body = page.body
        for anchor in set(_LINK.findall(body)):
            if home[anchor] != page.name:
                body = body.replace(f'href="#{anchor}"', f'href="{home[anchor]}.html#{anchor}"')
        with atomic_file(folder / f"{page.name}.html") as path:
            path.write_text(f"{head}{_contents(pages, page)}<main>{body}</main>{below}", encoding="utf-8")
    return folder / "index.html"


def headings(body: str) -> list[str]:
    """Return the words of all headings down to the third level, without their numbers."""
    words = [re.sub("<[^>]*>", "", words) for _, words in _HEADING.findall(body)]
    return [unescape(re.sub(r"^[\d.]+\s", "", " ".join(one.split()))) for one in words]


def fold(body: str) -> str:
    """Fold what is long in a chapter: its parts, but for the first and the one with the first picture, and long tables.

    Parameters
    ----------
    body : str
        HTML in which headings of the third level open the parts.

    Returns
    -------
    str
        The same; what a part unfolds has an id, ``part-1`` and so on: a link to it opens the part.

    Examples
    --------
    >>> fold("What was found. <h3>How</h3>In pairs.")
    'What was found. <details><summary><h3>How</h3></summary><div id="part-1">In pairs.</div></details>'
    """
    first, *parts = re.split("(?=<h3)", body)
    seen = "<img" in first
    written = [_TABLE.sub(_folded, first)]
    for number, part in enumerate(parts, 1):
        heading, rest = part.split("</h3>", 1)
        opened = " open" * (not seen and "<img" in rest)
        seen = seen or bool(opened)
        rest = _TABLE.sub(_folded, rest) if opened else rest
        written.append(
            f'<details{opened}><summary>{heading}</h3></summary><div id="part-{number}">{rest}</div></details>'
        )
    return "".join(written)


def _folded(table: re.Match[str]) -> str:
    rows = table[0].count("<tr") - table[0].count("<thead")
    return table[0] if rows <= LONG else f"<details><summary>Table of {rows} rows</summary>{table[0]}</details>"


def _contents(pages: Sequence[Page], here: Page) -> str:
    """Return the contents beside a page: groups of pages, of which the page's own is open, with the page's parts."""
    written = []
    for group in dict.fromkeys(page.group for page in pages):
        items = []
        for page in [page for page in pages if page.group == group]:
            now = ' aria-current="page"' * (page is here)
            parts = [
                f'<li><a href="#part-{number}">{escape(words)}</a></li>'
                for number, words in enumerate(headings(page.body)[1:], 1)
                if page is here and f'id="part-{number}"' in page.body
            ]
            below = f"<ul>{''.join(parts)}</ul>" if parts else ""
            items.append(f'<li><a href="{page.name}.html"{now}>{escape(page.title)}</a>{below}</li>')
        opened = " open" * (group == here.group)
        written.append(f"<details{opened}><summary>{escape(group)}</summary><ul>{''.join(items)}</ul></details>")
    return f'<nav aria-label="Contents"><details><summary>Contents</summary>{"".join(written)}</details></nav>'
