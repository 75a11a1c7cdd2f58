"""DC-03: FedDecomp without low-rank epochs."""

from __future__ import annotations

from collections.abc import Sequence

from fedstat.claims import Claim, Evidence, sampled
from theory_checks.feddecomp.algorithm_1 import Federation, Phase, fedavg, feddecomp, federations, written

DC03 = Claim(
    id="DC-03",
    place="section 3.4, last sentence but one of the paragraph after equation (6)",
    said_by="paper",
    words="Without low-rank epochs FedDecomp is FedAvg.",
    statement='E_"lora" = 0 => "FedDecomp" = "FedAvg"',
    severity="unstated condition",
    assumptions="equation (7) averages clients uniformly, FedAvg by size; B starts at zero, and the optimiser keeps "
    "no state between rounds",
    sensitivity="any difference of the final weights, exact",
)


def _is_fedavg(sizes: tuple[int, int], *, phases: Sequence[Phase] = ("full", "full")) -> Evidence:
    """Compare the final weights.

    E_lora = 0 leaves B, and with it tau, at zero, so that sigma_i is all that is trained, by the very steps of
    FedAvg's local model, and (7) averages it uniformly. The runs check that for two small families of clients.
    """

    def weights(case: Federation) -> tuple[str, str]:
        ours = feddecomp(case.clients, case.sigma, case.a, phases).weights
        return written(ours), written(fedavg(case.clients, case.sigma, 2).weights)

    def holds(case: Federation) -> bool:
        ours, theirs = weights(case)
        return ours == theirs

    def show(case: Federation) -> str:
        return "{}: clients end with {} under FedDecomp, with {} under FedAvg".format(case, *weights(case))

    of = f"pairs of linear clients with {sizes[0]} and {sizes[1]} samples, two rounds of two epochs in fractions"
    return sampled(federations(sizes), holds, of=of, show=show)


@DC03.reading("clients of equal size, as in the experiments")
def equal_sizes() -> Evidence:
    return _is_fedavg((2, 2))


@DC03.reading("clients of unequal size, FedAvg weighted by size", natural=False)
def unequal_sizes() -> Evidence:
    return _is_fedavg((1, 2))


@DC03.mutant("one low-rank epoch before the others")
def low_rank_epoch() -> Evidence:
    return _is_fedavg((2, 2), phases=("low-rank", "full", "full"))
