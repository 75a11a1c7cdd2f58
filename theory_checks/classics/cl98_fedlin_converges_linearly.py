"""CL-98: FedLin converges linearly, however clients differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from fedstat.claims import Claim, Client, Evidence, Functions, Run, Setting, average, bounded
from fedstat.claims.runs import Method, Vector

CL98 = Claim(
    id="CL-98",
    place="Mitra, Jaafar, Pappas and Hassani, Linear convergence in federated learning: Tackling client heterogeneity "
    "and sparse gradients (NeurIPS 2021), abstract, fourth sentence; arXiv:2102.07053",
    said_by="paper",
    words="When the clients' losses are smooth and strongly convex, FedLin converges linearly to the global minimum, "
    "however different their objectives and however many steps each of them takes.",
    statement='exists rho < 1: quad f(w_(r+1)) - f(w_*) <= rho (f(w_r) - f(w_*)), quad rho "free of" nabla F_k (w_*) '
    '"and" tau_k',
    severity="false",
    assumptions="a client's τ_k steps are of size γ / τ_k along its gradient, plus the objective's gradient minus its "
    "own where the round begins; γ is at most 1 / L, and ρ = 1 − γμ is ours, as of the paper only the abstract could "
    "be read; two clients, L / μ of 2 and 10, all functions, any heterogeneity, without compression",
    sensitivity="one part in 10,000 of the worst case over all such functions",
)


def fedlin(local_steps: Sequence[int], step: float, *, corrected: bool = True) -> Method:
    """Return a round in which each client takes its own number of steps; without corrections it is FedAvg's."""

    def method(clients: Sequence[Client], model: Vector) -> Vector:
        first = [client.gradient(model) for client in clients]
        ends = []
        for client, own, steps in zip(clients, first, local_steps, strict=True):
            shift = average(clients, first) - own if corrected else 0 * own
            w = model - step / steps * (own + shift)
            for _ in range(steps - 1):
                w = w - step / steps * (client.gradient(w) + shift)
            ends.append(w)
        return average(clients, ends)

    return method


def _rounds(share: Callable[[float], float] = lambda kept: kept, *, corrected: bool = True) -> Iterator[Setting]:
    """Yield rounds with the bound on the gap, as a function of 1 - step mu, in units in which L is one."""
    for condition, local_steps, step in product((2, 10), ((1, 1), (1, 2), (2, 2), (1, 4)), (1 / 6, 1.0)):
        rho = share(1 - step / condition)

        def bound(run: Run, rho: float = rho) -> dict[str, object]:
            return {"gap before": rho * (run.value(run.first) - run.value(run.optimum))}

        yield Setting(
            case=f"L / μ = {condition}, τ = {local_steps}, γ = {step:.3g} / L",
            method=fedlin(local_steps, step, corrected=corrected),
            clients=[Functions(convexity=1 / condition, smoothness=1)] * 2,
            measure=lambda run: run.gap,
            bound=bound,
        )


@CL98.reading("the worst case of a round over all functions")
def all_functions() -> Evidence:
    return bounded(_rounds(), of="settings of L / μ, τ and γ")


@CL98.reading("as fast as a step of size γ with all gradients, which leaves (1 − γμ)² of the gap", natural=False)
def as_fast() -> Evidence:
    """Several steps go less far: parabolas of curvature mu, the worst, keep the square of mean_k (1 - γμ/τ_k)^τ_k."""
    return bounded(_rounds(lambda kept: kept**2), of="settings of L / μ, τ and γ")


@CL98.mutant("no corrections, which is FedAvg")
def without_corrections() -> Evidence:
    return bounded(_rounds(corrected=False), of="settings without corrections")
