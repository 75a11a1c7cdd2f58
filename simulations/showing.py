"""Format the numbers that chapters print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedstat.inference import interval

if TYPE_CHECKING:
    from simulations.effects import Effect

#: What stands where there is no number.
NONE = "–"


def rounded(rows: Sequence[dict[str, Any]], **most: int) -> list[dict[str, Any]]:
    """Format the estimates in the named columns of a table.

    Parameters
    ----------
    rows : sequence of dict
        Records; the named fields hold (mean, low, high), or None where there is no number.
    **most : int
        For each column the decimals wanted. All its rows get the same number: as many, or so few that the typical
        half-width keeps two significant digits.

    Returns
    -------
    list of dict
        The records with text in the named fields.
    """
    shown = [dict(row) for row in rows]
    for name, digits in most.items():
        used = decimals([row[name] for row in rows if row[name] is not None], digits)
        for row in shown:
            row[name] = NONE if row[name] is None or np.isnan(row[name][0]) else interval(row[name], used)
    return shown


def decimals(estimates: Iterable[Sequence[float]], most: int) -> int:
    """Return the decimals that a column of (mean, low, high) allows, `most` at most."""
    halves = [(high - low) / 2 for _, low, high in estimates if high > low]
    return most if not halves else int(np.clip(1 - math.floor(math.log10(np.median(halves))), 0, most))


def sought(effects: Iterable[Effect], digits: int) -> dict[str, str]:
    """Say what was looked for in vain: what the intervals of some effects could have found, and what they allow.

    Returns
    -------
    dict
        ``could``, the difference that is found with a power of 80%, of several effects the smallest and the largest;
        and ``most``, the largest difference in either direction that one of the intervals allows.
    """
    some = list(effects)
    could = [e.could_find for e in some]
    most = np.max([e.at_most for e in some], initial=0.0) if some else math.nan
    low, high = (fixed(f(could), digits) if some else NONE for f in (np.min, np.max))
    return {"could": low if low == high else f"{low} to {high}", "most": fixed(float(most), digits)}


def fixed(value: float, digits: int) -> str:
    """Format a number with `digits` decimals; NaN is a dash."""
    return NONE if not math.isfinite(value) else f"{round(float(value), digits) + 0.0:.{digits}f}".replace("-", "−")


def mean_sd(values: Iterable[float], digits: int = 1) -> str:
    """Format mean and standard deviation of runs; a dash where nothing ran, or a run left no number (infinity)."""
    x = np.asarray(list(values), dtype=float)
    x = x[~np.isnan(x)]
    if not x.size or not np.isfinite(x).all():
        return NONE
    return f"{fixed(x.mean(), digits)} ({fixed(x.std(ddof=1) if x.size > 1 else math.nan, digits)})"


def span(values: Iterable[float], digits: int) -> str:
    """Format the smallest and the largest of some numbers, or one if they look alike; a dash if any is missing."""
    x = np.asarray(list(values), dtype=float)
    if not x.size or np.isnan(x).any():
        return NONE
    return " to ".join(dict.fromkeys(fixed(end, digits) for end in (x.min(), x.max())))


def total(counts: Iterable[float]) -> int | str:
    """Add up counts, or what is true; a dash if one is not known."""
    x = np.asarray(list(counts), dtype=float)
    return NONE if np.isnan(x).any() else int(x.sum())


def setting(p: float, alpha: float) -> str:
    """Name a setting of the generator."""
    return f"p = {p:g}, α = {alpha:g}"
