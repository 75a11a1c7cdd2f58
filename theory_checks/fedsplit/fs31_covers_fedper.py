"""FS-31: FedFac covers FedPer only if it may split the output layer.

FS-31c: how FedFac covers FedPer.
"""

from __future__ import annotations

import numpy as np

from fedstat.claims import Claim, Evidence
from theory_checks.fedsplit.coverage import (
    ANY,
    ANY_THRESHOLD,
    COVERS,
    FROM_THE_GRID,
    GRID,
    ONE_UNIT,
    covers,
    fedper,
    hidden,
    lg_fedavg,
    subsets,
)

FS31 = Claim(
    id="FS-31",
    place="section 5.1, tuning parameters, sixth sentence",
    said_by="paper",
    words="FedFac covers FedPer, which keeps the output layer personal.",
    statement='exists Lambda, tau: quad I_L^s = emptyset, quad I_l^s = {1, dots, d_l} " for " l < L',
    severity="unstated condition",
    assumptions=COVERS,
    sensitivity=ONE_UNIT,
    flaw="Section 3.1 defines Λ as a set of layers 1 to L − 1, so the output layer is always shared, the one layer "
    "that FedPer keeps personal.",
    corrected="FS-31c",
)


@FS31.reading(FROM_THE_GRID)
def from_the_grid() -> Evidence:
    return covers(fedper, GRID, hidden)


@FS31.reading(ANY_THRESHOLD)
def any_threshold() -> Evidence:
    return covers(fedper, ANY, hidden)


def _any_layers(layers: int) -> list[tuple[int, ...]]:
    """Return the non-empty sets of layers, the output layer among them."""
    return list(subsets(range(1, layers + 1), 1))


@FS31.condition("Λ may contain the output layer, τ from the paper's grid")
def with_the_output_layer() -> Evidence:
    return covers(fedper, GRID, _any_layers)


@FS31.mutant("Λ may contain the output layer, the grid without its threshold above all communalities")
def no_infinity() -> Evidence:
    return covers(fedper, GRID[:-1], _any_layers)


@FS31.control("τ from the paper's grid, for LG-FedAvg in place of FedPer")
def another_method() -> Evidence:
    return covers(lg_fedavg, GRID, hidden)


FS31C = Claim(
    id="FS-31c",
    place="corrected statement of FS-31",
    said_by="fedstat",
    words="FedFac covers FedPer if Λ may be the output layer, with a threshold above all its communalities.",
    statement='Lambda = {L}, med tau_L = infinity => I_L^s = emptyset, quad I_l^s = {1, dots, d_l} " for " l < L',
    severity="false",
    assumptions=COVERS,
    sensitivity=ONE_UNIT,
)


@FS31C.reading("Λ the output layer, τ infinite")
def output_layer_alone() -> Evidence:
    return covers(fedper, (np.inf,), lambda layers: [(layers,)])


@FS31C.mutant("the layer below the output layer in place of it")
def layer_below() -> Evidence:
    return covers(fedper, (np.inf,), lambda layers: [(layers - 1,)])
