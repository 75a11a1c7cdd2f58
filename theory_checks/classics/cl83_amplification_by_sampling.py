"""CL-83: a private mechanism is more private on a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import comb
from typing import NamedTuple

from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, Sides, all_of, compared, search

CL83 = Claim(
    id="CL-83",
    place="Balle, Barthe and Gaboardi, Privacy amplification by subsampling: tight analyses via couplings and "
    "divergences (NeurIPS 2018), Theorem 8 and Table 1 as later authors quote them; the paper could not be read; "
    "arXiv:1807.01647",
    said_by="folklore",
    words="What is (ε, δ)-private is (log(1 + q (e^ε − 1)), q δ)-private on a sample, if every record is there with "
    "chance q and neighbours differ in a record's presence, or if m = q n records of n are drawn and neighbours differ "
    "in a record's value.",
    statement="delta_(cal(M) compose cal(S)) (epsilon') <= q delta_(cal(M)) (epsilon), quad "
    "epsilon' = log(1 + q (e^epsilon - 1))",
    severity="false",
    assumptions="δ(ε) is the smallest δ for which the mechanism is (ε, δ)-private between neighbours of the same kind; "
    "records of two values, at most three of them, mechanisms with two answers and any chances in twelfths",
    sensitivity="any excess of δ, exact in fractions",
)

#: How many records of each value there are.
_Records = tuple[int, int]
_DATA = tuple((a, b) for a, b in product(range(4), repeat=2) if a + b <= 3)
#: Values of e^ε.
_ODDS = (Fraction(1), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(9))
#: The chance of a mechanism's first answer on every sample.
_Mechanism = Mapping[_Records, Fraction]


def _presence(a: _Records, b: _Records) -> bool:
    return abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1


def _value(a: _Records, b: _Records) -> bool:
    return sum(a) == sum(b) and abs(a[0] - b[0]) == 1


def _delta(mechanism: _Mechanism, odds: Fraction, neighbours: Callable[[_Records, _Records], bool]) -> Fraction:
    """Return the smallest delta at which a mechanism with two answers is private at these odds."""
    pairs = [(p, r) for (a, p), (b, r) in product(mechanism.items(), repeat=2) if neighbours(a, b)]
    return max((max(p - odds * r, 1 - p - odds * (1 - r), Fraction(0)) for p, r in pairs), default=Fraction(0))


def _poisson(mechanism: _Mechanism, q: Fraction) -> dict[_Records, Fraction]:
    """Return what the mechanism answers on samples in which every record is with chance q."""

    def chance(there: int, of: int) -> Fraction:
        return comb(of, there) * q**there * (1 - q) ** (of - there)

    return {
        (a, b): sum(
            (chance(i, a) * chance(j, b) * mechanism[i, j] for i, j in product(range(a + 1), range(b + 1))), Fraction(0)
        )
        for a, b in mechanism
    }


def _drawn(mechanism: _Mechanism, m: int) -> dict[_Records, Fraction]:
    """Return what the mechanism answers on m records drawn without replacement."""
    return {
        (a, b): sum(
            (
                Fraction(comb(a, i) * comb(b, m - i), comb(a + b, m)) * mechanism[i, m - i]
                for i in range(max(0, m - b), min(a, m) + 1)
            ),
            Fraction(0),
        )
        for a, b in mechanism
        if a + b >= m
    }


class Case(NamedTuple):
    """A mechanism, e^ε, and a rate for independent records or a size for records that are drawn."""

    chances: tuple[int, ...]
    odds: Fraction
    rate: Fraction
    size: int

    @property
    def mechanism(self) -> _Mechanism:
        """Its chances by sample."""
        return {sample: Fraction(c, 12) for sample, c in zip(_DATA, self.chances, strict=True)}

    def __str__(self) -> str:
        given = ", ".join(map(str, self.chances))
        return f"e^ε = {self.odds}, q = {self.rate}, m = {self.size}, chances on samples in twelfths {given}"


_CASES = st.builds(
    Case,
    st.lists(st.integers(0, 12), min_size=len(_DATA), max_size=len(_DATA)).map(tuple),
    st.sampled_from(_ODDS),
    st.sampled_from((Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))),
    st.integers(1, 3),
)


def _independent(case: Case, power: int = 1) -> tuple[Fraction, Fraction]:
    odds = 1 + case.rate * (case.odds - 1)
    found = _delta(_poisson(case.mechanism, case.rate), odds, _presence)
    return found, case.rate**power * _delta(case.mechanism, case.odds, _presence)


def _without_replacement(case: Case, power: int = 1) -> tuple[Fraction, Fraction]:
    """Return both sides for three records, of which some are drawn."""
    q, three = Fraction(case.size, 3), {k: v for k, v in _drawn(case.mechanism, case.size).items() if sum(k) == 3}
    samples = {k: v for k, v in case.mechanism.items() if sum(k) == case.size}
    return _delta(three, 1 + q * (case.odds - 1), _value), q**power * _delta(samples, case.odds, _value)


def _theorem(power: int = 1) -> Evidence:
    parts = (lambda case: _independent(case, power), lambda case: _without_replacement(case, power))
    return all_of([search(_CASES, part, names=("δ on samples", "claimed")) for part in parts])


@CL83.reading("both ways of sampling, each with its neighbours")
def each_with_its_own() -> Evidence:
    return _theorem()


def _alone(none: Fraction, first: Fraction, second: Fraction) -> _Mechanism:
    """Return a mechanism by its chances on nothing and on one record of either value."""
    return {(0, 0): none, (1, 0): first, (0, 1): second}


#: Private at e^ε = 3 between neighbours by presence; the two records are on either side of nothing.
_BETWEEN = _alone(Fraction(1, 4), Fraction(3, 4), Fraction(1, 12))
_HALF = Fraction(1, 2)


@CL83.reading("independent records, and neighbours that differ in a record's value", natural=False)
def independent_by_value() -> Evidence:
    def cases() -> Iterator[Sides]:
        found = _delta(_poisson(_BETWEEN, _HALF), 1 + _HALF * 2, _value)
        case = "chances 1/4 on nothing, 3/4 and 1/12 on one record of either value, e^ε = 3, q = 1/2"
        yield Sides(case, found, _HALF * _delta(_BETWEEN, Fraction(3), _presence), names=("δ on samples", "claimed"))

    return compared(cases(), of="mechanisms")


@CL83.reading("m = 1 of n = 2 records drawn, and neighbours that differ in a record's presence", natural=False)
def drawn_by_presence() -> Evidence:
    """Whether the formula holds between both records, of which one is drawn, and the first of them alone."""

    def cases() -> Iterator[Sides]:
        answers = _drawn({**_BETWEEN, (1, 1): Fraction(1, 4)}, 1)
        found = _delta(answers, 1 + _HALF * 2, _presence)
        case = "chances 1/4 on nothing, 3/4 and 1/12 on one record of either value, e^ε = 3, one of two drawn"
        yield Sides(case, found, _HALF * _delta(_BETWEEN, Fraction(3), _presence), names=("δ on samples", "claimed"))

    return compared(cases(), of="mechanisms")


@CL83.reading("the budget q ε, its value for small ε", natural=False)
def linear_budget() -> Evidence:
    def cases() -> Iterator[Sides]:
        answers = _alone(Fraction(4, 13), Fraction(9, 13), Fraction(4, 13))
        found = _delta(_poisson(answers, _HALF), Fraction(3, 2), _presence)
        case = "chances 4/13 on nothing and 9/13 on a record, e^ε = 9/4, q = 1/2, e^(q ε) = 3/2"
        yield Sides(case, found, _HALF * _delta(answers, Fraction(9, 4), _presence), names=("δ on samples", "claimed"))

    return compared(cases(), of="mechanisms")


@CL83.mutant("q² δ in place of q δ")
def too_private() -> Evidence:
    return _theorem(power=2)
