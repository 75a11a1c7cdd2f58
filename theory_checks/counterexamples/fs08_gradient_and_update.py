"""FS-08: the printed accumulated update is not a step along the gradient of the printed loss.

The paper on FedSplit and FedFac (section 3.2, local update) prints the client's loss as a mean over its n samples, with
the factor 1/(2n), and the accumulated update of G gradient steps as a sum over the samples, in which 1/n is gone.

Counterexample: one unit max(w x, 0) with the weight w = 1, and one step (G = 1) of size 1/8 on n = 2 samples, both with
the input 1 and the label -1. The gradient step leads to another weight than the printed update.
"""

from fractions import Fraction

SAMPLES = [(1, -1), (1, -1)]  # (input, label)
WEIGHT, STEP = Fraction(1), Fraction(1, 8)


def loss(w: Fraction) -> Fraction:
    """Return the client's loss as it is printed: the summed squared errors over 2n."""
    return sum(((max(w * x, Fraction(0)) - y) ** 2 for x, y in SAMPLES), Fraction(0)) / (2 * len(SAMPLES))


def by_gradient() -> Fraction:
    """Return the weight after a gradient step; between 1/2 and 3/2 the loss is a parabola, so the quotient is exact."""
    h = Fraction(1, 2)
    return WEIGHT - STEP * (loss(WEIGHT + h) - loss(WEIGHT - h)) / (2 * h)


def by_printed_update() -> Fraction:
    """Return the weight after the printed update, a sum over the samples at which the unit is active."""
    return WEIGHT + STEP * sum((y - WEIGHT * x) * x for x, y in SAMPLES if WEIGHT * x >= 0)


if __name__ == "__main__":
    print(f"Weight after a gradient step: {by_gradient()}; after the printed update: {by_printed_update()}.")
    if not by_gradient() != by_printed_update():
        raise SystemExit("The printed update is a gradient step here.")
