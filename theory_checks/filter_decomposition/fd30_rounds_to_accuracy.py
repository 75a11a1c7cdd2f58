"""FD-30: the bound counts iterations, not rounds.

FD-30c: how many rounds the bound takes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared
from fedstat.theory.strongly_convex import Number, strongly_convex_bound

FD30 = Claim(
    id="FD-30",
    place="section 5, Remark 5.5",
    said_by="paper",
    words="The bound of Theorem 5.4 is at most ε after T ≥ 2LD/(μ²ε) − γ communication rounds and no fewer, D being "
    "the bound's bracket.",
    statement="T >= (2 L cal(D))/(mu^2 epsilon) - gamma <==> 2/mu^2 (L cal(D))/(gamma + T) <= epsilon",
    severity="misprint",
    assumptions="our copy of the remark is damaged where it gives the condition on T; it is restored by solving the "
    "inequality that stands before it, for T a whole number, at least 1; so it is for constants that are not tried",
    sensitivity="one round",
    flaw="The theorem's T counts iterations, of which a communication round has E.",
    corrected="FD-30c",
)


class Accuracy(NamedTuple):
    """A problem's constants and the accuracy that its bound should reach."""

    local_steps: int
    smoothness: int
    convexity: int
    heterogeneity: int
    gradient_bound: int
    accuracy: Fraction

    def __str__(self) -> str:
        return (
            f"E = {self.local_steps}, L = {self.smoothness}, μ = {self.convexity}, Γ = {self.heterogeneity}, "
            f"G = {self.gradient_bound}, |w¹ − w*| = 1, ε = {self.accuracy}"
        )

    def bound(self, steps: int) -> Number:
        """Return the printed bound of Theorem 5.4 after `steps` iterations."""
        return strongly_convex_bound(
            steps,
            smoothness=Fraction(self.smoothness),
            convexity=self.convexity,
            local_steps=self.local_steps,
            gradient_bound=self.gradient_bound,
            heterogeneity=self.heterogeneity,
            initial_distance=1,
            form="printed",
        )

    @property
    def offset(self) -> int:
        """gamma."""
        return max(8 * self.smoothness // self.convexity, self.local_steps)

    @property
    def formula(self) -> int:
        """2 L D / (mu^2 epsilon) - gamma, rounded up, with D the theorem's bracket, read off its value at T = 1."""
        solved = Fraction(self.bound(1)) * (self.offset + 1) / self.accuracy - self.offset
        return max(1, math.ceil(solved))

    def needed(self, stride: int) -> int:
        """Find the smallest number n for which the bound after n times `stride` iterations is small enough."""
        high = 1
        while self.bound(high * stride) > self.accuracy:
            high *= 2
        low = high // 2  # too few (or none), since the bound falls
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bound(middle * stride) > self.accuracy else (low, middle)
        return high


def counts(
    local_steps: Iterable[int], stride: Callable[[Accuracy], int], claimed: Callable[[Accuracy], int]
) -> Evidence:
    """Compare how many times `stride` iterations are needed, by trying, with what is claimed.

    The formula holds for any constants: the bound falls in T, so it is at most epsilon iff
    ``T >= 2 L D/(mu^2 epsilon) - gamma``, and R rounds are R E iterations.
    """

    def cases() -> Iterator[Sides]:
        accuracies = (Fraction(1, 3), Fraction(1, 10), Fraction(1, 25))
        for constants in itertools.product(local_steps, (1, 2), (1, 2), (0, 1), (1, 2), accuracies):
            case = Accuracy(*constants)
            if case.smoothness >= case.convexity:
                yield Sides(str(case), case.needed(stride(case)), claimed(case), ("needed", "by the formula"))

    return compared(cases(), of="sets of constants", relation="==")


def rounds(case: Accuracy) -> int:
    return case.local_steps


def iterations(case: Accuracy) -> int:
    return 1


def by_the_formula(case: Accuracy) -> int:
    return case.formula


@FD30.reading("T counts communication rounds, as the remark says")
def in_rounds() -> Evidence:
    return counts([1, 2, 3], rounds, by_the_formula)


@FD30.reading("T counts iterations, as Theorem 5.4 has it")
def in_iterations() -> Evidence:
    return counts([1, 2, 3], iterations, by_the_formula)


FD30C = Claim(
    id="FD-30c",
    place="corrected statement of FD-30",
    said_by="fedstat",
    words="The bound of Theorem 5.4 is at most ε after that many iterations, divided by E and rounded up, in "
    "communication rounds.",
    statement='"rounds" = ceil(T/E), quad T = max(1, ceil((2 L cal(D))/(mu^2 epsilon) - gamma))',
    severity="false",
    assumptions="γ = max(8L/μ, E), and D the bracket of Theorem 5.4; for constants that are not tried the inequality "
    "is solved for T",
    sensitivity="one round",
)


@FD30C.reading("rounds of E iterations")
def rounded_up() -> Evidence:
    return counts([1, 2, 3], rounds, lambda case: math.ceil(Fraction(case.formula, case.local_steps)))


@FD30C.mutant("rounded down")
def rounded_down() -> Evidence:
    return counts([1, 2, 3], rounds, lambda case: max(1, case.formula // case.local_steps))
