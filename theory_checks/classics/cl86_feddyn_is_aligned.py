"""CL-86: FedDyn's clients and server agree in the limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from operator import mul
from typing import Any

from hypothesis import strategies as st

from fedstat.claims import (
    BentParabola,
    Claim,
    Evidence,
    Parabolas,
    Sides,
    both,
    compared,
    convex_pairs,
    exact,
    minimiser,
    search,
)
from theory_checks.classics.second_moments import expected_square

CL86 = Claim(
    id="CL-86",
    place="Acar, Zhao, Matas Navarro, Mattina, Whatmough and Saligrama, Federated learning based on dynamic "
    "regularization (ICLR 2021), abstract, fourth sentence; arXiv:2111.04263",
    said_by="paper",
    words="With a dynamic regulariser the global and the device solutions are aligned in the limit, if a random subset "
    "of devices takes part in each round.",
    statement='theta_k^infinity = theta^infinity = "argmin"_theta 1/m sum_k L_k (theta)',
    severity="false",
    assumptions="convex losses, at rest; losses h_k (θ − c_k)² / 2 for the approach; both minimised exactly; α "
    "from a hundredth to a hundred times the largest curvature; the algorithm as later authors quote it, of the paper "
    "only the abstract could be read",
    sensitivity="any move from rest, exact; any growth of the expected squared distance after 20 rounds, exact",
)


def _round(
    state: list[Any], chosen: tuple[int, ...], proximal: Sequence[Callable[[Any], Any]], alpha: Fraction, dynamic: bool
) -> tuple[list[Any], list[Any]]:
    """Return the model and the clients' gradients after a round, and the solutions of those who take part.

    A device minimises ``L_k(θ) - g_k θ + α (θ - θ_server)^2 / 2``, a proximal step from ``θ_server + g_k / α``; its
    gradient there is its next ``g_k``. The server's own state is the mean of all ``g_k``.
    """
    model, *gradients = state
    solutions = {k: proximal[k](model + gradients[k] / alpha) for k in chosen}
    if dynamic:
        gradients = [g - alpha * (solutions[k] - model) if k in solutions else g for k, g in enumerate(gradients)]
    mean = sum(solutions.values()) / Fraction(len(chosen))
    return [mean - sum(gradients) / (len(gradients) * alpha), *gradients], list(solutions.values())


_STRENGTHS = (Fraction(1, 100), Fraction(1), Fraction(100))


def _at_rest(
    clients: Sequence[BentParabola],
    chosen: tuple[int, ...],
    share: Fraction,
    weights: Sequence[Fraction],
    dynamic: bool = True,
) -> tuple[Fraction, Fraction]:
    """Return which of the model and the devices' solutions is furthest from the optimum after a round from there."""
    aim = minimiser(clients, weights)
    state = [aim, *(client.slope(aim) if dynamic else Fraction(0) for client in clients)]
    alpha = share * max(client.smoothness for client in clients)
    proximal = [partial(client.proximal, step=1 / alpha) for client in clients]
    (model, *_), solutions = _round(state, chosen, proximal, alpha, dynamic)
    return max([model, *solutions], key=lambda found: abs(found - aim)), aim


def _triples(weights: tuple[Fraction, ...] = (Fraction(1, 3),) * 3, dynamic: bool = True) -> Evidence:
    """Compare on three parabolas, with one, two and all of them taking part."""

    def cases() -> Iterator[Sides]:
        for h, c, share in product(((1, 1, 1), (1, 2, 4), (8, 1, 1)), ((0, 1, 3), (0, 0, 0), (-2, 5, 0)), _STRENGTHS):
            for chosen in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
                clients = [BentParabola(near=a, far=a, centre=b) for a, b in zip(h, c, strict=True)]
                who = ", ".join(str(k + 1) for k in chosen)
                case = f"{Parabolas(h, c, weights)}, α = {exact(share * max(h))}, {who} of 3 take part"
                yield Sides(case, *_at_rest(clients, chosen, share, weights, dynamic), ("found", "optimum"))

    return compared(cases(), of="rounds from the optimum", relation="==")


def _convex_pairs() -> Evidence:
    """Search among pairs of convex losses that need not be quadratic."""
    cases = st.tuples(convex_pairs(), st.sampled_from(((0,), (1,), (0, 1))), st.sampled_from(_STRENGTHS))
    halves = [Fraction(1, 2)] * 2
    return search(cases, lambda c: _at_rest(c[0], c[1], c[2], halves), relation="==", names=("found", "optimum"))


def _approached(below: Fraction) -> Evidence:
    """Compare the expected squared distance from the optimum after 20 rounds with that at the start.

    All of it is linear in deviations from the state at rest; devices' gradients are those at the start.
    """

    def cases() -> Iterator[Sides]:
        for h, share in product(((1, 1), (1, 8), (1, 1, 8)), (Fraction(1, 4), Fraction(1), Fraction(4))):
            alpha = share * max(h)
            proximal = [partial(mul, alpha / (a + alpha)) for a in h]
            start = [Fraction(1), *(Fraction(v) for v in h)]
            for size in range(1, len(h) + 1):
                one = partial(_first, proximal=proximal, alpha=alpha)
                case = f"h = {h}, α = {exact(alpha)}, {size} of {len(h)} take part, 20 rounds"
                yield Sides(case, expected_square(one, start, size, 20), below, names=("expected square", "claimed"))

    return compared(cases(), of="settings of curvatures, α and who takes part")


def _first(
    state: list[Any], chosen: tuple[int, ...], proximal: Sequence[Callable[[Any], Any]], alpha: Fraction
) -> list[Any]:
    return _round(state, chosen, proximal, alpha, dynamic=True)[0]


@CL86.reading("the optimum is at rest, and is approached, whoever takes part")
def aligned() -> Evidence:
    return both(_triples(), _convex_pairs(), _approached(Fraction(1, 10)))


@CL86.reading("the optimum of all samples, for clients of which one has twice as many", natural=False)
def of_samples() -> Evidence:
    return _triples(weights=(Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))


@CL86.mutant("gradients that stay zero, which is FedProx")
def not_dynamic() -> Evidence:
    return _triples(dynamic=False)
