"""FD-45: the squared distance falls like 1/(γ + t)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedstat.claims import Claim, Evidence, Functions, Run, Setting, bounded
from fedstat.claims.runs import Quantity
from theory_checks.classics.local_descent import last_average

FD45 = Claim(
    id="FD-45",
    place="section A.4.3, the sentence before (26) that the induction shows, at the step sizes 2/(μ(γ + t)) of the "
    "bound that follows from it",
    said_by="paper",
    words="With all clients taking part the squared distance from the optimum is at most v/(γ + t), v the larger of "
    "4B/μ² and γ + 1 times the start's squared distance.",
    statement="EE norm(w^t - w^*)^2 <= v/(gamma + t), quad v = max((4 B)/mu^2, (gamma + 1) norm(w^1 - w^*)^2), quad "
    "B = 8 (E - 1)^2 G^2 + 6 L Gamma, quad eta_t = 2/(mu (gamma + t)), quad gamma = max(8 L / mu, E)",
    severity="false",
    assumptions="the worst case over all L-smooth and μ-strongly convex clients in any dimension; w¹ is the start; G "
    "bounds the gradients that the clients compute",
    sensitivity="one part in 10,000 of the worst case over all such functions, which is at most 0.69 of the bound: "
    "half of γ + 1 is too little, but the loss of B's drift or of its heterogeneity alone cannot be seen",
)


def _settings(start: float = 1.0) -> Iterator[Setting]:
    for clients, condition, local_steps, last in ((1, 2, 1, 4), (2, 2, 1, 3), (2, 2, 2, 4), (2, 10, 3, 4)):
        gamma = max(8 * condition, local_steps)

        def bound(
            run: Run, condition: int = condition, local_steps: int = local_steps, gamma: int = gamma, last: int = last
        ) -> Mapping[str, Quantity]:
            drift = 8 * (local_steps - 1) ** 2 * run.largest_gradient if local_steps > 1 else 0
            b = 6 * condition * run.excess + drift
            v = run.largest([4 * b, start * (gamma + 1) * run.start])
            return {"bound": 1 / (gamma + last) * v}

        yield Setting(
            case=f"M = {clients}, L/μ = {condition}, E = {local_steps}, t = {last}",
            method=last_average(1.0, gamma, local_steps, last),
            clients=[Functions(convexity=1, smoothness=condition)] * clients,
            measure=lambda run: run.distance,
            bound=bound,
        )


@FD45.reading("the worst case over all smooth and strongly convex functions")
def all_functions() -> Evidence:
    return bounded(_settings(), of="settings of M, L/μ, E and t")


@FD45.mutant("half of γ + 1")
def half_the_start() -> Evidence:
    return bounded(_settings(start=0.5), of="settings with half the start")
