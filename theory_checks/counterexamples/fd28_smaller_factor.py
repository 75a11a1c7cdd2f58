"""FD-28: the factor with virtual clients is not always the smaller one.

The paper on filter decomposition (section 5, Remark 5.7, second sentence) says: for m > 1 clients drawn of M > 1, the
factor with virtual clients, (M^2 - m^2) / (m^2 M^2 (M^2 - 1)), is smaller than that without, (M - m) / (m (M - 1)).

Counterexample: two clients, of which both are drawn: the two factors are equal. What the remark leaves out is m < M:
with two of three clients drawn the first factor is indeed smaller.
"""

from fractions import Fraction


def with_virtual_clients(m: int, size: int) -> Fraction:
    """Return the factor that the remark calls smaller, for m of so many clients."""
    return Fraction(size**2 - m**2, m**2 * size**2 * (size**2 - 1))


def without(m: int, size: int) -> Fraction:
    """Return the factor that it is compared with."""
    return Fraction(size - m, m * (size - 1))


if __name__ == "__main__":
    print(f"Both of two clients drawn: with virtual clients {with_virtual_clients(2, 2)}, without {without(2, 2)}.")
    print(f"Two of three drawn, where the remark is right: {with_virtual_clients(2, 3)} against {without(2, 3)}.")
    if not with_virtual_clients(2, 2) >= without(2, 2):
        raise SystemExit("The factor with virtual clients is smaller here.")
    if not with_virtual_clients(2, 3) < without(2, 3):
        raise SystemExit("The factor with virtual clients should be smaller where fewer than all are drawn.")
