"""CL-04: two averages of drawn clients are unbiased."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, both, compared, draws, expectation, subsets

CL04 = Claim(
    id="CL-04",
    place="Li, Huang, Yang, Wang and Zhang, On the convergence of FedAvg on non-IID data (ICLR 2020), section 3.3, "
    "Assumptions 5 and 6, and the factors 1 / K and (N − K) / (K (N − 1)) by which the sampling enters C in Theorems 2 "
    "and 3; our wording of what these say of the averages, as the proofs could not be read; arXiv:1907.02189",
    said_by="fedstat",
    words="Two averages of K drawn clients are unbiased for the average w̄ of all N. Drawn with replacement with "
    "probabilities p_k and averaged simply, they have the variance of the clients' models divided by K. If all sets "
    "are equally likely and client k has the weight p_k N / K, equal shares give (N − K) / (N − 1) times as much.",
    statement="EE 1/K sum_(k in S_1) w_k = EE N/K sum_(k in S_2) p_k w_k = overline(w), quad "
    "EE norm(1/K sum_(k in S_1) w_k - overline(w))^2 = 1/K sum_k p_k norm(w_k - overline(w))^2, quad "
    "EE norm(1/K sum_(k in S_2) w_k - overline(w))^2 = (N - K) / (K (N - 1)) 1/N sum_k norm(w_k - overline(w))^2",
    severity="false",
    assumptions="the clients' models do not depend on who is drawn; two to four clients, shares of one or two parts; "
    "means and variances are linear and quadratic in the models, so that zeros and ones decide for all others",
    sensitivity="any difference, exact",
)

Shares = tuple[Fraction, ...]
Average = Callable[[Shares, tuple[int, ...], tuple[int, ...]], Fraction]
#: A case in words, shares, models, how many are drawn, and the law of the average.
_Case = tuple[str, Shares, tuple[int, ...], int, list[tuple[Fraction, Fraction]]]


def _simple(p: Shares, w: tuple[int, ...], drawn: tuple[int, ...]) -> Fraction:
    return Fraction(sum(w[k] for k in drawn), len(drawn))


def _scaled(p: Shares, w: tuple[int, ...], drawn: tuple[int, ...]) -> Fraction:
    return Fraction(len(w), len(drawn)) * sum((p[k] * w[k] for k in drawn), Fraction(0))


def _renormalised(p: Shares, w: tuple[int, ...], drawn: tuple[int, ...]) -> Fraction:
    return sum((p[k] * w[k] for k in drawn), Fraction(0)) / sum(p[k] for k in drawn)


def _cases(average: Average, *, with_replacement: bool, equal: bool = False) -> Iterator[_Case]:
    for n in (2, 3, 4):
        sizes_of = product((1,) if equal else (1, 2), repeat=n)
        for sizes, w, m in product(sizes_of, product((0, 1), repeat=n), range(1, n + 1)):
            p = tuple(Fraction(size, sum(sizes)) for size in sizes)
            law = draws(p, m) if with_replacement else subsets(n, m)
            case = f"p = ({', '.join(map(str, p))}), w = ({', '.join(map(str, w))}), K = {m}"
            yield case, p, w, m, [(chance, average(p, w, drawn)) for chance, drawn in law]


def _unbiased(average: Average, *, with_replacement: bool) -> Evidence:
    def sides() -> Iterator[Sides]:
        for case, p, w, _, law in _cases(average, with_replacement=with_replacement):
            parts = {f"client {k}": pk * wk for k, (pk, wk) in enumerate(zip(p, w, strict=True), start=1)}
            yield Sides(case, expectation(law), parts, names=("expected average", "average of all"))

    return compared(sides(), of="draws from two to four clients", relation="==")


def _varies(average: Average, *, with_replacement: bool, equal: bool = False, corrected: bool = True) -> Evidence:
    """Compare with the variance of the models over K, without replacement times (N - K) / (N - 1) if corrected."""

    def sides() -> Iterator[Sides]:
        for case, p, w, m, law in _cases(average, with_replacement=with_replacement, equal=equal):
            mean = sum(pk * wk for pk, wk in zip(p, w, strict=True))
            share = Fraction(1) if with_replacement or not corrected else Fraction(len(w) - m, len(w) - 1)
            found = expectation([(chance, (value - mean) ** 2) for chance, value in law])
            parts = {
                f"client {k}": share / m * pk * (wk - mean) ** 2
                for k, (pk, wk) in enumerate(zip(p, w, strict=True), start=1)
            }
            yield Sides(case, found, parts, names=("variance", "claimed"))

    return compared(sides(), of="variances of averages", relation="==")


@CL04.reading("both schemes; the variance of sets of clients for equal shares")
def both_schemes() -> Evidence:
    return both(
        _unbiased(_simple, with_replacement=True),
        _unbiased(_scaled, with_replacement=False),
        _varies(_simple, with_replacement=True),
        _varies(_scaled, with_replacement=False, equal=True),
    )


@CL04.reading("the variance of sets of clients for any shares, which Assumption 6 rules out", natural=False)
def unequal_shares() -> Evidence:
    return _varies(_scaled, with_replacement=False)


@CL04.reading("shares of the drawn clients, made to add up to one", natural=False)
def renormalised() -> Evidence:
    return _unbiased(_renormalised, with_replacement=False)


@CL04.mutant("simple average, all sets equally likely")
def simple_of_sets() -> Evidence:
    return _unbiased(_simple, with_replacement=False)


@CL04.mutant("sets of clients vary as draws with replacement do")
def not_corrected() -> Evidence:
    return _varies(_scaled, with_replacement=False, equal=True, corrected=False)
