"""The layouts of printed tables: methods by settings, or a list with columns such as method, mean, sd and runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import pandas as pd

from fedstat.inference.printed.grids import Cell
from fedstat.inference.printed.heads import SPREADS, check_scores, methods_column, only_data, spread_columns
from fedstat.inference.printed.values import Value, joined, value
from fedstat.inference.reading.formats.tables import variant

Methods = Literal["rows", "columns"]
_NONE = Cell("", 0)
_NUMERIC = re.compile(r"[-+−]?\.?\d")
_IS_BOLD = dict.fromkeys(("1", "1.0", "true", "yes"), True) | dict.fromkeys(("", "0", "0.0", "false", "no"), False)
_COLUMNS = ["setting", "method", *Value._fields]


def crossed_values(head: list[list[Cell]], body: list[list[Cell]], methods: Methods | None) -> pd.DataFrame:
    """Return the values of a table of methods by settings, one below the other; rows are of one length."""
    if not body:
        raise ValueError("it has no rows below its head.")
    heads = [
        _path(cell.text for cell in column) or f"column {j}" for j, column in enumerate(zip(*head, strict=True), 1)
    ]
    if seeds := [name for name in heads if variant(name) == "seed" and name[-1] not in "sS"]:
        raise ValueError(f"it holds runs, by column {seeds[0]!r}, and no means: compare it without spread and runs.")
    named = None if methods == "columns" else methods_column(heads)
    labels = max(_labels(body), 0 if named is None else named + 1)
    spreads = spread_columns(heads, labels)
    scores = [j for j in range(labels, len(heads)) if j not in {k for k, _ in spreads.values()}]
    rows, heading, above = [], "", [""] * labels
    for row in body:
        texts = [cell.text for cell in row]
        lone = set(filter(None, texts))
        if len(lone) <= 1:  # a heading of the rows below, or a method without values
            heading = next(iter(lone)) if lone and (row[0].columns > 1 or row[0].bold) else heading
            continue
        own = texts[:labels]
        if methods == "columns":
            outer, name = "", _path(own)
        elif named is None:
            *others, name = list(dict.fromkeys(filter(None, own))) or [""]
            outer = _path(others)
        else:  # an empty label repeats the one above
            above = [text or last for text, last in zip(own, above, strict=True)]
            outer, name = _path(above[:named] + above[named + 1 :]), own[named]
        for j in scores:
            if j in spreads:
                k, kind = spreads[j]
                found = joined(row[j], row[k], (heads[j], heads[k]), kind)
            else:
                found = value(row[j], heads[j])
            if found is not None:
                rows.append((name, heads[j], heading, outer, *found))
    if not rows:
        raise ValueError("it holds no value.")
    cells = pd.DataFrame(rows, columns=["row", "column", "heading", "outer", *Value._fields])
    if named is not None:
        cells["heading"] = _below(cells["heading"], cells["outer"])
    elif cells.duplicated(["row", "column", "heading"]).any() and cells["outer"].any():
        raise ValueError(
            "rows have two labels, and the second repeats: which column names the methods? Call it Method in the head; "
            'or say methods="columns" if the methods are in columns.'
        )
    # headings whose methods repeat are settings; otherwise they group the methods of one setting
    prefix = cells["heading"] if cells.duplicated(["row", "column"]).any() else pd.Series("", cells.index)
    settings = {name: _below(prefix, cells[name]) for name in ("row", "column")}
    _ask_where(methods, heads[:labels], *(cells["bold"].groupby(of).sum() for of in settings.values()))
    method, setting = ("column", "row") if methods == "columns" else ("row", "column")
    cells = cells.assign(method=cells[method], setting=settings[setting])
    for name in dict.fromkeys(cells["setting"]):
        check_scores(name)
    return cells[_COLUMNS]


def _ask_where(methods: Methods | None, labels: list[str], by_row: pd.Series, by_column: pd.Series) -> None:
    """Ask where the methods are if the bold faces of rows and columns, or the heads of labels, speak against it."""
    of_rows = (by_row == 1).all() and (by_column == 0).any()
    of_columns = (by_column == 1).all() and (by_row == 0).any()
    if methods == "columns" and of_columns and (by_row > 1).any():
        raise ValueError(
            'each column, and not each row, has one bold face, as if the methods were in rows: say methods="rows".'
        )
    if methods is None and (of_rows or (only_data(labels) and not of_columns)):
        why = "each row, and not each column, has one bold face" if of_rows else f"{_path(labels)!r} heads the rows"
        raise ValueError(
            f'{why}: where are the methods? Say methods="columns", or methods="rows" if each row is a method.'
        )


def _below(outer: pd.Series, inner: pd.Series) -> pd.Series:
    """Return names below headings, "" for none."""
    return (outer + " / " + inner).str.removeprefix(" / ").str.removesuffix(" / ")


def _path(names: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(filter(None, names)))


def _labels(body: list[list[Cell]]) -> int:
    """Return how many columns at the left hold no values."""
    for j, column in enumerate(zip(*body, strict=True)):
        # what is no value there is refused, with its line
        if j and any(cell.columns == 1 and _NUMERIC.match(cell.text) for cell in column):
            return j
    raise ValueError("no column beside the first holds a value such as 82.3 or 82.3 ± 0.4.")


def listed_values(columns: list[str], head: list[Cell], body: list[list[Cell]]) -> pd.DataFrame:
    """Return the values of a list, whose columns are named as `list_columns` does."""
    kind = next((name for name in SPREADS if name in columns), "")
    metric = head[columns.index("mean")].text
    rows = []
    for row in body:
        of = dict(zip(columns, row, strict=True))
        found = joined(of["mean"], of.get(kind, _NONE), ("mean", kind), kind)
        if found is None:
            continue
        runs, bold, setting = (of.get(name, _NONE).text for name in ("runs", "bold", "setting"))
        if (count := re.fullmatch(r"(\d*)(?:\.0*)?|nan", runs, re.I)) is None:
            raise ValueError(f"line {row[0].line}: runs must be a whole number, got {runs!r}.")
        if bold.lower() not in _IS_BOLD:
            raise ValueError(
                f"line {row[0].line}: bold must be 1 for a bold face and 0 or empty for others, got {bold!r}."
            )
        found = found._replace(bold=found.bold or _IS_BOLD[bold.lower()], runs=int(count[1] or 0))
        setting = _path([setting, metric if metric.lower() != "mean" else ""])
        rows.append((setting or "all", of["method"].text, *found))
    return pd.DataFrame(rows, columns=_COLUMNS)
