"""FD-11: four clients give twelve virtual clients, not six.

FD-11c: m clients give m(m − 1) virtual clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from fedstat.claims import Claim, Evidence, Sides, compared

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def _products(m: int) -> int:
    """Count the different products ``alpha_k D_l``, k != l, of coefficients and atoms that are different primes."""
    return len({PRIMES[k] * PRIMES[m + j] for k in range(m) for j in range(m) if k != j})


def _pairs(m: int) -> int:
    return len(list(combinations(range(m), 2)))


def _count(
    counted: Callable[[int], int], claimed: Callable[[int], int], clients: Iterable[int], *, every: bool = True
) -> Evidence:
    cases = (Sides(f"{m} clients", counted(m), claimed(m)) for m in clients)
    return compared(cases, of="counts", relation="==", every=every)


FD11 = Claim(
    id="FD-11",
    place="section 6.7, second paragraph, fifth sentence",
    said_by="paper",
    words="Four clients give six additional virtual clients.",
    statement="abs({alpha_k D_l : 1 <= k != l <= 4}) = 6",
    severity="misprint",
    assumptions="no two of the products coincide",
    sensitivity="a count off by one",
    flaw="Coefficients of client k with atoms of client l make another filter than coefficients of l with atoms of k, "
    "and equation (10) has a term for each, so every pair of clients gives two. There are six pairs.",
    corrected="FD-11c",
)


@FD11.reading("products of one client's coefficients with another's atoms")
def products() -> Evidence:
    return _count(_products, lambda m: 6, [4])


@FD11.reading("pairs of clients, each of which stands for two products", natural=False)
def pairs() -> Evidence:
    return _count(_pairs, lambda m: 6, [4])


@FD11.control("three clients, which do give six")
def three_clients() -> Evidence:
    return _count(_products, lambda m: 6, [3])


FD11C = Claim(
    id="FD-11c",
    place="corrected statement of FD-11",
    said_by="fedstat",
    words="m clients give m(m − 1) virtual clients: twelve for four.",
    statement="abs({alpha_k D_l : 1 <= k != l <= m}) = m (m - 1)",
    severity="false",
    assumptions="no two of the products coincide",
    sensitivity="a count off by one",
)


@FD11C.reading("four clients")
def four_clients() -> Evidence:
    return _count(_products, lambda m: m * (m - 1), [4])


@FD11C.reading("m from 1 to 6")
def up_to_six() -> Evidence:
    return _count(_products, lambda m: m * (m - 1), range(1, 7), every=False)
