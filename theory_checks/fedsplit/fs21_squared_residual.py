"""FS-21: the expansion of the squared residual."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence, enumeration


def _expansion(sign: int) -> Evidence:
    """Expand both sides as polynomials, for prediction vectors of one to five samples.

    Both sides are sums over samples of one and the same polynomial, so the first case proves the others and all larger
    ones.
    """
    import sympy

    def holds(n: int) -> bool:
        y, before, after = (sympy.symbols(f"{letter}1:{n + 1}") for letter in ("y", "h", "k"))
        rows = list(zip(y, before, after, strict=True))
        left = sum((a - c) ** 2 for a, b, c in rows)
        right = sum((a - b) ** 2 + sign * 2 * (a - b) * (c - b) + (c - b) ** 2 for a, b, c in rows)
        return bool(sympy.expand(left - right) == 0)

    return enumeration(range(1, 6), holds, of="numbers of samples, as identities of polynomials", show="N = {}".format)


FS21 = Claim(
    id="FS-21",
    place="section 3.3, display of the prediction errors, between Definitions 1 and 2",
    said_by="paper",
    words="The squared residual after a round is the one before it, less twice the product of residual and move, plus "
    "the square of the move.",
    statement="norm(y - h(t+1))^2 = norm(y - h(t))^2 - 2 (y - h(t))^top (h(t+1) - h(t)) + norm(h(t+1) - h(t))^2",
    severity="misprint",
    assumptions="none; both sides are sums over samples of one polynomial, so one sample proves it for all numbers",
    sensitivity="any difference of the two polynomials",
)


@FS21.reading("as printed")
def as_printed() -> Evidence:
    return _expansion(-1)


@FS21.mutant("the sign of the mixed term changed")
def sign_changed() -> Evidence:
    return _expansion(1)
