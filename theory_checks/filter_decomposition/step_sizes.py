"""Step sizes proportional to 1 / (gamma + t) within a period of local steps: do they fall to less than half?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from fedstat.claims import Evidence, Sides, compared, enumeration


class Window(NamedTuple):
    """A period of local steps that begins at t0."""

    condition: int
    local_steps: int
    rounds: int
    gamma: int
    begin: int
    now: int

    def __str__(self) -> str:
        period = f", 1/β = {self.rounds}" if self.rounds > 1 else ""
        return (
            f"L/μ = {self.condition}, E = {self.local_steps}{period}, γ = {self.gamma}, t₀ = {self.begin}, "
            f"t = {self.now}"
        )

    @property
    def ratio(self) -> Fraction:
        """eta_t0 / eta_t."""
        return Fraction(self.gamma + self.now, self.gamma + self.begin)


def halved(gamma: Callable[[int, int, int], int], rounds: Iterable[int], begins: Iterable[int] = range(6)) -> Evidence:
    """Judge ``eta_t0 <= 2 eta_t`` on periods of E / beta steps."""

    def cases() -> Iterator[Sides]:
        for r, e, condition, begin in itertools.product(rounds, (1, 2, 5, 10, 20), (1, 2, 3), begins):
            for now in range(begin, begin + e * r):
                window = Window(condition, e, r, gamma(condition, e, r), begin, now)
                yield Sides(str(window), window.ratio, 2, ("step size at t₀ over that at t", "claimed at most"))

    return compared(cases(), of="steps within periods")


class Coefficient(NamedTuple):
    """A term of a linear polynomial."""

    variable: str
    value: Any

    def __str__(self) -> str:
        return f"{self.value} for {self.variable}".replace("-", "−")


def always_halved(gamma: Callable[[Any, Any], Any]) -> Evidence:
    """Judge ``eta_t0 <= 2 eta_t`` for all t0 >= 0 and all t in a period of P steps, with gamma a function of P and g.

    ``eta_t0 / eta_t = (gamma + t)/(gamma + t0)`` is at most 2 iff ``gamma + t0 - (t - t0) >= 0``. Written in t0, in the
    steps made ``t - t0``, in the steps ``P - 1 - (t - t0)`` still to come and in ``g >= 0``, by which gamma may exceed
    its least value, that is linear; and a linear polynomial in numbers from 0 on that do not bind one another is never
    negative exactly if no coefficient is.
    """
    import sympy

    names = ("steps made", "steps to come", "the start of the period", "the excess of γ")
    made, left, start, excess = variables = sympy.symbols("made left t0 g")
    slack = sympy.Poly(gamma(1 + made + left, excess) + start - made, *variables)
    assert slack.total_degree() == 1
    words = dict(zip(variables, names, strict=True))
    terms = [Coefficient("the constant", slack.eval(dict.fromkeys(variables, 0)))]
    terms += [Coefficient(words[x], slack.coeff_monomial(x)) for x in variables]
    of = "coefficients of γ + t₀ − (t − t₀), linear in steps made and to come, t₀ and the excess of γ"
    return enumeration(terms, lambda c: c.value >= 0, of=of)
