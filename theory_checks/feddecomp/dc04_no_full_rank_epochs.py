"""DC-04: without full-rank epochs FedDecomp is local training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.feddecomp.algorithm_1 import Phase, alone, entries, feddecomp, federations, in_fractions, written
from theory_checks.feddecomp.matrices import matrix_rank

DC04 = Claim(
    id="DC-04",
    place="section 3.4, last sentence of the paragraph after equation (6)",
    said_by="paper",
    words="Without full-rank epochs FedDecomp is local training of a low-rank part, without collaboration.",
    statement='E_"global" = 0 => theta_i = sigma^1 + tau_i, quad tau_i = op("arg min")_tau L_i (sigma^1 + tau)',
    severity="unstated condition",
    assumptions="no batch normalisation: its running statistics move in either phase and would be averaged; the arg "
    "min means so many epochs, as in equation (5)",
    sensitivity="any difference of the final weights, exact",
)


def _is_local(phases: Sequence[Phase] = ("low-rank", "low-rank")) -> Evidence:
    """E_global = 0 leaves every sigma_i at the common start, which their average therefore equals."""

    def cases() -> Iterator[Sides]:
        for case in federations((1, 2)):
            ours = feddecomp(case.clients, case.sigma, case.a, phases).weights
            theirs = [alone(client, case.sigma, case.a, 2) for client in case.clients]
            yield from entries(case, ours, theirs, by="alone")

    of = "weights of pairs of linear clients after two rounds of two epochs, in fractions"
    return compared(cases(), of=of, relation="==")


@DC04.reading("local training of a low-rank part around the common start")
def around_the_start() -> Evidence:
    return _is_local()


@DC04.reading("the trained weights themselves are of low rank", natural=False)
def low_rank_weights() -> Evidence:
    clients, _, a = list(federations((1, 2)))[-1]
    cases = []
    for weights in feddecomp(clients, in_fractions(np.eye(2, dtype=int)), a, ("low-rank",)).weights:
        scale = math.lcm(*(v.denominator for v in weights.ravel()))
        rank = matrix_rank([[int(v * scale) for v in row] for row in weights])
        cases.append(Sides(f"weights {written(weights)}", rank, len(a), names=("rank", "rank of τ at most")))
    return compared(cases, of="clients of a two by two linear model")


@DC04.mutant("one full-rank epoch after the others")
def full_epoch() -> Evidence:
    return _is_local(("low-rank", "low-rank", "full"))
