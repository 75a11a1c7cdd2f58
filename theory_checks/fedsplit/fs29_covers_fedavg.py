"""FS-29: FedFac covers FedAvg, but not by the thresholds of its grid.

FS-29c: with τ = 0, or no layer split, FedFac is FedAvg.
"""

from __future__ import annotations

import numpy as np

from fedstat.claims import Claim, Evidence, both
from theory_checks.fedsplit.coverage import (
    ANY,
    ANY_THRESHOLD,
    COVERS,
    FROM_THE_GRID,
    GRID,
    NU,
    ONE_UNIT,
    covers,
    fedavg,
    hidden,
    lg_fedavg,
    subsets,
)

FS29 = Claim(
    id="FS-29",
    place="section 5.1, tuning parameters, sixth sentence",
    said_by="paper",
    words="FedFac covers FedAvg by its choice of τ.",
    statement='exists Lambda, tau: quad I_l^s = {1, dots, d_l} " for all layers" l',
    severity="unstated condition",
    assumptions=COVERS,
    sensitivity=ONE_UNIT,
    flaw="The smallest threshold of the grid named just before is the 25% quantile, above the smallest communality, so "
    "that every split layer keeps personal units.",
    corrected="FS-29c",
)


@FS29.reading(FROM_THE_GRID)
def from_the_grid() -> Evidence:
    return covers(fedavg, GRID, hidden)


@FS29.reading(ANY_THRESHOLD)
def any_threshold() -> Evidence:
    return covers(fedavg, ANY, hidden)


@FS29.reading("τ from the paper's grid, Λ may be empty")
def may_be_empty() -> Evidence:
    return covers(fedavg, GRID, lambda layers: subsets(range(1, layers), 0))


@FS29.mutant("any threshold, for a method that shares no layer at all")
def nothing_shared() -> Evidence:
    return covers(lambda layers: [(0,) * layers], ANY, hidden)


@FS29.control("τ from the paper's grid, for LG-FedAvg in place of FedAvg")
def another_method() -> Evidence:
    return covers(lg_fedavg, GRID, hidden)


FS29C = Claim(
    id="FS-29c",
    place="corrected statement of FS-29",
    said_by="fedstat",
    words="FedFac covers FedAvg with τ = 0, as no communality is negative, or with no layer split.",
    statement='tau = 0 " or " Lambda = emptyset => I_l^s = {1, dots, d_l} " for all layers" l',
    severity="false",
    assumptions=COVERS,
    sensitivity=ONE_UNIT,
)


@FS29C.reading("τ = 0, and Λ empty")
def corrected() -> Evidence:
    return both(covers(fedavg, (0.0,), hidden), covers(fedavg, GRID, lambda layers: [()]))


@FS29C.mutant("the 1% quantile in place of zero")
def small_quantile() -> Evidence:
    return covers(fedavg, tuple(np.quantile(NU, [0.01])), hidden)
