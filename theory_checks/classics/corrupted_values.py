"""What clients who send anything they like make of a trimmed mean, of which the median is the one that trims most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import NamedTuple

from fedstat.claims import Evidence, Sides, both, compared

_FAR = 10**6


class Clients(NamedTuple):
    """So many clients, how many values are left out at either end, and how many clients are corrupted."""

    n: int
    out: int
    corrupted: int

    def __str__(self) -> str:
        return f"{self.corrupted} of n = {self.n} corrupted, {self.out} left out at either end"


def trimmed_mean(values: Iterable[int], out: int) -> Fraction:
    """Return the mean without the `out` smallest and `out` largest values."""
    ordered = sorted(values)
    kept = ordered[out : len(ordered) - out]
    return Fraction(sum(kept), len(kept))


def _honest(every: Iterable[Clients]) -> Iterator[tuple[Clients, tuple[int, ...], str]]:
    """Yield the clients, what those who are not corrupted send, up to its order, and both in words."""
    for clients in every:
        for honest in combinations_with_replacement((-2, 0, 1), clients.n - clients.corrupted):
            sent = ", ".join(map(str, honest)).replace("-", "−")
            yield clients, honest, f"{clients}, the others send {sent}"


def _distances(every: Iterable[Clients]) -> Iterator[Sides]:
    """Compare the farthest result from the middle of the honest range with half of that range.

    The result never falls as a value rises, so that the attacks farthest away are the worst; others are tried as well.
    """
    for clients, honest, case in _honest(every):
        attacks = combinations_with_replacement((-_FAR, -2, -1, 0, 1, _FAR), clients.corrupted)
        middle, half = Fraction(max(honest) + min(honest), 2), Fraction(max(honest) - min(honest), 2)
        farthest = max(abs(trimmed_mean(honest + attack, clients.out) - middle) for attack in attacks)
        yield Sides(case, farthest, half, names=("from the middle", "half of the range"))


def within(every: Iterable[Clients]) -> Evidence:
    """Whether the result stays in the range of what the others send."""
    return compared(_distances(every), of="sets of honest values with attacks at their worst")


def _targets(every: Iterable[Clients]) -> Iterator[Sides]:
    """Aim at numbers on either side: the corrupted clients send one value, of which one copy is among those kept."""
    for clients, honest, case in _honest(every):
        for side in (1, -1):
            target = side * _FAR
            beside = sorted(honest, key=lambda value: side * value)[clients.out : clients.n - clients.out - 1]
            sent = target * (clients.n - 2 * clients.out) - sum(beside)
            found = trimmed_mean((*honest, *[sent] * clients.corrupted), clients.out)
            yield Sides(case, found, Fraction(target), names=("result", "target"))


def breaks_at(every: Sequence[Clients]) -> Evidence:
    """Whether so many corrupted clients bring the result anywhere, and fewer never out of the range of the others."""
    fewer = (clients._replace(corrupted=f) for clients in every for f in range(clients.corrupted))
    return both(within(fewer), compared(_targets(every), of="targets far away", relation="=="))
