"""Numbers as a statistician prints them, with true minus signs and no p-value of zero; names as a sentence has them."""

from __future__ import annotations

from collections.abc import Iterable


def number(value: float, digits: int = 3) -> str:
    """Format a value with `digits` significant digits, e.g. ``−14.1``; NaN is a dash.

    Examples
    --------
    >>> from fedstat.inference import number
    >>> number(3.14159), number(-14.123), number(float("nan"))
    ('3.14', '−14.1', '–')
    """
    return "–" if value != value else f"{value:.{digits}g}".replace("-", "−")


def interval(estimate: Iterable[float], digits: int, unit: str = "") -> str:
    """Format a mean and its limits (mean, low, high) with `digits` decimals, e.g. ``1.2 [0.9, 1.5]``.

    NaN is a dash, and so are both limits where there is no interval: ``1.2 [–, –]``. A unit stands behind the mean.

    Examples
    --------
    >>> from fedstat.inference import interval
    >>> interval((1.234, 0.9, 1.5), 1, " points")
    '1.2 points [0.9, 1.5]'
    >>> interval((1.234, 0.9, 1.5), 1), interval((1.234, float("nan"), float("nan")), 1)
    ('1.2 [0.9, 1.5]', '1.2 [–, –]')
    """
    # adding zero turns a rounded -0.0 into 0.0
    values = (round(float(value), digits) + 0.0 for value in estimate)
    mean, low, high = ("–" if value != value else f"{value:.{digits}f}".replace("-", "−") for value in values)
    return f"{mean}{unit} [{low}, {high}]"


def p_value(p: float) -> str:
    """Format a p-value with three decimals, or as ``< 0.001``; NaN is a dash.

    Examples
    --------
    >>> from fedstat.inference import p_value
    >>> p_value(0.0497), p_value(0.00002)
    ('0.050', '< 0.001')
    """
    return "–" if p != p else "< 0.001" if p < 0.001 else f"{p:.3f}"


def listed(names: Iterable[str]) -> str:
    """Join names as in a sentence: ``A, B and C``."""
    found = list(names)
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} and {found[-1]}"


def first_of(names: Iterable[str], most: int = 10) -> str:
    """Join names by commas, of many the first: ``A, B and 4 more``."""
    found = list(names)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
