"""FD-37: a filter does not make a gradient step when its coefficient and its atom make theirs.

The paper on filter decomposition (appendix A.4, sentence after the aggregation, and equation (12), first line) says: if
the clients make a gradient step, then so does the averaged model w. That is true if w stands for coefficients, atoms
and head; but appendix A.5.2, with its virtual clients, uses it with w the filter, coefficient times atom.

Counterexample: one client, whose loss is (w - 1)^2/2 for the filter w, and a step of size 1/4. With the coefficient 0
and the atom 0 the filter stays where it is, while a gradient step of the filter would take it to 1/4. Nor does it make
a gradient step where neither is zero, say with the coefficient 2 and the atom 1.
"""

from fractions import Fraction

ETA = Fraction(1, 4)


def slope(w: Fraction) -> Fraction:
    """Return the derivative of the loss (w - 1)^2/2 by the filter."""
    return w - 1


def step_of_factors(coefficient: int, atom: int) -> Fraction:
    """Return the filter after a gradient step of both; by the chain rule the other is a factor of each derivative."""
    g = slope(Fraction(coefficient * atom))
    return (coefficient - ETA * g * atom) * (atom - ETA * g * coefficient)


def step_of_filter(coefficient: int, atom: int) -> Fraction:
    """Return the filter after a gradient step of its own."""
    w = Fraction(coefficient * atom)
    return w - ETA * slope(w)


if __name__ == "__main__":
    for start in ((0, 0), (2, 1)):
        factors, own = step_of_factors(*start), step_of_filter(*start)
        words = f"coefficient {start[0]}, atom {start[1]}"
        print(f"From {words}: the filter is {factors} after the step, {own} after a gradient step of its own.")
        if not factors != own:
            raise SystemExit("The filter makes a gradient step here.")
