"""CL-04: which averages of drawn clients are unbiased."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, both, compared, draws, expectation, subsets

CL04 = Claim(
    id="CL-04",
    place="Li, Huang, Yang, Wang and Zhang (ICLR 2020), arXiv:1907.02189, averaging schemes I and II, as the authors' "
    "code has them (github.com/lx10077/fedavgpy, src/trainers/fedavg4.py, aggregate); our wording",
    link="https://arxiv.org/abs/1907.02189",
    said_by="fedstat",
    words="Two averages of m drawn clients are unbiased for the average of all N. Either clients are drawn with "
    "replacement with probabilities p_k and averaged simply, or all sets are equally likely and client k has the "
    "weight p_k N / m.",
    statement="EE 1/m sum_(k in S_1) w_k = EE N/m sum_(k in S_2) p_k w_k = sum_k p_k w_k",
    severity="false",
    assumptions="the clients' models do not depend on who is drawn",
    sensitivity="any difference, exact",
)

Shares = tuple[Fraction, ...]
Average = Callable[[Shares, tuple[int, ...], tuple[int, ...]], Fraction]


def _simple(p: Shares, w: tuple[int, ...], drawn: tuple[int, ...]) -> Fraction:
    return Fraction(sum(w[k] for k in drawn), len(drawn))


def _scaled(p: Shares, w: tuple[int, ...], drawn: tuple[int, ...]) -> Fraction:
    return Fraction(len(w), len(drawn)) * sum((p[k] * w[k] for k in drawn), Fraction(0))


def _renormalised(p: Shares, w: tuple[int, ...], drawn: tuple[int, ...]) -> Fraction:
    return sum((p[k] * w[k] for k in drawn), Fraction(0)) / sum(p[k] for k in drawn)


def _unbiased(average: Average, *, with_replacement: bool) -> Evidence:
    """Compare by enumeration; both sides are linear in the models, so that zeros and ones decide for all others."""

    def sides() -> Iterator[Sides]:
        for n in (2, 3, 4):
            for sizes, w, m in product(product((1, 2), repeat=n), product((0, 1), repeat=n), range(1, n + 1)):
                p = tuple(Fraction(size, sum(sizes)) for size in sizes)
                law = draws(p, m) if with_replacement else subsets(n, m)
                found = expectation(law, partial(average, p, w))
                parts = {f"client {k}": pk * wk for k, (pk, wk) in enumerate(zip(p, w, strict=True), start=1)}
                case = f"p = ({', '.join(map(str, p))}), w = ({', '.join(map(str, w))}), m = {m}"
                yield Sides(case, found, parts, names=("expected average", "average of all"))

    return compared(sides(), of="draws from two to four clients", relation="==")


@CL04.reading("both schemes")
def both_schemes() -> Evidence:
    return both(_unbiased(_simple, with_replacement=True), _unbiased(_scaled, with_replacement=False))


@CL04.reading("shares of the drawn clients, made to add up to one", natural=False)
def renormalised() -> Evidence:
    return _unbiased(_renormalised, with_replacement=False)


@CL04.mutant("simple average, all sets equally likely")
def simple_of_sets() -> Evidence:
    return _unbiased(_simple, with_replacement=False)
