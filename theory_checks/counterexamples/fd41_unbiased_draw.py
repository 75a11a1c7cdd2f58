"""FD-41: with the printed weights the drawn clients' aggregate is not unbiased.

The paper on filter decomposition (appendix A.5, Assumption A.2 and the proof below it) says: if m of M clients are
drawn, then the sum of the drawn clients' parameters, each with the weight 1/M, has the average over all M clients as
its expectation. (Section A.5.2 divides by m instead, which makes it true.)

Counterexample: two clients with the parameters 0 and 1, of which one is drawn.
"""

from fractions import Fraction
from itertools import combinations

PARAMETERS = [0, 1]
DRAWN = 1


def expected(weight: Fraction) -> Fraction:
    """Return the mean over all draws of the drawn clients' sum, each parameter times this weight."""
    draws = list(combinations(PARAMETERS, DRAWN))
    return sum((weight * sum(draw) for draw in draws), Fraction(0)) / len(draws)


if __name__ == "__main__":
    everyone = Fraction(sum(PARAMETERS), len(PARAMETERS))
    printed, divided = expected(Fraction(1, len(PARAMETERS))), expected(Fraction(1, DRAWN))
    print(f"Expectation with the printed weights: {printed}; average over all clients: {everyone}.")
    print(f"Expectation with weights that add up to one: {divided}.")
    if not (printed != everyone and divided == everyone):
        raise SystemExit("The printed weights are unbiased here, or the others are not.")
