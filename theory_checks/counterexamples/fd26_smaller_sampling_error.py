"""FD-26: the product of averages can have the larger sampling error.

The paper on filter decomposition (appendix A.5.2, 'Influences of virtual clients', second sentence) says: if m of M
clients are drawn, the product of their average coefficient and average atom is on average no farther, in squared
distance, from the average of all M clients' filters than the average of the drawn clients' own filters is.

Counterexample: three clients, of which two are drawn. Every coefficient and every atom is -1 or 1, by the toss of a
coin of its own, so that they are independent as the paper's argument wants them. The product of averages is farther.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

CLIENTS, DRAWN = 3, 2


def squared_errors() -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the squared error of either aggregate, for all outcomes of the coins and all draws, equally likely."""
    for coefficients, atoms in product(product((-1, 1), repeat=CLIENTS), repeat=2):
        target = Fraction(sum(a * d for a, d in zip(coefficients, atoms, strict=True)), CLIENTS)
        for draw in combinations(range(CLIENTS), DRAWN):
            coefficient = Fraction(sum(coefficients[k] for k in draw), DRAWN)
            atom = Fraction(sum(atoms[k] for k in draw), DRAWN)
            average = Fraction(sum(coefficients[k] * atoms[k] for k in draw), DRAWN)
            yield (coefficient * atom - target) ** 2, (average - target) ** 2


def mean(values: list[Fraction]) -> Fraction:
    """Return the mean of equally likely values."""
    return sum(values, Fraction(0)) / len(values)


if __name__ == "__main__":
    both = list(squared_errors())
    apart, together = mean([x for x, _ in both]), mean([y for _, y in both])
    print(f"Sampling error of the product of averages: {apart}; of the average of products: {together}.")
    if not apart > together:
        raise SystemExit("The product of averages does not have the larger sampling error here.")
