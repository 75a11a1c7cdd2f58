"""FD-03: the product of averages can have the larger variance.

The paper on filter decomposition (section 4.1, Proposition 4.1) says that averaging coefficients and atoms apart and
multiplying the averages never gives a larger variance than averaging the clients' products, their filters.

Counterexample: two independent clients with equal weights. The first has the coefficient 0 or 1, by the toss of a coin,
and the atom 1; the second has the coefficient 0 or 2 and the atom 1/2. Each client's filter is then 0 or 1. The product
of averages has the larger variance, although no coefficient depends on an atom: the clients differ in scale.
"""

from fractions import Fraction
from itertools import product

HALF = Fraction(1, 2)
FIRST = [(Fraction(0), Fraction(1)), (Fraction(1), Fraction(1))]  # (coefficient, atom), equally likely
SECOND = [(Fraction(0), HALF), (Fraction(2), HALF)]


def variance(values: list[Fraction]) -> Fraction:
    """Return the variance of equally likely values."""
    mean = sum(values, Fraction(0)) / len(values)
    return sum(((value - mean) ** 2 for value in values), Fraction(0)) / len(values)


def variances() -> tuple[Fraction, Fraction]:
    """Return the variances of the product of averages and of the average of products, over all outcomes."""
    outcomes = list(product(FIRST, SECOND))
    product_of_averages = [(a + b) / 2 * (d + e) / 2 for (a, d), (b, e) in outcomes]
    average_of_products = [(a * d + b * e) / 2 for (a, d), (b, e) in outcomes]
    return variance(product_of_averages), variance(average_of_products)


if __name__ == "__main__":
    apart, together = variances()
    print(f"Variance of the product of averages: {apart}; variance of the average of products: {together}.")
    if not apart > together:
        raise SystemExit("The product of averages does not have the larger variance here.")
