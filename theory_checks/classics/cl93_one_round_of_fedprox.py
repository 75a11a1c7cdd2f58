"""CL-93: how much a round of FedProx lowers the objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import factorial, prod

from fedstat.claims import Claim, Client, Evidence, Functions, Run, Setting, average, bounded, square
from fedstat.claims.runs import Method, Quantity, Vector

CL93 = Claim(
    id="CL-93",
    place="Li, Sahu, Zaheer, Sanjabi, Talwalkar and Smith, Federated optimization in heterogeneous networks (MLSys "
    "2020), section 4.2, Theorem 4, and for K → ∞ the decrease at the mean in its proof, appendix A.1; "
    "arXiv:1812.06127",
    said_by="paper",
    words="If clients whose gradients are B-dissimilar solve their subproblems exactly, a round of FedProx with K "
    "devices lowers the objective in expectation by at least ρ times its squared gradient, where ρ is positive.",
    statement="EE f(w^(t+1)) <= f(w^t) - rho norm(nabla f(w^t))^2, quad macron(mu) = mu - L_-, quad rho = 1 / mu - "
    "(B sqrt(2)) / (macron(mu) sqrt(K)) - (L B) / (macron(mu) mu) - (L B^2) / (2 macron(mu)^2) - "
    "(L B^2) / (macron(mu)^2 K) (2 sqrt(2 K) + 2)",
    severity="false",
    assumptions="the theorem's γ is 0, and L₋ = L, as functions are L-smooth and need not be convex; two clients of "
    "equal shares, of which K are drawn with replacement or, for K → ∞, both take part; the gradients are B-dissimilar "
    "where the round begins",
    sensitivity="one part in 10,000 of the worst case over all such functions, in what the decrease lacks of the "
    "squared gradient divided by μ; draws are tried at B = 1 alone, where their term is not needed",
)


def shortfall(smoothness: float, dissimilarity: float, draws: int | None) -> dict[str, float]:
    """Return by name what the theorem takes off 1 / mu, with mu = 1; without draws K grows beyond all bounds."""
    step = dissimilarity / (1 - smoothness)  # how far clients go at most, in gradients of the objective
    parts = {"drift": smoothness * step, "length of the step": smoothness * step**2 / 2}
    if draws is not None:
        scatter = step * (2 / draws) ** 0.5
        parts["draws"] = scatter + smoothness * (2 * step * scatter + scatter**2)
    return parts


def fedprox(draws: int | None) -> Method:
    """Return the mean of exact solutions, or the equally likely means of so many clients drawn with replacement."""

    def method(clients: Sequence[Client], model: Vector) -> Vector:
        solved = [client.proximal(model, 1) for client in clients]
        if draws is None:
            return average(clients, solved)
        means = []
        for chosen in combinations_with_replacement(range(len(clients)), draws):
            counts = [chosen.count(k) for k in range(len(clients))]
            times = factorial(draws) // prod(map(factorial, counts))
            first, *others = [count / draws * model for count, model in zip(counts, solved, strict=True)]
            means += [sum(others, start=first)] * times
        return means

    return method


def _slope(run: Run) -> tuple[Quantity, Quantity]:
    """Return the squared gradient of the objective where the round begins, and the clients' mean squared gradient."""
    gradients = [client.at(run.first)[0] for client in run.clients]
    mean = sum(client.weight * square(own) for client, own in zip(run.clients, gradients, strict=True))
    return square(average(run.clients, gradients)), mean


def one_round(pull: float, dissimilarity: float, draws: int | None) -> Setting:
    """Return a round's setting, with mu = 1: what its decrease lacks of the squared gradient, and the bound."""

    def lacking(run: Run) -> Quantity:
        return run.gap + run.value(run.optimum) - run.value(run.first) + _slope(run)[0]

    def bound(run: Run) -> dict[str, Quantity]:
        squared, _ = _slope(run)
        return {name: share * squared for name, share in shortfall(1 / pull, dissimilarity, draws).items()}

    def dissimilar(run: Run) -> list[Quantity]:
        squared, mean = _slope(run)
        return [mean - dissimilarity**2 * squared]

    return Setting(
        case=f"μ = {pull:g} L, B = {dissimilarity:g}, K {'→ ∞' if draws is None else f'= {draws}'}",
        method=fedprox(draws),
        clients=[Functions(convexity=-1 / pull, smoothness=1 / pull)] * 2,
        measure=lacking,
        bound=bound,
        assumed=dissimilar,
    )


#: Pulls mu / L, dissimilarities B and draws K for which rho is positive.
SETTINGS = ((3, 1, None), (4, 1, None), (6, 1, None), (8, 1, None), (6, 2, None), (8, 2, None), (9, 1, 8), (12, 1, 8))


@CL93.reading("the worst case over all smooth functions")
def all_functions() -> Evidence:
    return bounded((one_round(*setting) for setting in SETTINGS), of="settings of μ, B and K")


@CL93.mutant("clients as dissimilar as one likes")
def any_dissimilarity() -> Evidence:
    settings = (replace(one_round(*setting), assumed=lambda _: ()) for setting in SETTINGS[:2])
    return bounded(settings, of="settings without a limit on the dissimilarity")
