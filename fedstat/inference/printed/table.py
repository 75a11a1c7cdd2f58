"""What a paper's table says: a mean, and its spread over runs, for each method and setting."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd

from fedstat._checks import choice, local, naming, whole
from fedstat.inference.printed.grids import Cell, Grid, html_grids, latex_grids, markdown_grids, separated_grids

Spread = Literal["sd", "se", "ci", "none"]
_READERS: dict[str, Callable[[str], list[Grid]]] = {
    ".tex": latex_grids,
    ".md": markdown_grids,
    ".html": html_grids,
    ".htm": html_grids,
    ".csv": separated_grids,
    ".tsv": lambda text: separated_grids(text, "\t"),
}
_NUMBER = r"[-+−]?(?:\d+\.?\d*|\.\d+)"
_VALUE = re.compile(
    rf"(?P<mean>{_NUMBER})\s*%?\s*(?:(?:±|\+/-|\+-)\s*(?P<after>{_NUMBER})|\(\s*±?\s*(?P<inside>\d+\.?\d*|\.\d+)\s*%?\s*\))?\s*%?[*†‡§¶]*"
)
_NUMERIC = re.compile(r"[-+−]?\.?\d")
_LISTED = {"method", "mean", "sd", "se", "ci", "runs", "setting", "bold"}
_SYNONYMS = {"n": "runs", "seeds": "runs", "std": "sd"}
#: Standard errors from the middle to the end of a normal 95% interval.
_HALF_WIDTH = 1.96
#: Heads of columns that hold no scores, but what belongs to those beside them.
_BESIDE = re.compile(
    r"\W*(?:s\.?d|s\.?e|sem|std|stdev|stderr|(?:std|standard)\W*(?:dev\w*|err\w*)|(?:\d+\W*)?ci|n|seeds|runs|trials|±)\W*|±",
    re.I,
)
#: A missing cell: none but signs, or a word for it.
_MISSING = re.compile(r"[\W_]*|n\W*a\W*|nan|oom|x", re.I)


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
    methods: Literal["rows", "columns"] = "rows",
    smaller: bool = False,
    table: int = 1,
) -> PrintedTable:
    r"""Read a table of means as a paper prints it.

    A cell holds a mean, alone or with its spread: ``82.3 ± 0.4`` or ``82.3 (0.4)``, in LaTeX also ``$82.3_{\pm .4}$``,
    in bold or underlined. Heads of several rows are joined, and cells that span others stand for all of them. Rows that
    hold one text alone are headings of the rows below.

    Parameters
    ----------
    source : str or Path
        A file that ends in .tex, .md, .html, .csv or .tsv; or LaTeX or Markdown itself. A .csv may also have the
        columns ``method``, ``mean`` and, each optional, ``sd``, ``se`` or ``ci``, ``runs`` (or ``n``, ``seeds``),
        ``setting`` and ``bold``; if semicolons separate its columns, commas are decimal.
    runs : int, optional
        Runs behind each mean; asked for where spreads are printed.
    spread : {"sd", "se", "ci", "none"}
        What stands beside a mean: the runs' standard deviation, the mean's standard error, or half the width of its 95%
        interval, taken as 1.96 standard errors; "none" to leave it out. Asked for where it is printed, since the table
        does not say it.
    methods : {"rows", "columns"}
        Where the methods are.
    smaller : bool
        Whether smaller values are better in all settings without an arrow; if not, the names of metrics say where.
    table : int
        Which of the source's tables, from 1.

    Raises
    ------
    ValueError
        If there is no such table, a cell holds something else than a value, with its line, a setting mixes percent and
        shares, a column seems to hold deviations, or `runs` or `spread` lacks.

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
    choice("methods", methods, ("rows", "columns"))
    if spread is not None:
        choice("spread", spread, get_args(Spread))
    if runs is not None:
        whole("runs", runs, 1)
    text, kind, where = _source(source)
    with naming(where):
        grids = _READERS[kind](text)
        if not grids:
            raise ValueError("it holds no table that can be read, such as a tabular.")
        if not 1 <= whole("table", table) <= len(grids):
            raise ValueError(f"table must be the number of one of its {len(grids)} tables, got {table}.")
        grid = grids[table - 1]
        if grid.refused:
            raise ValueError(grid.refused)
        width = max(map(len, grid.rows[: grid.head]), default=0)
        if beyond := [cell for row in grid.rows[grid.head :] for cell in row[width:] if cell.text]:
            raise ValueError(
                f"line {beyond[0].line}: {beyond[0].text!r} stands beyond the {width} columns of the head."
            )
        head = [_SYNONYMS.get(cell.text.lower(), cell.text.lower()) for cell in grid.rows[0]] if grid.rows else []
        listed = {"method", "mean"} <= {*head} <= _LISTED and len({*head}) == len(head)
        cells = _listed(grid, head) if listed else _crossed(grid, methods)
        _check(cells)
        return PrintedTable(_spreads(cells, runs, spread), smaller)


def _source(source: str | Path) -> tuple[str, str, str]:
    """Return the text of a file, or text itself, with its format, as a file's name ends, and how to call it."""
    text = str(source)
    if isinstance(source, str) and ("\n" in text or "\\begin{" in text):
        kind = ".tex" if "\\begin{" in text else ".md"
        return text, kind, "the table"
    path = local("source", source)
    if path.suffix.lower() not in _READERS:
        raise ValueError(f"source must end in {', '.join(_READERS)}, got {path}.")
    return path.read_text(encoding="utf-8-sig"), path.suffix.lower(), str(path)


def _crossed(grid: Grid, methods: str) -> pd.DataFrame:
    """Return the values of a table of methods by settings, one below the other."""
    body = grid.rows[grid.head :]
    if not body:
        raise ValueError("it has no rows below its head.")
    width = max(len(row) for row in grid.rows)
    labels = _labels(body, width)
    heads = [_head(grid.rows[: grid.head], j) for j in range(width)]
    rows, heading = [], ""
    for row in body:
        texts = [cell.text for cell in row]
        lone = set(filter(None, texts))
        if len(lone) <= 1:  # a heading of the rows below, or a method without values
            heading = next(iter(lone)) if lone and (row[0].columns > 1 or row[0].bold) else heading
            continue
        *outer, name = list(dict.fromkeys(filter(None, texts[:labels]))) or [""]
        for j in range(labels, len(row)):
            if (value := _value(row[j], heads[j])) is not None:
                rows.append((name, heads[j], heading, " / ".join(outer), *value))
    if not rows:
        raise ValueError("it holds no value.")
    found = pd.DataFrame(rows, columns=["row", "column", "heading", "outer", *_MEASURED])
    if found.duplicated(["row", "column", "heading"]).any() and found["outer"].any():
        raise ValueError(
            "rows have two labels, and the second repeats: is the first a setting, such as a data set, or part of the "
            "method's name? Leave one of the columns out, or split the table."
        )
    # headings whose methods repeat are settings; otherwise they group the methods of one setting
    repeats = found.duplicated(["row", "column"]).any()
    method, setting = ("row", "column") if methods == "rows" else ("column", "row")
    found = found.assign(method=found[method], setting=found[setting])
    if repeats:
        found["setting"] = (found["heading"] + " / " + found["setting"]).str.removeprefix(" / ")
    for name in dict.fromkeys([*found["setting"], *found["column"]]):
        if _BESIDE.fullmatch(last := name.split(" / ")[-1]):
            raise ValueError(
                f"column {last!r} holds no scores. What stands beside means goes into their cells, as 82.3 ± 0.4, or "
                "list the values in the columns method, mean, sd, se or ci, and runs."
            )
    return found[["setting", "method", *_MEASURED]].assign(runs=0)


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


def _head(rows: list[list[Cell]], j: int) -> str:
    """Return what stands above a column, of several rows joined."""
    texts = dict.fromkeys(row[j].text for row in rows if j < len(row) and row[j].text)
    return " / ".join(texts) or f"column {j + 1}"


_MEASURED = ("mean", "spread", "step", "spread_step", "bold", "underlined", "line")


def _labels(body: list[list[Cell]], width: int) -> int:
    """Return how many columns at the left hold no values."""
    for j in range(width):
        own = [row[j] for row in body if j < len(row) and row[j].columns == 1 and row[j].text]
        if j and any(_NUMERIC.match(cell.text) for cell in own):  # what is no value there is refused, with its line
            return j
    raise ValueError("no column beside the first holds a value such as 82.3 or 82.3 ± 0.4.")


def _value(cell: Cell, column: str) -> tuple[float, float, float, float, bool, bool, int] | None:
    """Return mean, spread, their last digits' steps, bold, underlined and line; None of a missing cell."""
    if _MISSING.fullmatch(cell.text):
        return None
    if cell.foreign:
        raise ValueError(
            f"line {cell.line}, {column!r}: what {cell.foreign} makes of its argument is not known; write the value "
            "alone, in \\textbf if it is bold, and -, n/a or nothing in a missing cell."
        )
    found = _VALUE.fullmatch(cell.text)
    if found is None:
        raise ValueError(
            f"line {cell.line}, {column!r}: {cell.text!r} is no value. A cell holds one mean, alone or as "
            "82.3 ± 0.4 or 82.3 (0.4); a missing one is empty, -, n/a or a sign such as ×."
        )
    spread = found["after"] or found["inside"]
    if found["inside"] and "." not in found["inside"] and "." in found["mean"]:
        raise ValueError(
            f"line {cell.line}, {column!r}: {cell.text!r} may hold a deviation of {found['inside']}, or of as many "
            "units of the last digit; write it as ±."
        )
    numbers = [float(text.replace("−", "-")) if text else np.nan for text in (found["mean"], spread)]
    if numbers[1] < 0:
        raise ValueError(f"line {cell.line}, {column!r}: {cell.text!r} has a negative spread.")
    steps = [10.0 ** -len(text.partition(".")[2]) if text else np.nan for text in (found["mean"], spread)]
    return numbers[0], numbers[1], steps[0], steps[1], cell.bold, cell.underlined, cell.line


def _listed(grid: Grid, head: list[str]) -> pd.DataFrame:
    """Return the values of a table with the columns method, mean, sd, se or ci, runs, setting and bold."""
    kind = next((name for name in ("sd", "se", "ci") if name in head), None)
    rows = []
    for row in grid.rows[1:]:
        of = dict(zip_longest(head, row, fillvalue=Cell("", row[0].line)))
        mean, beside = (_value(of[name], name) if name in of else None for name in ("mean", str(kind)))
        if mean is None:
            continue
        of_spread = (np.nan, np.nan) if beside is None else (beside[0], beside[2])
        for name, value in (("mean", mean), (str(kind), beside)):
            if value is not None and (value[1] == value[1] or (name == kind and value[0] < 0)):
                raise ValueError(
                    f"line {row[0].line}: {name} must be one number{' of at least 0' * (name == kind)}, "
                    f"got {of[name].text!r}."
                )
        count = of["runs"].text or "0" if "runs" in of else "0"
        if not count.isdecimal():
            raise ValueError(f"line {row[0].line}: runs must be a whole number, got {count!r}.")
        bold = mean[4] or ("bold" in of and of["bold"].text.lower() in ("1", "true", "yes"))
        setting = of["setting"].text if "setting" in of else "all"
        rows.append(
            (setting, of["method"].text, mean[0], of_spread[0], mean[2], of_spread[1], bold, *mean[5:], int(count))
        )
    found = pd.DataFrame(rows, columns=["setting", "method", *_MEASURED, "runs"])
    found.attrs["spread"] = kind
    return found


def _spreads(cells: pd.DataFrame, runs: int | None, spread: Spread | None) -> pd.DataFrame:
    """Return the table with standard deviations and numbers of runs, as far as they are known."""
    spread = spread or cells.attrs.get("spread")
    printed = cells["spread"].notna().any()
    if printed and spread is None:
        raise ValueError(
            'it prints spreads: say spread="sd" if they are standard deviations over runs, "se" if standard errors of '
            'the mean, "ci" if half the width of 95% intervals, or "none" if they are something else.'
        )
    counts = cells["runs"].replace(0, runs or 0)
    if spread != "none" and (cells["spread"].notna() & (counts == 0)).any():
        raise ValueError("it prints spreads: say over how many runs they are, such as runs=3.")
    errors = {"se": 1.0, "ci": _HALF_WIDTH}.get(str(spread))
    scale = np.sqrt(counts) / errors if errors else 1.0 if spread == "sd" else np.nan
    sd, sd_step = cells["spread"] * scale, cells["spread_step"] * scale
    found = cells.assign(sd=sd, runs=counts.astype(int), sd_step=sd_step)
    columns = ["setting", "method", "mean", "sd", "runs", "step", "sd_step", "bold", "underlined", "line"]
    return found[columns].reset_index(drop=True)
