"""FS-30: FedFac covers LG-FedAvg."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.fedsplit.coverage import (
    ANY,
    ANY_THRESHOLD,
    COVERS,
    FROM_THE_GRID,
    GRID,
    ONE_UNIT,
    covers,
    hidden,
    lg_fedavg,
)

FS30 = Claim(
    id="FS-30",
    place="section 5.1, tuning parameters, sixth sentence",
    said_by="paper",
    words="FedFac covers LG-FedAvg, which keeps the lowest k layers personal.",
    statement='forall k < L med exists Lambda, tau: quad I_l^s = emptyset " for " l <= k, quad '
    'I_l^s = {1, dots, d_l} " for " l > k',
    severity="unstated condition",
    assumptions=COVERS + ". LG-FedAvg averages simply, FedFac by sample size, which agrees where participants hold "
    "equally many samples (FS-38)",
    sensitivity=ONE_UNIT,
)


@FS30.reading(FROM_THE_GRID)
def from_the_grid() -> Evidence:
    return covers(lg_fedavg, GRID, hidden)


@FS30.reading(ANY_THRESHOLD)
def any_threshold() -> Evidence:
    return covers(lg_fedavg, ANY, hidden)


@FS30.reading("one layer split at a time, as in the paper's Table 4", natural=False)
def one_at_a_time() -> Evidence:
    return covers(lg_fedavg, GRID, lambda layers: ((layer,) for layer in range(1, layers)))


@FS30.mutant("the grid without its threshold above all communalities")
def no_infinity() -> Evidence:
    return covers(lg_fedavg, GRID[:-1], hidden)
