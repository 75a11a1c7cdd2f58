"""Sentences and tables as plain text, Markdown, HTML, LaTeX or CSV."""

from __future__ import annotations

import html as markup
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedstat._files import write_text
from fedstat.inference.comparing.learning import STILL_LEARNING, changing_sentences
from fedstat.inference.comparing.tables import Table, differences_table, joined, limits, percent, summary_table
from fedstat.inference.formatting import listed
from fedstat.inference.reading.scores import size

if TYPE_CHECKING:
    from fedstat.inference.comparing.comparison import Comparison

#: Characters in a line of text.
_WIDTH = 120
#: Notes on how a file was read, and on a column that is not in the table, which are not for the readers of a paper.
_NOT_FOR_PAPERS = re.compile(r": (?:no column \w+|columns not read): |^Seeds needed rest ")


def wrapped(paragraphs: Iterable[str]) -> str:
    """Return paragraphs in lines of at most 120 characters."""
    return "\n".join(
        textwrap.fill(paragraph, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        for paragraph in paragraphs
        if paragraph
    )


def table_text(table: Table) -> str:
    """Return a table with its title for a terminal; of columns for which a line has no room the names are told."""
    least = [name for name in table.least if name in table.header]
    for count in range(len(least) + 1):
        shown = table.without(least[:count])
        cells = [[_one_line(cell) for cell in line] for line in (shown.header, *shown.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= _WIDTH:
            break
    forms = [f"{'<' if name in table.words else '>'}{width}" for name, width in zip(shown.header, widths, strict=True)]
    lines = ["  ".join(map(format, line, forms)).rstrip() for line in cells]
    notes = [f"(not shown here: {', '.join(least[:count])})"] if count else []
    return "\n".join([wrapped([table.title]), *lines, *notes])


def _one_line(cell: str) -> str:
    return " ".join(cell.split())


def table_markdown(table: Table) -> str:
    """Return a table with its title as Markdown."""
    lines = [table.header, [":--" if name in table.words else "--:" for name in table.header], *table.rows]
    cells = [[cell if i == 1 else escaped_markdown(cell) for cell in line] for i, line in enumerate(lines)]
    shown = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    return f"**{escaped_markdown(table.title)}**\n\n{shown}"


def bullets(sentences: Iterable[str]) -> str:
    """Return sentences as a list in Markdown."""
    return "\n".join(f"- {escaped_markdown(sentence)}" for sentence in sentences)


def escaped_markdown(words: str) -> str:
    """Return words as Markdown prints them, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~$])", r"\\\1", _one_line(words))


def escaped(words: str) -> str:
    """Return words as HTML prints them, on one line."""
    return markup.escape(_one_line(words))


def html_list(sentences: Iterable[str]) -> str:
    """Return sentences as a list in HTML."""
    items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else ""


def html_table(table: Table) -> str:
    """Return a table with its title in HTML."""
    sides = [f' style="text-align: {"left" if name in table.words else "right"}"' for name in table.header]
    head = "".join(f"<th{side}>{escaped(name)}</th>" for side, name in zip(sides, table.header, strict=True))
    rows = ([f"<td{side}>{escaped(cell)}</td>" for side, cell in zip(sides, row, strict=True)] for row in table.rows)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    title = f'<caption style="text-align: left">{escaped(table.title)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def latex(comparison: Comparison) -> str:
    r"""Return a ``table`` for LaTeX, which needs the package booktabs and no other.

    A row for each method: its mean with limits and, where the comparison has controls, the difference to each, with a
    star if it is not judged. The best mean is bold. Underlined is what is equivalent to the best one by the
    comparison's margin, and a dagger marks what cannot be told apart from it; a note below the table states this rule.
    Where the best method was not compared with all others nobody is marked but it, and the note says so.
    """
    found, differences = comparison.summary, comparison.differences
    marks, rule = _marks(comparison)
    summary = joined(summary_table(comparison), tex)
    beside = ("by samples", "sd over seeds", "collapsed")
    summary = summary.without(name for name in summary.header if name.startswith(beside))
    *first, mean, seeds = summary.header
    metric = tex(comparison.scores.metric.replace("_", " ")).capitalize()
    head = [*map(_upper_first, first), tex(mean).replace("mean", metric), _upper_first(seeds)]
    against: dict[tuple[str, str], tuple[str, str]] = {}
    if (comparison.control is not None or comparison.above is not None) and len(differences):
        table = joined(differences_table(comparison), tex)
        place = table.header.index("p (adjusted)")
        stars = (r"$^{\ast}$" * (outcome == STILL_LEARNING) for outcome in differences["outcome"])
        cells = ((row[1] + star, row[place]) for row, star in zip(table.rows, stars, strict=True))
        against = dict(zip(zip(differences["method"], differences["against"], strict=True), cells, strict=True))
    controls = list(dict.fromkeys(control for _, control in against))
    for control in controls:
        head[-1:-1] = [tex(table.header[1]).replace("difference", f"Difference to {tex(control)}"), "$p$"]
    rows = []
    for label, (*names, number, count) in zip(found.index, summary.rows, strict=True):
        pairs = (cell for control in controls for cell in against.get((label, control), ("", "")))
        rows.append([*names, marks.get(str(label), "{}").format(number), *pairs, count])
    said = _upper_first(comparison.estimand.rstrip("."))
    if found["low"].notna().any():
        said += f"; in brackets {percent(comparison.level)} intervals over seeds of each method alone"
    notes = [rule]
    if against and differences["low"].notna().any():
        kind = limits(comparison).replace("limits", "intervals")
        notes.append(f"Differences are paired on seeds, with {kind} and p-values adjusted to them.")
    if against and (differences["outcome"] == STILL_LEARNING).any():
        notes.append("Differences with * are not judged, since one of the two methods is not trained enough.")
    notes += changing_sentences(comparison.scores)
    notes += [note for note in comparison.notes if not _NOT_FOR_PAPERS.search(note)]
    notes.append(comparison.generalises)
    sides = "l" * len(first) + "r" * (len(head) - len(first))
    return latex_table(f"{said}.", sides, head, rows, notes)


def latex_table(
    caption: str, sides: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str], remark: str = ""
) -> str:
    """Return a ``table`` with notes below it; head and rows are LaTeX, all else is words, and a remark a comment."""
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}" + f"; {remark}" * bool(remark),
            r"\begin{table}",
            r"\centering",
            f"\\caption{{{tex(caption)}}}",
            f"\\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
            *[" & ".join(line) + r" \\" for line in rows],
            r"\bottomrule",
            r"\end{tabular}",
            "",
            r"\smallskip",
            r"\begin{minipage}{\linewidth}\footnotesize",
            *[tex(note if note.endswith((".", "!", "?")) else f"{note}.") for note in notes if note],
            r"\end{minipage}",
            r"\end{table}",
            "",
        ]
    )


#: How the mean of a method is set that is not the best, by the outcome of its pair with the best, and why.
_MARKS = {
    "equivalent": (r"\underline{{{}}}", ""),
    "undecided": (r"{}$^{{\dagger}}$", "†: not told apart from the best"),
    "no spread": (r"{}$^{{\ddagger}}$", "‡: no spread over seeds, and no test against the best"),
    STILL_LEARNING: (r"{}$^{{\ast}}$", "*: not judged against the best, since one of the two is still learning"),
}


def _marks(comparison: Comparison) -> tuple[dict[str, str], str]:
    """Return how the mean of each marked method is set, by its label, and the rule in words."""
    means, direction = comparison.summary["mean"].dropna(), comparison.scores.direction
    if not direction or not len(means):
        return {}, "No method is marked as the best" + ("" if direction else ", since more or less may be better") + "."
    ran = comparison.scores.ran[[label in means.index for label in comparison.scores.methods]]
    if (ran != ran[0]).any():
        return {}, "No method is marked as the best: they ran under different seeds, so that means are not paired."
    top = means.max() if direction > 0 else means.min()
    best = [str(label) for label in means.index[means == top]]
    marks = dict.fromkeys(best, r"\textbf{{{}}}")
    bold = f"Bold: the best mean ({listed(best)})" if len(best) > 1 else "Bold: the best mean"
    outcomes = {
        str(row["against"] if row["method"] == best[0] else row["method"]): row["outcome"]
        for _, row in comparison.differences.iterrows()
        if best[0] in (row["method"], row["against"])
    }
    if not {str(label) for label in means.index} <= {*outcomes, best[0]}:
        return marks, f"{bold}. It was not compared with all other methods, so none of them is marked."
    others = {label: outcome for label, outcome in outcomes.items() if label not in best}
    marks |= {label: _MARKS[outcome][0] for label, outcome in others.items() if outcome in _MARKS}
    words = [bold]
    if comparison.margin is not None:
        words.append(f"underlined: equivalent to the best within {size(comparison.margin, comparison.scores)}")
    words += [why for outcome, (_, why) in _MARKS.items() if why and outcome in others.values()]
    return marks, "; ".join(words) + "."


_GREEK = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon varphi chi "
    "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
#: What LaTeX reads otherwise, or its standard fonts lack. Brackets and stars after a line's end would be read as its
#: arguments, and pairs of hyphens and quotes as one sign.
_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", '"': "''",
    "[": "{[}", "]": "{]}", "*": "{*}", "`": r"\`{}", "''": "'{}'", "--": "-{}-",
    "−": "$-$", "–": "--", "—": "---", "…": r"\ldots{}", "×": r"$\times$", "±": r"$\pm$", "∞": r"$\infty$",
    "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$", "·": r"$\cdot$", "†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$",
    "“": "``", "”": "''", "‘": "`", "’": "'", "↓": r"$\downarrow$", "↑": r"$\uparrow$",
    **dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", (f"$\\{name}$" for name in _GREEK.split()), strict=True)),
}  # fmt: skip
_TEX_PATTERN = re.compile("|".join(re.escape(sign) for sign in sorted(_TEX, key=len, reverse=True)))


def tex(words: str) -> str:
    """Return words as LaTeX prints them, on one line."""
    return _TEX_PATTERN.sub(lambda match: _TEX[match[0]], _one_line(words))


def _upper_first(words: str) -> str:
    return words[:1].upper() + words[1:]


def joined_csv(
    frames: Mapping[str, pd.DataFrame], first: Sequence[str], same: Mapping[str, Any], path: str | Path | None
) -> str:
    """Return tables as one, some columns first, and at the end those that are the `same` in all rows; write it too."""
    table = pd.concat([one.assign(table=name) for name, one in frames.items() if len(one)], ignore_index=True)
    order = [name for name in ("table", *first) if name in table]
    table = table[[*order, *(name for name in table if name not in order)]]
    table = table.astype({name: "Int64" for name in ("seeds", "pairs") if name in table})
    written: str = table.assign(**same).to_csv(index=False)
    if path is not None:
        write_text(path, written)
    return written
