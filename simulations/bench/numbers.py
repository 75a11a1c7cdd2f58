"""What the bench hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedstat._tables import Tables
from simulations.contract import Finding
from simulations.showing import greek, times

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def findings(tables: Tables) -> dict[str, Finding]:
    """Return each arm's difference in accuracy to each kind of control, with simultaneous limits."""
    rows = tables["differences"].dropna(subset=["mean"])
    return {
        f"{row.cell}: {row.arm} less {row.control}": Finding(
            greek(f"{row.cell}: accuracy of {row.arm} less {row.control}'s"),
            *times(100, (row.mean, row.low, row.high)),
            unit="points",
            digits=1,
        )
        for row in rows.itertuples()
    }


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells."""
    return {"cells": [{"name": str(name)} for name in tables["costs"]["cell"].unique()]}


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw nothing yet."""
    return {}
