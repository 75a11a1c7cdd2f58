"""CL-80: local SGD dominates on quadratics, up to a factor.

CL-80c: decreasing local steps are never worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from fedstat.claims import Claim, Evidence, Sides, compared, identity

if TYPE_CHECKING:
    from sympy import Poly

CL80 = Claim(
    id="CL-80",
    place="Woodworth, Patel, Stich, Dai, Bullins, McMahan, Shamir and Srebro, Is local SGD better than minibatch SGD? "
    "(ICML 2020), abstract, point (1); arXiv:2002.07839",
    said_by="paper",
    words="For quadratic objectives local SGD strictly dominates minibatch SGD.",
    statement='max_(h <= H) EE F(x_"local") < max_(h <= H) EE F(x_"minibatch")',
    severity="unstated condition",
    assumptions="losses h x² / 2 with curvatures h up to H = 1, a start at distance 1, noise of variance σ² in every "
    "gradient; M workers, K steps or samples and one round; both methods with the best fixed step, judged by the model "
    "at the end; only the abstract could be read, so that the readings are ours",
    sensitivity="any excess, by bounds on the best step that are exact and a hundred-thousandth apart",
    flaw="Domination is one of rates. K short steps give the first samples less weight than the last, where a "
    "minibatch gives all the same; where noise is all that matters, the minibatch is ahead.",
    corrected="CL-80c",
)

#: Workers, steps and the noise's variance: from hardly any noise to nothing but noise.
_SETTINGS = tuple(product((1, 8), (2, 8), (Fraction(1, 10), Fraction(1), Fraction(10), Fraction(100))))
_CLOSE = Fraction(1, 10**5)
#: Settings in which the noise is so large that a minibatch's worst curvature is the largest.
_NOISY = tuple((m, k, noise) for m, k, noise in _SETTINGS if noise >= 2 * k * m)


def _largest(function: Poly) -> Fraction:
    """Return a bound on a polynomial from 0 to 1, which is zero at 0, that is at most `_CLOSE` too large."""
    low, high = Fraction(0), Fraction(1)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        reached = (function - middle).count_roots(0, 1)
        low, high = (middle, high) if reached else (low, middle)
    return high


def _least(function: Poly) -> Fraction:
    """Return a bound on a polynomial with a positive leading coefficient that is at most `_CLOSE` too small."""
    low, high = Fraction(0), Fraction(1)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        reached = (function - middle).count_roots()
        low, high = (low, middle) if reached else (middle, high)
    return low


def _local(h: Any, step: Any, workers: int, steps: int, noise: Fraction) -> Any:
    """Return the expected loss after a round of local steps."""
    kept = (1 - step * h) ** 2
    variance = step**2 * noise / workers * sum(kept**k for k in range(steps))
    return h / 2 * (kept**steps + variance)


def _minibatch(h: Fraction, step: Fraction, workers: int, steps: int, noise: Fraction) -> Fraction:
    return h / 2 * ((1 - step * h) ** 2 + step**2 * noise / (steps * workers))


def _best_minibatch(curvatures: tuple[Fraction, Fraction], workers: int, steps: int, noise: Fraction) -> Fraction:
    """Return a bound on what the best step of a minibatch leaves in the worst of two curvatures, from below.

    It is the least of a mean of both losses, which is a parabola in the step, at the mean for which that is largest.
    """
    spread = noise / (steps * workers)
    found = []
    for part in range(51):
        weights = list(zip((Fraction(part, 50), 1 - Fraction(part, 50)), curvatures, strict=True))
        constant, linear, square = (
            sum((w * h / 2 * of(h) for w, h in weights), Fraction(0))
            for of in (lambda h: Fraction(1), lambda h: 2 * h, lambda h: h**2 + spread)
        )
        found.append(constant - linear**2 / (4 * square))
    return max(found)


def _noisy() -> Iterator[Sides]:
    """Compare what local steps leave at the largest curvature with what a minibatch leaves at the worst.

    At noise so large the minibatch's best step at the largest curvature is at most a third, and its loss grows with the
    curvature; so the worst is the largest one, at which the best step is known.
    """
    import sympy

    step = sympy.symbols("step")
    for workers, steps, noise in _NOISY:
        local = _least(sympy.Poly(_local(sympy.Integer(1), step, workers, steps, noise), step))
        best = 1 / (1 + noise / (steps * workers))
        minibatch = _minibatch(Fraction(1), best, workers, steps, noise)
        case = f"M = {workers}, K = {steps}, σ² = {noise}"
        yield Sides(case, local, minibatch, names=("local at least", "minibatch"))


def _worst() -> Iterator[Sides]:
    """Compare bounds on both methods' worst cases, of local steps from above and of a minibatch from below."""
    import sympy

    h = sympy.symbols("h")
    for workers, steps, noise in _SETTINGS:
        tried = [Fraction(n, 8) / d for n in range(1, 9) for d in (1, 4, 16, 64)]
        grid = [Fraction(n, 20) for n in range(1, 21)]
        step = min(tried, key=lambda s: max(_local(c, s, workers, steps, noise) for c in grid))
        local = _largest(sympy.Poly(_local(h, step, workers, steps, noise), h))
        minibatch = max(_best_minibatch((Fraction(1), c), workers, steps, noise) for c in grid)
        case = f"M = {workers}, K = {steps}, σ² = {noise}"
        yield Sides(case, local, 2 * minibatch, names=("local at most", "twice minibatch"))


def _single() -> Iterator[Sides]:
    """Compare what both methods leave at the largest curvature alone."""
    import sympy

    step = sympy.symbols("step")
    for workers, steps, noise in _SETTINGS:
        local = _least(sympy.Poly(_local(sympy.Integer(1), step, workers, steps, noise), step))
        best = 1 / (1 + noise / (steps * workers))
        minibatch = 2 * _minibatch(Fraction(1), best, workers, steps, noise)
        yield Sides(
            f"M = {workers}, K = {steps}, σ² = {noise}, h = 1",
            local,
            minibatch,
            names=("local at least", "twice minibatch"),
        )


@CL80.reading("the worst curvature, each method with its best step")
def worst_curvature() -> Evidence:
    return compared(_noisy(), of="settings with much noise", relation="<")


@CL80.reading("the same, up to a factor of two, as rates are compared")
def up_to_two() -> Evidence:
    return compared(_worst(), of="settings of M, K and σ²")


@CL80.reading("a single curvature, up to a factor of two", natural=False)
def single_curvature() -> Evidence:
    return compared(_single(), of="settings of M, K and σ²")


CL80C = Claim(
    id="CL-80c",
    place="corrected statement of CL-80",
    said_by="fedstat",
    words="On a quadratic of curvature h local steps of sizes η / (K − (K − k) η h), k = 1 to K, leave exactly what a "
    "minibatch step η leaves, so that local SGD with the best decreasing steps is never worse.",
    statement='eta_k = eta / (K - (K - k) eta h) ==> x_"local" = x_"minibatch"',
    severity="false",
    assumptions="one curvature and one round, any start and noise; 2 to 5 steps, one and two workers; η h below one",
    sensitivity="any difference, as rational expressions",
)


def _same_law(sizes: str) -> Evidence:
    """Compare what both methods leave, for any noise."""
    import sympy

    def cases() -> Iterator[Sides]:
        start, h, eta = sympy.symbols("x h eta")
        for workers, steps in product((1, 2), range(2, 6)):
            noise = [sympy.symbols(f"{name}1:{steps + 1}") for name in "yz"[:workers]]
            ends = []
            for own in noise:
                x = start
                for k, z in enumerate(own, start=1):
                    size = eta / (steps - (steps - k) * eta * h) if sizes == "decreasing" else eta / steps
                    x = x - size * (h * x + z)
                ends.append(x)
            minibatch = start - eta * (h * start + sum(map(sum, noise)) / (workers * steps))
            yield Sides(f"M = {workers}, K = {steps}", sum(ends) / workers, minibatch, names=("local", "minibatch"))

    return identity(cases(), of="numbers of workers and steps")


@CL80C.reading("any curvature, step, start and noise")
def decreasing_steps() -> Evidence:
    return _same_law("decreasing")


@CL80C.mutant("steps of the same size, η / K")
def fixed_steps() -> Evidence:
    return _same_law("fixed")
