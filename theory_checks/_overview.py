"""Draw what became of the papers' statements, a mark each, from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon, Rectangle

from fedstat.claims import Verdict, read_ledger
from fedstat.claims.claim import SEVERITIES
from fedstat.claims.evidence import FAVOURABLE
from theory_checks import LEDGER
from theory_checks.classics import PAPER as LITERATURE

#: Columns: words above, the verdicts in it, and how many marks stand side by side.
COLUMNS: tuple[tuple[str, tuple[Verdict, ...], int], ...] = (
    ("proven", ("holds",), 5),
    ("no counter-\nexample", ("holds-on-cases",), 5),
    ("supported by\nan interval", ("supported",), 4),
    ("true in a reading,\nfalse in another", ("holds-in-a-reading", "ambiguous"), 6),
    ("true on a condition\nthat is not stated", ("needs-a-condition",), 6),
    ("refuted", ("refuted",), 5),
    ("undecided, or\nnot checkable", ("undecided", "not-checkable"), 4),
)
STANDS, PART, FALLS, OPEN = "#1b6e3c", "#a86a00", "#a01c1c", "#6f6f6f"


def mark(axes: Axes, x: float, y: float, claim: Mapping[str, Any], side: float = 0.78) -> None:
    """Draw a statement's mark, told apart by its form as well as by its colour."""
    verdict = claim["verdict"]
    right, top, middle, half = x + side, y + side, (x + side / 2, y + side / 2), side / 2
    corners = {
        "holds-in-a-reading": [(x, y), (right, y), (right, top)],
        "ambiguous": [(x, y), (right, y), (right, top)],
        "needs-a-condition": [(x, y), (right, y), (right, y + half), (x, y + half)],
        "supported": [(x, y + half), (x + half, y), (right, y + half), (x + half, top)],
        "holds": [(x, y), (right, y), (right, top), (x, top)],
    }.get(verdict)
    colour = PART if verdict in ("holds-in-a-reading", "ambiguous", "needs-a-condition") else STANDS
    if verdict in ("refuted", "undecided", "not-checkable"):
        colour = FALLS if verdict == "refuted" else OPEN
    if verdict == "holds-on-cases":
        axes.add_patch(Circle(middle, half, color=colour, lw=0))
    elif corners:
        axes.add_patch(Polygon(corners, color=colour, lw=0))
    if verdict not in FAVOURABLE:
        line = ":" if colour == OPEN else "-"
        axes.add_patch(Rectangle((x, y), side, side, ls=line, lw=0.9, edgecolor=colour, facecolor="none"))
    if verdict == "refuted" and claim["severity"] == "misprint":
        axes.plot(*middle, ".", color=colour, ms=3)
    elif verdict == "refuted":
        axes.plot([x, right], [y, top], color=colour, lw=0.9, solid_capstyle="butt")
        if claim["severity"] == "false":
            axes.plot([x, right], [top, y], color=colour, lw=0.9, solid_capstyle="butt")


def groups(ledger: Mapping[str, Mapping[str, Any]]) -> list[list[tuple[str, str, list[Mapping[str, Any]]]]]:
    """Return rows of a title, what is counted, and claims: the four papers', the literature's, the corrected ones."""
    stated = [claim for name, claim in ledger.items() if not name.endswith("c")]

    def said(paper: str) -> list[Mapping[str, Any]]:
        return [claim for claim in stated if claim["paper"] == paper and claim["said_by"] == "paper"]

    others = sorted({claim["paper"] for claim in stated} - {LITERATURE}, key=lambda paper: (-len(said(paper)), paper))
    worded = [claim for claim in stated if claim["said_by"] != "paper"]
    of_four, of_others = ([c for c in worded if (c["paper"] == LITERATURE) == apart] for apart in (False, True))
    corrected = [claim for name, claim in ledger.items() if name.endswith("c")]
    return [
        [
            *((paper, "statements", said(paper)) for paper in others),
            ("In our wording", "more on these papers", of_four),
        ],
        [(LITERATURE, "statements", said(LITERATURE)), ("In our wording", "more, with folklore", of_others)],
        [("Corrected", "statements, all ours", corrected)],
    ]


def draw(ledger: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw all claims, a row for each source and a column for each fate; corrected statements with small marks."""
    figure = Figure(figsize=(9.6, 3), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    y, right = -1.6, sum(across + 2.6 for _, _, across in COLUMNS) - 1.0
    starts = [sum(across + 2.6 for _, _, across in COLUMNS[:k]) for k in range(len(COLUMNS))]
    for x, (words, _, _) in zip(starts, COLUMNS, strict=True):
        axes.text(x, 0.1, words, size=8, va="bottom")
    for group in groups(ledger):
        axes.plot([-12.2, right], [y + 1.2, y + 1.2], color="0.2", lw=0.8)
        for title, counted, members in group:
            axes.text(-12.2, y - 0.1, title, weight="bold", size=9, va="center")
            axes.text(-12.2, y - 1.3, f"{len(members)} {counted}", size=8, va="center", color="0.3")
            lines, scale = 1.0, 0.5 if title == "Corrected" else 1.0
            for x, (_, verdicts, across) in zip(starts, COLUMNS, strict=True):
                inside = sorted(
                    (c for c in members if c["verdict"] in verdicts),
                    key=lambda c: SEVERITIES[::-1].index(c["severity"]),
                )
                axes.text(x, y - 0.1, str(len(inside) or "\N{EN DASH}"), size=9, va="center", weight="bold")
                for k, claim in enumerate(inside):
                    line, place = divmod(k, int(across / scale))
                    mark(axes, x + 1.6 + scale * place, y + 0.28 - scale * (line + 0.78), claim, 0.78 * scale)
                    lines = max(lines, scale * (line + 1))
            y -= max(2.7, lines + 0.9)
        y -= 0.5
    axes.plot([-12.2, right], [y + 1.2, y + 1.2], color="0.2", lw=0.8)
    axes.text(30.4, y + 0.25, "refuted:", size=8, va="center", color="0.3")
    for x, severity in zip((33.6, 37.6, 46.6), SEVERITIES[::-1], strict=True):
        mark(axes, x, y - 0.1, {"verdict": "refuted", "severity": severity})
        axes.text(x + 1.3, y + 0.25, severity, size=8, va="center", color="0.3")
    axes.set(xlim=(-12.5, right + 0.3), ylim=(y - 0.6, 2.6))
    figure.set_figheight(figure.get_figwidth() * (3.2 - y) / (right + 12.8))  # a mark is as wide as it is high
    return figure


def write_overview(file: Path) -> None:
    """Write the picture, with the same bytes for the same ledger."""
    with mpl.rc_context({"svg.hashsalt": "fedstat", "svg.fonttype": "none", "font.family": "sans-serif"}):
        draw(read_ledger(LEDGER)).savefig(file, metadata={"Date": None})
