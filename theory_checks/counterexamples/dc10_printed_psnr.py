"""DC-10: the printed formula is not the peak signal-to-noise ratio of colour images.

FedDecomp (section 4.6, second paragraph, fourth sentence) prints the ratio as -10 log10 of the summed squared error
over m n, for images of m by n pixels. By definition it is 10 log10 of the squared largest value over the mean squared
error, a mean over all entries. A colour image has three of them for each pixel, which the printed formula ignores.

Counterexample: two images of a single pixel in three colours, (0, 0, 0) and (0, 0, 1/4), with values from 0 to 1. As
the logarithm grows with its argument, it is enough to compare what the two formulas take it of.
"""

from fractions import Fraction

Pixel = tuple[Fraction, ...]
ONE: Pixel = (Fraction(0), Fraction(0), Fraction(0))
OTHER: Pixel = (Fraction(0), Fraction(0), Fraction(1, 4))
PIXELS, LARGEST = 1, 1


def squared_error() -> Fraction:
    """Return the squared error, summed over all entries."""
    return sum(((x - y) ** 2 for x, y in zip(ONE, OTHER, strict=True)), Fraction(0))


def printed() -> Fraction:
    """Return what the printed formula takes 10 log10 of: minus the logarithm of a number is that of its inverse."""
    return 1 / (squared_error() / PIXELS)


def defined() -> Fraction:
    """Return what the definition takes 10 log10 of."""
    return LARGEST**2 / (squared_error() / (PIXELS * len(ONE)))


if __name__ == "__main__":
    print(f"10 log10 is taken of {printed()} by the printed formula and of {defined()} by the definition.")
    print(f"The mean squared error is {1 / defined()}, not {1 / printed()}.")
    if not printed() != defined():
        raise SystemExit("The printed formula is the peak signal-to-noise ratio here.")
