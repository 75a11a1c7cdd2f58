"""What a paper's table says: a mean, and its spread over runs, for each method and setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from fedstat._checks import choice, local, naming, whole
from fedstat.inference.printed.grids import Cell, Grid, html_grids, latex_grids, markdown_grids, separated_grids
from fedstat.inference.printed.heads import SPREADS, Spread, list_columns
from fedstat.inference.printed.layouts import Methods, crossed_values, listed_values

_READERS: dict[str, Callable[[str], list[Grid]]] = {
    ".tex": latex_grids,
    ".md": markdown_grids,
    ".html": html_grids,
    ".htm": html_grids,
    ".csv": separated_grids,
    ".tsv": lambda text: separated_grids(text, "\t"),
}
#: Standard errors from the middle to the end of a normal 95% interval.
_HALF_WIDTH = 1.96


@dataclass(frozen=True, eq=False)
class PrintedTable:
    """A table as it is printed.

    Attributes
    ----------
    cells : DataFrame
        A row for each printed value: ``setting`` and ``method``; ``mean``; ``sd`` over runs, NaN where none is printed;
        ``runs`` behind it; the ``step`` of the mean's and ``sd_step`` of the deviation's last digit; ``bold``,
        ``underlined``, and the ``line``.
    smaller : bool
        Whether smaller values are better in all settings without an arrow.

    Examples
    --------
    >>> import fedstat as fs
    >>> table = fs.read_printed("| | loss |\\n|---|---|\\n| A | 0.31 |\\n| B | **0.27** |", smaller=True)
    >>> table.cells[["method", "mean", "bold"]]
      method  mean   bold
    0      A  0.31  False
    1      B  0.27   True
    """

    cells: pd.DataFrame
    smaller: bool


def read_printed(
    source: str | Path,
    *,
    runs: int | None = None,
    spread: Spread | None = None,
    methods: Methods | None = None,
    smaller: bool = False,
    table: int | None = None,
) -> PrintedTable:
    r"""Read a table of means as a paper prints it.

    A cell holds a mean, alone or with its spread: ``82.3 ± 0.4`` or ``82.3 (0.4)``, in LaTeX also ``$82.3_{\pm .4}$``,
    in bold or underlined; or the spread has a column of its own, as ``acc_sd`` beside ``acc``. Heads of several rows
    are joined, and cells that span others stand for all of them. Rows that hold one text alone are headings of the
    rows below. Of several labels of a row, that in the column Method names the method.

    Parameters
    ----------
    source : str or Path
        A file that ends in .tex, .md, .html, .csv or .tsv; or LaTeX or Markdown itself. A table may also be a list with
        the columns ``method``, ``mean`` and, each optional, ``sd``, ``se`` or ``ci``, ``runs`` (or ``n``, ``seeds``),
        ``setting`` (or ``data``, ``dataset``) and ``bold``; beside spreads, the column of means may have the name of a
        metric. If semicolons separate the columns of a .csv, commas are decimal.
    runs : int, optional
        Runs behind each mean; asked for where spreads are printed.
    spread : {"sd", "se", "ci", "none"}
        What stands beside a mean: the runs' standard deviation, the mean's standard error, or half the width of its 95%
        interval, taken as 1.96 standard errors; "none" to leave it out. Asked for where it is printed and no head says
        it.
    methods : {"rows", "columns"}, optional
        Where the methods are: in rows, if nothing is said. Asked for where a head such as Dataset or the bold faces
        speak against it.
    smaller : bool
        Whether smaller values are better in all settings without an arrow; if not, the names of metrics say where.
    table : int, optional
        Which of the source's tables, from 1; asked for where there are several.

    Raises
    ------
    ValueError
        If there is no such table, a cell holds something else than a value, with its line, a setting mixes percent and
        shares, a column holds spreads and none their means, or one of the other arguments is asked for.

    Examples
    --------
    >>> import fedstat as fs
    >>> source = "| | CIFAR-10 |\n|---|---|\n| A | 81.2 ± 0.3 |\n| B | **82.0 ± 0.4** |"
    >>> table = fs.read_printed(source, runs=3, spread="sd")
    >>> table.cells[["setting", "method", "mean", "sd", "runs", "bold"]]
        setting method  mean   sd  runs   bold
    0  CIFAR-10      A  81.2  0.3     3  False
    1  CIFAR-10      B  82.0  0.4     3   True
    """
    if methods is not None:
        choice("methods", methods, get_args(Methods))
    if spread is not None:
        choice("spread", spread, get_args(Spread))
    if runs is not None:
        whole("runs", runs, 1)
    text, kind, where = _source(source)
    with naming(where):
        grids = _READERS[kind](text)
        if not grids:
            raise ValueError("it holds no table that can be read, such as a tabular.")
        if table is None and len(grids) > 1:
            raise ValueError(
                f"it holds {len(grids)} tables: say {' or '.join(map(_offer, range(1, len(grids) + 1), grids))}."
            )
        table = 1 if table is None else whole("table", table)
        if not 1 <= table <= len(grids):
            raise ValueError(f"table must be the number of one of its {len(grids)} tables, got {table}.")
        grid = grids[table - 1]
        if grid.refused:
            raise ValueError(grid.refused)
        width = max(map(len, grid.rows[: grid.head]), default=0)
        if beyond := [cell for row in grid.rows[grid.head :] for cell in row[width:] if cell.text]:
            raise ValueError(
                f"line {beyond[0].line}: {beyond[0].text!r} stands beyond the {width} columns of the head."
            )
        # the cells that a row lacks are empty
        rows = [[*row, *[Cell("", 0)] * width][:width] for row in grid.rows]
        head, body = rows[: grid.head], rows[grid.head :]
        columns = list_columns([cell.text for cell in head[0]]) if len(head) == 1 else None
        cells = crossed_values(head, body, methods) if columns is None else listed_values(columns, head[0], body)
        _check(cells)
        return PrintedTable(_spreads(cells, runs, spread), smaller)


def is_printed(path: Path) -> bool:
    """Say whether a file is a paper's table: by its ending, or as a .csv or .tsv of methods, means and spreads."""
    if path.suffix.lower() not in (".csv", ".tsv") or not path.is_file():
        return path.suffix.lower() in _READERS
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        rows = separated_grids(file.readline())[0].rows
    return bool(set(SPREADS) & {*(list_columns([cell.text for cell in rows[0]]) or ())}) if rows else False


def _offer(number: int, grid: Grid) -> str:
    """Return how a table is asked for, with the first cells of its head."""
    head = ", ".join([cell.text for cell in grid.rows[0] if cell.text][:3]) if grid.rows else "not read"
    return f"table={number} ({head})"


def _source(source: str | Path) -> tuple[str, str, str]:
    """Return the text of a file, or text itself, with its format, as a file's name ends, and how to call it."""
    text = str(source)
    if isinstance(source, str) and ("\n" in text or "\\begin{" in text):
        kind = ".tex" if "\\begin{" in text else ".md"
        return text, kind, "the table"
    path = local("source", source)
    if path.suffix.lower() not in _READERS:
        raise ValueError(f"source must end in {', '.join(_READERS)}, got {path}.")
    try:
        return path.read_text(encoding="utf-8-sig"), path.suffix.lower(), str(path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8; save it in UTF-8.") from None


def _check(cells: pd.DataFrame) -> None:
    """Refuse a method with two values in one setting, and a setting that mixes percent and shares."""
    if (twice := cells.duplicated(["setting", "method"])).any():
        first = cells[twice].iloc[0]
        raise ValueError(f"line {first['line']}: {first['method']!r} has two values for {first['setting']!r}.")
    for setting, own in cells.groupby("setting", sort=False):
        share = own["mean"].between(0, 1, inclusive="right")
        other = own[~share & (own["mean"] != 0)]
        # percent of one kind are printed with as many decimals, and a share has more
        mixed = own[share & (own["step"] < other["step"].min()) & other["mean"].between(1, 100).all()]
        mixed = mixed[(100 * mixed["mean"]).between(other["mean"].min() / 2, 2 * other["mean"].max())]
        if len(mixed):
            raise ValueError(
                f"line {mixed['line'].iloc[0]}: {mixed['mean'].iloc[0]:g} seems a share among percent such as "
                f"{other['mean'].iloc[0]:g}, for {setting!r}; write all alike, and with as many decimals."
            )


def _spreads(cells: pd.DataFrame, runs: int | None, spread: Spread | None) -> pd.DataFrame:
    """Return the table with standard deviations and numbers of runs, as far as they are known."""
    kinds = cells["kind"] if spread is None else pd.Series(spread, cells.index)
    printed = cells["spread"].notna()
    if (printed & (kinds == "")).any():
        raise ValueError(
            'it prints spreads: say spread="sd" if they are standard deviations over runs, "se" if standard errors of '
            'the mean, "ci" if half the width of 95% intervals, or "none" if they are something else.'
        )
    counts = cells["runs"].replace(0, runs or 0)
    if (printed & (kinds != "none") & (counts == 0)).any():
        raise ValueError("it prints spreads: say over how many runs they are, such as runs=3.")
    errors = np.sqrt(counts)
    scale = np.select([kinds == "sd", kinds == "se", kinds == "ci"], [1.0, errors, errors / _HALF_WIDTH], np.nan)
    sd, sd_step = cells["spread"] * scale, cells["spread_step"] * scale
    found = cells.assign(sd=sd, runs=counts.astype(int), sd_step=sd_step)
    columns = ["setting", "method", "mean", "sd", "runs", "step", "sd_step", "bold", "underlined", "line"]
    return found[columns].reset_index(drop=True)
