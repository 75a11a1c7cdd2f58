"""The tables of a comparison as words: units in the headers, equal decimals in a column, dashes for what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from fedstat.inference.comparing.conclusions import MOST_SEEDS
from fedstat.inference.formatting import p_value
from fedstat.inference.reading.scores import size

if TYPE_CHECKING:
    from fedstat.inference.comparing.comparison import Comparison


@dataclass(frozen=True)
class Table:
    """A table whose numbers are words already.

    The title says what the rows are, with the level of the intervals; names in the header have units. The columns in
    `words` are aligned to the left; those in `least` may be left out for want of room, the least important first.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[str]
    least: tuple[str, ...]

    def without(self, names: Iterable[str]) -> Table:
        """Return the table without the columns of these names."""
        left = set(names)
        kept = [i for i, name in enumerate(self.header) if name not in left]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        return replace(self, header=tuple(self.header[i] for i in kept), rows=rows)


def summary_table(comparison: Comparison, *, label: int | None = None) -> Table:
    """Return a row for each method: its mean with limits, its spread over seeds, and how many seeds it has.

    Names longer than `label` characters are shortened.
    """
    found, scale = comparison.summary, _Scale(comparison)
    places = decimals(scale.factor * (found["high"] - found["low"]) / 2, scale.factor * found["mean"], scale.least)
    short = shortened(found.index, label)
    columns = {"method": [short[str(name)] for name in found.index]}
    if found["model"].nunique() > 1:
        columns["model"] = [str(model) for model in found["model"]]
    columns[f"mean{scale.percent}"] = scale.cells(found["mean"], places)
    if _any(found, "low"):
        columns |= {name: scale.cells(found[name], places) for name in ("low", "high")}
    by_samples = f"by samples{scale.percent}"
    if _any(found, "by samples"):
        columns[by_samples] = scale.cells(found["by samples"], places)
    columns[f"sd over seeds{scale.points}"] = scale.cells(found["sd over seeds"], max(places, scale.least))
    if "collapsed" in found and found["collapsed"].any():
        parts = (100 * found["collapsed"] / found["seeds"], 100 * found["collapse low"], 100 * found["collapse high"])
        columns["collapsed (%)"] = _spans(*([fixed(float(value), 0) for value in part] for part in parts))
    columns["seeds"] = counts(found["seeds"])
    alone = f"{percent(comparison.level)} limits of each method alone" if _any(found, "low") else "no limits"
    return _table(f"{scale.metric} of each method, mean over seeds, with {alone}", columns, (by_samples,))


def differences_table(comparison: Comparison, most: int | None = None, *, label: int | None = None) -> Table:
    """Return a row for each pair, in the order of the comparison.

    Of more than `most` pairs only those of the largest differences are shown. Names longer than `label` characters are
    shortened.
    """
    found, scale = comparison.differences, _Scale(comparison)
    total = len(found)
    halves = scale.factor * (found["high"] - found["low"]) / 2
    places = decimals(halves, scale.factor * found["difference"], scale.least)
    if most is not None:
        found = largest(found, most)
    columns = {"method" if comparison.control is not None else "pair": row_names(comparison, found, label)}
    of = "differences" if comparison.control is None else f"differences to {comparison.control}"
    columns[f"difference{scale.points}"] = scale.cells(found["difference"], places)
    if _any(found, "low"):
        columns |= {name: scale.cells(found[name], places) for name in ("low", "high")}
    columns["correlation"] = [fixed(value, 2) for value in found["correlation"]]
    columns["pairs"] = counts(found["pairs"])
    columns |= {name: [p_value(p) for p in found[name]] for name in ("p (t)", "p (sign flips)", "p (adjusted)")}
    columns["outcome"] = [str(word) for word in found["outcome"]]
    needed = "seeds needed" if comparison.aim is None else f"seeds for {size(comparison.aim, comparison.scores)}"
    if _any(found, "seeds needed"):
        columns[needed] = counts(found["seeds needed"], MOST_SEEDS)
    weighted = f"by samples{scale.points}"
    if _any(found, "by samples"):
        cells = scale.cells(found["by samples"], places)
        if _any(found, "low by samples"):
            cells = _spans(cells, *(scale.cells(found[f"{side} by samples"], places) for side in ("low", "high")))
        columns[weighted] = cells
    if "collapsed" in comparison.summary and comparison.summary["collapsed"].any():
        sides = ("given no collapse", "low given no collapse", "high given no collapse")
        cells = _spans(*(scale.cells(found[name], places) for name in sides))
        left = found["pairs without collapse"]
        columns[f"given no collapse{scale.points}"] = [f"{c}, {n} pairs" for c, n in zip(cells, left, strict=True)]
    some = f", the {len(found)} largest of {total}" if len(found) < total else ""
    least = ("p (sign flips)", "p (t)", "correlation", "pairs", needed, weighted)
    return _table(f"{of} of {scale.metric}{some}, paired on seeds, {limits(comparison)}", columns, least)


def largest(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the rows of the largest differences, at most so many, in their order."""
    return rows[rows.index.isin(rows["difference"].abs().nlargest(most).index)]


def shortened(names: Iterable[object], most: int | None) -> dict[str, str]:
    """Return names on one line, the middles of those left out that are longer than `most` characters.

    Where that makes two names alike, all may be longer.
    """
    full = {str(name): " ".join(str(name).split()) for name in names}
    longest = max(map(len, full.values()), default=0)
    for room in range(longest if most is None else most, longest, 4):
        short = {name: _cut(words, room) for name, words in full.items()}
        if len(set(short.values())) == len(full):
            return short
    return full


def _cut(words: str, most: int) -> str:
    end = (most - 1) // 2
    return words if len(words) <= most else f"{words[: most - 1 - end]}…{words[-end:]}"


def row_names(comparison: Comparison, rows: pd.DataFrame, most: int | None) -> list[str]:
    """Name rows of differences in about `most` characters: by the method, or by both where there is no control."""
    if comparison.control is not None:
        short = shortened(comparison.scores.methods, most)
        return [short[str(name)] for name in rows["method"]]
    short = shortened(comparison.scores.methods, None if most is None else (most - 3) // 2)
    return [f"{short[str(row['method'])]} − {short[str(row['against'])]}" for _, row in rows.iterrows()]


def limits(comparison: Comparison) -> str:
    """Say of what kind the intervals of differences are, such as "simultaneous 95% limits"."""
    if not _any(comparison.differences, "low"):
        return "no limits"
    level = percent(comparison.level)
    if len(comparison.differences) == 1:
        return f"{level} limits"
    return f"simultaneous {level} limits" if comparison.simultaneous else f"{level} limits of each alone"


def percent(level: float) -> str:
    """Format a level, e.g. ``95%`` or ``99.5%``."""
    return f"{100 * level:.4g}%"


def decimals(halves: ArrayLike, values: ArrayLike, least: int = 0) -> int:
    """Return how many decimals show two digits of the median half-width; without one, three of the median value."""
    for digits, numbers in ((1, halves), (2, values)):
        known = np.abs(np.asarray(numbers, dtype=float))
        known = known[np.isfinite(known) & (known > 0)]
        if len(known):
            return int(np.clip(digits - np.floor(np.log10(np.median(known))), least, 12))
    return least


def fixed(value: float, places: int) -> str:
    """Format a value with `places` decimals; NaN is a dash."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "∞" if value > 0 else "−∞"
    return f"{round(float(value), places) + 0.0:.{places}f}".replace("-", "−")  # no negative zero


def counts(values: Iterable[float], most: float = np.inf) -> list[str]:
    """Format counts; NaN is a dash, above `most` they are not told apart, and infinite means that none does."""

    def one(v: float) -> str:
        return "–" if v != v else "never enough" if v == np.inf else f"> {most:.0f}" if v > most else f"{v:.0f}"

    return [one(float(v)) for v in values]


class _Scale:
    """The unit of a comparison's numbers: shares as percent, their differences as points, other metrics as they are."""

    def __init__(self, comparison: Comparison) -> None:
        shares = comparison.scores.of_shares
        self.metric = comparison.scores.metric
        self.factor, self.percent, self.points = (100.0, " (%)", " (points)") if shares else (1.0, "", "")
        self.least = int(shares)

    def cells(self, values: Iterable[float], places: int) -> list[str]:
        return [fixed(self.factor * float(value), places) for value in values]


def _spans(cells: Iterable[str], low: Iterable[str], high: Iterable[str]) -> list[str]:
    """Put limits in brackets behind their numbers, where there are limits."""
    ends = zip(cells, low, high, strict=True)
    return [cell if start == "–" else f"{cell} [{start}, {end}]" for cell, start, end in ends]


def _any(table: pd.DataFrame, column: str) -> bool:
    return column in table and bool(table[column].notna().any())


def _table(title: str, columns: dict[str, list[str]], least: tuple[str, ...]) -> Table:
    words = frozenset(["method", "pair", "model", "outcome"])
    return Table(title, tuple(columns), tuple(zip(*columns.values(), strict=True)), words, least)


def joined(table: Table, form: Callable[[str], str] = str) -> Table:
    """Return the table with limits in brackets behind their numbers, instead of in columns of their own.

    All cells are written as `form` does; brackets stay as they are.
    """
    rows = [list(map(form, row)) for row in table.rows]
    if "low" in table.header:
        at = table.header.index("low")
        for row, plain in zip(rows, table.rows, strict=True):
            row[at - 1] += "" if plain[at] == "–" else f" [{row[at]}, {row[at + 1]}]"
    return replace(table, rows=tuple(map(tuple, rows))).without(["low", "high"])
