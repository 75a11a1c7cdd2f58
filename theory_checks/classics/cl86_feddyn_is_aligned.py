"""CL-86: FedDyn's limit is the optimum, and the clients' own solutions agree with it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

from fedstat.claims import Claim, Evidence, Parabolas, Sides, both, compared, exact, subsets
from theory_checks.classics.second_moments import expected_square

CL86 = Claim(
    id="CL-86",
    place="Acar, Zhao, Matas Navarro, Mattina, Whatmough and Saligrama, Federated learning based on dynamic "
    "regularization (ICLR 2021), abstract, fourth sentence; arXiv:2111.04263",
    link="https://arxiv.org/abs/2111.04263",
    said_by="paper",
    words="With a dynamic regulariser the global and the device solutions are aligned in the limit, if a random subset "
    "of devices takes part in each round.",
    statement='theta_k^infinity = theta^infinity = "argmin"_theta 1/m sum_k L_k (theta)',
    severity="false",
    assumptions="losses h_k (θ − c_k)² / 2, minimised exactly; α from a hundredth to a hundred times the largest "
    "curvature; the algorithm as later authors quote it, of the paper only the abstract could be read",
    sensitivity="any move from rest, exact; any growth of the expected squared distance after 20 rounds, exact",
)


def _round(
    state: list[Any], chosen: tuple[int, ...], clients: Parabolas, alpha: Fraction, dynamic: bool = True
) -> tuple[list[Any], list[Any]]:
    """Return the model and the clients' gradients after a round, and the solutions of those who take part.

    A device minimises ``L_k(θ) - g_k θ + α (θ - θ_server)^2 / 2``; its gradient there is its next ``g_k``. The server's
    own state is the mean of all ``g_k``.
    """
    model, *gradients = state
    solutions = {
        k: (clients.h[k] * clients.c[k] + gradients[k] + alpha * model) / Fraction(clients.h[k] + alpha) for k in chosen
    }
    if dynamic:
        gradients = [g - alpha * (solutions[k] - model) if k in solutions else g for k, g in enumerate(gradients)]
    mean = sum(solutions.values()) / Fraction(len(chosen))
    return [mean - sum(gradients) / (len(gradients) * alpha), *gradients], list(solutions.values())


def _equal(h: tuple[int, ...], c: tuple[int, ...]) -> Parabolas:
    return Parabolas(h, c, (Fraction(1, len(h)),) * len(h))


_STRENGTHS = (Fraction(1, 100), Fraction(1), Fraction(100))


def _at_rest(weights: tuple[Fraction, ...] | None = None, dynamic: bool = True) -> Evidence:
    """Compare the model and the devices' solutions after a round from the optimum with the optimum."""

    def cases() -> Iterator[Sides]:
        for h, c, share in product(((1, 1, 1), (1, 2, 4), (8, 1, 1)), ((0, 1, 3), (0, 0, 0), (-2, 5, 0)), _STRENGTHS):
            clients, weighted = _equal(h, c), Parabolas(h, c, weights or (Fraction(1, 3),) * 3)
            aim = weighted.optimum
            state = [aim, *(gradient(aim) if dynamic else Fraction(0) for gradient in clients.gradients)]
            for size, which in product((1, 2, 3), range(3)):
                law = subsets(3, size)
                _, chosen = law[which % len(law)]
                (model, *_), solutions = _round(state, chosen, clients, share * max(h), dynamic)
                who = ", ".join(str(k + 1) for k in chosen)
                case = f"{weighted}, α = {exact(share * max(h))}, {who} of 3 take part"
                yield Sides(case, model, aim, names=("model", "optimum"))
                yield from (Sides(case, found, aim, names=("device's solution", "optimum")) for found in solutions)

    return compared(cases(), of="models and solutions after a round from the optimum", relation="==")


def _approached(below: Fraction) -> Evidence:
    """Compare the expected squared distance from the optimum after 20 rounds with that at the start.

    All of it is linear in deviations from the state at rest; devices' gradients are those at the start.
    """

    def cases() -> Iterator[Sides]:
        for h, share in product(((1, 1), (1, 8), (1, 1, 8)), (Fraction(1, 4), Fraction(1), Fraction(4))):
            clients, alpha = _equal(h, (0,) * len(h)), share * max(h)
            start = [Fraction(1), *(Fraction(v) for v in h)]
            for size in range(1, len(h) + 1):
                one = partial(_first, clients=clients, alpha=alpha)
                case = f"h = {h}, α = {exact(alpha)}, {size} of {len(h)} take part, 20 rounds"
                yield Sides(case, expected_square(one, start, size, 20), below, names=("expected square", "claimed"))

    return compared(cases(), of="settings of curvatures, α and who takes part")


def _first(state: list[Any], chosen: tuple[int, ...], clients: Parabolas, alpha: Fraction) -> list[Any]:
    return _round(state, chosen, clients, alpha)[0]


@CL86.reading("the optimum is at rest, and is approached, whoever takes part")
def aligned() -> Evidence:
    return both(_at_rest(), _approached(Fraction(1, 10)))


@CL86.reading("the optimum of all samples, for clients of which one has twice as many", natural=False)
def of_samples() -> Evidence:
    return _at_rest(weights=(Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)))


@CL86.mutant("gradients that stay zero, which is FedProx")
def not_dynamic() -> Evidence:
    return _at_rest(dynamic=False)
