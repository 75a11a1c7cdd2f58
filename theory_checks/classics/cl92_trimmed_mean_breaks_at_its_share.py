"""CL-92: a trimmed mean stands as many corrupted clients as it leaves out at either end."""

from __future__ import annotations

from collections.abc import Iterator

from fedstat.claims import Claim, Evidence
from theory_checks.classics.corrupted_values import Clients, breaks_at, within

CL92 = Claim(
    id="CL-92",
    place="folklore of robust statistics, of the rule in Yin, Chen, Ramchandran and Bartlett, Byzantine-robust "
    "distributed learning (ICML 2018), Algorithm 1, option II; our wording, as the paper could not be read; "
    "arXiv:1803.01498",
    said_by="folklore",
    words="A coordinate-wise trimmed mean that leaves out b values at either end lies between the smallest and the "
    "largest value of the honest clients if at most b others send anything they like; b + 1 can bring it anywhere.",
    statement='f <= b ==> min_(i in "honest") x_(i j) <= "trmean"_j <= max_(i in "honest") x_(i j), quad '
    'f > b ==> "trmean"_j "anywhere", quad 2 b < n',
    severity="false",
    assumptions="coordinates do not meet, so that one stands for all; up to seven clients, honest values −2, 0 and 1, "
    "and others among and far beyond them",
    sensitivity="any excess over the range, exact",
)


def _trimmed(more: int) -> Iterator[Clients]:
    """Yield all numbers left out, and so many more corrupted clients, as long as one is honest."""
    for n in range(2, 8):
        yield from (Clients(n, out, out + more) for out in range((n + 1) // 2) if out + more < n)


@CL92.reading("each coordinate for itself")
def each_coordinate() -> Evidence:
    return breaks_at(list(_trimmed(1)))


@CL92.mutant("b + 1 of them, and still within the range of the others")
def one_more() -> Evidence:
    return within(_trimmed(1))


@CL92.reading("as it leaves out 2 b values, it stands 2 b others who send anything they like", natural=False)
def both_ends() -> Evidence:
    return within(Clients(n, out, 2 * out) for n in range(2, 8) for out in range((n + 1) // 2))
