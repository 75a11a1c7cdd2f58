"""FF-07: the cosine of two clients' personal vectors is not a property of their weights.

In Factorized-FL a client's weights are the product u v' of a shared vector u and a personal vector v, and the cosine of
two clients' personal vectors says how similar they are (section 4.2, equation (4) and the two sentences before it). The
paper does not say that the cosine depends on the weights alone; a measure of the clients' similarity has to.

Counterexample: a client with u = (1, 2) and v = (3, 4), and another client's v = (1, 0). With (-1, -2) and (-3, -4) the
first client has the same weights, and the cosine changes its sign.
"""

from fractions import Fraction
from math import isqrt

Vector = tuple[int, ...]
U, V, OTHER_V = (1, 2), (3, 4), (1, 0)


def weights(u: Vector, v: Vector) -> list[list[int]]:
    """Return the matrix u v'."""
    return [[x * y for y in v] for x in u]


def cosine(v: Vector, w: Vector) -> Fraction:
    """Return the cosine of the angle between two vectors whose lengths are whole numbers, as here 5 and 1."""
    lengths = isqrt(sum(x * x for x in v)) * isqrt(sum(x * x for x in w))
    return Fraction(sum(x * y for x, y in zip(v, w, strict=True)), lengths)


if __name__ == "__main__":
    minus_u, minus_v = tuple(-x for x in U), tuple(-x for x in V)
    one, other = cosine(V, OTHER_V), cosine(minus_v, OTHER_V)
    print(f"The same weights, factored in two ways: the cosine is {one} in one and {other} in the other.")
    if not (weights(U, V) == weights(minus_u, minus_v) and one != other):
        raise SystemExit("The cosine depends on the weights alone here.")
