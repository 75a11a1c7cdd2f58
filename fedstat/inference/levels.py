"""Confidence levels, checked where they come in."""

from __future__ import annotations

from fedstat import _checks


def check_level(level: float) -> float:
    """Return a confidence level in (0, 1) as a float; the error on per cent such as 95 says what to write."""
    try:
        return _checks.number("level", level, "(0, 1)")
    except ValueError as error:
        per_cent = isinstance(level, int | float) and 1 < level < 100
        raise ValueError(f"{error} For {level:g}% write {level / 100:g}." if per_cent else f"{error}") from None
