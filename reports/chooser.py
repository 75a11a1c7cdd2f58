"""The page for choosing a method: all of them in one table, and what that table says to five questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fedstat.inference.comparing.learning import STILL_LEARNING
from fedstat.methods import Cards, Variant
from fedstat.methods._cards import CELLS, KINDS
from simulations.names import readable
from simulations.rule import CONTROLS
from simulations.showing import NONE, fixed

#: The questions of the guide, and which variants each lets through.
QUESTIONS: dict[str, Callable[[Variant], bool]] = {
    "cost does not matter": lambda v: True,
    "clients can keep nothing between rounds": lambda v: v.state == 0,
    "clients can keep at most a tenth of a network": lambda v: v.state <= 0.1,
    "at most half of FedAvg’s bytes may travel": lambda v: v.up + v.down <= 1,
    "nothing can be given or held out, and layers below a dense head may be of any kind": lambda v: not v.needs,
}


def chooser(methods: Cards) -> dict[str, Any]:
    """Return the table, by kind, and the guide, which rests on nothing but the table.

    Parameters
    ----------
    methods : Cards
        What `fedstat.methods.available` returns.

    Returns
    -------
    dict
        ``groups``, each with the name of its ``kind`` and ``rows``; ``unmeasured``, the names of methods without a
        row; ``both``, the methods above both controls; and ``guide``, a record for each question, empty while no
        outcome is known.
    """
    groups = []
    for kind in KINDS:
        rows = [_row(name, variant) for name, variant in _variants(methods) if variant.kind == kind]
        if rows:
            groups.append({"kind": kind, "rows": rows})
    unmeasured = [readable(name) for name, card in methods.items() if not card.variants]
    return {"groups": groups, "unmeasured": unmeasured, "both": _above_both(methods), "guide": _guide(methods)}


def _variants(methods: Cards) -> Iterator[tuple[str, Variant]]:
    yield from ((name, variant) for name, card in methods.items() for variant in card.variants)


def _label(name: str, variant: Variant) -> str:
    return ", ".join([readable(name), *map(_words, variant.options.split(", ") if variant.options else ())])


def _words(option: str) -> str:
    """Say an option as a reader does: ``reading='text'`` is "text", ``beta=0.2`` is "β = 0.2"."""
    key, value = option.split("=")
    if value == "True":
        return key
    if value.startswith("'"):
        word = readable(value.strip("'"))
        return word if key in ("variant", "reading") else f"{key} {word}"
    return f"{readable(key).replace('_', '-')} = {value}"


def _row(name: str, variant: Variant) -> dict[str, str]:
    numbers = {key: fixed(getattr(variant, key), 2) for key in ("up", "down", "state")}
    label = _label(name, variant)
    came_out = {cell: _signs(label, variant.came_out.get(cell, "")) for cell in CELLS}
    return {
        "method": label,
        "personal": variant.personal,
        **numbers,
        "needs": variant.needs.replace(" given", "").replace("_", " "),
        **came_out,
    }


def _signs(label: str, words: str) -> str:
    """Return two signs, against Local and against FedAvg, for words such as "above Local, below FedAvg".

    A control has no sign against itself; one sign is enough where a method is still learning.
    """
    if words in ("", "diverged"):
        return words or NONE
    if words == STILL_LEARNING:
        return "…"
    return " ".join("·" if label == control else _sign(control, words) for control in CONTROLS)


def _sign(control: str, words: str) -> str:
    unknown = "…" if words.startswith(STILL_LEARNING) else "0"
    return "+" if _side("above", control, words) else "−" if _side("below", control, words) else unknown


def _side(side: str, control: str, words: str) -> bool:
    return f"{side} both" in words or f"{side} {control}" in words


def _guide(methods: Cards) -> list[dict[str, Any]]:
    """Return, for each question, the methods that are below no control, and above one on the most data sets."""
    known = [cell for cell in CELLS if any(cell in v.came_out for _, v in _variants(methods))]
    if not known:
        return []
    found = []
    for question, lets in QUESTIONS.items():
        through = [(_label(name, variant), variant) for name, variant in _variants(methods) if lets(variant)]
        rows = [
            {"method": label, "above": [cell for cell in known if "above" in v.came_out.get(cell, "")]}
            for label, v in through
            if label not in CONTROLS and not any("below" in v.came_out.get(cell, "") for cell in known)
        ]
        most = max((len(row["above"]) for row in rows), default=0)
        best = [row for row in rows if most and len(row["above"]) == most]
        found.append({"question": question, "through": len(through), "of": len(known), "most": most, "methods": best})
    return found


def _above_both(methods: Cards) -> list[dict[str, Any]]:
    """Return the methods that are above both controls, and where."""
    rows = [
        {"method": _label(name, v), "cells": [cell for cell in CELLS if v.came_out.get(cell) == "above both"]}
        for name, v in _variants(methods)
    ]
    return [row for row in rows if row["cells"]]
