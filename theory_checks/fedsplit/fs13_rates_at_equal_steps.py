"""FS-13: at equal steps FedSplit converges faster than FedAvg."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.fedsplit.designs import designs
from theory_checks.fedsplit.rates import ALL_SHARED, SHARED_HALF_ALONE, SPLIT, adds_up, exact_rates, guaranteed_rates
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
    + "; two clients or more, steps so small that both converge (FedSplit's largest stable step is the smaller one); "
    "a rate is the share of the residual that its slowest part loses in a round, over the step; the server's step, "
    "prescribed as O(1), is at most C, from averaging (one) to adding up (C). The comparison is closest at C: the "
    "ratio of the two rates falls with C/η_g, and there it is at most one, since λᵖ is at least λˢ",
    sensitivity="an excess of 1e-13; adding up over orthonormal inputs both are equally fast",
)


@FS13.reading("guaranteed rates, FedAvg on the same network with all units shared")
def guarantees() -> Evidence:
    return guaranteed_rates(ALL_SHARED, SPLIT, _NAMES, drawn=designs(clients=2), eta_g=adds_up)


@FS13.reading("exact rates in the wide limit, FedAvg on the same network with all units shared")
def same_network() -> Evidence:
    return exact_rates(ALL_SHARED, SPLIT, _NAMES, drawn=designs(clients=2), eta_g=adds_up)


@FS13.reading("exact rates in the wide limit, FedAvg on the shared units alone")
def shared_units() -> Evidence:
    return exact_rates(SHARED_HALF_ALONE, SPLIT, _NAMES, drawn=designs(), eta_g=adds_up)


@FS13.reading("a server's step of twice the number of clients", natural=False)
def twice_the_sum() -> Evidence:
    return exact_rates(ALL_SHARED, SPLIT, _NAMES, drawn=designs(clients=2), eta_g=lambda clients: 2.0 * clients)
