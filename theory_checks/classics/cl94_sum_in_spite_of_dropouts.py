"""CL-94: secure aggregation gives the exact sum if enough users remain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, product

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.classics.shamir_shares import secret, shares

CL94 = Claim(
    id="CL-94",
    place="folklore of the protocol in Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal and Seth, "
    "Practical secure aggregation for privacy-preserving machine learning (CCS 2017), of which only the abstract could "
    "be read: its second sentence says that the server computes the sum; our wording; doi:10.1145/3133956.3133982",
    link="https://doi.org/10.1145/3133956.3133982",
    said_by="folklore",
    words="If t users or more are there to the end, the server gets the exact sum of the inputs that arrived, whoever "
    "dropped out before or after sending one.",
    statement='abs(E) >= t, quad E subset U ==> sum_(u in U) y_u - "masks opened by" E = sum_(u in U) x_u mod p',
    severity="false",
    assumptions="the inputs of U arrived, and the users of E are there to the end; masks as in CL-84, each divided "
    "among all users by Shamir's scheme with threshold t (CL-95), where the paper divides the seeds they come from; "
    "modulo 5, two to four users, all thresholds, and everybody follows the protocol",
    sensitivity="any difference from the sum, for all inputs, masks and coefficients: each step is linear in them, so "
    "that it is enough to set one of them to 1 and all others to 0",
)

_PRIME = 5

Users = tuple[int, ...]
#: The polynomial that divides a mask, by the user or the pair whose mask it is.
Masks = Mapping[Users, Sequence[int]]


def _units(users: range, masks: list[Users], threshold: int) -> Iterator[tuple[str, dict[int, int], Masks]]:
    """Yield inputs and polynomials of which one entry is 1 and all others are 0, with the entry in words."""
    none = {mask: [0] * threshold for mask in masks}
    for u in users:
        yield f"the input of {_named((u,))}", {v: int(u == v) for v in users}, none
    for mask, power in product(masks, range(threshold)):
        polynomial = [int(power == other) for other in range(threshold)]
        yield f"coefficient {power} of the mask of {_named(mask)}", dict.fromkeys(users, 0), none | {mask: polynomial}


def _result(inputs: dict[int, int], masks: Masks, arrived: Users, end: Users, open_pairs: bool) -> int:
    """Return what the server gets: it opens the masks that do not cancel with the shares of those there to the end.

    Of a pair the first adds the mask and the second takes it off.
    """
    total = 0
    for mask, polynomial in masks.items():
        weight = (mask[0] in arrived) - (len(mask) == 2 and mask[1] in arrived)
        total += weight * polynomial[0]
        if weight and (len(mask) == 1 or open_pairs):
            total -= weight * secret(shares(polynomial, end, _PRIME), _PRIME)
    return (sum(inputs[u] for u in arrived) + total) % _PRIME


def _sums(enough: Callable[[int, int, int], bool], open_pairs: bool = True) -> Iterator[Sides]:
    """Compare the server's result with the sum of the inputs that arrived.

    Whether users, the threshold and those there to the end are `enough` is up to the caller; `open_pairs` includes the
    masks shared with users whose input did not arrive.
    """
    for n in (2, 3, 4):
        users = range(1, n + 1)
        masks = [*combinations(users, 1), *combinations(users, 2)]
        for threshold, arrived in product(users, _subsets(users)):
            for end in _subsets(arrived):
                if not enough(n, threshold, len(end)):
                    continue
                for one, inputs, polynomials in _units(users, masks, threshold):
                    there = f"arrived: {_named(arrived)}, at the end: {_named(end)}"
                    case = f"{n} users, t = {threshold}, {there}, {one} is 1"
                    found = _result(inputs, polynomials, arrived, end, open_pairs)
                    yield Sides(case, found, sum(inputs[u] for u in arrived), names=("result", "sum"))


def _subsets(users: Sequence[int]) -> Iterator[Users]:
    return chain.from_iterable(combinations(users, size) for size in range(len(users) + 1))


def _named(users: Users) -> str:
    return f"{'user' if len(users) == 1 else 'users'} {', '.join(map(str, users))}" if users else "nobody"


@CL94.reading("t users or more are there to the end")
def enough_remain() -> Evidence:
    return compared(_sums(lambda n, t, end: end >= t), of="inputs, masks and coefficients", relation="==")


@CL94.reading("the same if fewer than t users drop out, however large t is", natural=False)
def few_drop_out() -> Evidence:
    return compared(_sums(lambda n, t, end: n - end < t), of="inputs, masks and coefficients", relation="==")


@CL94.mutant("t − 1 users are enough")
def one_fewer() -> Evidence:
    return compared(_sums(lambda n, t, end: end >= t - 1), of="inputs, masks and coefficients", relation="==")


@CL94.mutant("masks shared with those whose input did not arrive stay closed")
def closed_pairs() -> Evidence:
    cases = _sums(lambda n, t, end: end >= t, open_pairs=False)
    return compared(cases, of="inputs, masks and coefficients", relation="==")
