"""FD-20: steps keep at least half their size over E steps."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence
from theory_checks.filter_decomposition.step_sizes import always_halved, halved

FD20 = Claim(
    id="FD-20",
    place="section A.4.2, second sentence",
    said_by="paper",
    words="Within E local steps the step size does not fall to less than half.",
    statement="eta_(t_0) <= 2 eta_t, quad 0 <= t - t_0 <= E - 1, quad gamma = max(8 L / mu, E)",
    severity="false",
    assumptions="η_t proportional to 1/(γ + t)",
    sensitivity="exact",
)


@FD20.reading("any E, γ and t₀ from 0")
def always() -> Evidence:
    return always_halved(lambda period, excess: period + excess)


@FD20.reading("any t₀ from 0, on cases")
def on_cases() -> Evidence:
    return halved(lambda k, e, r: max(8 * k, e), [1])


@FD20.mutant("γ = 8 L/μ alone, any E")
def without_period() -> Evidence:
    return always_halved(lambda period, excess: 8 + excess)


@FD20.mutant("γ = 8 L/μ alone, on cases")
def without_period_on_cases() -> Evidence:
    return halved(lambda k, e, r: 8 * k, [1])
