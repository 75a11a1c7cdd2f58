"""What the privacy study hands to its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedstat._tables import Tables
from simulations.contract import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def numbers(tables: Tables, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the chapter prints."""
    return {}


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the quantities on whose sign the chapter's words rest."""
    return {}


def figures(tables: Tables) -> dict[str, Figure]:
    """Draw the chapter's figures."""
    return {}
