"""CL-42: how far the clients of local gradient descent part within an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from fedstat.claims import Claim, Client, Evidence, Functions, Run, Setting, average, bounded
from fedstat.claims.runs import Quantity, Vector
from theory_checks.classics.local_descent import local_models, spread

CL42 = Claim(
    id="CL-42",
    place="Khaled, Mishchenko and Richtárik, First analysis of local GD on heterogeneous data (2019), section 2.2, "
    "Lemma 2, the second inequality, doi:10.48550/arXiv.1909.04715",
    link="https://arxiv.org/abs/1909.04715",
    said_by="paper",
    words="With steps of at most 1 / (4LH), 3L/2 of the clients' spread, summed over an epoch, is at most half the "
    "summed gap plus 12Lγ²H²σ² for every step.",
    statement="sum_(t=t_p)^v (3/2 L V_t - D_f (hat(x)_t, x_*)) <= -1/2 sum_(t=t_p)^v D_f (hat(x)_t, x_*) + "
    "sum_(t=t_p)^v 12 L gamma^2 H^2 sigma^2, quad v = t_(p+1) - 1",
    severity="false",
    assumptions="every client's function is convex and L-smooth, in any dimension; an epoch of H steps; the first "
    "inequality, from which this one follows, is not judged: its worst case is approached only with points that run "
    "away, and the solvers do not agree on it",
    sensitivity="one part in 10,000 of the worst case over all such functions",
)


def _epoch(clients: Sequence[Client], model: Vector, step: float, interval: int) -> list[Vector]:
    return [w for models in local_models(clients, model, step, interval, interval - 1) for w in models]


def _paths(run: Run) -> Iterator[Sequence[Vector]]:
    """Yield the clients' models at each time of the epoch."""
    for first in range(0, len(run.models), len(run.clients)):
        yield run.models[first : first + len(run.clients)]


def _gaps(run: Run) -> Quantity:
    averages = [average(run.clients, models) for models in _paths(run)]
    return sum(run.value(w) for w in averages) - len(averages) * run.value(run.optimum)


def _settings(of_heterogeneity: float = 1.0) -> Iterator[Setting]:
    for clients, interval, part in ((2, 2, 1.0), (2, 2, 0.25), (2, 3, 1.0), (3, 2, 1.0)):
        step = part / (4 * interval)

        def bound(run: Run, interval: int = interval, step: float = step) -> Mapping[str, Quantity]:
            away = 12 * (step * interval) ** 2 * interval * run.heterogeneity
            return {"gap": 1 / 2 * _gaps(run), "heterogeneity": of_heterogeneity * away}

        yield Setting(
            case=f"M = {clients}, H = {interval}, γ = {step:.3g} / L",
            method=partial(_epoch, step=step, interval=interval),
            clients=[Functions(smoothness=1)] * clients,
            measure=lambda run: 3 / 2 * sum(spread(run.clients, models) for models in _paths(run)),
            bound=bound,
        )


@CL42.reading("the worst case over all convex L-smooth functions")
def all_functions() -> Evidence:
    return bounded(_settings(), of="settings of M, H and γ")


@CL42.mutant("a hundredth of the heterogeneity")
def less_heterogeneity() -> Evidence:
    return bounded(_settings(0.01), of="settings with less heterogeneity")
