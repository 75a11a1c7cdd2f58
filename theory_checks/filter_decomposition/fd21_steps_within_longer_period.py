"""FD-21: steps can fall below half within the longer period.

FD-21c: with a larger γ steps keep half their size.
"""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.filter_decomposition.step_sizes import always_halved, halved

FD21 = Claim(
    id="FD-21",
    place="section A.2, Theorem A.1, choice of γ, with which (23) is derived",
    said_by="fedstat",
    words="With the same γ, the step size does not fall to less than half within E/β local steps, as (23) needs.",
    statement="eta_(t_0) <= 2 eta_t, quad 0 <= t - t_0 <= E/beta - 1, quad gamma = max(8 L / mu, E)",
    severity="false",
    assumptions="η_t proportional to 1/(γ + t), 1/β a whole number",
    sensitivity="exact",
    flaw="The argument for E steps uses γ ≥ E. Theorem A.1 lengthens the period to E/β and keeps γ.",
    corrected="FD-21c",
)


def _printed(condition: int, local_steps: int, rounds: int) -> int:
    return max(8 * condition, local_steps)


@FD21.reading("steps counted from 0, as in Theorem A.1")
def from_nought() -> Evidence:
    return halved(_printed, [2, 5, 10])


@FD21.reading("steps counted from 1")
def from_one() -> Evidence:
    return halved(_printed, [2, 5, 10], range(1, 6))


@FD21.control("β = 1, periods of E steps")
def single_round() -> Evidence:
    return halved(_printed, [1])


FD21C = Claim(
    id="FD-21c",
    place="corrected statement of FD-21",
    said_by="fedstat",
    words="With γ at least E/β, the step size does not fall to less than half within E/β local steps.",
    statement="eta_(t_0) <= 2 eta_t, quad 0 <= t - t_0 <= E/beta - 1, quad gamma = max(8 L / mu, E/beta)",
    severity="false",
    assumptions="η_t proportional to 1/(γ + t), 1/β a whole number",
    sensitivity="exact",
)


@FD21C.reading("any E/β, γ and t₀ from 0")
def always() -> Evidence:
    return always_halved(lambda period, excess: period + excess)


@FD21C.reading("any t₀ from 0, on cases")
def on_cases() -> Evidence:
    return halved(lambda k, e, r: max(8 * k, e * r), [1, 2, 5, 10])


@FD21C.mutant("γ at least half of E/β")
def half_the_period() -> Evidence:
    return always_halved(lambda period, excess: period / 2 + excess)
