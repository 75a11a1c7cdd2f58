"""The papers' figures and tables, one short script each; ``python -m simulations NAME``."""

from __future__ import annotations

NAMES = (
    "units",
    "split",
    "stability",
    "resampling",
    "wide",
    "complexity",
    "aggregation",
    "strongly_convex",
    "agreement",
    "digits",
)
