"""FF-04: which models FedFOMO's cost stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from fedstat.claims import Claim, Evidence, Sides, all_of, compared
from theory_checks.factorized_fl.tables import COSTS, ROUNDS, Figures, half_unit

FF04 = Claim(
    id="FF-04",
    place="Table 1, costs of FedFOMO",
    said_by="fedstat",
    words="FedFOMO's transmission cost, six times FedAvg's, is that of one model up and 11 models down or, if each "
    "model counts both ways, of its own and five others.",
    statement='"cost"("FedFOMO") = (1 + 11) / 2 "cost"("FedAvg") = (1 + 5) "cost"("FedAvg")',
    severity="unstated condition",
    assumptions="the text states neither how many models a client downloads nor how they are counted; FedFOMO's "
    "authors have five downloaded",
    sensitivity="one model",
)


def _costs(models: Mapping[str, Fraction]) -> Evidence:
    """Judge whether FedFOMO's cost is so many times FedAvg's, of one model up and down, up to rounding of both."""

    def limits() -> Iterator[Sides]:
        for part, rounds in enumerate(ROUNDS):
            (cost, around), (fedavg, beside) = (
                (Fraction(COSTS[method][part]), half_unit(COSTS[method][part])) for method in ("FedFOMO", "FedAvg")
            )
            case = f"{rounds} rounds: FedFOMO's cost {COSTS['FedFOMO'][part]}, FedAvg's {COSTS['FedAvg'][part]}"
            high = {what: times * (fedavg + beside) for what, times in models.items()}
            yield Figures(case, cost - around, high, names=("at least", "counted at most"))
            low = sum(models.values()) * (fedavg - beside)
            yield Figures(case, low, cost + around, names=("counted at least", "at most"))

    return compared(limits(), of="limits of the costs in Table 1", every=True)


@FF04.reading("by either way of counting")
def either_way() -> Evidence:
    return all_of(
        [
            _costs({"model sent up": Fraction(1, 2), "models sent down": Fraction(11, 2)}),
            _costs({"client's own model": Fraction(1), "others' models": Fraction(5)}),
        ]
    )
