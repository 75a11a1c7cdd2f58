"""FD-16: the proof does not cover the stated step size.

FD-16c: which step sizes the proof covers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, both, compared, sampled
from theory_checks.filter_decomposition.averaging_exactly import (
    SINGLE_CLIENTS,
    client_pairs,
    recursion_terms,
    run_exactly,
)


class Induction(NamedTuple):
    """The recursion ``Delta' = (1 - b mu/(gamma+t)) Delta + b^2 B/(gamma+t)^2``, with mu = 1."""

    b: Fraction
    gamma: int
    drift: Fraction
    start: Fraction

    def __str__(self) -> str:
        zero = ", where the constant divides by zero" if self.b == 1 else ""
        return f"μ = 1, β = {self.b}, γ = {self.gamma}, B = {self.drift}, first squared distance {self.start}{zero}"

    def scaled(self, steps: int) -> Iterator[Fraction]:
        """Yield (gamma + t) Delta_t for t = 1..steps, if every step is an equality."""
        delta = self.start
        for t in range(1, steps + 1):
            yield (self.gamma + t) * delta
            delta = (1 - self.b / (self.gamma + t)) * delta + self.b**2 * self.drift / (self.gamma + t) ** 2


def _proof_constant(case: Induction) -> Fraction:
    """Return the proof's constant v."""
    return max(case.b**2 * case.drift / (case.b - 1), (case.gamma + 1) * case.start)


def _without_start(case: Induction) -> Fraction:
    return case.b**2 * case.drift / (case.b - 1)


def _proof_works(multiples: Iterable[Fraction], constant: Callable[[Induction], Fraction]) -> Evidence:
    """``Delta_t <= v / (gamma + t)`` with the proof's v, over step sizes beta = multiple / mu."""

    def holds(case: Induction) -> bool:
        try:
            v = constant(case)
        except ZeroDivisionError:
            return False
        return all(value <= v for value in case.scaled(60))

    cases = [
        Induction(b, gamma, Fraction(drift), Fraction(start))
        for b, gamma, drift, start in itertools.product(multiples, (8, 16), (1, 10), (0, 1, 10))
    ]
    return sampled(cases, holds, of="recursions")


class Broken(NamedTuple):
    """Until which step each constant serves; a step of None means to the end."""

    case: Induction
    until: dict[int, int | None]

    def __str__(self) -> str:
        parts = [f"v = {v} serves until t = {t}" for v, t in self.until.items()]
        return f"μ = β = B = 1, γ = {self.case.gamma}, start at the optimum: {', '.join(parts)}"


def _some_constant() -> Evidence:
    """Does another constant v serve the step size 1/mu?

    Taken as an equality the recursion telescopes to ``(gamma + t - 1) Delta_t = gamma Delta_1 + B sum 1/(gamma + s)``
    over s < t, a harmonic sum: from gamma + s = n to 2n it gains at least B / 2. So no v serves for all t; here the
    steps are shown at which v = B, ..., 4 B break.
    """

    def until(case: Induction, v: int) -> int | None:
        return next((t - 1 for t, value in enumerate(case.scaled(1000), 1) if value > v * case.drift), None)

    cases = [Induction(Fraction(1), gamma, Fraction(1), Fraction(0)) for gamma in (8, 16)]
    shown = [Broken(case, {v: until(case, v) for v in range(1, 5)}) for case in cases]
    return sampled(shown, lambda s: None in s.until.values(), of="recursions of 1000 steps")


FD16 = Claim(
    id="FD-16",
    place="section 5, Theorem 5.4, choice of the step size and last sentence",
    said_by="paper",
    words="The step size 1/(μ(γ + t)) of Theorem 5.4 is covered by its proof.",
    statement="EE norm(w^t - w^*)^2 <= v/(gamma + t), quad v = max((beta^2 B)/(beta mu - 1), (gamma + 1) norm(w^1 - "
    "w^*)^2), quad beta = 1/mu",
    severity="misprint",
    assumptions="η_t = β/(γ + t) as in section A.4.3; its β is not the protocol's",
    sensitivity="exact",
    flaw="The induction needs β > 1/μ, as the proof itself says; at β = 1/μ its constant divides by zero. No other "
    "constant helps: taken as an equality, the recursion makes γ + t times the squared distance grow like log t. The "
    "proof chooses β = 2/μ, and Theorem A.1 has that step.",
    corrected="FD-16c",
)


@FD16.reading("with the proof's constant")
def proofs_constant() -> Evidence:
    return _proof_works([Fraction(1)], _proof_constant)


@FD16.reading("with some other constant")
def other_constant() -> Evidence:
    return _some_constant()


@FD16.control("β half as large again as 1/μ")
def longer() -> Evidence:
    return _proof_works([Fraction(3, 2)], _proof_constant)


FD16C = Claim(
    id="FD-16c",
    place="corrected statement of FD-16",
    said_by="fedstat",
    words="The proof covers every step size β/(γ + t) with β above 1/μ and a first step of at most 1/(4L).",
    statement="EE norm(w^t - w^*)^2 <= v/(gamma + t), quad v = max((beta^2 B)/(beta mu - 1), (gamma + 1) norm(w^1 - "
    "w^*)^2), quad 1/mu < beta <= (gamma + 1)/(4 L), quad gamma + 1 >= E",
    severity="false",
    assumptions="B with a term for the noise of stochastic gradients and one for the draw of clients added "
    "(derived in FD-18c and FD-14c); β is not the protocol's",
    sensitivity="exact; the start in v, and β²B/(βμ − 1) in the recursions; of the terms of B federated averaging "
    "itself shows only the noise: the others come from the inequalities of FD-14c",
)


def _covered(constant: Callable[[Induction], Fraction]) -> Evidence:
    """Every beta > 1/mu with ``beta <= (gamma + 1)/(4 L)``, for the recursion and for federated averaging itself.

    ``eta_1 = beta/(gamma + 1) <= 1/(4L)`` and ``gamma + 1 >= E`` give ``Delta' <= (1 - mu eta_t) Delta + eta_t^2 B``.
    If ``Delta_t <= v/s`` with ``s = gamma + t``, then ``Delta' <= ((s - 1) v + beta^2 B - (beta mu - 1) v)/s^2``,
    where ``1 - mu eta_t >= 0`` was used; for ``v >= beta^2 B/(beta mu - 1)`` that is at most ``(s - 1) v/s^2``, and
    ``(s - 1)(s + 1) <= s^2`` gives ``v/(s + 1)``. The start needs ``v >= (gamma + 1) Delta_1``. Within a period
    ``eta_t0 <= 2 eta_t`` means ``t - t0 <= gamma + t0``, which ``t - t0 <= E - 1`` and ``t0 >= 1`` guarantee.
    """
    names = ("expected squared distance", "bound")

    def compare() -> Iterator[Sides]:
        # six local steps at gamma = 5 meet gamma + 1 >= E with equality; a path takes two periods at least
        problems = [*SINGLE_CLIENTS, *client_pairs([1, 2], [(), (1, 1)]), *client_pairs([6], [(), (1, 1)])]
        for problem, gamma, b in itertools.product(problems, (5, 8, 33), (Fraction(9, 8), Fraction(2), Fraction(8))):
            mu, smoothness = problem.convexity, problem.smoothness
            if b / mu > Fraction(gamma + 1, 4 * smoothness) or gamma + 1 < problem.local_steps:
                continue
            steps = max(6, 2 * problem.local_steps + 1)
            path = run_exactly(problem, lambda t, b=b, g=gamma, mu=mu: b / (mu * (g + t)), steps)  # type: ignore[misc]
            drift = sum(recursion_terms(problem, path[-1].squared_gradient).values(), Fraction(0))
            v = constant(Induction(b, gamma, drift, path[0].distance))
            for t, at in enumerate(path, 1):
                yield Sides(f"{problem}, γ = {gamma}, β μ = {b}, t = {t}", at.distance, v / (gamma + t), names)

    recursions = _proof_works([Fraction(9, 8), Fraction(3, 2), Fraction(2), Fraction(9, 4)], constant)
    return both(recursions, compared(compare(), of="steps of scalar problems with μ = 1"))


@FD16C.reading("recursion as an equality, and federated averaging")
def covered() -> Evidence:
    return _covered(_proof_constant)


@FD16C.mutant("the start left out of the constant")
def no_start() -> Evidence:
    return _covered(_without_start)
