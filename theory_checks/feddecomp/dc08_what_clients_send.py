"""DC-08: what FedDecomp's clients send."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedstat.claims import Claim, Evidence, sampled
from theory_checks.feddecomp.algorithm_1 import Federation, fedavg, feddecomp, federations

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

    def sent(case: Federation) -> tuple[list[int], list[int]]:
        ours = feddecomp(case.clients, case.sigma, case.a, ("low-rank", "full"), sends=sends).sent
        return ours, fedavg(case.clients, case.sigma, 2).sent

    def holds(case: Federation) -> bool:
        ours, theirs = sent(case)
        return ours == theirs

    def show(case: Federation) -> str:
        (ours, *_), (theirs, *_) = sent(case)
        rows, columns = case.sigma.shape
        return f"{rows} by {columns} weights: {ours} numbers per client and round, FedAvg {theirs}"

    return sampled(federations((1, 1)), holds, of="runs of two rounds", show=show)


@DC08.reading("numbers sent in the algorithm box")
def algorithm_box() -> Evidence:
    return _as_fedavg(_own_part)


@DC08.mutant("A and B sent as well")
def factors_too() -> Evidence:
    return _as_fedavg(lambda sigma, b, a: (sigma, b, a))
