"""DC-03: without low-rank epochs FedDecomp is FedAvg with plain means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.feddecomp.algorithm_1 import Phase, entries, fedavg, feddecomp, federations

DC03 = Claim(
    id="DC-03",
    place="section 3.4, last sentence but one of the paragraph after equation (6)",
    said_by="paper",
    words="Without low-rank epochs FedDecomp is FedAvg.",
    statement='E_"lora" = 0 => "FedDecomp" = "FedAvg"',
    severity="unstated condition",
    assumptions="B starts at zero, and the optimiser keeps no state between rounds",
    sensitivity="any difference of the final weights, exact",
    flaw="Equation (7) takes the plain mean of the clients; FedAvg as it was published weights them by their "
    "sizes. They agree where all clients have equally many samples, as in the paper's experiments.",
)


def _is_fedavg(sizes: tuple[int, int], *, by_size: bool, phases: Sequence[Phase] = ("full", "full")) -> Evidence:
    """Compare the final weights.

    E_lora = 0 leaves B, and with it tau, at zero, so that sigma_i is all that is trained, by the very steps of
    FedAvg's local model, and (7) averages it uniformly. The runs check that for two small families of clients.
    """

    def cases() -> Iterator[Sides]:
        for case in federations(sizes):
            ours = feddecomp(case.clients, case.sigma, case.a, phases).weights
            theirs = fedavg(case.clients, case.sigma, 2, by_size=by_size).weights
            yield from entries(case, ours, theirs, by="under FedAvg")

    of = f"weights of pairs of linear clients with {sizes[0]} and {sizes[1]} samples after two rounds, in fractions"
    return compared(cases(), of=of, relation="==")


@DC03.reading("FedAvg as it was published, with clients weighted by size")
def weighted_by_size() -> Evidence:
    return _is_fedavg((1, 2), by_size=True)


@DC03.reading("FedAvg with the plain mean of equation (7)")
def plain_mean() -> Evidence:
    return _is_fedavg((1, 2), by_size=False)


@DC03.condition("clients of equal size, as in the experiments")
def equal_sizes() -> Evidence:
    return _is_fedavg((2, 2), by_size=True)


@DC03.mutant("one low-rank epoch before the others")
def low_rank_epoch() -> Evidence:
    return _is_fedavg((2, 2), by_size=True, phases=("low-rank", "full", "full"))
