"""Every page of the report and of its supplement, on paper and for browsers, drawn from what is committed."""

import base64
import html
import json
import re
from datetime import date
from html.parser import HTMLParser

import numpy as np
import pymupdf
import pytest

from fedstat.report import typeset
from reports.__main__ import PAPER, SUPPLEMENT
from reports.content import content
from reports.pages import write_pages
from simulations.studies import in_order
from theory_checks import COMMITTED

# one worker writes the report, for all tests
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("report")]

#: Margins and the foot of a page, in points, and what rounding and accents may take.
MARGIN, FOOT, TOLERANCE = 68.0, 60.0, 2.5
#: What belongs in templates and programs and not before readers.
RAW = re.compile(
    r"chevron|\bquad\b|#\w+[.(]|\$\S|\*\*|__|\bNone\b|\bnan\b|\bNaN\b|Fraction\(|array\(|np\.|<[a-z_.]+ object|\\u|"
    r"\d\.\d{10,}|%%|\b(alpha|kappa|sigma|lambda|gamma|epsilon)\b"
)
#: An estimate and its interval count as one number.
INTERVAL, NUMBER = re.compile(r"\[[^\[\]]*\]"), re.compile(r"\d+(?:[ .,]\d+)*")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a folder with the report, the supplement's pages, each written twice, and its PDF."""
    folder = tmp_path_factory.mktemp("report")
    studies = [name for name in in_order() if (COMMITTED / name).is_dir()]
    made = content("committed", None, folder / "shown", studies, True, {})
    assert not made.failed
    (folder / "data.json").write_text(json.dumps(made.data))
    for number in (1, 2):
        typeset(PAPER, made.data, made.files, folder / f"paper{number}.pdf", day=date(2026, 1, 2))
        write_pages(SUPPLEMENT, made.data, made.files, folder / f"web{number}", day=date(2026, 1, 2))
    typeset(SUPPLEMENT, made.data, made.files, folder / "1.pdf", day=date(2026, 1, 2))
    outcomes = [{"outcome": one} for one in ("same", "reversed", "lost", "gained")]
    looked = [one | {"second": outcomes * 40} for one in made.data["studies"]]
    anew = made.data | {"scale": "quick", "studies": looked}
    typeset(PAPER, anew, made.files, folder / "anew.pdf", day=date(2026, 1, 2))
    return folder


def test_the_same_data_give_the_same_bytes(written):
    names = ["paper{}.pdf", *(f"web{{}}/{path.name}" for path in (written / "web1").iterdir())]
    for name in names:
        first, second = ((written / name.format(number)).read_bytes() for number in (1, 2))
        assert first == second


@pytest.mark.parametrize("name", ["paper1", "anew"])
def test_the_report_has_twelve_pages_with_a_message_each(written, name):
    with pymupdf.open(written / f"{name}.pdf") as document:
        assert len(document) == 12
        for number, page in enumerate(document, 1):
            words = page.get_text()
            assert not (raw := RAW.search(words)), f"page {number}: {raw[0]!r}"
            assert "could not be made" not in words
            assert margins_are_white(page), f"page {number}: a shape is in the margin"
            assert emptiest(page) < 1 / 3, f"page {number} is not filled"
            assert len(page.get_text("words")) < 750, f"page {number} is crowded"
            told = paragraphs(page)
            assert told, f"page {number} has no words of its own"
            for words in told:
                assert len(NUMBER.findall(INTERVAL.sub("", words))) <= 5, f"page {number}: {words}"


def paragraphs(page):
    """Return what is printed in the size of running text; tables and captions are smaller, headings larger."""
    blocks = [block["lines"] for block in page.get_text("dict")["blocks"] if "lines" in block]
    spans = [[span for line in lines for span in line["spans"]] for lines in blocks]
    return [" ".join(s["text"] for s in some) for some in spans if 10.5 < max(s["size"] for s in some) < 11]


def words_of(page):
    return " ".join(page.get_text().split())


def test_the_supplement_tells_one_experiment_per_paper(written):
    proofs = json.loads((written / "data.json").read_text())["proofs"]
    assert {"FedSplit/FedFac", "Factorized-FL"} <= {one["paper"] for one in proofs}
    with pymupdf.open(written / "1.pdf") as document:
        first = " ".join(words_of(document[number]) for number in (0, 1, 2))
    _, heading, block = first.partition("One experiment per paper")
    assert heading
    for one in proofs:
        assert one["title"] in block
        for finding in one["findings"]:
            assert finding["text"] in block, finding


def test_all_methods_stand_on_one_page(written):
    chooser = json.loads((written / "data.json").read_text())["chooser"]
    with pymupdf.open(written / "1.pdf") as document:
        pages = [words_of(page) for page in document]
    title = "What a client keeps for itself in a network of two convolutions"
    (number,) = [number for number, words in enumerate(pages) if title in words]
    page, guide = pages[number], "".join(pages[number - 1 : number + 1])
    for group in chooser["groups"]:
        assert group["kind"][1:] in page
        for row in group["rows"]:
            assert row["method"] in page
    for question in chooser["guide"]:
        assert question["question"] in guide


def test_pages(written):
    document = pymupdf.open(written / "1.pdf")
    for number, page in enumerate(document, 1):
        words, width = page.get_text(), page.rect.width
        assert "\ufffd" not in words, f"page {number}: a glyph is missing"
        assert not (raw := RAW.search(words)), f"page {number}: {raw[0]!r}"
        for left, top, right, bottom, what in [word[:5] for word in page.get_text("words")]:
            inside = left >= MARGIN - TOLERANCE and right <= width - MARGIN + TOLERANCE
            assert inside, f"page {number}: {what!r} is in the margin"
            assert top >= 0, number
            assert bottom <= page.rect.height, number
        assert margins_are_white(page), f"page {number}: a shape is in the margin"
        if number < len(document):
            assert emptiest(page) < 2 / 3, f"page {number} is nearly empty"
    assert len(document) > 20


def margins_are_white(page):
    """Look at pixels: shapes may reach further than what is drawn of them, as the tiles of hatching do."""
    pixels = page.get_pixmap(dpi=72, colorspace="gray")
    grey = np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.width)
    margin = round(MARGIN - TOLERANCE) - 1
    return grey[:, :margin].min() > 250 and grey[:, -margin:].min() > 250


def emptiest(page):
    """Return the longest run of white rows, as a share of what a page may hold."""
    pixels = page.get_pixmap(dpi=20, colorspace="gray")
    rows = np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.width)[:, :].min(axis=1) < 200
    held = rows[round(len(rows) * MARGIN / page.rect.height) : round(len(rows) * (1 - FOOT / page.rect.height))]
    marks = np.flatnonzero(np.concatenate([[True], held, [True]]))
    return float(np.diff(marks).max() - 1) / len(held)


class Page(HTMLParser):
    """Collects figures, links, what they lead to, and what is folded."""

    def __init__(self, text):
        super().__init__()
        self.figures, self.links, self.ids, self.words, self.open, self.current = [], [], set(), [], [], 0
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values["id"]} if "id" in values else set()
        if tag == "a":
            self.links.append(values["href"])
            self.current += "aria-current" in values
        if tag == "figure":
            self.figures.append({"rows": 0, "cells": 0, "shapes": 0, "caption": "", "alt": [], "folded": self.folded})
        if tag in ("tr", "img", "path") and "figure" in self.open:
            kind = {"tr": "rows", "img": "shapes", "path": "shapes"}[tag]
            self.figures[-1][kind] += shapes(values["src"]) if tag == "img" else 1
        if tag == "img":
            self.figures[-1]["alt"].append(values.get("alt", ""))
        if tag not in ("meta", "img", "br", "path", "link"):
            self.open.append("folded" if tag == "details" and "open" not in values else tag)

    @property
    def folded(self):
        return "folded" in self.open

    def handle_endtag(self, tag):
        if tag != "path":
            assert self.open.pop() in (tag, "folded" if tag == "details" else tag)

    def handle_data(self, words):
        if "style" in self.open:
            return
        self.words.append(words)
        if "figcaption" in self.open:
            self.figures[-1]["caption"] += words
        elif {"figure", "td"} <= set(self.open) and words.strip():
            self.figures[-1]["cells"] += 1


def shapes(source):
    """Count the shapes of a picture that stands in the page."""
    kind, _, content = source.partition(";base64,")
    assert kind == "data:image/svg+xml"
    return len(re.findall(rb"<(path|use|image|text)\b", base64.b64decode(content)))


@pytest.fixture(scope="module")
def pages(written):
    """Return the supplement's web pages by their names."""
    return {path.name: Page(path.read_text()) for path in (written / "web1").iterdir()}


def test_a_page_for_each_chapter_and_paper(written, pages):
    data = json.loads((written / "data.json").read_text())
    assert {f"{study['name']}.html" for study in data["studies"]} < set(pages)
    assert {link.removesuffix(".html") for link in pages["index.html"].links if "#" not in link} == {
        name.removesuffix(".html") for name in pages
    }
    for name, page in pages.items():
        assert (written / "web1" / name).stat().st_size < 2e6, name
        assert page.current == 1, name
        assert not (raw := RAW.search(" ".join(page.words))), f"{name}: {raw[0]!r}"


def test_links_lead_somewhere(pages):
    assert sum(len(page.links) for page in pages.values()) > 200
    for name, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            there = pages[file or name]
            assert not anchor or anchor in there.ids, f"{name}: {link}"


def test_figures_are_told_and_the_first_is_open(written, pages):
    figures = [(name, figure) for name, page in pages.items() for figure in page.figures]
    assert len(figures) > 100
    for name, figure in figures:
        assert figure["shapes"] > 20 or (figure["rows"] > 1 and figure["cells"] > 1), (name, figure)
        assert len(figure["caption"]) > 20, (name, figure)
        for words in figure["alt"]:
            assert len(words.split()) > 4, (name, figure)
            assert words.split()[0] in figure["caption"], (name, figure)
    for study in json.loads((written / "data.json").read_text())["studies"]:
        drawn = [figure for figure in pages[f"{study['name']}.html"].figures if figure["alt"]]
        assert not drawn or not drawn[0]["folded"], study["name"]
    assert any(figure["folded"] for _, figure in figures)


def test_numbers_of_chapters_stand_in_tables_and_not_in_paragraphs(written):
    for study in json.loads((written / "data.json").read_text())["studies"]:
        source = (written / "web1" / f"{study['name']}.html").read_text()
        paragraphs = re.findall(r"<(?:p|li)>(.*?)</(?:p|li)>", source, re.DOTALL)
        assert len(paragraphs) > 3, study["name"]
        for words in (html.unescape(re.sub(r"<[^>]*>", "", one)) for one in paragraphs):
            assert len(NUMBER.findall(INTERVAL.sub("", words))) <= 12, (study["name"], words)


def test_the_supplement_has_links_on_paper(written):
    with pymupdf.open(written / "1.pdf") as document:
        assert sum(len(page.get_links()) for page in document) > 200


def test_another_form_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"target must end in \.pdf or \.html, got .*report\.docx"):
        typeset(PAPER, {}, {}, tmp_path / "report.docx", day=date(2026, 1, 2))
