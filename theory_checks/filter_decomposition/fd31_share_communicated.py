"""FD-31: the share communicated is not always about β.

FD-31c: what share is communicated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.papers_network import ATOMS, CHANNELS, DENSE, TAPS

FD31 = Claim(
    id="FD-31",
    place="appendix A.2, 'Reduction in Communication Overhead', last sentence",
    said_by="paper",
    words="The fast/slow protocol communicates about a share β of the parameters.",
    statement="(beta (A + C + h) + (1 - beta)(A + h))/(A + C + h) approx beta",
    severity="unstated condition",
    assumptions="A atom, C coefficient and h head parameters, with few atoms against coefficients, as the paper says; "
    "'about' is read as within a tenth of β; for the paper's network 3 × 3 filters, 9 atoms, and an image of 32 × 32 "
    "halved three times",
    sensitivity="a third of the distance that is allowed",
    flaw="Atoms and head travel in every round, and only the atoms are few: with all dense layers as head, 59% of the "
    "paper's network travels every time.",
    corrected="FD-31c",
)


class Network(NamedTuple):
    """Numbers of parameters, and 1 / beta."""

    atoms: int
    coefficients: int
    head: int
    rounds: int

    @property
    def beta(self) -> Fraction:
        """Share of rounds with the coefficients."""
        return Fraction(1, self.rounds)

    @property
    def share(self) -> Fraction:
        """s, the share of what travels in every round."""
        return Fraction(self.atoms + self.head, self.atoms + self.coefficients + self.head)

    @property
    def fraction(self) -> Fraction:
        """Share of parameters communicated, by the paper's formula."""
        often, everything = self.atoms + self.head, self.atoms + self.coefficients + self.head
        return (self.beta * everything + (1 - self.beta) * often) / everything

    def __str__(self) -> str:
        return f"{self.atoms} atom, {self.coefficients} coefficient and {self.head} head parameters, β = {self.beta}"


def networks(coefficients: Iterable[int], heads: Iterable[int]) -> list[Network]:
    return [Network(81, c, h, rounds) for rounds, c, h in itertools.product((2, 5, 10), coefficients, heads)]


def papers_network(slow_dense: int, periods: Iterable[int] = (5, 10)) -> list[Network]:
    """Return the paper's network, with so many hidden dense layers sent as rarely as the coefficients."""
    weights = [a * b for a, b in DENSE]
    atoms, coefficients = len(CHANNELS) * TAPS * ATOMS, sum(ATOMS * a * b for a, b in CHANNELS)
    slow, head = sum(weights[:slow_dense]), sum(weights[slow_dense:])
    return [Network(atoms, coefficients + slow, head, rounds) for rounds in periods]


#: Numbers of coefficients of which 81 atoms are a hundredth at most.
MANY = (10**4, 10**5, 10**6)
#: Values of beta in the paper, for its network.
PAPERS = "values of β, 1/5 and 1/10, for the paper's network"


def close(cases: Iterable[Network], of: str) -> Evidence:
    """Compare the distance of the share from beta with a tenth of beta."""
    names = ("distance of the share from β", "claimed at most")
    return compared((Sides(str(n), abs(n.fraction - n.beta), n.beta / 10, names) for n in cases), of=of)


@FD31.reading("any head")
def any_head() -> Evidence:
    return close(networks(MANY, (10**4, 10**5, 10**6)), "sizes of networks")


@FD31.reading("the paper's network, all dense layers as the head")
def all_dense_layers() -> Evidence:
    return close(papers_network(0), PAPERS)


@FD31.condition(
    "the paper's network, its last layer as the head and the hidden dense layers sent with the coefficients"
)
def last_layer() -> Evidence:
    return close(papers_network(2), PAPERS)


@FD31.condition("few atoms and a head of at most 10 parameters")
def small_head() -> Evidence:
    return close(networks(MANY, (0, 10)), "sizes of networks")


FD31C = Claim(
    id="FD-31c",
    place="corrected statement of FD-31",
    said_by="fedstat",
    words="The protocol communicates β plus (1 − β) times the share s of atoms and head, which is within a tenth of β "
    "exactly if s is at most β/(10(1 − β)).",
    statement='"share" = beta + (1 - beta) s, quad s = (A + h)/(A + C + h), quad '
    '"within a tenth of" beta <==> s <= beta/(10 (1 - beta))',
    severity="false",
    assumptions="A atom, C coefficient and h head parameters; 1/β a whole number; upload and download alike, without "
    "the download by which an absent client catches up; the count is the same for sizes that are not tried",
    sensitivity="exact; either summand",
)


@FD31C.reading("counted round by round")
def counted() -> Evidence:
    """Compare floats sent over one period, counted round by round, with the formula, and the rule with the share.

    For any sizes: of 1/beta rounds one sends everything and the others atoms and head, ``beta + (1 - beta) s`` in the
    mean. That is never less than beta, and exceeds a tenth more by ``(1 - beta)`` times what s exceeds its limit by.
    """

    def compare() -> Iterator[Sides]:
        for n in networks((10**3, *MANY), (0, 10, 10**2, 10**3, *MANY)):
            everything, often = n.atoms + n.coefficients + n.head, n.atoms + n.head
            sent = sum(everything if t % n.rounds == 0 else often for t in range(n.rounds))
            share = Fraction(sent, n.rounds * everything)
            summands = {"share of full rounds": n.beta, "atoms and head of the others": (1 - n.beta) * n.share}
            yield Sides(str(n), share, summands, ("share", "by the formula"))
            yield Sides(str(n), n.fraction, share, ("by the paper's formula", "counted"))
            beyond = n.share - n.beta / (10 * (1 - n.beta))
            excess = share - Fraction(11, 10) * n.beta
            yield Sides(str(n), excess, (1 - n.beta) * beyond, ("excess over a tenth more than β", "by the rule"))

    return compared(compare(), of="shares and rules", relation="==")
