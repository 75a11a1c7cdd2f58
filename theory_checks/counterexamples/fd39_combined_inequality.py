"""FD-39: two lines of the chain (17), with an equals sign between them, differ.

The paper on filter decomposition (section A.4.1, equation (17)) writes an equals sign between the second line and the
third. They differ in what they make of the distance from the minimiser w*: with w the average of the clients' points
w_k, the second line has |w - w*|^2 minus mu eta times the clients' mean |w_k - w*|^2, and the third has
(1 - mu eta) |w - w*|^2.

Counterexample: two clients with equal weights, both with F(w) = w^2/2, at the points 0 and 1; the step size eta is 1/4.
The second line is the smaller one, so that "at most" in place of the equals sign repairs the chain.
"""

from fractions import Fraction

POINTS = [Fraction(0), Fraction(1)]
AVERAGE = Fraction(1, 2)
MU, ETA, MINIMISER = 1, Fraction(1, 4), 0  # w^2/2 has curvature 1 and is smallest at 0


def second_line() -> Fraction:
    """Return what the second line makes of the distances."""
    mean_square = sum(((w - MINIMISER) ** 2 for w in POINTS), Fraction(0)) / len(POINTS)
    return (AVERAGE - MINIMISER) ** 2 - MU * ETA * mean_square


def third_line() -> Fraction:
    """Return what the third line makes of them."""
    return (1 - MU * ETA) * (AVERAGE - MINIMISER) ** 2


if __name__ == "__main__":
    print(f"Where the lines differ, the second has {second_line()} and the third {third_line()}.")
    if not second_line() < third_line():
        raise SystemExit("The second line is not smaller than the third here.")
