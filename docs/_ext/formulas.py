"""Typeset formulas in Typst mathematics as MathML that wraps: between formulas, before relations, plus and minus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from xml.etree import ElementTree

import typst

#: Signs before which a formula may go on in the next line.
_BREAKS = frozenset("=≠≤≥<>≪≫≈∝∼→←⇒⇐⇔⟹⟸⟺≽≼+−")
#: Signs that a formula must have before it may go on in the next line.
_FEWEST = 4


def typeset(statements: Sequence[str]) -> list[str]:
    """Return statements in Typst mathematics as HTML, a paragraph each."""
    page = typst.compile("\n\n".join(f"$ {statement} $" for statement in statements).encode(), format="html").decode()
    found = re.findall(r"<math.*?</math>", page, re.DOTALL)
    assert len(found) == len(statements), "a statement is not one formula"
    return [_paragraph(ElementTree.fromstring(formula)) for formula in found]


def _paragraph(formula: ElementTree.Element) -> str:
    inside = re.sub(r" (<math[^>]*><mo[^>]*>[,;])", r"\1", "".join(_lines(formula)))  # no space before a comma
    return f'<p class="formula">{inside}</p>'


def _lines(formula: ElementTree.Element) -> Iterator[str]:
    """Yield the pieces of a formula that stay on one line, and the words between them."""
    piece: list[ElementTree.Element] = []
    for part in formula:
        words = "".join(part.itertext())
        wide = part.tag == "mspace" and part.get("width", "").startswith("1")
        if wide or (part.tag == "mtext" and " " in words):
            yield from _written(piece)
            yield '<span class="wide"> </span>' if wide else f" {escape(words.strip())} "
            piece = []
        elif part.tag == "mo" and words in _BREAKS and piece and piece[-1].tag != "mo" and _signs(piece) >= _FEWEST:
            yield from _written(piece)
            part.set("form", "infix")  # the first sign of a row would be a prefix
            piece = [part]
        else:
            piece.append(part)
    yield from _written(piece)


def _signs(piece: Sequence[ElementTree.Element]) -> int:
    return sum(len("".join(part.itertext())) for part in piece)


def _written(piece: Sequence[ElementTree.Element]) -> Iterator[str]:
    if piece:
        inside = "".join(ElementTree.tostring(part, encoding="unicode") for part in piece)
        yield f'<math displaystyle="true">{inside}</math><wbr>'
