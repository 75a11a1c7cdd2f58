"""CL-96: how far above the minimum FedAvg stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, compared, exact, fedavg_round

CL96 = Claim(
    id="CL-96",
    place="our wording of Karimireddy, Kale, Mohri, Reddi, Stich and Suresh, SCAFFOLD: Stochastic controlled averaging "
    "for federated learning (ICML 2020), section 3.2, Theorem II, which gives the order G² / (μ R²) and neither a "
    "constant nor step sizes; its proof, in appendix D.4, could not be read and may take other functions; "
    "arXiv:1910.06378",
    link="https://arxiv.org/abs/1910.06378",
    said_by="fedstat",
    words="There are two clients with whom FedAvg, with two local steps or more of at most 1 / L each, is at least "
    "2 G² / (9 μ R²) above the minimum after R rounds.",
    statement="f_1 (x) = mu x^2 + G x, quad f_2 (x) = -G x, quad x_0 = G / mu, quad K >= 2, quad eta <= 1 / L ==> "
    "f(x_R) - f(x^*) >= 2/9 G^2 / (mu R^2)",
    severity="false",
    assumptions="full gradients, both clients in every round, equal shares; server step 1, where the paper's section 3 "
    "leaves it open; f = μ x² / 2 and L = 2 μ, and the paper's A1 is met with √2 G for its G and B = √3; G / μ and "
    "1 / μ are the units of length and step; up to six local steps and 32 rounds",
    sensitivity="any lack, exact: two local steps of 1 / (3 μ) meet the bound in one round",
)

Gradients = Sequence[Callable[[Fraction], Fraction]]
#: The gradients of the two clients, with μ = G = 1.
PAIR: Gradients = (lambda x: 2 * x + 1, lambda x: Fraction(-1))
_SHORT = (Fraction(1, 1000), Fraction(1, 100), *(Fraction(i, 24) for i in range(1, 13)))
_LONG = tuple(Fraction(i, 10) for i in (6, 8, 9, 10, 12, 15, 30))
_COUNTS = (2, 3, 4, 6)


def _one(local_steps: int, step: Fraction) -> Fraction:
    return Fraction(1)


def _bounds(
    counts: Iterable[int],
    steps: Iterable[Fraction],
    clients: Gradients = PAIR,
    start: Fraction = Fraction(1),
    server: Callable[[int, Fraction], Fraction] = _one,
) -> Iterator[Sides]:
    """Compare 2 / (9 R²) with the gap after R rounds of numbers of local steps, step sizes and the server's step.

    Why it stands: with w = 1 − (1 − 2η)^K a round takes x to (1 − w / 2) x + K η / 2 − w / 4. For a given w in (0, 1]
    the product K η grows with K, so that K = 2 comes nearest. There a round takes x > 0 to x − 2η x + 2η² x + η², which
    is at least x (1 + x) / (1 + 2x), whatever η is. So 1 / x grows by 1 / (1 + x) at most: from 1 to 3/2 in the first
    round, and by less than 1 in each further one. Hence x is at least 2 / (2R + 1), and 2 / (3R), after R rounds.
    """
    for local_steps, step in product(counts, steps):
        x, share = start, server(local_steps, step)
        for rounds in range(1, 33):
            x += share * (fedavg_round(x, clients, lr=step, steps=local_steps) - x)
            if rounds <= 8 or rounds in (16, 32):
                case = f"K = {local_steps}, R = {rounds}, η = {exact(step)} / μ"
                case += f", server step {exact(share)}" if share != 1 else ""
                yield Sides(case, Fraction(2, 9 * rounds**2), x**2 / 2, names=("claimed", "gap"))


@CL96.reading("steps of at most 1 / L")
def short_steps() -> Evidence:
    return compared(_bounds(_COUNTS, _SHORT), of="local steps, rounds and step sizes")


@CL96.reading("two local steps of any length")
def two_steps() -> Evidence:
    return compared(_bounds((2,), _SHORT + _LONG), of="rounds and step sizes")


@CL96.reading("three local steps of any length", natural=False)
def three_steps() -> Evidence:
    return compared(_bounds((3,), _SHORT + _LONG), of="rounds and step sizes")


@CL96.reading("the same with a server's step of any length", natural=False)
def any_server_step() -> Evidence:
    """The server goes on along the clients' mean change until it meets the minimum."""

    def server(local_steps: int, step: Fraction) -> Fraction:
        return 1 / (1 - fedavg_round(Fraction(1), PAIR, lr=step, steps=local_steps))

    return compared(_bounds(_COUNTS, _SHORT, server=server), of="local steps, rounds and step sizes")


@CL96.mutant("one local step")
def one_step() -> Evidence:
    return compared(_bounds((1,), _SHORT), of="rounds and step sizes")


@CL96.mutant("two clients with the same function")
def alike() -> Evidence:
    return compared(_bounds((2,), _SHORT, clients=(lambda x: x, lambda x: x)), of="rounds and step sizes")


@CL96.mutant("a start at the minimum")
def from_the_minimum() -> Evidence:
    return compared(_bounds((2,), _SHORT, start=Fraction(0)), of="rounds and step sizes")
