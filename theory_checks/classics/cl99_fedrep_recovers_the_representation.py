"""CL-99: FedRep converges linearly to the true representation."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import sympy
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, Sides, compared, search

CL99 = Claim(
    id="CL-99",
    place="Collins, Hassani, Mokhtari and Shakkottai, Exploiting shared representations for personalized federated "
    "learning (ICML 2021), abstract, the sentence on linear convergence; arXiv:2102.07078",
    said_by="paper",
    words="In a linear setting FedRep converges linearly to the ground-truth representation.",
    statement="sin angle(B_(r+1), B^*) <= rho sin angle(B_r, B^*), quad rho < 1, quad y_i = chevron.l B^* w_i^*, x "
    "chevron.r",
    severity="false",
    assumptions="infinitely many samples with uncorrelated inputs; a representation of one dimension out of three, at "
    "less than a right angle from the start; heads are fitted exactly, then all clients take one step of size "
    "η ≤ 1 / m on the representation, m the mean of w_i*²; ρ = 1 − η m cos² of the angle before is ours, as of the "
    "paper only the abstract could be read",
    sensitivity="any excess over the square of ρ times the squared sine, exact",
)


def frame(turn: Sequence[int]) -> sympy.Matrix:
    """Return three orthonormal vectors of fractions, by Cayley's transform of a skew matrix."""
    a, b, c = turn
    skew, one = sympy.Matrix([[0, -a, b], [a, 0, -c], [-b, c, 0]]), sympy.eye(3)
    return (one - skew) * (one + skew).inv()


def fedrep(representation: sympy.Matrix, models: Sequence[sympy.Matrix], step: Fraction) -> sympy.Matrix:
    """Return the clients' mean representation after a round: heads that fit, then a step of ``|B w - model|^2 / 2``.

    With inputs of unit covariance that is the population's loss.
    """
    heads = [representation.T * model for model in models]
    slopes = [(representation * w - model) * w.T for w, model in zip(heads, models, strict=True)]
    return representation - sympy.Rational(step) / len(models) * sum(slopes, sympy.zeros(*representation.shape))


def distance(representation: sympy.Matrix, truth: sympy.Matrix) -> Fraction:
    """Return the sum of the squared sines of the angles between two subspaces, the second of orthonormal vectors."""
    onto = representation * (representation.T * representation).inv() * representation.T
    apart = sympy.Rational(truth.shape[1] - (truth.T * onto * truth).trace())
    return Fraction(apart.p, apart.q)


_TURN = st.tuples(*[st.integers(-3, 3)] * 3)
_HEADS = st.lists(st.integers(-3, 3).filter(bool), min_size=2, max_size=3)


def _contracts(taken: Fraction = Fraction(1)) -> Evidence:
    def sides(case: tuple[tuple[int, ...], tuple[int, ...], list[int], Fraction]) -> tuple[Fraction, Fraction]:
        first, second, heads, share = case
        start, truth = frame(first)[:, :1], frame(second)[:, :1]
        mean = Fraction(sum(w * w for w in heads), len(heads))
        after = fedrep(start, [truth * w for w in heads], taken * share / mean)
        before = distance(start, truth)
        return distance(after, truth), (1 - share * (1 - before)) ** 2 * before

    cases = st.tuples(_TURN, _TURN, _HEADS, st.fractions(Fraction(1, 10), 1, max_denominator=10))
    return search(cases, sides, names=("squared sine after a round", "claimed"), examples=100)


@CL99.reading("a representation of one dimension, from any start at less than a right angle")
def one_dimension() -> Evidence:
    """With c the squared cosine before and a = η m, the squared sine keeps ``(1 - a c)^2 / (1 + a^2 c (1 - c))``."""
    return _contracts()


@CL99.reading("a representation of two dimensions, for clients of the same head", natural=False)
def same_head() -> Evidence:
    """Whether the second direction is found, of which the clients' data say nothing."""
    truth, start = sympy.eye(3)[:, :2], sympy.Matrix([[1, 0], [0, 0], [0, 1]])
    models = [truth * sympy.Matrix([1, 0])] * 2
    after = distance(fedrep(start, models, Fraction(1)), truth)
    case = "true vectors (1, 0, 0) and (0, 1, 0), start (1, 0, 0) and (0, 0, 1), two clients with the head (1, 0)"
    claimed = Fraction(99, 100) * distance(start, truth)
    return compared([Sides(case, after, claimed, names=("squared sines after", "99% of those before"))], of="settings")


@CL99.mutant("a tenth of the step")
def shorter_step() -> Evidence:
    return _contracts(taken=Fraction(1, 10))
