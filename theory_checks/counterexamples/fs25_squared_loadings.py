"""FS-25: the squared loadings of a factor model do not sum to one.

The paper on FedSplit and FedFac (section 4.1, paragraph after the iteration, second sentence) says that a unit's
squared loadings sum to one. That is true of all d principal components of d units; the factor model has fewer factors.

Counterexample: three units, any two with the correlation 1/4. One factor explains them, and its loadings are determined
but for their common sign: the correlation of two units is the product of their loadings, so that a unit's squared
loading is the product of its two correlations divided by the third. The rest, up to one, is specific to the unit.
"""

from fractions import Fraction
from itertools import combinations

CORRELATIONS = {pair: Fraction(1, 4) for pair in combinations(range(3), 2)}
LOADINGS = [Fraction(1, 2)] * 3


def correlation(j: int, k: int) -> Fraction:
    """Return the correlation of two units."""
    return CORRELATIONS[min(j, k), max(j, k)]


def squared_loading(j: int) -> Fraction:
    """Return the square of a unit's only loading, which its correlations with the other two determine."""
    k, other = (unit for unit in range(3) if unit != j)
    return correlation(j, k) * correlation(j, other) / correlation(k, other)


if __name__ == "__main__":
    if not all(LOADINGS[j] * LOADINGS[k] == r for (j, k), r in CORRELATIONS.items()):
        raise SystemExit("The loadings do not give the correlations.")
    sums = [squared_loading(j) for j in range(3)]
    print(f"Sum of the squared loadings: {sums[0]} for every unit; claimed: 1. Specific to the unit: {1 - sums[0]}.")
    if not (sums == [a**2 for a in LOADINGS] and all(total != 1 for total in sums)):
        raise SystemExit("The squared loadings sum to one here.")
