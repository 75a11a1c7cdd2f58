"""FS-15: units that are not averaged make it faster, not the splitting.

FS-15c: the rate grows with the share of personal units.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from fedstat.claims import Claim, Evidence
from theory_checks.fedsplit.designs import designs, over_designs
from theory_checks.fedsplit.rates import ALL_PERSONAL, SPLIT, exact_rates, guaranteed_rates

_NAMES = ("rate with all units personal", "FedSplit's")

FS15 = Claim(
    id="FS-15",
    place="section 3.3, paragraph after Theorem 1, fifth sentence: the additional term is 'due to layer partition'",
    said_by="fedstat",
    words="FedSplit's faster rate is due to splitting: where units are not split it is lost.",
    statement="lambda_min (H^s \\/ C + H^p) >= lambda_min (2 H^p)",
    severity="false",
    assumptions="equal small steps, η_g = 1, two clients or more; the paper compares with FedAvg alone, the comparison "
    "with clients who share nothing is ours",
    sensitivity="an excess of 1e-13",
    flaw="The added term comes from units that are not averaged; averaging divides a unit's contribution by C. Keeping "
    "all units personal, which is no federation at all, raises the rate further. Speed is no argument for sharing.",
    corrected="FS-15c",
)


@FS15.reading("units not split are all personal; exact rates in the wide limit")
def exact() -> Evidence:
    return exact_rates(ALL_PERSONAL, SPLIT, _NAMES, drawn=designs(clients=2))


@FS15.reading("units not split are all personal; guaranteed rates")
def guarantees() -> Evidence:
    return guaranteed_rates(ALL_PERSONAL, SPLIT, _NAMES, drawn=designs(clients=2))


@FS15.control("a single client, who averages with nobody")
def single_client() -> Evidence:
    return exact_rates(ALL_PERSONAL, SPLIT, _NAMES, drawn=designs(most=1))


FS15C = Claim(
    id="FS-15c",
    place="corrected statement of FS-15",
    said_by="fedstat",
    words="At equal small steps the rate, and the first step's decrease from any start, grow with the share of "
    "personal units: none, a part, all.",
    statement="2 H^p succ.eq eta_g / C H^s + H^p succ.eq (2 eta_g) / C H^s quad (eta_g <= 1)",
    severity="false",
    assumptions="η_g at most one; by Cauchy's inequality |Σ_c f_c|² ≤ C Σ_c |f_c|² for the clients' parts f_c of a "
    "sum of features, so Hˢ is at most C Hᵖ as a quadratic form; later steps may order otherwise from a given start",
    sensitivity="a factor of 1.1 in front of the shared kernel",
)


def _ordered() -> Evidence:
    """The largest value of ``v' H_s v / v' H_p v`` over all v against C."""

    def sides(shared: np.ndarray, personal: np.ndarray, clients: int) -> tuple[float, float]:
        return float(linalg.eigvalsh(shared, personal)[-1]) / clients, 1.0 + 1e-9

    return over_designs(sides, designs(clients=2), ("largest share of Hˢ/C in Hᵖ", "one"))


@FS15C.reading("Hᵖ is at least Hˢ/C, as quadratic forms")
def forms() -> Evidence:
    return _ordered()


@FS15C.reading("exact rates, a part personal against all")
def part_and_all() -> Evidence:
    return exact_rates(SPLIT, ALL_PERSONAL, ("FedSplit's rate", "with all units personal"), drawn=designs())
