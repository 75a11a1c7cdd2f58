"""FD-25: the sampling error with virtual clients is not that of equation (33).

The paper on filter decomposition (appendix A.5.2, equation (33), last line) says: if m of M clients are drawn, then the
mean squared distance of the product of their average coefficient and average atom from the average of all M clients'
filters is (M^2 - m^2) / (m^2 M^2 (M^2 - 1)) times the summed squared distances from it of all M^2 products of one
client's coefficient and another's atom.

Counterexample: three clients, of which two are drawn. Two have zeros, the third has the coefficient 1 and the atom 1.
"""

from fractions import Fraction
from itertools import combinations

CLIENTS = [(0, 0), (0, 0), (1, 1)]  # (coefficient, atom)
DRAWN = 2
TARGET = Fraction(sum(a * d for a, d in CLIENTS), len(CLIENTS))


def error() -> Fraction:
    """Return the mean squared distance over all draws, which are equally likely."""
    draws = list(combinations(CLIENTS, DRAWN))
    aggregates = [Fraction(sum(a for a, _ in draw), DRAWN) * Fraction(sum(d for _, d in draw), DRAWN) for draw in draws]
    return sum(((q - TARGET) ** 2 for q in aggregates), Fraction(0)) / len(draws)


def printed() -> Fraction:
    """Return the right side of (33)."""
    m, size = DRAWN, len(CLIENTS)
    squares = sum(((a * d - TARGET) ** 2 for a, _ in CLIENTS for _, d in CLIENTS), Fraction(0))
    return Fraction(size**2 - m**2, m**2 * size**2 * (size**2 - 1)) * squares


if __name__ == "__main__":
    print(f"Sampling error of the product of averages: {error()}; by equation (33): {printed()}.")
    if not error() != printed():
        raise SystemExit("Equation (33) gives the error here.")
