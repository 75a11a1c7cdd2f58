"""Draw what became of the papers' statements, a square each, from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from fedstat.claims import read_ledger
from theory_checks import LEDGER

#: What may become of a statement: the words above its column, its colour, and how many squares stand side by side.
FATES = {
    "stands": ("stands", "#1b6e3c", 8),
    "part": ("true under a condition,\nor in one reading", "#a86a00", 10),
    "misprint": ("refuted:\na misprint", "#6f6f6f", 4),
    "unstated condition": ("refuted: needs\na condition", "#c25a2b", 4),
    "false": ("refuted:\nfalse", "#a01c1c", 4),
    "open": ("undecided, or\ncannot be checked", "#6f6f6f", 4),
}


def fate(claim: Mapping[str, Any]) -> str:
    """Return what became of a claim, a key of `FATES`."""
    if claim["verdict"] in ("holds", "holds-on-cases", "supported"):
        return "stands"
    if claim["verdict"] in ("holds-only-if", "ambiguous"):
        return "part"
    return str(claim["severity"]) if claim["verdict"] == "refuted" else "open"


def square(axes: Axes, x: float, y: float, kind: str) -> None:
    """Draw one square, told apart by its mark as well as by its colour."""
    colour, side = FATES[kind][1], 0.78
    right, top, middle = x + side, y + side, (x + side / 2, y + side / 2)
    line: dict[str, Any] = {"color": colour, "lw": 0.9, "solid_capstyle": "butt"}
    look: dict[str, Any] = {"lw": 0.9, "edgecolor": colour, "facecolor": colour if kind == "stands" else "none"}
    axes.add_patch(Rectangle((x, y), side, side, ls=":" if kind == "open" else "-", **look))
    if kind == "part":
        axes.add_patch(Polygon([(x, y), (right, y), (right, top)], color=colour, lw=0))
    if kind in ("unstated condition", "false"):
        axes.plot([x, right], [y, top], **line)
    if kind == "false":
        axes.plot([x, right], [top, y], **line)
    if kind == "misprint":
        axes.plot(*middle, ".", color=colour, ms=3)


def statements() -> list[dict[str, Any]]:
    """Return what the ledger says of the papers' own statements, without those that correct them."""
    return [claim for name, claim in read_ledger(LEDGER).items() if not name.endswith("c")]


def draw(claims: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw all claims, a row for each paper and a column for each fate."""
    figure = Figure(figsize=(9.6, 3), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    y = -1.6
    axes.plot([-12.2, 49.7], [-0.4, -0.4], color="0.2", lw=0.8)
    counts = Counter(claim["paper"] for claim in claims)
    papers = sorted(counts, key=lambda paper: (-counts[paper], paper))
    for paper in papers:
        members = [claim for claim in claims if claim["paper"] == paper]
        axes.text(-12.2, y - 0.1, paper, weight="bold", size=9, va="center")
        axes.text(-12.2, y - 1.3, f"{counts[paper]} statements", size=8, va="center", color="0.3")
        x, lines = 0.0, 1
        for kind, (words, _, across) in FATES.items():
            if paper == papers[0]:
                axes.text(x, 0.1, words, size=8, va="bottom")
            count = sum(fate(claim) == kind for claim in members)
            axes.text(x, y - 0.1, str(count or "\N{EN DASH}"), size=9, va="center", weight="bold")
            for k in range(count):
                square(axes, x + 1.6 + k % across, y - 0.5 - k // across, kind)
            lines = max(lines, -(-count // across))
            x += across + 2.6
        y -= max(2.7, lines + 0.9)
    axes.plot([-12.2, 49.7], [y + 0.9, y + 0.9], color="0.2", lw=0.8)
    axes.set(xlim=(-12.5, 50), ylim=(y + 0.6, 2.6))
    figure.set_figheight(figure.get_figwidth() * (2.0 - y) / 62.5)  # a square is as wide as it is high
    return figure


def write_overview(file: Path) -> None:
    """Write the picture, with the same bytes for the same ledger."""
    with mpl.rc_context({"svg.hashsalt": "fedstat", "svg.fonttype": "none", "font.family": "sans-serif"}):
        draw(statements()).savefig(file, metadata={"Date": None})
