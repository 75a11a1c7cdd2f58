"""Losses drawn for claims have the constants that they state."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from fedstat.claims import convex_pairs, minimiser, shares

NUMBERS = st.fractions(-20, 20, max_denominator=12)


@given(convex_pairs(curvatures=(0, 9)), NUMBERS, NUMBERS)
def test_convex_pairs_are_convex_and_as_smooth_as_they_say(pair, x, y):
    for f in pair:
        mu, smoothness, apart = f.convexity, f.smoothness, y - x
        assert 0 <= mu <= smoothness <= 9
        assert mu * apart**2 <= (f.slope(y) - f.slope(x)) * apart <= smoothness * apart**2
        assert mu * apart**2 <= 2 * (f.value(y) - f.value(x) - f.slope(x) * apart) <= smoothness * apart**2
        left, right = (abs(f.slope(w + 1) - f.slope(w)) for w in (Fraction(-100), Fraction(100)))
        assert {left, right} == {mu, smoothness}, "no better constants are true"
        assert (f.slope(f.centre), f.value(f.centre)) == (0, f.least)
        assert all(isinstance(found, Fraction) for found in (f.slope(x), f.value(x)))


@given(convex_pairs(curvatures=(1, 9)), shares(2), NUMBERS, st.fractions("1/50", 50))
def test_minimisers_and_proximal_steps_are_where_the_slope_says(pair, p, w, step):
    optimum = minimiser(pair, p)
    assert sum(weight * f.slope(optimum) for weight, f in zip(p, pair, strict=True)) == 0
    assert min(f.centre for f in pair) <= optimum <= max(f.centre for f in pair)
    for f in pair:
        nearer = f.proximal(w, step)
        assert step * f.slope(nearer) == w - nearer
