"""FS-50: the powers in the prescribed widths are the usual ones."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared

_HALF = Fraction(1, 2)


class _Powers(NamedTuple):
    """The powers of N, C and lambda in a product."""

    samples: Fraction
    clients: Fraction
    eigenvalue: Fraction

    def times(self, other: _Powers) -> _Powers:
        return _Powers(*(a + b for a, b in zip(self, other, strict=True)))

    def to(self, power: int) -> _Powers:
        return _Powers(*(power * a for a in self))


def _powers(samples: int, clients: Fraction | int = 0, eigenvalue: int = 0) -> _Powers:
    return _Powers(Fraction(samples), Fraction(clients), Fraction(eigenvalue))


#: Powers as printed.
_PRINTED = {"m₂": _powers(4, 0, -4), "m₁": _powers(4, -2, -4)}


def _widths(*, spectral: bool) -> Evidence:
    """Derive the powers by the usual argument, and compare them with the printed ones.

    In a round a shared unit moves by at most ``rho_1 / sqrt(m) sum_i |r_i|``, a personal one by at most
    ``rho_2 / sqrt(m) sum_{i at c} |r_i|``, up to constants; with Cauchy's inequality the sums are at most sqrt(N) and
    sqrt(N / C) times the residual's norm. The residual starts at a norm of sqrt(N) and falls at the claimed rate,
    at least ``rho_1 ls / 2`` and at least ``rho_2 lp / 2``; so over all rounds a unit moves by at most
    ``R = N / (sqrt(m) ls)`` and ``R = N / (sqrt(C m) lp)``. A unit changes sides at an input with a probability of
    order R, so an entry of a Gram matrix changes by R, and a matrix by R times its size: N for the shared one; for the
    personal one, of C blocks of N / C rows, N / sqrt(C) in the Frobenius norm and N / C in the spectral one. That this
    is at most a constant times the eigenvalue asks for a width.
    """
    moved = {"m₂": _powers(1, 0, -1), "m₁": _powers(1, -_HALF, -1)}
    size = {"m₂": _powers(1), "m₁": _powers(1, -1 if spectral else -_HALF)}
    cases = []
    for width, printed in _PRINTED.items():
        # moved and size over sqrt(m) must stay below the eigenvalue
        derived = moved[width].times(size[width]).times(_powers(0, 0, -1)).to(2)
        for name, left, right in zip(("N", "C", "λ"), derived, printed, strict=True):
            cases.append(Sides(f"power of {name} in {width}", left, right, ("derived", "printed")))
    return compared(cases, relation="==", every=True, of="powers in the two widths")


FS50 = Claim(
    id="FS-50",
    place="section 3.3, Theorem 1, third sentence: the widths m₁ and m₂",
    said_by="fedstat",
    words="The powers of N, C and λ in the prescribed widths, C⁻² for personal units among them, are those of the "
    "usual argument: units must move so little that the Gram matrices stay close in the Frobenius norm.",
    statement="m_2 = Omega((lambda^s)^(-4) N^4), quad m_1 = Omega((lambda^p)^(-4) C^(-2) N^4)",
    severity="false",
    assumptions="the paper's proof is not in the text, so this is our derivation, for bounded labels and up to "
    "constants and logarithms; in the spectral norm, which is all that the rate needs, C⁻³ would do",
    sensitivity="a power off by one half",
)


@FS50.reading("closeness in the Frobenius norm")
def frobenius() -> Evidence:
    return _widths(spectral=False)


@FS50.mutant("closeness in the spectral norm, where C⁻³ would do")
def spectral() -> Evidence:
    return _widths(spectral=True)
