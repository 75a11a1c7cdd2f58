"""FD-09: the product of averages does not have the same expectation as the average of products.

The paper on filter decomposition does not say that it does, but takes it for granted (appendix A.5.2, paragraph before
equation (33)), where it measures the product of averages from the expectation of the average of products.

Counterexample: two independent clients with equal weights, whose coefficient and atom are both 0 or both 1, by the toss
of a coin. Nor is it so if of two clients, one with zeros and one with ones, both are drawn.
"""

from fractions import Fraction
from itertools import product

VALUES = [(0, 0), (1, 1)]  # (coefficient, atom), equally likely
Clients = tuple[tuple[int, int], ...]


def product_of_averages(clients: Clients) -> Fraction:
    """Average the coefficients, average the atoms, and multiply."""
    return Fraction(sum(a for a, _ in clients), len(clients)) * Fraction(sum(d for _, d in clients), len(clients))


def average_of_products(clients: Clients) -> Fraction:
    """Multiply each client's coefficient by its atom, and average."""
    return Fraction(sum(a * d for a, d in clients), len(clients))


def expectations() -> tuple[Fraction, Fraction]:
    """Return both expectations, over the four outcomes of two coins."""
    outcomes = list(product(VALUES, repeat=2))
    apart = sum((product_of_averages(clients) for clients in outcomes), Fraction(0)) / len(outcomes)
    together = sum((average_of_products(clients) for clients in outcomes), Fraction(0)) / len(outcomes)
    return apart, together


if __name__ == "__main__":
    apart, together = expectations()
    print(f"Two independent clients: the product of averages is on average {apart}, that of products {together}.")
    both = tuple(VALUES)
    drawn = product_of_averages(both), average_of_products(both)
    print(f"One client with zeros and one with ones, both drawn: {drawn[0]} against {drawn[1]}.")
    if not (apart != together and drawn[0] != drawn[1]):
        raise SystemExit("The two expectations agree here.")
