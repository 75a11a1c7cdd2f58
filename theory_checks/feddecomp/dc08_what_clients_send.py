"""DC-08: clients send as much as in FedAvg."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.feddecomp.algorithm_1 import fedavg, feddecomp, federations

DC08 = Claim(
    id="DC-08",
    place="section 3.5, 'Communication cost', last sentence",
    said_by="paper",
    words="FedDecomp sends as much per round as FedAvg.",
    statement="abs(sigma_i) = abs(theta_i)",
    severity="false",
    assumptions="both share batch normalisation, or neither",
    sensitivity="one number",
)


def _own_part(sigma: np.ndarray, b: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, ...]:
    return (sigma,)


def _as_fedavg(sends: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, ...]]) -> Evidence:
    """Count what the clients of the algorithm box send, over runs with one and with several weights.

    By equation (2) sigma has the shape of the weights themselves, which is all that the statement needs.
    """

    def cases() -> Iterator[Sides]:
        for case in federations((1, 1)):
            ours = feddecomp(case.clients, case.sigma, case.a, ("low-rank", "full"), sends=sends).sent
            rows, columns = case.sigma.shape
            for pair in zip(ours, fedavg(case.clients, case.sigma, 2).sent, strict=True):
                numbers = f"{rows} by {columns} weights, numbers per client and round"
                yield Sides(numbers, *pair, names=("under FedDecomp", "under FedAvg"))

    return compared(cases(), of="clients' messages in runs of two rounds", relation="==")


@DC08.reading("numbers sent in the algorithm box")
def algorithm_box() -> Evidence:
    return _as_fedavg(_own_part)


@DC08.mutant("A and B sent as well")
def factors_too() -> Evidence:
    return _as_fedavg(lambda sigma, b, a: (sigma, b, a))
