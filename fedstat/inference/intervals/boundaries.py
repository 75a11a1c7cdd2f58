"""O'Brien and Fleming's boundaries for a few planned looks: severe early, and nearly the usual test at the end."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

#: Standard deviations beyond which nothing lies, as far as numbers of double precision go.
_FAR = 8.0


def crossing(height: float, sizes: tuple[int, ...]) -> float:
    """Return the probability that sums of normal values with mean zero ever lie beyond a boundary on either side.

    The boundary is the same at all looks, `height` standard deviations of the last sum; `sizes` are the rising numbers
    of values at the looks.
    """
    from scipy import stats

    height = min(height, _FAR)
    steps = np.sqrt([b - a for a, b in pairwise((0, *sizes))]) / np.sqrt(sizes[-1])
    # enough nodes for the shortest step: about one for half of its standard deviation
    nodes, weights = np.polynomial.legendre.leggauss(100 + int(6 * height / steps.min()))
    at, weights = height * nodes, height * weights
    density = stats.norm.pdf(at, scale=steps[0])
    for step in steps[1:]:
        density = stats.norm.pdf(at[:, None] - at, scale=step) @ (weights * density)
    return float(1 - weights @ density)


@cache
def levels_of_looks(sizes: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """Return the level of the test at each look, such that all of them together err with probability `alpha`.

    The boundary for sums is the same at all looks (O'Brien and Fleming 1979), so that early looks are severe. Its
    height is exact for normal values of known variance, by integration over the sums from look to look (Armitage,
    McPherson and Rowe 1969).
    """
    from scipy import optimize, stats

    height = optimize.brentq(lambda c: crossing(c, sizes) - alpha, 0.0, _FAR, xtol=1e-12)
    return tuple(float(2 * stats.norm.sf(height * np.sqrt(sizes[-1] / n))) for n in sizes)
