"""CL-87: a larger q need not make losses more uniform.

CL-87c: at q = 1 the weighted variance never rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared, variance

CL87 = Claim(
    id="CL-87",
    place="Li, Sanjabi, Beirami and Smith, Fair resource allocation in federated learning (ICLR 2020), abstract, third "
    "sentence; arXiv:1905.10497",
    said_by="paper",
    words="q-FFL's objective encourages a more uniform distribution of performance over the clients.",
    statement='"Var" (F_1 (w_q), ..., F_m (w_q)) <= "Var" (F_1 (w_0), ..., F_m (w_0)), quad '
    'w_q = "argmin"_w sum_k p_k / (q + 1) F_k (w)^(q + 1)',
    severity="unstated condition",
    assumptions="performance is the loss, uniform is its variance over the clients; losses h_k (w − c_k)² / 2 + b_k, "
    "three clients; of the paper the abstract could be read, the objective is as later authors quote it",
    sensitivity="an excess of 0.00001; minimisers are known to a billionth",
    flaw="The objective at q = 1 is the mean square of the losses: their mean's square plus their variance by the "
    "weights p_k. So it lowers that variance, not always the one over clients who count alike. Larger q weigh large "
    "losses more and more, which need not bring the others near them.",
    corrected="CL-87c",
)

_SLACK = Fraction(1, 10**5)
_EQUAL = (Fraction(1, 3),) * 3
#: Clients' shares: by samples, of which one client has most.
_BY_SAMPLES = tuple(
    tuple(Fraction(n, sum(sizes)) for n in sizes) for sizes in ((2, 1, 1), (1, 1, 4), (1, 4, 1), (1, 1, 9))
)


class Clients(NamedTuple):
    """Clients with the losses ``h_k (w - c_k)^2 / 2 + b_k`` and shares p_k."""

    h: tuple[int, ...]
    c: tuple[int, ...]
    b: tuple[int, ...]
    p: tuple[Fraction, ...]

    def losses(self, w: Fraction) -> list[Fraction]:
        """Return every client's loss."""
        return [h * (w - c) ** 2 / 2 + b for h, c, b in zip(self.h, self.c, self.b, strict=True)]

    def __str__(self) -> str:
        parts = {"h": self.h, "c": self.c, "b": self.b, "p": self.p}
        return ", ".join(f"{name} = ({', '.join(map(str, values))})" for name, values in parts.items())


@cache
def _fair(clients: Clients, q: int) -> tuple[Fraction, ...]:
    """Return the losses at the minimiser, which is where the objective's derivative changes its sign."""
    low, high = Fraction(min(clients.c)), Fraction(max(clients.c))
    while high - low > Fraction(1, 2**30):
        middle = (low + high) / 2
        slopes = [h * (middle - c) for h, c in zip(clients.h, clients.c, strict=True)]
        each = zip(clients.p, clients.losses(middle), slopes, strict=True)
        rising = sum((p * loss**q * slope for p, loss, slope in each), Fraction(0)) > 0
        low, high = (low, middle) if rising else (middle, high)
    return tuple(clients.losses((low + high) / 2))


def _over_clients(losses: tuple[Fraction, ...], clients: Clients) -> Fraction:
    return Fraction(variance(list(zip(_EQUAL, losses, strict=True))))


def _by_weight(losses: tuple[Fraction, ...], clients: Clients) -> Fraction:
    return Fraction(variance(list(zip(clients.p, losses, strict=True))))


def _largest(losses: tuple[Fraction, ...], clients: Clients) -> Fraction:
    return max(losses)


def _fairer(
    q: int,
    shares: tuple[tuple[Fraction, ...], ...] = (_EQUAL,),
    measure: Callable[[tuple[Fraction, ...], Clients], Fraction] = _over_clients,
) -> Evidence:
    """Compare a measure of the losses at q with that at zero, where the objective is their mean by weight."""

    def cases() -> Iterator[Sides]:
        centres = ((0, 1, 1), (0, 1, 3), (0, 2, 3))
        for p, c, h, b in product(shares, centres, product((1, 8), repeat=3), product((0, 3), repeat=3)):
            clients = Clients(h, c, b, p)
            found, before = (measure(_fair(clients, power), clients) for power in (q, 0))
            yield Sides(str(clients), found, before + _SLACK, names=(f"at q = {q}", "at q = 0"))

    return compared(cases(), of="pairs of objectives")


@CL87.reading("q = 1 against q = 0, clients of the same weight")
def squares() -> Evidence:
    return _fairer(1)


@CL87.reading("q = 9 against q = 0, clients of the same weight")
def large_power() -> Evidence:
    return _fairer(9)


@CL87.reading("q = 1 against q = 0, clients weighted by their samples")
def weighted_clients() -> Evidence:
    return _fairer(1, _BY_SAMPLES)


@CL87.reading("the largest loss in place of the variance, q = 1 against q = 0", natural=False)
def largest_loss() -> Evidence:
    return _fairer(1, measure=_largest)


CL87C = Claim(
    id="CL-87c",
    place="corrected statement of CL-87",
    said_by="fedstat",
    words="At q = 1 the variance of the losses by the weights p_k is never larger than at q = 0.",
    statement='"Var"_p F(w_1) <= "Var"_p F(w_0)',
    severity="false",
    assumptions="as in CL-87, any weights; for losses that are not negative it follows from the mean square being "
    "least at q = 1 and the mean at q = 0",
    sensitivity="an excess of 0.00001; minimisers are known to a billionth",
)


@CL87C.reading("clients weighted by their samples")
def by_weight() -> Evidence:
    return _fairer(1, _BY_SAMPLES, _by_weight)


@CL87C.mutant("the variance over clients who count alike")
def counting_alike() -> Evidence:
    return _fairer(1, _BY_SAMPLES)
