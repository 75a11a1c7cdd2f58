"""FD-19: the first step must be below 1/(4L), not 1/4.

FD-19c: a first step below 1/(4L) is small enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

from fedstat.claims import Claim, Evidence, Sides, compared


def _negative(admitted: Callable[[Fraction, Fraction], bool], *, of: str) -> Evidence:
    """``eta_t L - 1 < -3/4`` for all ``eta_t <= eta_0`` with an admitted eta_0, on a grid, largest ``eta_t L`` first.

    ``eta_0 < 1/(4L)`` suffices, since then ``eta_t L <= eta_0 L < 1/4``; with ``L <= 1`` so does ``eta_0 < 1/4``.
    """
    sizes = [Fraction(n, 40) for n in range(1, 13)]
    smooth = [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(10)]
    cases = [
        (big_l, first, later)
        for big_l, first, later in itertools.product(smooth, sizes, sizes)
        if later <= first and admitted(big_l, first)
    ]
    cases.sort(key=lambda case: -case[2] * case[0])
    names = ("left side", "claimed below")
    sides = (
        Sides(f"L = {big_l}, η₀ = {first}, η_t = {later}", later * big_l - 1, Fraction(-3, 4), names)
        for big_l, first, later in cases
    )
    return compared(sides, of=of, relation="<")


FD19 = Claim(
    id="FD-19",
    place="section A.4.1, sentence after (20)",
    said_by="paper",
    words="A first step size below 1/4 makes η_t L − 1 smaller than −3/4.",
    statement="eta_0 < 1/4 ==> eta_t L - 1 < -3/4",
    severity="misprint",
    assumptions="η_t does not increase",
    sensitivity="exact; see FD-19c",
    flaw="The step is compared with 1/4 where the inequality needs it compared with 1/(4L), as A.4.3 does.",
    corrected="FD-19c",
)


@FD19.reading("any L")
def any_smoothness() -> Evidence:
    return _negative(lambda big_l, eta: eta < Fraction(1, 4), of="step sizes")


@FD19.reading("η₀ below 1/(4L), as A.4.3 has it for the first step")
def below_smoothness() -> Evidence:
    return _negative(lambda big_l, eta: eta < 1 / (4 * big_l), of="step sizes below 1/(4L)")


FD19C = Claim(
    id="FD-19c",
    place="corrected statement of FD-19",
    said_by="fedstat",
    words="A first step size below 1/(4L) makes η_t L − 1 smaller than −3/4.",
    statement="eta_0 < 1/(4 L) ==> eta_t L - 1 < -3/4",
    severity="false",
    assumptions="η_t does not increase; the proof itself needs no more than η_t L ≤ 1",
    sensitivity="exact; equality is seen, and occurs for η_t = 2/(μ(γ + t)) with γ = 8 L/μ at t = 0",
)


@FD19C.reading("any L")
def any_smoothness_corrected() -> Evidence:
    return below_smoothness()


@FD19C.mutant("step sizes up to 1/(4L) itself")
def up_to_the_bound() -> Evidence:
    return _negative(lambda big_l, eta: eta <= 1 / (4 * big_l), of="step sizes up to 1/(4L)")
