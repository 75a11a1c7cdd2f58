"""FS-13: the rates of FedSplit and FedAvg at equal steps."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.fedsplit.designs import designs
from theory_checks.fedsplit.rates import (
    ALL_SHARED,
    SHARED_HALF_ALONE,
    SPLIT,
    exact_rates,
    guaranteed_rates,
)
from theory_checks.fedsplit.symbols import SYMBOLS

_NAMES = ("FedAvg's rate", "FedSplit's")

FS13 = Claim(
    id="FS-13",
    place="section 3.3, paragraph after Theorem 1, fifth and sixth sentence",
    said_by="paper",
    words="At equal step sizes FedSplit converges faster than FedAvg.",
    statement="rho_1 = rho' => 1 - (rho_1 lambda^s + rho_2 lambda^p) / 2 < 1 - rho' lambda^s / 2",
    severity="false",
    assumptions=SYMBOLS
    + "; η_g = 1, two clients or more, steps so small that both converge (FedSplit's largest stable step is "
    "the smaller one); a rate is the share of the residual that its slowest part loses in a round, over the step",
    sensitivity="an excess of 1e-13",
)


@FS13.reading("exact rates in the wide limit, FedAvg on the same network with all units shared")
def same_network() -> Evidence:
    return exact_rates(ALL_SHARED, SPLIT, _NAMES, drawn=designs(clients=2))


@FS13.reading("exact rates in the wide limit, FedAvg on the shared units alone")
def shared_units() -> Evidence:
    return exact_rates(SHARED_HALF_ALONE, SPLIT, _NAMES, drawn=designs())


@FS13.reading("guaranteed rates, FedAvg on the same network with all units shared")
def guarantees() -> Evidence:
    return guaranteed_rates(ALL_SHARED, SPLIT, _NAMES, drawn=designs(clients=2))


@FS13.mutant("FedAvg's server adds the clients' updates up in place of averaging them")
def added_up() -> Evidence:
    return exact_rates(ALL_SHARED, SPLIT, _NAMES, eta_g=3.0, drawn=designs(clients=2))
