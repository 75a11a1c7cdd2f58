"""CL-89: what the k largest or random entries leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, both, compared, expectation, subsets

CL89 = Claim(
    id="CL-89",
    place="Stich, Cordonnier and Jaggi, Sparsified SGD with memory (NeurIPS 2018), section 2.1, Definitions 2.1 and "
    "2.2 and the sentence after them, and section 2.2 on unbiased updates; arXiv:1809.07599",
    said_by="paper",
    words="Of d entries the k largest, or k random ones, miss the vector by at most 1 − k / d of its square. The "
    "random ones times d / k are unbiased, with a second moment of at most d / k times the square.",
    statement='EE norm(x - "comp"_k (x))^2 <= (1 - k / d) norm(x)^2, quad EE d / k "rand"_k (x) = x, quad '
    'EE norm(d / k "rand"_k (x))^2 <= d / k norm(x)^2',
    severity="misprint",
    assumptions="all sets of k entries are equally likely; vectors of up to four whole numbers from −2 to 2",
    sensitivity="any excess or difference, exact",
    flaw="Definition 2.2 writes the i-th largest entry to place i, so that entries leave their places; what is meant "
    "leaves the k largest where they are.",
)

_Vector = tuple[int, ...]
_Sent = tuple[Fraction, ...]


def _vectors() -> Iterator[tuple[_Vector, int]]:
    for d in (1, 2, 3, 4):
        yield from product(product(range(-2, 3), repeat=d), range(1, d + 1))


def _square(x: _Sent | _Vector) -> Fraction:
    return sum((Fraction(entry) ** 2 for entry in x), Fraction(0))


def _missed(x: _Vector, sent: _Sent) -> Fraction:
    return _square(tuple(a - b for a, b in zip(sent, x, strict=True)))


def _in_place(x: _Vector, chosen: tuple[int, ...]) -> _Sent:
    """Return the chosen entries in their places, and zeros."""
    return tuple(Fraction(entry if i in chosen else 0) for i, entry in enumerate(x))


def _in_front(x: _Vector, chosen: tuple[int, ...]) -> _Sent:
    """Return the chosen entries in the first places, and zeros."""
    return tuple(Fraction(x[i]) for i in chosen) + (Fraction(0),) * (len(x) - len(chosen))


def _random(x: _Vector, k: int, *, scaled: bool = False) -> list[tuple[Fraction, _Sent]]:
    """Return the law of k random entries, times d / k if scaled."""
    times = Fraction(len(x), k) if scaled else Fraction(1)
    return [(p, tuple(times * v for v in _in_place(x, chosen))) for p, chosen in subsets(len(x), k)]


def _largest_miss(sent: Callable[[_Vector, tuple[int, ...]], _Sent], *, smallest: bool = False) -> Iterator[Sides]:
    for x, k in _vectors():
        order = sorted(range(len(x)), key=lambda i: abs(x[i]), reverse=not smallest)
        bound = (1 - Fraction(k, len(x))) * _square(x)
        yield Sides(f"x = {x}, k = {k}", _missed(x, sent(x, tuple(order[:k]))), bound, ("missed", "allowed"))


def _random_miss(*, scaled: bool = False) -> Iterator[Sides]:
    for x, k in _vectors():
        found = expectation(_random(x, k, scaled=scaled), partial(_missed, x))
        yield Sides(f"x = {x}, k = {k}", found, (1 - Fraction(k, len(x))) * _square(x), ("missed", "allowed"))


def _means(*, scaled: bool = True) -> Iterator[Sides]:
    for x, k in _vectors():
        found = expectation(_random(x, k, scaled=scaled), lambda sent: sent[0])
        yield Sides(f"x = {x}, k = {k}", found, Fraction(x[0]), names=("mean", "entry"))


def _second_moments() -> Iterator[Sides]:
    for x, k in _vectors():
        found = expectation(_random(x, k, scaled=True), _square)
        yield Sides(f"x = {x}, k = {k}", found, Fraction(len(x), k) * _square(x), names=("second moment", "bound"))


def _all(largest: Iterator[Sides], *, scaled: bool = True) -> Evidence:
    return both(
        compared(largest, of="vectors, the largest entries sent"),
        compared(_random_miss(), of="vectors, random entries sent"),
        compared(_means(scaled=scaled), of="means of the first entry", relation="=="),
        compared(_second_moments(), of="second moments"),
    )


@CL89.reading("as Definition 2.2 is printed: the k largest entries come to the first places")
def printed() -> Evidence:
    return _all(_largest_miss(_in_front))


@CL89.reading("the k largest entries stay in their places")
def in_their_places() -> Evidence:
    return _all(_largest_miss(_in_place))


@CL89.reading("random entries miss exactly this share, and their second moment is exactly d / k", natural=False)
def exactly() -> Evidence:
    return both(
        compared(_random_miss(), of="vectors, random entries sent", relation="=="),
        compared(_second_moments(), of="second moments", relation="=="),
    )


@CL89.reading("random entries times d / k miss no more either", natural=False)
def scaled_contracts() -> Evidence:
    return compared(_random_miss(scaled=True), of="vectors, random entries times d / k sent")


@CL89.mutant("the k smallest entries sent")
def smallest_entries() -> Evidence:
    return _all(_largest_miss(_in_place, smallest=True))


@CL89.mutant("random entries without the factor d / k taken to be unbiased")
def without_the_factor() -> Evidence:
    return _all(_largest_miss(_in_place), scaled=False)
