"""Tuning: choose methods' parameters on validation samples, count what that costs, and measure how optimistic it is."""

from fedstat.tuning.outcome import Check, Tuning, Tunings
from fedstat.tuning.tune import tune

__all__ = ["Check", "Tuning", "Tunings", "tune"]
