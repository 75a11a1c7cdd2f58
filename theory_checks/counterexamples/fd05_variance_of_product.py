"""FD-05: the variance of the product of averages is not what the paper's display gives.

The paper on filter decomposition (appendix A.3, first display of variances, last line) says that the product of the
clients' average coefficient and average atom has the variance of one client's product times the square of the sum of
squared weights.

Counterexample: two independent clients with weights 1/2, whose coefficient and atom are each 0 or 1, by the toss of two
coins. The variance is larger than the display says, although coefficients and atoms are independent: of the products
that the average multiplies out to, those that share a factor are correlated.
"""

from fractions import Fraction
from itertools import product

WEIGHTS = (Fraction(1, 2), Fraction(1, 2))


def variance(values: list[Fraction]) -> Fraction:
    """Return the variance of equally likely values."""
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)


def exact() -> Fraction:
    """Return the variance over all 16 outcomes of the two coefficients and the two atoms."""
    (p, q), coins = WEIGHTS, (0, 1)
    return variance([(p * a + q * b) * (p * d + q * e) for a, b, d, e in product(coins, repeat=4)])


def displayed() -> Fraction:
    """Return one client's variance times the square of the sum of squared weights."""
    one_client = variance([Fraction(a * d) for a, d in product((0, 1), repeat=2)])
    return one_client * sum((p**2 for p in WEIGHTS), Fraction(0)) ** 2


if __name__ == "__main__":
    print(f"Variance of the product of averages: {exact()}; by the paper's display: {displayed()}.")
    if not exact() != displayed():
        raise SystemExit("The display gives the variance here.")
