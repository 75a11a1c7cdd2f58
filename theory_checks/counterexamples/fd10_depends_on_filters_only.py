"""FD-10: the aggregate depends on how the clients factor their filters.

The paper on filter decomposition does not say that it depends on the filters alone, but takes a filter for its factors
(section 4, second paragraph, last sentence): the server averages coefficients and atoms apart and multiplies.

Counterexample: two clients with equal weights, and the filter 1 at both. If both write it as 1 times 1, the aggregate
is 1. If the second writes it as 2 times 1/2, the aggregate is another, although no filter has changed.
"""

from fractions import Fraction

Clients = list[tuple[Fraction, Fraction]]
ONE_WAY: Clients = [(Fraction(1), Fraction(1)), (Fraction(1), Fraction(1))]  # (coefficient, atom) of each client
ANOTHER_WAY: Clients = [(Fraction(1), Fraction(1)), (Fraction(2), Fraction(1, 2))]


def filters(clients: Clients) -> list[Fraction]:
    """Return each client's coefficient times its atom."""
    return [a * d for a, d in clients]


def aggregate(clients: Clients) -> Fraction:
    """Average the coefficients, average the atoms, and multiply."""
    coefficient = sum((a for a, _ in clients), Fraction(0)) / len(clients)
    atom = sum((d for _, d in clients), Fraction(0)) / len(clients)
    return coefficient * atom


if __name__ == "__main__":
    one, other = aggregate(ONE_WAY), aggregate(ANOTHER_WAY)
    print(f"The same filters, factored in two ways: the aggregate is {one} in one and {other} in the other.")
    if not (filters(ONE_WAY) == filters(ANOTHER_WAY) and one != other):
        raise SystemExit("The aggregate does not depend on the factors here.")
