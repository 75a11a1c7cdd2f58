"""FS-02: the indicator means some client, not every client.

FS-02c: an indicator that picks the pairs of one client.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from fedstat.claims import Claim, Evidence, Sides, compared


def _indicator(same: Callable[[int, int, range], bool], clients: tuple[int, ...] = (1, 2, 3)) -> Evidence:
    """Compare the indicator of two samples with that of one client, for all owners of the two.

    This is the whole of the statement. The indicator of a pair looks at the two owners and at each client in turn; a
    client that holds neither sample answers as any other such client does, and three clients show one to every pair.
    """
    cases = [
        Sides(f"C = {c}, samples at clients {i + 1} and {j + 1}", int(same(i, j, range(c))), int(i == j))
        for c in clients
        for i, j in itertools.product(range(c), repeat=2)
    ]
    among = "one client" if clients == (1,) else "up to three clients"
    return compared(cases, relation="==", every=True, of=f"ways to give two samples to {among}")


def _for_all(i: int, j: int, clients: range) -> bool:
    return all(i == c == j for c in clients)


def _for_some(i: int, j: int, clients: range) -> bool:
    return any(i == c == j for c in clients)


FS02 = Claim(
    id="FS-02",
    place="section 3.3, Definition 1, second formula, last indicator",
    said_by="paper",
    words="The last indicator in the personal kernel, i ∈ S_c, j ∈ S_c, ∀c ∈ [C], is one for the pairs of samples of "
    "one client, and zero for others.",
    statement='bb(1){i in S_c, j in S_c, forall c in [C]} = bb(1){"one client holds" i "and" j}',
    severity="misprint",
    assumptions="the clients' sample sets S_c are disjoint, as section 3.2 says",
    sensitivity="one pair of samples wrongly in or out",
    flaw="No sample belongs to every client: read to the letter, the indicator is never one with two clients or more. "
    "What is meant, and used, is 'for some c'.",
    corrected="FS-02c",
)


@FS02.reading("for all clients, as printed")
def for_all() -> Evidence:
    return _indicator(_for_all)


@FS02.reading("for some client, as the next paragraph uses it")
def for_some() -> Evidence:
    return _indicator(_for_some)


@FS02.control("a single client")
def single() -> Evidence:
    return _indicator(_for_all, clients=(1,))


FS02C = Claim(
    id="FS-02c",
    place="corrected statement of FS-02",
    said_by="fedstat",
    words="The indicator of being held by one and the same client picks the pairs of samples of one client.",
    statement='bb(1){exists c in [C]: i in S_c, j in S_c} = bb(1){"one client holds" i "and" j}',
    severity="false",
    assumptions="further clients change nothing: a client that holds neither sample answers as any other such client",
    sensitivity="one pair of samples wrongly in or out",
)


@FS02C.reading("for some client")
def corrected() -> Evidence:
    return _indicator(_for_some)


@FS02C.mutant("either of the two samples at the client")
def either() -> Evidence:
    return _indicator(lambda i, j, clients: any(c in (i, j) for c in clients))
