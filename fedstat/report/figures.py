"""The look of all figures: readable in black and white, set in the page's typeface, independent of the system."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The width of a line of text in our documents (inches). Figures of this width are printed as large as they are drawn.
WIDTH = 162 / 25.4


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house style inside the block, without a display."""
    import matplotlib as mpl

    mpl.use("Agg")
    with mpl.rc_context(
        {
            "font.size": 8,
            "axes.labelsize": 8,
            "axes.titlesize": 8,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
            "axes.formatter.min_exponent": 5,  # powers of ten below have exponents too small to read
            "pdf.fonttype": 42,  # TrueType fonts, since journals refuse type 3
            "svg.hashsalt": "fedstat",
            "figure.max_open_warning": 0,
        }
    ):
        yield


def write_svg(figure: Figure, path: Path) -> None:
    """Write a figure for a document of ours; its letters are set in the typeface of the page."""
    import matplotlib as mpl

    written = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fedstat"}):
        figure.savefig(written, format="svg", dpi=200, metadata={"Date": None})
    path.write_text(re.sub("'DejaVu Sans'[^;\"]*", "'Libertinus Serif', Georgia, serif", written.getvalue()))
