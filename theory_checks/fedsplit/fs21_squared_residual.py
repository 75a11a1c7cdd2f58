"""FS-21: the expansion of the squared residual."""

from __future__ import annotations

import itertools

from fedstat.claims import Claim, Evidence, Sides, compared

FS21 = Claim(
    id="FS-21",
    place="section 3.3, display of the prediction errors, between Definitions 1 and 2",
    said_by="paper",
    words="The squared residual after a round is the one before it, minus twice the product of residual and move, plus "
    "the square of the move.",
    statement="norm(y - h(t+1))^2 = norm(y - h(t))^2 - 2 (y - h(t))^top (h(t+1) - h(t)) + norm(h(t+1) - h(t))^2",
    severity="misprint",
    assumptions="none; both sides are sums over samples of one polynomial, so one sample proves it for all numbers",
    sensitivity="any difference of the two polynomials",
)


@FS21.reading("as printed")
def as_printed() -> Evidence:
    """Compare both sides for one sample with label, prediction and next prediction 0, 1 or 2.

    A polynomial of degree two at most in each of three variables that is zero at these 27 points is zero everywhere.
    """
    cases = [
        Sides(
            f"y = {y}, h(t) = {h}, h(t+1) = {k}",
            (y - k) ** 2,
            {"residual": (y - h) ** 2, "mixed term": -2 * (y - h) * (k - h), "squared move": (k - h) ** 2},
        )
        for y, h, k in itertools.product(range(3), repeat=3)
    ]
    return compared(cases, relation="==", every=True, of="points, which together prove the identity")
