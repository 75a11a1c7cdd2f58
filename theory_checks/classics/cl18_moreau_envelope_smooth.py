"""CL-18: the objective of a pFedMe client is λ-smooth.

CL-18c: how smooth the envelope is for every λ above L.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, both, compared, identity

CL18 = Claim(
    id="CL-18",
    place="Dinh, Tran and Nguyen, Personalized federated learning with Moreau envelopes (NeurIPS 2020, "
    "arXiv:2006.08848), on the envelope's gradient and smoothness; our wording, as its proposition could not be read; "
    "for convex losses that of the lecture notes on smoothing of STATS 606, University of Michigan",
    said_by="fedstat",
    words="The objective of a pFedMe client, its loss's Moreau envelope, has the gradient λ (w − θ(w)) with the "
    "personalised model θ(w), and is λ-smooth.",
    statement="F(w) = min_theta f(theta) + lambda / 2 norm(theta - w)^2, quad nabla F(w) = lambda (w - theta(w)), quad "
    "norm(nabla F(w) - nabla F(v)) <= lambda norm(w - v)",
    severity="false",
    assumptions="convex losses, or L-smooth ones with λ ≥ 2 L: we do not know that the paper claims more",
    sensitivity="any excess over λ, exact",
    corrected="CL-18c",
)


def _personal(h: Fraction, lam: Fraction, w: Fraction) -> Fraction:
    """Return the minimiser of ``h theta^2 / 2 + lam (theta - w)^2 / 2``, unique as h + lam > 0."""
    return lam * w / (h + lam)


def _slopes(cases: Iterable[tuple[Fraction, Fraction]]) -> Iterator[Sides]:
    """Compare how far gradients at a distance of one differ with lambda, for a loss of curvature h.

    In several dimensions, and for any twice differentiable loss, the envelope's Hessian has the eigenvectors of the
    loss's Hessian at theta(w), and the eigenvalue that it has for such a parabola: parabolas stand for all.
    """
    for h, lam in cases:
        at, beside = (lam * (w - _personal(h, lam, w)) for w in (Fraction(0), Fraction(1)))
        yield Sides(f"a loss of curvature {h}, λ = {lam}", abs(beside - at), lam, names=("smoothness", "λ"))


_PULLS = (Fraction(1, 3), Fraction(1), Fraction(5))


def _convex() -> Iterator[tuple[Fraction, Fraction]]:
    return product((Fraction(0), Fraction(1, 10), Fraction(1), Fraction(40), Fraction(10**4)), _PULLS)


def _curved_down(factors: tuple[Fraction, ...]) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield curvatures from -L to L and pulls, which are multiples of L = 1."""
    return product([Fraction(k, 4) for k in range(-4, 5)], factors)


def _gradient() -> Evidence:
    """Differentiate the envelope of a parabola with any curvature and centre, and those of ``|theta|``."""
    import sympy

    w, h, c = sympy.symbols("w h c", real=True)
    lam = sympy.symbols("lambda", positive=True)
    pieces = {
        "a parabola": (h * (w - c) ** 2 / 2, c + lam * (w - c) / (h + lam)),
        "|θ| on the right": (w, w - 1 / lam),
        "|θ| on the left": (-w, w + 1 / lam),
        "|θ| in between": (sympy.Integer(0), sympy.Integer(0)),
    }

    def cases() -> Iterator[Sides]:
        for name, (loss, personal) in pieces.items():
            envelope = loss.subs(w, personal) + lam * (personal - w) ** 2 / 2
            yield Sides(name, sympy.diff(envelope, w), lam * (w - personal), names=("derivative", "claimed"))

    return identity(cases(), of="gradients of envelopes")


@CL18.reading("convex losses: parabolas, and the absolute value's gradient")
def convex() -> Evidence:
    return both(_gradient(), compared(_slopes(_convex()), of="parabolas"))


@CL18.reading("L-smooth losses, wherever λ > L", natural=False)
def smooth() -> Evidence:
    """Where the loss curves downwards by nearly λ, the personalised model moves faster than w does."""
    return compared(_slopes(_curved_down((Fraction(5, 4), Fraction(3, 2), Fraction(2), Fraction(6)))), of="parabolas")


@CL18.reading("L-smooth losses, λ ≥ 2 L")
def strong_pull() -> Evidence:
    return compared(_slopes(_curved_down((Fraction(2), Fraction(3), Fraction(20)))), of="parabolas")


CL18C = Claim(
    id="CL-18c",
    place="sharper statement than CL-18, for every λ above L",
    said_by="fedstat",
    words="For an L-smooth loss and λ > L the envelope is λ L / (λ − L)-smooth and no better, which is at most λ "
    "exactly if λ ≥ 2 L.",
    statement="norm(nabla F(w) - nabla F(v)) <= (lambda L) / (lambda - L) norm(w - v)",
    severity="false",
    assumptions="θ(w) is the only minimiser, which λ > L ensures",
    sensitivity="any excess, exact",
)


@CL18C.reading("parabolas of curvature −L to L")
def sharp() -> Evidence:
    def cases() -> Iterator[Sides]:
        for sides in _slopes(_curved_down((Fraction(9, 8), Fraction(3, 2), Fraction(2), Fraction(6)))):
            lam = sides.right
            yield Sides(sides.case, sides.left, lam / (lam - 1), names=("smoothness", "claimed"))

    return compared(cases(), of="parabolas")
