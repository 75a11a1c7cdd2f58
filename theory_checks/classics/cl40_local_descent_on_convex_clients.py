"""CL-40: a bound on local descent with convex clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add

from fedstat.claims import Claim, Client, Evidence, Functions, Run, Setting, average, bounded
from fedstat.claims.runs import Method, Quantity, Vector
from theory_checks.classics.local_descent import local_models

CL40 = Claim(
    id="CL-40",
    place="Khaled, Mishchenko and Richtárik, First analysis of local GD on heterogeneous data (NeurIPS 2019, workshop "
    "on federated learning), section 2.2, Theorem 1; extended in their Tighter theory for local SGD (AISTATS 2020); "
    "arXiv:1909.04715",
    said_by="paper",
    words="With a fixed step of at most 1 / (4LH) the average of local gradient descent's iterates is within "
    "2 |x_0 − x*|² / (γT) + 24 γ² σ² H² L of the minimum.",
    statement="f(overline(x)_T) - f(x_*) <= (2 norm(x_0 - x_*)^2)/(gamma T) + 24 gamma^2 sigma^2 H^2 L, quad "
    "overline(x)_T = 1/T sum_(t=0)^(T-1) hat(x)_t, quad sigma^2 = 1/M sum_m norm(nabla f_m (x_*))^2, quad "
    "gamma <= 1/(4 L H)",
    severity="false",
    assumptions="every client's function is convex and L-smooth, in any dimension; averaging every H steps",
    sensitivity="one part in 10,000 of the worst case over all such functions; the steps are so short that a "
    "thousandth of the heterogeneity's term is enough in these settings",
)


def averaged(step: float, interval: int, steps: int) -> Method:
    """Local gradient descent that returns the average of the iterates' averages before the last step."""

    def method(clients: Sequence[Client], model: Vector) -> Vector:
        paths = local_models(clients, model, step, interval, steps - 1)
        return 1 / steps * reduce(add, [average(clients, models) for models in paths])

    return method


def _settings(start: float = 2.0, share: float = 1.0) -> Iterator[Setting]:
    for clients, interval, steps, part in ((1, 1, 1, 1), (2, 1, 4, 1), (2, 2, 2, 1), (2, 2, 4, 0.5), (3, 3, 3, 1)):
        step = share * part / (4 * interval)

        def bound(run: Run, step: float = step, interval: int = interval, steps: int = steps) -> dict[str, Quantity]:
            return {
                "start": start / (step * steps) * run.start,
                "heterogeneity": 24 * step**2 * interval**2 * run.heterogeneity,
            }

        yield Setting(
            case=f"M = {clients}, H = {interval}, T = {steps}, γ = {step:.3g} / L",
            method=averaged(step, interval, steps),
            clients=[Functions(smoothness=1)] * clients,
            measure=lambda run: run.gap,
            bound=bound,
        )


@CL40.reading("the worst case over all convex L-smooth functions")
def all_functions() -> Evidence:
    return bounded(_settings(), of="settings of M, H, T and γ")


@CL40.mutant("steps of 4 / L")
def too_long() -> Evidence:
    return bounded(_settings(share=16), of="settings with long steps")


@CL40.mutant("a twentieth of the start's term")
def nearer_start() -> Evidence:
    return bounded(_settings(start=0.1), of="settings with a nearer start")
