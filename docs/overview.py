"""Draw what became of the papers' statements, a square each, from the ledger: ``python docs/overview.py``."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

LEDGER = Path(__file__).parents[1] / "theory_checks" / "ledger.json"
PAPERS = ("FedSplit/FedFac", "Filter decomposition", "Factorized-FL", "FedDecomp", "FedAvg in the literature")

#: What may become of a statement: the words above its column, its colour, and how many squares stand side by side.
FATES = {
    "stands": ("stands", "#1b6e3c", 8),
    "part": ("true under a condition,\nor in one reading", "#a86a00", 10),
    "misprint": ("refuted:\na misprint", "#6f6f6f", 4),
    "unstated condition": ("refuted: needs\na condition", "#c25a2b", 4),
    "false": ("refuted:\nfalse", "#a01c1c", 4),
    "open": ("undecided, or\ncannot be checked", "#6f6f6f", 4),
}


def fate(claim: Mapping[str, str]) -> str:
    """Return what became of a claim, a key of `FATES`."""
    if claim["verdict"] in ("holds", "holds-on-cases", "supported"):
        return "stands"
    if claim["verdict"] in ("holds-only-if", "ambiguous"):
        return "part"
    return claim["severity"] if claim["verdict"] == "refuted" else "open"


def square(axes: Axes, x: float, y: float, kind: str) -> None:
    """Draw one square, told apart by its mark as well as by its colour."""
    colour, side = FATES[kind][1], 0.78
    right, top, middle = x + side, y + side, (x + side / 2, y + side / 2)
    line = {"color": colour, "lw": 0.9, "solid_capstyle": "butt"}
    look = {"lw": 0.9, "edgecolor": colour, "facecolor": colour if kind == "stands" else "none"}
    axes.add_patch(Rectangle((x, y), side, side, ls=":" if kind == "open" else "-", **look))
    if kind == "part":
        axes.add_patch(Polygon([(x, y), (right, y), (right, top)], color=colour, lw=0))
    if kind in ("unstated condition", "false"):
        axes.plot([x, right], [y, top], **line)
    if kind == "false":
        axes.plot([x, right], [top, y], **line)
    if kind == "misprint":
        axes.plot(*middle, ".", color=colour, ms=3)


def draw(claims: Sequence[Mapping[str, str]]) -> Figure:
    """Draw all claims, a row for each paper and a column for each fate."""
    figure = Figure(figsize=(9.6, 3), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    y = -1.6
    axes.plot([-12.2, 49.7], [-0.4, -0.4], color="0.2", lw=0.8)
    for paper in PAPERS:
        members = [claim for claim in claims if claim["paper"] == paper]
        axes.text(-12.2, y - 0.1, paper, weight="bold", size=9, va="center")
        axes.text(-12.2, y - 1.3, f"{len(members)} statements", size=8, va="center", color="0.3")
        x, lines = 0.0, 1
        for kind, (words, _, across) in FATES.items():
            if paper == PAPERS[0]:
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


def main(file: Path) -> None:
    """Write the picture, with the same bytes for the same ledger."""
    claims = [claim for claim in json.loads(LEDGER.read_text()) if not claim["id"].endswith("c")]
    with mpl.rc_context({"svg.hashsalt": "fedstat", "svg.fonttype": "none", "font.family": "sans-serif"}):
        draw(claims).savefig(file, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("overview.svg"))
