"""CL-22: splitting the clients into clusters after federated learning has converged can make a client's loss larger.

Sattler, Müller and Samek, "Clustered federated learning" (doi:10.1109/TNNLS.2020.3015958; abstract, last sentence but
one) say that splitting after convergence always gives greater or equal performance. The mean training loss never
grows; that of a client may.

Counterexample: three clients with equal weights and the losses w^2/2, (w - 1)^2/2 and (w - 3)^2/2. Their common optimum
is 4/3, where the gradients of the first two point one way and that of the third the other. Trained on by themselves the
first two come to 1/2, and the second client, which was 1/3 from its own minimiser, is then 1/2 from it.
"""

from fractions import Fraction

MINIMISERS = [Fraction(0), Fraction(1), Fraction(3)]
SECOND = 1


def optimum(minimisers: list[Fraction]) -> Fraction:
    """Return the minimiser of the mean of the losses ``(w - c)^2 / 2``."""
    return sum(minimisers, Fraction(0)) / len(minimisers)


def loss(model: Fraction, client: int) -> Fraction:
    """Return a client's loss."""
    return (model - MINIMISERS[client]) ** 2 / 2


if __name__ == "__main__":
    common = optimum(MINIMISERS)
    together = [c for c in MINIMISERS if (common - c > 0) == (common - MINIMISERS[SECOND] > 0)]
    before, after = loss(common, SECOND), loss(optimum(together), SECOND)
    print(f"The second client's loss is {before} at the common optimum {common},")
    print(f"and {after} at the optimum {optimum(together)} of its cluster.")
    if not after > before:
        raise SystemExit("The split did not make the second client's loss larger.")
