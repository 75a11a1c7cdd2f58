"""FD-14: with one local step the printed bound is exceeded for the step size that the proof uses.

The paper on filter decomposition (Theorem 5.4; section A.4.3, display after (26), and section A.5.3, last display)
bounds the expected gap F(w^T) - F* by

    2/mu^2 * L/(gamma + T) * (6 L Gamma + 8 (E - 1)^2 G^2 + D' (E - 1)^2 G^2 + mu^2/4 * |w^1 - w*|^2)

for steps of size 2/(mu (gamma + t)), gamma = max(8 L/mu, E). Here E is the number of local steps, Gamma measures how
much the clients differ, and D' is a multiple for the draw of clients.

Counterexample: one client with F(w) = w^2/2, from the start w^1 = 1, with E = 1, mu = L = 1. Then Gamma = 0 and all
terms with E - 1 vanish. The gap is larger than the bound at the start (T = 1), and still after a step (T = 2).
"""

from fractions import Fraction

MU, L, E = 1, 1, 1
GAMMA = max(Fraction(8 * L, MU), Fraction(E))
START = Fraction(1)


def gap(steps: int) -> Fraction:
    """Return F after so many steps of gradient descent; the smallest value of F is zero."""
    w = START
    for t in range(1, steps + 1):
        w -= Fraction(2) / (MU * (GAMMA + t)) * w  # the derivative of F at w is w
    return w**2 / 2


def bound(big_t: int) -> Fraction:
    """Return the printed bound, in which only the distance of the start from the minimiser 0 is left."""
    return Fraction(2, MU**2) * L / (GAMMA + big_t) * Fraction(MU**2, 4) * START**2


if __name__ == "__main__":
    print(f"At the start: gap {gap(0)}, bound {bound(1)}. After one step: gap {gap(1)}, bound {bound(2)}.")
    if not (gap(0) > bound(1) and gap(1) > bound(2)):
        raise SystemExit("The bound holds here.")
