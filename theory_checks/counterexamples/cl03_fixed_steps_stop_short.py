"""CL-03: federated averaging with several local steps of fixed size can converge to the optimum.

Li, Huang, Yang, Wang and Zhang, "On the convergence of FedAvg on non-IID data" (ICLR 2020; section 4, first paragraph
after Theorem 4, last sentence) say that FedAvg, federated averaging, does not converge to the optimum with more than
one local step of fixed size.

Counterexample: two clients with equal weights and the losses w^2/2 and (w - 1)^2/2, which have different minimisers and
the same curvature. In each round both start from the common model, make two gradient steps of size 1/4, and the results
are averaged. The minimiser of their average loss is 1/2; every round leaves 9/16 of the distance from it.
"""

from fractions import Fraction
from itertools import pairwise

MINIMISERS = [Fraction(0), Fraction(1)]
OPTIMUM = Fraction(1, 2)  # where the mean of the derivatives w and w - 1 is zero
ETA, LOCAL_STEPS, SHARE = Fraction(1, 4), 2, Fraction(9, 16)


def after_a_round(model: Fraction) -> Fraction:
    """Return the average of what the clients' local steps make of the common model."""
    results = []
    for minimiser in MINIMISERS:
        own = model
        for _ in range(LOCAL_STEPS):
            own -= ETA * (own - minimiser)
        results.append(own)
    return sum(results, Fraction(0)) / len(results)


if __name__ == "__main__":
    models = [Fraction(0)]
    for _ in range(20):
        models.append(after_a_round(models[-1]))
    distances = [OPTIMUM - model for model in models]
    print(f"Distances from the optimum {OPTIMUM}: {', '.join(map(str, distances[:3]))} after 0, 1 and 2 rounds.")
    print(
        f"Every round leaves {SHARE} of the distance; at the optimum itself a round ends at {after_a_round(OPTIMUM)}."
    )
    if not after_a_round(OPTIMUM) == OPTIMUM:
        raise SystemExit("A round moves away from the optimum.")
    # A round makes of the model a multiple of it plus a constant, so that what is true of two models is true of all.
    if not all(after == SHARE * before for before, after in pairwise(distances)):
        raise SystemExit("A round does not bring the model nearer to the optimum.")
