"""Printed tables as grids of cells: LaTeX, Markdown, HTML and comma-separated text."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from itertools import takewhile

from fedstat.inference.reading.formats.tables import separator


@dataclass(frozen=True)
class Cell:
    """What one cell says, in plain text, how it is set, and the line on which it stands; in HTML, if it is a head.

    `foreign` is a command of LaTeX that may set a number which is no value, or not as it stands, such as sqrt.
    """

    text: str
    line: int
    bold: bool = False
    underlined: bool = False
    columns: int = 1
    rows: int = 1
    head: bool = False
    foreign: str = ""


@dataclass(frozen=True)
class Grid:
    """Rows of cells, each cell in every place that it spans, how many rows are the head; why it is not read, if so."""

    rows: list[list[Cell]]
    head: int
    refused: str = ""


_BOLD = re.compile(r"\\(?:textbf|mathbf|boldsymbol|boldmath|pmb|bm|bfseries|bf)(?![a-zA-Z])")
_UNDERLINED = re.compile(r"\\(?:underline|uline|ul)(?![a-zA-Z])")
#: Commands that go with their first argument: references, notes, colours, spaces and symbols.
_WITH_ARGUMENT = re.compile(
    r"\\(?:cite[a-z]*|ref|label|footnote(?:mark|text)?|tnote|(?:cell|row|text|column)?color|colorbox|[hv]?space|"
    r"[hv]?phantom|rotatebox|raisebox|scalebox|ding|symbol)\*?(?:\[[^]]*\])*\s*\{[^{}]*\}|\\footnotemark\[\d*\]"
)
#: Commands that set their argument as it is; a number in that of any other is no value.
_SETS = (
    r"text(?:bf|it|sl|sc|rm|sf|tt|up|md|normal)?|emph|math(?:bf|it|rm|sf|tt|normal)|boldsymbol|boldmath|pmb|bm|"
    r"bf(?:series)?|it(?:shape)?|em|rm|sf|tt|underline|uline|ul|hl|[mhf]box|ensuremath|tablenum|SI|qty|tiny|scriptsize|"
    r"footnotesize|small|normalsize|large|Large|LARGE|huge|Huge|(?:text|(?:script){1,2})style"
)
#: A footnote's mark behind decimals, in a superscript of its own; behind a whole number it may be a power.
_NOTE = re.compile(
    r"(\.\d+[\s)}$%\\]*)(?:\$\s*\^\s*\{?\s*(?:\d{1,2}|[a-z])\s*\}?\s*\$|\\textsuperscript\{\s*(?:\d{1,2}|[a-z])\s*\})"
)
_FOREIGN = re.compile(rf"\\(?!(?:{_SETS})(?![a-zA-Z]))[a-zA-Z]+\*?(?=\s*(?:\[[^]]*\]\s*)*\{{.*\d)|\\char(?=\d)", re.S)
_ARROWS = {"uparrow": "↑", "downarrow": "↓"}
#: Rules that do not span the table, spaces between rows, struts, and the colour of rules.
_BETWEEN = re.compile(
    r"\\(?:cline|cmidrule|cdashline|noalign|arrayrulecolor)(?:\([a-z]*\)|\[[^]]*\])?\{[^}]*\}(?:\[[^]]*\])?|"
    r"\\addlinespace(?:\[[^]]*\])?|\\rule(?:\[[^]]*\])?\{[^}]*\}\{[^}]*\}"
)
_RULE = re.compile(
    r"\\(?:end(?:first)?head|end(?:last)?foot|toprule|midrule|bottomrule|hline|specialrule(?:\{[^}]*\}){3}|Xhline\{[^}]*\})(?:\[[^]]*\])?"
)
_TABULAR = re.compile(
    r"\\begin\{(tabular[x*]?|tabulary|longtable|array|NiceTabular[X*]?|(?:long)?tblr)\}(.*?)\\end\{\1\}", re.S
)
#: What spans or nests in ways that are not read.
_UNREAD = re.compile(r"\\begin\{tabular[x*]?\}|\\(?:SetCell|Block)(?![a-zA-Z])")
#: The heads and feet that a longtable repeats on later pages.
_REPEATED = re.compile(r"\\endfirsthead.*\\end(?:head|foot|lastfoot)(?![a-z])", re.S)
_CAPTION = re.compile(r"\\caption\*?(?:\[[^]]*\])?(?=\{)")
_MADE = re.compile(r"\\(?:makecell|thead|shortstack)\*?(?:\[[^]]*\])?")
#: siunitx's 82.3(4), a deviation in units of the last digit.
_DIGITS = re.compile(r"(\d*\.(\d+))\((\d+)\)")
_SPAN = re.compile(r"^\s*\\multi(column|row)(?:\[[^]]*\])?\{\s*(-?\d+)\s*\}")


def latex_grids(text: str) -> list[Grid]:
    """Return the tables of LaTeX source; the head ends at the first rule that spans the table and has rows above."""
    # comments go, their lines stay
    text = re.sub(r"(?<!\\)((?:\\\\)*)%.*", r"\1", text)
    text = re.sub(r"\\tabularnewline(?![a-zA-Z])", r"\\\\", text)
    return [_latex_grid(found[2], text[: found.start(2)].count("\n") + 1) for found in _TABULAR.finditer(text)]


def _latex_grid(body: str, line: int) -> Grid:
    if unread := _UNREAD.search(body):
        at = line + body[: unread.start()].count("\n")
        return Grid([], 0, f"line {at}: {unread[0]} is not read; write the table as one tabular, with \\multicolumn.")
    while body.lstrip().startswith(("{", "[")):  # the width, and what the columns are
        columns, rest = _argument(body)
        line += body[: len(body) - len(rest)].count("\n")
        body = rest
        if re.search(r"(?<![a-zA-Z\\])S", re.sub(r"\[[^]]*\]|(?<=[a-zA-Z])(?=[A-Z])", " ", columns)):  # siunitx's
            body = _DIGITS.sub(_spelt, body)
    body = _REPEATED.sub(lambda found: "\n" * found[0].count("\n"), body)
    if caption := _CAPTION.search(body):
        told, rest = _argument(body[caption.end() :])
        body = body[: caption.start()] + "\n" * told.count("\n") + re.sub(r"^([^\\&]|\\label\{[^}]*\})*\\\\", "", rest)
    rows: list[list[Cell]] = []
    head = 0
    for source in _split(body, "\\\\"):
        inner = _BETWEEN.sub("", re.sub(r"^\s*\[[^]]*\]", "", source))  # the space of \\\\[2pt]
        content = _RULE.sub("", inner)
        if head == 0 and rows and content != inner:
            head = len(rows)
        at = line + content[: len(content) - len(content.lstrip())].count("\n")
        if content.strip():
            rows.append([_latex_cell(one, at) for one in _split(content, "&")])
        line += source.count("\n")
    return Grid(_spread(rows, False), head or 1)


def _latex_cell(source: str, line: int) -> Cell:
    columns = rows = 1
    source = _WITH_ARGUMENT.sub("", source)  # a colour before what spans
    while span := _SPAN.match(source):
        _, rest = _argument(source[span.end() :])  # the alignment, or the width
        while rest.lstrip().startswith("["):
            _, rest = _argument(rest)
        source, _ = _argument(rest)
        columns, rows = (int(span[2]), rows) if span[1] == "column" else (columns, int(span[2]))
    bold, underlined = bool(_BOLD.search(source)), bool(_UNDERLINED.search(source))
    source = re.sub(r"\\num(?:\[[^]]*\])?\{([^{}]*)\}", lambda found: _DIGITS.sub(_spelt, found[1]), source)
    source = _MADE.sub("", re.sub(r"\\(?:text)?pm(?![a-zA-Z])", "±", source))
    source = _NOTE.sub(r"\1", source)
    foreign = _FOREIGN.search(source)
    return Cell(_plain(source), line, bold, underlined, columns, rows, foreign=foreign[0] if foreign else "")


def _plain(source: str) -> str:
    """Return LaTeX source as plain text."""
    source = re.sub(r"\$\s*([-+])\s*\$\s*(?=[.\d])", r"\1", source)  # a sign that alone stands in mathematics
    source = re.sub(r"\\([a-zA-Z]+)\*?|\\(?=[%&_#$])|\\.", _letter, source)
    return " ".join(re.sub(r"[{}$~^_]", " ", source).split())


def _spelt(value: re.Match[str]) -> str:
    """Return a mean with its deviation in full, of one in units of the last digit."""
    return f"{value[1]} ± {int(value[3]) / 10 ** len(value[2]):.{len(value[2])}f}"


def _letter(command: re.Match[str]) -> str:
    """Return the Greek letter or the arrow that a command names; of others nothing is left."""
    if command[1] in _ARROWS:
        return _ARROWS[command[1]]
    try:
        return unicodedata.lookup(f"GREEK SMALL LETTER {(command[1] or '').upper()}")
    except KeyError:
        return " "


def _argument(text: str) -> tuple[str, str]:
    """Split text after the bracket that closes the one at its start, into what is inside and the rest."""
    text = text.lstrip()
    pair = {"{": "}", "[": "]"}.get(text[:1])
    depth = 0
    for place, letter in enumerate(text):
        if pair and (place == 0 or text[place - 1] != "\\"):
            depth += (letter == text[0]) - (letter == pair)
        if depth == 0:
            return (text[1:place], text[place + 1 :]) if pair else (letter, text[1:])
    raise ValueError(f"a bracket is not closed: {text[:40]!r}.")


def _split(text: str, mark: str) -> Iterator[str]:
    """Split text at a mark that stands outside of braces and is not escaped."""
    depth = start = place = 0
    while place < len(text):
        if depth == 0 and text.startswith(mark, place):
            yield text[start:place]
            start = place = place + len(mark)
        elif text[place] == "\\":
            place += 2
        else:
            depth += (text[place] == "{") - (text[place] == "}")
            place += 1
    yield text[start:]


def _spread(rows: list[list[Cell]], skips: bool) -> list[list[Cell]]:
    """Put each cell in all places that it spans; a format skips the places below, or leaves them empty."""
    spread: list[list[Cell]] = []
    held: dict[tuple[int, int], Cell] = {}
    for i, row in enumerate(rows):
        out: list[Cell] = []
        for cell in row:
            while skips and (i, len(out)) in held:
                out.append(held[i, len(out)])
            for _ in range(cell.columns):
                own = cell if cell.text else held.get((i, len(out)), cell)
                for up in range(1, min(-cell.rows, i + 1)):  # \\multirow{-2} stands below what it spans
                    spread[i - up][len(out)] = own
                held |= {(i + down, len(out)): own for down in range(1, cell.rows)}
                out.append(own)
        while skips and (i, len(out)) in held:
            out.append(held[i, len(out)])
        spread.append(out)
    return spread


def markdown_grids(text: str) -> list[Grid]:
    """Return the tables of Markdown text, whose head is the row above the dashes."""
    lines, grids = text.splitlines(), list[Grid]()
    for number, dashes in enumerate(lines):
        if number == 0 or "|" not in lines[number - 1] or not re.fullmatch(r"\s*\|?(?:\s*:?-+:?\s*\|?)+\s*", dashes):
            continue
        end = next((n for n in range(number + 1, len(lines)) if "|" not in lines[n]), len(lines))
        grids.append(Grid([_marked(lines[n], n + 1) for n in (number - 1, *range(number + 1, end))], 1))
    return grids


def _marked(line: str, number: int) -> list[Cell]:
    return [
        _marked_cell(one, number) for one in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
    ]


def _marked_cell(text: str, line: int) -> Cell:
    """Read a cell with Markdown's stars, or HTML's tags, around what is bold or underlined, or with mathematics."""
    bold, underlined = re.search(r"\*\*|__|<b>|<strong>", text), re.search(r"<u>", text)
    plain = unescape(re.sub(r"<[^>]*>", " ", re.sub(r"\*\*|__", "", text)))  # a tag such as <br> parts two numbers
    if re.search(r"\$.*\\.*\$", plain):
        cell = _latex_cell(plain, line)
        return replace(cell, bold=cell.bold or bool(bold), underlined=cell.underlined or bool(underlined))
    return Cell(" ".join(plain.split()), line, bool(bold), bool(underlined))


def separated_grids(text: str, delimiter: str = "") -> list[Grid]:
    """Return the one table of separated text, whose first row is the head; beside semicolons commas are decimal."""
    delimiter = delimiter or separator(text.lstrip("\n").partition("\n")[0])
    rows = csv.reader(StringIO(text), delimiter=delimiter)
    cells = [[_marked_cell(one, rows.line_num) for one in row] for row in rows if any(row)]
    if delimiter == ";":
        cells = [
            [one if any(map(str.isalpha, one.text)) else replace(one, text=one.text.replace(",", ".")) for one in row]
            for row in cells
        ]
    return [Grid(cells, 1)]


def html_grids(text: str) -> list[Grid]:
    """Return the tables of a page; their heads are the first rows without a ``td``."""
    reader = _Tables()
    reader.feed(text)
    heads = [list(takewhile(lambda row: row and all(cell.head for cell in row), rows)) for rows in reader.tables]
    return [Grid(_spread(rows, True), max(1, len(head))) for rows, head in zip(reader.tables, heads, strict=True)]


class _Tables(HTMLParser):
    """Collect the cells of all tables."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[Cell]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            spans = [dict(attrs).get(name) or "1" for name in ("colspan", "rowspan")]
            if not all(map(str.isdecimal, spans)):
                raise ValueError(f"line {self.getpos()[0]}: colspan and rowspan must be whole numbers, got {spans}.")
            columns, rows = map(int, spans)
            self.tables[-1][-1].append(Cell("", self.getpos()[0], columns=columns, rows=rows, head=tag == "th"))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while tag in self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inside = {"td", "th"} & set(self.open)
        if inside and self.tables and self.tables[-1] and self.tables[-1][-1] and data.strip():
            cell, row = self.tables[-1][-1][-1], self.tables[-1][-1]
            row[-1] = replace(
                cell,
                text=" ".join([*cell.text.split(), *data.split()]),
                bold=cell.bold or bool({"b", "strong"} & set(self.open)),
                underlined=cell.underlined or "u" in self.open,
            )
