"""The gallery: every study's chapter with its pictures, drawn from the committed tables, and a table of all figures."""

from __future__ import annotations

import base64
import html
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path

from pages import escaped, write_pages
from sphinx.application import Sphinx

from fedstat._workers import run_jobs
from fedstat.report import typeset
from reports.__main__ import SUPPLEMENT
from reports.content import content
from simulations import catalogue
from simulations.contract import About
from simulations.studies import in_order, study
from theory_checks import COMMITTED

ROOT = Path(__file__).parents[2]
#: What the pages are made of.
SOURCES = (
    "simulations/**/*.py",
    "simulations/**/*.typ",
    "reports/**/*.*",
    "fedstat/report/*.*",
    "docs/_ext/gallery_pages.py",
    "docs/_ext/pages.py",
)
STATES = {
    "measured": "● measured",
    "in part": "◐ in part",
    "not": "○ not",
    "diagram": "diagram",
    "summary": "data summary",
}
_PICTURE = re.compile(r'<img src="data:image/svg\+xml;base64,([^"]*)"(?:[^>"]|"[^"]*")*>')
_FIGURE = re.compile(r"<figure>" + _PICTURE.pattern + r"<figcaption>(.*?)</figcaption></figure>", re.DOTALL)
_CLAIM = re.compile(r"\b(?:FS|FF|DC|FD|CL)-\d\dc?\b")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them, if what they are made of has changed."""
    app.connect("builder-inited", lambda app: _make(Path(app.srcdir) / "gallery"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _make(folder: Path) -> None:
    """Write the pages in a process of their own, since the workers that draw them start anew what this one started."""
    index = folder / "index.md"
    newest = max(path.stat().st_mtime for pattern in SOURCES for path in ROOT.glob(pattern))
    if not index.exists() or index.stat().st_mtime <= newest:
        subprocess.run([sys.executable, __file__, str(folder)], check=True)


def _write(folder: Path) -> None:
    pictures, index = folder / "pictures", folder / "index.md"
    pictures.mkdir(parents=True, exist_ok=True)
    index.unlink(missing_ok=True)  # it is written last: half a gallery is made again
    # the largest tables first, so that no worker ends long after the other
    names = sorted(in_order(), key=lambda name: -sum(path.stat().st_size for path in (COMMITTED / name).glob("*.csv")))
    made = run_jobs("gallery", [partial(_page, name, pictures) for name in names])
    write_pages(folder, {f"{name}.md": page for name, page in zip(names, made, strict=True)})
    index.write_text(_index(in_order(), pictures))


def _page(name: str, pictures: Path) -> str:
    """Return a study's page: its chapter, as the report has it, with pictures as files of their own."""
    about = study(name).ABOUT
    head = [f"# {about.title}\n", _facts(name, about)]
    if not (COMMITTED / name).is_dir():
        return "\n".join([*head, "No tables of it are committed yet.\n"])
    made = content("committed", None, pictures, [name], False, {})
    typed = pictures / f"{name}.html"
    typeset(SUPPLEMENT, made.data, made.files, typed, day=date.today())
    whole = typed.read_text()
    typed.unlink()
    start = whole.index(f'<h2 id="study-{name}">')
    body = whole[start:].split("</h2>", 1)[1]
    body = re.split(r"</section>|</main>", body)[0]
    drawn = {
        made.files[path[1:]].read_bytes(): made.files[path[1:]] for path in made.data["studies"][0]["figures"].values()
    }
    return "\n".join([*head, *_parts(body, drawn)])


def _facts(name: str, about: About) -> str:
    asked = ", ".join(filter(None, [about.paper, about.where])) or "all papers"
    lines = [f"- **Asks about**: {escaped(asked)}"]
    lines += [
        f"- **{shown.number}**, {escaped(shown.what)}: {STATES[shown.state]}"
        + (f"; {escaped(shown.how)}" * bool(shown.how))
        for shown in about.shows
    ]
    if about.data:
        lines.append(f"- **Needs**: {escaped(', '.join(about.data))}")
    scale = "paper" if "paper" in study(name).SCALES else list(study(name).SCALES)[-1]
    times = "; ".join(f"{of}: {escaped(time)}" for of, time in about.times.items())
    lines.append("- **Takes**: " + times) if times else None
    commands = [f"python -m simulations {name} --scale smoke", f"python -m simulations {name} --scale {scale}"]
    return "\n".join([*lines, "\n```bash", *commands, "```\n\n[All figures and tables](index.md)\n"])


def _parts(body: str, drawn: dict[bytes, Path]) -> Iterator[str]:
    """Return the chapter in pieces: pictures as Markdown, so that captions are found by searching; the rest as HTML."""
    at = 0
    for found in _FIGURE.finditer(body):
        yield _raw(body[at : found.start()], drawn)
        picture, caption = drawn[base64.b64decode(found[1])], re.sub(r"^Figure\s\d+:\s", "", found[2])
        yield (
            f"```{{figure}} pictures/{picture.parent.name}/{picture.name}\n:alt: {_words(caption)}\n"
            f":name: {picture.parent.name}-{picture.stem}\n\n{escaped(_words(caption))}\n```\n"
        )
        at = found.end()
    yield _raw(body[at:], drawn)


def _raw(text: str, drawn: dict[bytes, Path]) -> str:
    """Return a piece of HTML as it is, claims linked, tables that can be scrolled, headings without numbers."""
    if not text.strip():
        return ""
    if _PICTURE.search(text):
        raise ValueError(f"a picture stands outside of a figure with a caption: {_words(text)[:200]}")
    text = re.sub(r"<h([345])([^>]*)>[\d.]+\s", r"<h\1\2>", text)
    text = text.replace("<table>", '<div class="table-wrapper"><table class="docutils">').replace(
        "</table>", "</table></div>"
    )
    text = _CLAIM.sub(lambda claim: f'<a href="../trial/{claim[0]}.html">{claim[0]}</a>', text)
    text = re.sub(r'href="#study-(\w+)"', r'href="\1.html"', text)
    return "`````{raw} html\n" + re.sub(r"\n\s*\n", "\n", text) + "\n`````\n"


def _words(text: str) -> str:
    """Return the words of a piece of HTML, on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())


def _index(names: list[str], pictures: Path) -> str:
    text = (
        "# Gallery\n\nEvery figure and table of the papers with its state, and every study with its pictures, the "
        "command that makes them, and what it found. Pictures are drawn from the committed tables. *Reproduced*: "
        "measured at the paper's sizes and on its data. *In part*: on other data, at other sizes, or some of "
        "its panels. Diagrams and summaries of data sets ask for no measurement.\n\n## The studies\n\n"
        "::::{grid} 1 2 2 3\n:gutter: 3\n\n"
    )
    for name in names:
        about = study(name).ABOUT
        first = next(iter(sorted((pictures / name).glob("*.svg"))), None)
        text += f":::{{grid-item-card}} {about.title}\n:link: {name}\n:link-type: doc\n"
        if first:
            text += f":img-top: pictures/{name}/{first.name}\n:img-alt: {about.title}, the picture named {first.stem}\n"
        text += f"{escaped(', '.join(filter(None, [about.paper, about.where])) or 'All papers')}\n:::\n"
    return text + "::::\n\n## The papers' figures and tables\n\n" + _catalogue() + _toctree(names)


def _catalogue() -> str:
    lines, paper = [], ""
    for entry in catalogue.entries():
        shown = entry.shown
        if entry.paper != paper:
            lines += ["```\n"] * bool(paper)
            paper = entry.paper
            lines += [
                f"### {escaped(paper)}\n",
                "```{list-table}\n:class: summary\n:widths: 12 30 14 44\n:header-rows: 1\n",
            ]
            lines += ["* - Number\n  - What the paper shows\n  - State\n  - Where, and how ours differs"]
        where = f"[{escaped(entry.about.title)}]({entry.study}.md). " if entry.about else ""
        lines.append(
            f"* - {shown.number}\n  - {escaped(shown.what)}\n  - {STATES[shown.state]}\n  - {where}{escaped(shown.how)}"
        )
    return "\n".join([*lines, "```\n"])


def _toctree(names: list[str]) -> str:
    return "\n".join(["\n```{toctree}\n:hidden:\n", *names, "```\n"])


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
