"""A paper's table as LaTeX, with a bold face for every method that may be the best."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from fedstat.inference.comparing.printing import latex_table, percent, tex
from fedstat.inference.formatting import listed

if TYPE_CHECKING:
    from fedstat.inference.printed.standing import PrintedComparison

_TO_SAY = (
    "say in the text whether all methods ran under the same seeds and on the same splits, how each was tuned, and on "
    "which samples the round was chosen"
)


def latex(best: PrintedComparison) -> str:
    """Return a table with a row for each method; `best` compares each setting's best printed value with the others."""
    cells = best.printed.cells
    settings, methods = (list(dict.fromkeys(cells[name])) for name in ("setting", "method"))
    chosen = {row["setting"]: _bold(row, best.differences) for row in best.bold.to_dict("records")}
    values = {
        (row["setting"], row["method"]): _cell(row, row["method"] in chosen[row["setting"]])
        for row in cells.to_dict("records")
    }
    rows = [[tex(method), *(values.get((setting, method), "--") for setting in settings)] for method in methods]
    counts = [str(n) for n in sorted(set(cells["runs"])) if n > 0]
    spread = cells["sd"].notna().any()
    caption = "Means and standard deviations" if spread else "Means"
    caption += f" over {listed(counts)} runs" if counts and counts != ["1"] else ""
    return latex_table(
        f"{caption}.",
        "l" + "r" * len(settings),
        ["Method", *(tex(s if "↓" in s or s not in best.less else f"{s} ↓") for s in settings)],
        rows,
        _notes(best, [setting for setting in settings if not chosen[setting]]),
        _TO_SAY,
    )


def _bold(row: dict[str, str], differences: pd.DataFrame) -> set[str]:
    """Return who may be the best of a setting: whoever is not told apart from the best printed by joint limits."""
    if row["answer"] == "order only":
        return set()
    own = differences[differences["setting"] == row["setting"]]
    others = own["method"][~(own["low (joint)"] > 0)]
    return {row["method"], *(others if row["answer"] != "stands" else ())}


def _cell(row: dict[str, float], bold: bool) -> str:
    value = decimal(row["mean"], row["step"]).replace("-", "$-$")
    if row["sd"] == row["sd"]:
        value += rf" $\pm$ {decimal(row['sd'], row['sd_step'])}"
    return rf"\textbf{{{value}}}" if bold else value


def decimal(value: float, step: float) -> str:
    """Return a number with the decimals that were printed."""
    return f"{value:.{max(0, math.ceil(-math.log10(step) - 1e-9))}f}"


def _notes(best: PrintedComparison, unmarked: list[str]) -> list[str]:
    if len(unmarked) == len(best.bold):
        return ["No deviations are known: nothing is told apart, and nothing is bold."]
    notes = [
        "Bold: in each column the best mean, and every other method that is not told apart from it. With a probability "
        f"of {percent(best.level)} the bold methods of every column hold the one with the best expected value (Welch's "
        "limits, runs taken as unpaired; Bonferroni over columns and methods)."
    ]
    if unmarked:
        notes.append(f"Without deviations nothing is told apart, and nothing is bold, in {listed(unmarked)}.")
    return notes
