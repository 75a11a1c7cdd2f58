"""The value of a printed table's cell: a mean, alone or with its spread."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from fedstat.inference.printed.grids import Cell

_NUMBER = r"[-+−]?(?:\d+\.?\d*|\.\d+)"
_VALUE = re.compile(
    rf"(?P<mean>{_NUMBER})\s*%?\s*(?:(?:±|\+/-|\+-)\s*(?P<after>{_NUMBER})|\(\s*±?\s*(?P<inside>\d+\.?\d*|\.\d+)\s*%?\s*\))?\s*%?[*†‡§¶]*"
)
#: A missing cell: none but signs, or a word for it.
_MISSING = re.compile(r"[\W_]*|n\W*a\W*|nan|oom|x", re.I)


class Value(NamedTuple):
    """A mean and its spread, NaN where none is printed, the steps of their last digits, and how the mean is set.

    `kind` is what the spread is, "sd", "se" or "ci", and `runs` how many are behind it; "" and 0 where the table does
    not say it.
    """

    mean: float
    spread: float
    step: float
    spread_step: float
    bold: bool
    underlined: bool
    line: int
    kind: str = ""
    runs: int = 0


def value(cell: Cell, column: str) -> Value | None:
    """Return what a cell holds; None of a missing one."""
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
    return Value(numbers[0], numbers[1], steps[0], steps[1], cell.bold, cell.underlined, cell.line)


def joined(mean: Cell, spread: Cell, columns: tuple[str, str], kind: str) -> Value | None:
    """Return the value of two cells, of which the second holds the spread alone; None of a missing mean."""
    own, beside = value(mean, columns[0]), value(spread, columns[1])
    if own is not None and own.spread == own.spread:
        raise ValueError(f"line {mean.line}: {columns[0]} must be one number, got {mean.text!r}.")
    if beside is not None and (beside.spread == beside.spread or beside.mean < 0):
        raise ValueError(f"line {spread.line}: {columns[1]} must be one number of at least 0, got {spread.text!r}.")
    if own is None or beside is None:
        return own
    return own._replace(spread=beside.mean, spread_step=beside.step, kind=kind)
