"""CL-84: the sum itself can give an input away.

CL-84c: which sums fix nobody's contribution.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, combinations, product

from fedstat.claims import Claim, Evidence, sampled

CL84 = Claim(
    id="CL-84",
    place="Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal and Seth, Practical secure aggregation "
    "for privacy-preserving machine learning (CCS 2017), abstract, second and third sentences; "
    "doi:10.1145/3133956.3133982",
    link="https://doi.org/10.1145/3133956.3133982",
    said_by="paper",
    words="The server computes the sum without learning each user's individual contribution, even if an arbitrarily "
    "chosen subset of users drop out at any time.",
    statement='"view"(x) tilde "view"(x\') quad "if" quad sum_(u in U) x_u = sum_(u in U) x\'_u',
    severity="unstated condition",
    assumptions="ideal masks, drawn uniformly, and shares that give the server exactly the masks that it asks for, as "
    "CL-94 and CL-95 judge: of users who remain their own, of others those shared in pairs; one entry modulo 2 or 3, "
    "two and three users, an honest server; of the paper the abstract could be read, the masks are as later authors "
    "describe them",
    sensitivity="any difference between the laws of what the server sees, over all masks",
    flaw="The protocol hides everything but the sum of those who remain. That sum is itself a contribution if one user "
    "remains, and gives all of them away if it is the smallest or largest possible.",
    corrected="CL-84c",
)

_Inputs = tuple[int, ...]


def _sets(users: int) -> Iterator[tuple[int, ...]]:
    """Yield who may remain: anybody but nobody."""
    return chain.from_iterable(combinations(range(users), size) for size in range(1, users + 1))


@cache
def _views(inputs: _Inputs, remain: tuple[int, ...], modulus: int, own_masks: bool) -> Counter[tuple[int, ...]]:
    """Count what the server sees over all masks: all masked inputs, and the masks that are opened to it.

    Users drop out at the worst time, after they have sent.
    """
    users = range(len(inputs))
    pairs = list(combinations(users, 2))
    seen: Counter[tuple[int, ...]] = Counter()
    for shared in product(range(modulus), repeat=len(pairs)):
        mask = dict(zip(pairs, shared, strict=True))
        for own in product(range(modulus if own_masks else 1), repeat=len(inputs)):
            sent = [
                (inputs[u] + own[u] + sum(mask[u, v] for v in users if v > u) - sum(mask[v, u] for v in users if v < u))
                % modulus
                for u in users
            ]
            opened = [own[u] for u in remain] + [s for pair, s in mask.items() if not set(pair) <= set(remain)]
            seen[*sent, *opened] += 1
    return seen


def _only_the_sum(own_masks: bool = True) -> Evidence:
    """Whether inputs whose remaining users have the same sum look the same to the server."""

    def cases() -> Iterator[tuple[_Inputs, _Inputs, tuple[int, ...], int]]:
        for users, modulus in ((2, 2), (2, 3), (3, 2), (3, 3)):
            for remain in _sets(users):
                first: dict[int, _Inputs] = {}
                for x in product(range(modulus), repeat=users):
                    yield first.setdefault(sum(x[u] for u in remain) % modulus, x), x, remain, modulus

    def same(case: tuple[_Inputs, _Inputs, tuple[int, ...], int]) -> bool:
        x, y, remain, modulus = case
        return _views(x, remain, modulus, own_masks) == _views(y, remain, modulus, own_masks)

    return sampled(
        cases(),
        same,
        of="pairs of inputs with the same sum",
        show=lambda c: f"modulo {c[3]}, users {_named(c[2])} remain, inputs {_listed(c[0])} and {_listed(c[1])}",
    )


def _named(users: Iterable[int]) -> str:
    return ", ".join(str(u + 1) for u in users)


def _listed(inputs: _Inputs) -> str:
    return ", ".join(map(str, inputs))


def _undetermined(least: int, extremes: bool, colluding: int = 0) -> Evidence:
    """Whether the sum, with the inputs of some who collude, leaves every other remaining user two values or more.

    Inputs are whole numbers from 0 to 2, and the modulus is larger than any sum; `extremes` keeps the smallest sum and
    the largest.
    """

    def cases() -> Iterator[tuple[int, int, list[_Inputs]]]:
        for users in range(least, 5):
            fitting = defaultdict(list)
            for x in product(range(3), repeat=users):
                known = x[:colluding]
                if extremes or 0 < sum(x) < 2 * users:
                    fitting[sum(x), known].append(x[colluding:])
            yield from ((users, total, inputs) for (total, _), inputs in fitting.items())

    def show(case: tuple[int, int, list[_Inputs]]) -> str:
        users, total, (x, *_) = case
        return f"{users} {'user remains' if users == 1 else 'users remain'}, the sum {total}: inputs {_listed(x)}"

    def hidden(case: tuple[int, int, list[_Inputs]]) -> bool:
        return all(len(set(values)) > 1 for values in zip(*case[2], strict=True))

    return sampled(cases(), hidden, of="sums of those who remain", show=show)


@CL84.reading("the server sees nothing but the sum of those who remain")
def only_the_sum() -> Evidence:
    return _only_the_sum()


@CL84.reading("the server cannot tell any user's contribution, whoever drops out")
def no_contribution() -> Evidence:
    return _undetermined(1, extremes=True)


@CL84.reading("the same if a single one of those who remain colludes, between the extremes", natural=False)
def with_collusion() -> Evidence:
    return _undetermined(2, extremes=False, colluding=1)


@CL84.mutant("no masks of the users' own, only those shared in pairs")
def pairs_alone() -> Evidence:
    return _only_the_sum(own_masks=False)


CL84C = Claim(
    id="CL-84c",
    place="corrected statement of CL-84",
    said_by="fedstat",
    words="If two users or more remain and their sum is neither the smallest nor the largest possible, it fixes "
    "nobody's contribution.",
    statement='0 < sum_(u in U) x_u < abs(U) x_"max", quad abs(U) >= 2 ==> x_u "is not determined"',
    severity="false",
    assumptions="as in CL-84, with inputs 0, 1 and 2 and up to four users, none of whom tells the server anything",
    sensitivity="any contribution that the sum determines",
)


@CL84C.reading("two to four users, all sums between the extremes")
def between_extremes() -> Evidence:
    return _undetermined(2, extremes=False)


@CL84C.mutant("one user remains")
def one_remains() -> Evidence:
    return _undetermined(1, extremes=False)
