"""FF-07: the cosine depends on how weights are split into u and v.

FF-07c: the absolute cosine depends on the weights alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from fedstat.claims import Claim, Evidence, Sides, compared, exact

FF07 = Claim(
    id="FF-07",
    place="section 4.2, equation (4) and the two sentences before it",
    said_by="fedstat",
    words="The cosine of two clients' personal vectors is a property of their weights: it does not depend on how these "
    "are split into u and v.",
    statement="u v^top = tilde(u) tilde(v)^top => cos(v, v_i) = cos(tilde(v), v_i)",
    severity="unstated condition",
    sensitivity="any difference of the squared cosines, exact",
    assumptions="u v' without μ, which leaves still more ways to split the weights. The paper says that clients with "
    "similar tasks are assumed to have similar v after training; this is what a cosine needs to measure that",
    flaw="The vectors are determined by the weights only up to a factor. Changing the sign of both u and v leaves the "
    "weights as they are and turns a similarity of 1 into −1. Factors that keep their signs, as training from one "
    "common start may see to, have one cosine; the text does not say so.",
    corrected="FF-07c",
)

Vector = tuple[int, ...]
_Similarity = Callable[[Sequence[Fraction | int], Sequence[Fraction | int]], Fraction]


def _dot(a: Sequence[Fraction | int], b: Sequence[Fraction | int]) -> Fraction:
    return Fraction(sum(x * y for x, y in zip(a, b, strict=True)))


def _signed_square(a: Sequence[Fraction | int], b: Sequence[Fraction | int]) -> Fraction:
    """Return the square of the cosine with the cosine's sign, which a fraction can hold."""
    inner = _dot(a, b)
    return inner * abs(inner) / (_dot(a, a) * _dot(b, b))


def _nonzero(dimension: int) -> list[Vector]:
    return [v for v in product((0, 1, -1), repeat=dimension) if any(v)]


def _written(vector: Sequence[int]) -> str:
    return f"({', '.join(exact(x) for x in vector)})"


def _depends_on_weights(scales: tuple[Fraction, ...], similarity: _Similarity) -> Evidence:
    """Compare the similarity for (u, v) and for (u / c, c v), which have the same product."""

    def cases() -> Iterator[Sides]:
        for dimension in (1, 2):
            small = _nonzero(dimension)
            for u, v, other, c in product(small, small, small, scales):
                new_u, new_v = [x / c for x in u], [c * x for x in v]
                assert [x * y for x in u for y in v] == [x * y for x in new_u for y in new_v]
                factors = f"u = {_written(u)}, v = {_written(v)}, other v = {_written(other)}, c = {exact(c)}"
                before, after = similarity(v, other), similarity(new_v, other)
                yield Sides(factors, after, before, names=("squared cosine with its sign", "before"))

    of = "pairs of factorisations of small integer weights, (u, v) and (u / c, c v)"
    return compared(cases(), of=of, relation="==")


_POSITIVE = (Fraction(2), Fraction(1, 3))


@FF07.reading("any factors of the same weights")
def any_factors() -> Evidence:
    return _depends_on_weights((*_POSITIVE, Fraction(-1), Fraction(-2)), _signed_square)


@FF07.control("any factors, the cosine's absolute value")
def absolute() -> Evidence:
    return _depends_on_weights((*_POSITIVE, Fraction(-1), Fraction(-2)), lambda a, b: abs(_signed_square(a, b)))


@FF07.control("factors that keep their signs")
def same_signs() -> Evidence:
    return _depends_on_weights(_POSITIVE, _signed_square)


FF07C = Claim(
    id="FF-07c",
    place="corrected statement of FF-07",
    said_by="fedstat",
    words="The absolute cosine is determined by the weight matrices and does not depend on how they are factorised.",
    statement="cos(v_k, v_i)^2 = norm(W_k W_i^top)_F^2 / (norm(W_k)_F^2 norm(W_i)_F^2), quad W = u v^top",
    severity="false",
    sensitivity="any difference of the squared cosines, exact",
    assumptions="μ = 0",
)


@FF07C.reading("in integers")
def products() -> Evidence:
    """Squared cosine of the vectors v against the expression in the weight matrices.

    ``W_k W_i' = u_k (v_k . v_i) u_i'`` has the squared Frobenius norm ``|u_k|^2 |u_i|^2 (v_k . v_i)^2``, and
    ``|W|_F^2 = |u|^2 |v|^2``, so the quotient is ``(v_k . v_i)^2 / (|v_k|^2 |v_i|^2)``. The right side knows only
    the weights; so does the absolute cosine.
    """

    def cases() -> Iterator[Sides]:
        small = _nonzero(2)
        for u, v, other_u, other_v in product(small, small, small, small):
            w, other = np.outer(u, v), np.outer(other_u, other_v)
            norms = int((w**2).sum()) * int((other**2).sum())
            case = f"weights {_written(u)} {_written(v)}' and {_written(other_u)} {_written(other_v)}'"
            from_weights = Fraction(int(((w @ other.T) ** 2).sum()), norms)
            yield Sides(
                case, abs(_signed_square(v, other_v)), from_weights, names=("squared cosine", "from the weights")
            )

    return compared(cases(), of="pairs of 2 by 2 weight matrices with factors of entries 0, 1 and −1", relation="==")
