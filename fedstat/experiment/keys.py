"""Values of a configuration that are set by dotted keys, such as ``partition.alpha=0.1``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from fedstat.experiment.validation import Table


def setting(text: str) -> tuple[str, Any]:
    """Split ``KEY=VALUE``, the value as TOML writes it; a bare word is text."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} should read KEY=VALUE, such as partition.alpha=0.1.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        if re.fullmatch(r"[^\s\"'\[\]{},=#]([^\"'\[\]{}=#\n]*\S)?", value):
            return key, value
        raise ValueError(f"{text!r}: {value!r} is no TOML value; text with signs needs quotes.") from None


def dotted(key: str) -> list[str]:
    """Split a dotted key into its steps, as TOML writes them."""
    try:
        found = tomllib.loads(f"{key} = 0")
    except (ValueError, RecursionError):
        found = {}
    steps = []
    while isinstance(found, dict) and len(found) == 1:
        ((step, found),) = found.items()
        steps.append(step)
    if found != 0 or isinstance(found, dict):
        raise ValueError(f"{key!r} is no key such as rounds or partition.alpha.")
    return steps


def changed(table: Table, path: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy of the table with one value set."""
    step, *rest = path
    if rest:
        inner = table.get(step)
        value = changed(inner if isinstance(inner, dict) else {}, rest, value)
    return {**table, step: value}
