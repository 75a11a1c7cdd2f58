"""CL-91: the median stays among the honest values until half are corrupted."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.classics.corrupted_values import Clients, breaks_at, trimmed_mean, within

CL91 = Claim(
    id="CL-91",
    place="folklore of robust statistics, of the rule in Yin, Chen, Ramchandran and Bartlett, Byzantine-robust "
    "distributed learning (ICML 2018), Algorithm 1, option I; our wording, as the paper could not be read; "
    "arXiv:1803.01498",
    said_by="folklore",
    words="If fewer than half of the clients send anything they like, every coordinate of the median lies between the "
    "smallest and the largest value of the others; half of them or more can bring it anywhere.",
    statement='f < n / 2 ==> min_(i in "honest") x_(i j) <= "med"_j <= max_(i in "honest") x_(i j), quad '
    'f >= n / 2 ==> "med"_j "anywhere"',
    severity="false",
    assumptions="between two middle values the median is their mean; coordinates do not meet, so that one stands for "
    "all; up to seven clients, honest values −2, 0 and 1, and others among and far beyond them",
    sensitivity="any excess over the range, exact",
)


def _half(clients: range) -> list[Clients]:
    """Return the smallest numbers of corrupted clients that are at least half."""
    return [Clients(n, (n - 1) // 2, (n + 1) // 2) for n in clients]


@CL91.reading("each coordinate for itself")
def each_coordinate() -> Evidence:
    return breaks_at(_half(range(2, 8)))


@CL91.mutant("half of the clients, and still within the range of the others")
def half_itself() -> Evidence:
    return within(_half(range(2, 8)))


@CL91.mutant("the mean in place of the median")
def the_mean() -> Evidence:
    return breaks_at([clients._replace(out=0) for clients in _half(range(3, 8))])


@CL91.reading("the vector lies in the convex hull of the honest ones, here without any other", natural=False)
def in_the_hull() -> Evidence:
    """Compare sums of coordinates, which lie between those of the vectors in all of their hull."""

    def cases() -> Iterator[Sides]:
        for dimension in (1, 2, 3):
            for vectors in combinations_with_replacement(tuple(product((0, 1), repeat=dimension)), 3):
                sums = [sum(vector) for vector in vectors]
                middle, half = Fraction(max(sums) + min(sums), 2), Fraction(max(sums) - min(sums), 2)
                median = sum((trimmed_mean(column, 1) for column in zip(*vectors, strict=True)), Fraction(0))
                case = f"three honest vectors {', '.join(map(str, vectors))}"
                yield Sides(case, abs(median - middle), half, names=("sum from the middle", "half of their range"))

    return compared(cases(), of="sets of three vectors")
