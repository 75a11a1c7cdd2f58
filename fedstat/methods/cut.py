"""Where to cut a unit statistic: a number, a quantile, or a count of shared units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedstat._checks import number, whole


@dataclass(frozen=True)
class Quantile:
    """Cut at the `q`-quantile of the statistic (linear interpolation); units that tie with the cut are shared.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.FedFac(layers=["hidden"], tau=fs.Quantile(0.25)).tau
    Quantile(q=0.25)
    """

    q: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", number("a quantile", self.q, "[0, 1]"))


@dataclass(frozen=True)
class Count:
    """Share exactly as many units as `units` says, those with the largest statistic; of ties the lower index wins.

    Examples
    --------
    >>> import fedstat as fs
    >>> fs.FedFac(layers=["hidden"], tau=fs.Count(3)).tau
    Count(units=3)
    """

    units: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", whole("a count of shared units", self.units, 0))


Cut = float | Quantile | Count

#: Relative difference below which a statistic equals the cut, since the order of sums lets units alike in law differ.
_ROUNDING = 1e-9


def is_shared(statistic: np.ndarray, cut: Cut, previous: np.ndarray) -> np.ndarray:
    """Return which units are shared: those with ``statistic >= cut``, where equal means equal up to rounding.

    All are (units,). A unit whose statistic is undefined, NaN, stays as it was in `previous`, unless the cut is a
    number that decides alone (at most 0, or infinite). A count includes the units that stay shared so; if they alone
    exceed it, those with the highest index turn personal.
    """
    known = ~np.isnan(statistic)
    if isinstance(cut, Count):
        if cut.units > len(statistic):
            raise ValueError(f"tau asks for {cut.units} shared units, but the layer has {len(statistic)}.")
        # undefined units that were shared come first, then the known ones by size, then the other undefined ones
        rank = np.where(known, statistic, np.where(previous, np.inf, -np.inf))
        order = np.argsort(-rank, kind="stable")
        shared = np.zeros(len(statistic), dtype=bool)
        shared[order[: cut.units]] = True
        return shared
    if isinstance(cut, Quantile):
        threshold = float(np.quantile(statistic[known], cut.q)) if known.any() else 0.0
        return np.where(known, statistic >= threshold - _ROUNDING * abs(threshold), previous)
    if cut <= 0 or cut == np.inf:
        return np.full(len(statistic), cut <= 0)
    return np.where(known, statistic >= cut - _ROUNDING * cut, previous)
