"""FD-44: with virtual clients, a step need not bring the filter as near to the optimum as (34) says.

The paper on filter decomposition (appendix A.5.3, equation (34) and the sentence after it) says: with some of the
clients drawn, a step of size eta leaves at most (1 - mu eta) times the squared distance from the optimum, plus eta^2
times terms that vanish if the clients are alike and make a single local step. With virtual clients the aggregate is the
filter that the drawn clients' average coefficient and average atom make.

Counterexample: three clients with the same loss (w - 1)^2/2 in the filter w, of which any two are drawn. All start from
the coefficient 0 and the atom 0, and make one gradient step in both. Neither moves, so that the filter stays at 0.
"""

from fractions import Fraction
from itertools import combinations

CLIENTS, DRAWN, OPTIMUM, MU = 3, 2, 1, 1
ETA = Fraction(2, 9)  # 2/(mu (gamma + 1)) with gamma = 8, as in the paper's proof


def gradient_step(a: Fraction, d: Fraction) -> tuple[Fraction, Fraction]:
    """Return a client's coefficient and atom after a step along the gradient of (a d - 1)^2/2."""
    return a - ETA * (a * d - OPTIMUM) * d, d - ETA * (a * d - OPTIMUM) * a


def distance_after() -> Fraction:
    """Return the squared distance of the drawn clients' filter from the optimum, averaged over all draws."""
    points = [gradient_step(Fraction(0), Fraction(0)) for _ in range(CLIENTS)]
    squares = []
    for draw in combinations(points, DRAWN):
        coefficient, atom = (sum(values, Fraction(0)) / DRAWN for values in zip(*draw, strict=True))
        squares.append((coefficient * atom - OPTIMUM) ** 2)
    return sum(squares, Fraction(0)) / len(squares)


if __name__ == "__main__":
    before = Fraction(0 - OPTIMUM) ** 2
    bound = (1 - MU * ETA) * before
    print(f"Squared distance of the filter after the step: {distance_after()}; bound by (34): {bound}.")
    if not distance_after() > bound:
        raise SystemExit("The bound holds here.")
