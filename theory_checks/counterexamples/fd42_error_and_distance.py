"""FD-42: with virtual clients, the squared distance from the optimum does not split as equation (28) says.

The paper on filter decomposition (appendix A.5.1, equation (28), used in (34) with virtual clients) says: the mean
squared distance of the drawn clients' aggregate from the optimum is its mean squared distance from the average of all
clients' filters, plus that average's squared distance from the optimum. That is true of the average of the drawn
clients' parameters. With virtual clients the aggregate is the product of their average coefficient and average atom.

Counterexample: three clients, of which two are drawn; two have zeros, the third has the coefficient 1 and the atom 1;
the optimum is 0. The aggregate's expectation is not the average of all filters, and so a third term remains.
"""

from fractions import Fraction
from itertools import combinations

CLIENTS = [(0, 0), (0, 0), (1, 1)]  # (coefficient, atom)
DRAWN, OPTIMUM = 2, Fraction(0)


def mean_square_from(target: Fraction) -> Fraction:
    """Return the aggregate's mean squared distance from a target over all draws, which are equally likely."""
    draws = list(combinations(CLIENTS, DRAWN))
    aggregates = [Fraction(sum(a for a, _ in draw), DRAWN) * Fraction(sum(d for _, d in draw), DRAWN) for draw in draws]
    return sum(((q - target) ** 2 for q in aggregates), Fraction(0)) / len(draws)


if __name__ == "__main__":
    everyone = Fraction(sum(a * d for a, d in CLIENTS), len(CLIENTS))
    distance, error = mean_square_from(OPTIMUM), mean_square_from(everyone)
    split = error + (everyone - OPTIMUM) ** 2
    print(f"Mean squared distance from the optimum: {distance}; by equation (28): {split}.")
    if not distance != split:
        raise SystemExit("Equation (28) holds here.")
