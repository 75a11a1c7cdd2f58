"""FF-04: how many models FedFOMO's cost stands for."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, enumeration
from theory_checks.factorized_fl.tables import COSTS, ROUNDS, half_unit

FF04 = Claim(
    id="FF-04",
    place="Table 1, costs of FedFOMO",
    said_by="fedstat",
    words="FedFOMO's transmission cost, six times FedAvg's, is that of one model up and M models down.",
    statement='"cost"("FedFOMO") = (1 + M) / 2 "cost"("FedAvg")',
    severity="unstated condition",
    assumptions="each client sends its model up once a round; the text states neither M nor how models are counted",
    sensitivity="one model",
    nearest=False,
    flaw="Six times FedAvg's cost is that of 11 models down and one up, or of five models down and one up if each is "
    "counted in both directions; the text says neither which nor how many models a client downloads.",
)


class Downloads(NamedTuple):
    """A method's cost beside FedAvg's, as printed."""

    method: str
    rounds: int
    cost: str
    fedavg: str

    def __str__(self) -> str:
        return f"{self.method}, {self.rounds} rounds: cost {self.cost}, FedAvg's {self.fedavg}"


def _of_models(models: tuple[int, ...], *, method: str = "FedFOMO", both_ways: bool = False) -> Evidence:
    """One model up and M down cost (1 + M) / 2 times one up and one down, up to rounding of both figures.

    Counted both ways, they cost 1 + M times as much. One of the numbers `models` must do in both parts.
    """

    def holds(case: Downloads) -> bool:
        cost, fedavg = Fraction(case.cost), Fraction(case.fedavg)
        low, high = fedavg - half_unit(case.fedavg), fedavg + half_unit(case.fedavg)
        around = half_unit(case.cost)
        factors = [Fraction(1 + m, 1 if both_ways else 2) for m in models]
        return any(factor * low <= cost + around and cost - around <= factor * high for factor in factors)

    cases = (
        Downloads(method, rounds, COSTS[method][part], COSTS["FedAvg"][part]) for part, rounds in enumerate(ROUNDS)
    )
    return enumeration(cases, holds, of="parts of Table 1")


@FF04.reading("M = 5")
def five() -> Evidence:
    return _of_models((5,))


@FF04.reading("M = 5, each of the 1 + M models counted both ways")
def five_both_ways() -> Evidence:
    return _of_models((5,), both_ways=True)


@FF04.reading("M = 11")
def eleven() -> Evidence:
    return _of_models((11,))


@FF04.reading("some number of the 19 other clients' models")
def some_number() -> Evidence:
    return _of_models(tuple(range(1, 20)))


@FF04.mutant("any number of models but 11")
def all_but_eleven() -> Evidence:
    return _of_models(tuple(m for m in range(1, 20) if m != 11))


@FF04.control("FedProx, which sends one model up and one down")
def fedprox() -> Evidence:
    return _of_models((1,), method="FedProx")
