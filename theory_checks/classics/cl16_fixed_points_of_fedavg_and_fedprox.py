"""CL-16: fixed points of FedAvg and FedProx need not be optima."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from fedstat.claims import Claim, Evidence, Parabolas, exact, fedavg_round, sampled

CL16 = Claim(
    id="CL-16",
    place="Pathak and Wainwright, FedSplit: an algorithmic framework for fast federated optimization (NeurIPS 2020), "
    "arXiv:2005.05238, abstract, second sentence",
    said_by="paper",
    words="A fixed point of FedAvg with several local steps, or of FedProx, need not be an optimum, even if the losses "
    "are convex and nothing is random.",
    statement="exists F_1, F_2: quad w_infinity != w^*",
    severity="false",
    assumptions="clients F_k(w) = h_k (w − c_k)² / 2, all clients in every round; FedProx minimises "
    "F_k(v) + λ (v − w)² / 2 exactly; one pair of clients for every number of steps and every pull",
    sensitivity="any distance from the optimum, exact",
)

_HALVES = (Fraction(1, 2),) * 2
_PAIR = Parabolas((1, 2), (0, 1), _HALVES)
#: Pulls of FedProx, from hardly any to one that hardly lets clients move.
PULLS = (Fraction(1, 100), Fraction(1), Fraction(10), Fraction(1000))


def prox_round(clients: Parabolas, w: Fraction, pull: Fraction) -> Fraction:
    """Return the mean of the clients' ``(h_k c_k + lambda w) / (h_k + lambda)``."""
    each = zip(clients.p, clients.h, clients.c, strict=True)
    return sum((p * (h * c + pull * w) / (h + pull) for p, h, c in each), Fraction(0))


def _leaves_optimum(clients: Parabolas, steps: Iterable[int], pulls: Iterable[Fraction]) -> Evidence:
    """Whether a round moves the optimum; one that does not move has it as a fixed point."""
    w, eta = clients.optimum, 1 / (2 * clients.smoothness)
    rounds = [
        (f"FedAvg, E = {e}", fedavg_round(w, clients.gradients, lr=eta, steps=e, weights=clients.p)) for e in steps
    ]
    rounds += [(f"FedProx, λ = {exact(pull)}", prox_round(clients, w, pull)) for pull in pulls]
    return sampled(
        rounds,
        lambda case: case[1] != w,
        of="rounds from the optimum",
        show=lambda case: f"{case[0]}, {clients}: a round leaves the optimum {exact(w)} where it is",
    )


@CL16.reading("one pair of clients, FedAvg with two to ten steps, FedProx with weak and strong pulls")
def one_pair() -> Evidence:
    return _leaves_optimum(_PAIR, range(2, 11), PULLS)


@CL16.reading("the same for clients of the same curvature", natural=False)
def same_curvature() -> Evidence:
    return _leaves_optimum(Parabolas((2, 2), (0, 1), _HALVES), range(2, 11), PULLS)


@CL16.mutant("one local step")
def one_step() -> Evidence:
    return _leaves_optimum(_PAIR, (1,), ())
