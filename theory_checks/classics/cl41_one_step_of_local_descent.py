"""CL-41: a bound on one step of local descent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product

from fedstat.claims import Claim, Client, Evidence, Functions, Run, Setting, average, bounded, square
from fedstat.claims.runs import Quantity, Vector
from theory_checks.classics.local_descent import spread

CL41 = Claim(
    id="CL-41",
    place="Khaled, Mishchenko and Richtárik, First analysis of local GD on heterogeneous data (NeurIPS 2019, workshop "
    "on federated learning), section 2.2, Lemma 1, equation (4); arXiv:1909.04715",
    said_by="paper",
    words="For every step size one step of all clients leaves at most the squared distance plus γL (1 + 2γL) times "
    "the clients' spread minus 2γ (1 − 2γL) times the gap.",
    statement="norm(r_(t+1))^2 <= norm(r_t)^2 + gamma L (1 + 2 gamma L) V_t - 2 gamma (1 - 2 gamma L) "
    "D_f (hat(x)_t, x_*)",
    severity="false",
    assumptions="every client's function is convex and L-smooth, in any dimension; the clients' models are any points",
    sensitivity="one part in 10,000 of the worst case over all such functions and points",
)


def _step(clients: Sequence[Client], model: Vector, step: float) -> list[Vector]:
    """Return the average after one step, and the clients' models before it: any points."""
    models = [model, *(client.chosen() for client in clients[1:])]
    return [average(clients, [w - step * c.gradient(w) for c, w in zip(clients, models, strict=True)]), *models]


def _sides(run: Run, step: float, spread_factor: float) -> tuple[Quantity, dict[str, Quantity]]:
    """Return both sides, each term on the side where it is positive, in units in which L = 1."""
    after, *models = run.models
    before = average(run.clients, models)
    gap = 2 * step * (1 - 2 * step) * (run.value(before) - run.value(run.optimum))
    left = square(after - run.optimum)
    right = {
        "distance": square(before - run.optimum),
        "spread": spread_factor * step * (1 + 2 * step) * spread(run.clients, models),
    }
    return (left + gap, right) if step <= 1 / 2 else (left, right | {"gap": -1 * gap})


def _left(run: Run, step: float) -> Quantity:
    return _sides(run, step, 1.0)[0]


def _right(run: Run, step: float, spread_factor: float) -> Mapping[str, Quantity]:
    return _sides(run, step, spread_factor)[1]


def _settings(spread_factor: float = 1.0) -> Iterator[Setting]:
    for clients, step in product((1, 2, 3), (0.05, 0.25, 3.0)):
        yield Setting(
            case=f"M = {clients}, γ = {step:g} / L",
            method=partial(_step, step=step),
            clients=[Functions(smoothness=1)] * clients,
            measure=partial(_left, step=step),
            bound=partial(_right, step=step, spread_factor=spread_factor),
        )


@CL41.reading("the worst case over all convex L-smooth functions and all points")
def all_functions() -> Evidence:
    return bounded(_settings(), of="settings of M and γ")


@CL41.mutant("a fifth of the spread")
def less_spread() -> Evidence:
    return bounded(_settings(spread_factor=0.2), of="settings with less spread")
