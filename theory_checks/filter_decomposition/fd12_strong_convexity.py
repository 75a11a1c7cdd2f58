"""FD-12: the objective cannot be strongly convex everywhere.

FD-12c: where the objective is strongly convex.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, Sides, all_of, compared, enumeration, sampled, search


class Line(NamedTuple):
    """A line in parameter space, and second derivatives of the objective along it, per loss."""

    along: str
    curvature: dict[str, Any]

    def __str__(self) -> str:
        return f"second derivative along {self.along}: zero or negative for {', '.join(self.curvature)}"


def _curved(line: Line) -> Evidence:
    """Judge whether the objective is curved upwards along the line for some loss; symbols stand for positive numbers.

    That may be told by the second derivative of the loss, which nothing is known of but that it may be positive.
    """
    return enumeration(
        [line],
        lambda line: any(v != 0 and not v.is_negative for v in line.curvature.values()),
        of="lines in parameter space",
    )


def _losses(z: Any) -> dict[str, Any]:
    """Return losses of one output: any twice differentiable one, and some that are used."""
    import sympy

    y = sympy.Symbol("y", real=True)
    return {
        "any loss": sympy.Function("l")(z),
        "the squared": (z - y) ** 2 / 2,
        "the logistic": sympy.log(1 + sympy.exp(-z)),
        "the pseudo-Huber": sympy.sqrt(1 + (z - y) ** 2),
        "the exponential": sympy.exp(-z),
    }


def _along_coefficients(atom: int, size: int = 1) -> Evidence:
    """Is some loss of ``head a D x`` curved along a, for this atom D and inputs of this size?

    At D = 0 the output is zero whatever a is, so that ``f(a, 0, head) = l(0)`` is constant along a line. Strong
    convexity of modulus mu would give ``f(v) >= f(w) + mu/2 |v - w|^2`` between two points of that line, since
    the derivative along it vanishes; hence ``mu <= 0``, for every loss, head and input.
    """
    import sympy

    a, d, head, x = sympy.symbols("a D head x", real=True)
    fixed = {d: atom, x: size * x}
    found = {name: sympy.diff(f.subs(fixed), a, 2).doit() for name, f in _losses(head * a * d * x).items()}
    return _curved(Line(f"α at D = {atom}", {k: sympy.simplify(v) for k, v in found.items()}))


class Minimum(NamedTuple):
    """The squared loss of a filter of one entry with weight decay, at a minimum away from zero.

    Coefficient and atom number one and the head are r, all else is zero, and the label is ``r^3 + c / r``. The head and
    the first atom decay with strength c, the second atom with 2c.
    """

    atoms: int
    decay: Fraction
    r: Fraction

    def __str__(self) -> str:
        return f"{self.atoms} {'atom' if self.atoms == 1 else 'atoms'}, c = {self.decay}, r = {self.r}"

    @property
    def point(self) -> tuple[Fraction, ...]:
        """The head, then coefficient and atom in turn."""
        return (self.r,) * 3 + (Fraction(0),) * (2 * self.atoms - 2)

    def terms(self, w: Any) -> tuple[Any, Any]:
        """Return the loss and the decay of these parameters."""
        head, *factors = w
        output = head * sum(a * d for a, d in zip(factors[::2], factors[1::2], strict=True))
        strengths = [self.decay] * 3 + [2 * self.decay] * (len(factors) - 2)
        decay = sum(c * x**2 for c, x in zip(strengths, w, strict=True)) / 2
        return (output - self.r**3 - self.decay / self.r) ** 2 / 2, decay

    @property
    def modulus(self) -> Fraction:
        """The smallest curvature."""
        return min((2 if self.atoms == 1 else 1) * self.decay, 3 * self.r**4 - self.decay)


def _near_minimum_with_decay() -> Evidence:
    """The Hessian at the minimum of `Minimum` is positive definite, and by continuity near it.

    With one atom and ``z = h a D``, the slope of the loss is ``z - y = -c / r`` there, all second derivatives are
    ``r^4 - c`` but for the diagonal ``r^4 + c``, so that the Hessian is ``2 c I + (r^4 - c) 1 1'`` with eigenvalues 2c,
    2c and ``3 r^4 - c``. A second atom, of coefficient and value zero, adds the block ``[[2c, -c], [-c, 2c]]`` with
    eigenvalues c and 3c; if it decayed with strength c, one of them would be zero.
    """
    import sympy

    strengths, sizes = (Fraction(1, 10), Fraction(1), Fraction(2)), (Fraction(1), Fraction(3, 2))
    minima = [Minimum(*case) for case in product((1, 2), strengths, sizes)]

    def at(case: Minimum, derivatives: Any, w: Any) -> Any:
        return derivatives.subs(dict(zip(w, map(sympy.Rational, case.point), strict=True)))

    def level(case: Minimum) -> bool:
        w = sympy.symbols(f"w:{2 * case.atoms + 1}")
        return all(at(case, sympy.diff(sum(case.terms(w)), x), w) == 0 for x in w)

    def directions() -> Iterator[Sides]:
        for case in minima:
            w = sympy.symbols(f"w:{2 * case.atoms + 1}")
            fit, decay = (at(case, sympy.hessian(term, w), w) for term in case.terms(w))
            for v in product((0, 1, -1), repeat=len(w)):
                along = sympy.Matrix(v)
                loss, own = (Fraction(str((along.T * h * along)[0])) for h in (fit, decay))
                curvature = {"loss": loss, "weight decay": own}
                told = ", ".join(map(str, v)).replace("-", "−")
                names = ("by the modulus", "curvature")
                yield Sides(f"{case}, direction ({told})", case.modulus * sum(x * x for x in v), curvature, names)

    slopes = sampled(minima, level, of="minima")
    return all_of([slopes, compared(directions(), of="directions at minima")])


FD12 = Claim(
    id="FD-12",
    place="section 5, Assumption 5.2",
    said_by="paper",
    words="The objective of coefficients times atoms can be strongly convex in coefficients, atoms and head.",
    statement="F_k (v) >= F_k (w) + (v - w)^T nabla F_k (w) + mu/2 norm(v - w)^2, quad w = (alpha, D, theta_h), mu > 0",
    severity="false",
    assumptions="the objective depends on coefficients and atoms through their product, as in (6); gradient steps are "
    "taken in coefficients and atoms, as in (7) and section A.4",
    sensitivity="exact, for any twice differentiable loss",
    flaw="With atoms zero the output no longer depends on the coefficients: the objective is constant along that "
    "line, for every loss. So Assumption 5.2, which speaks of all parameters, never holds for the model of the paper, "
    "and the theorems are empty for it. Near a minimum rescaling coefficients against atoms costs nothing; with weight "
    "decay rotating the atoms still costs nothing, unless no two atoms decay equally fast.",
    corrected="FD-12c",
)


@FD12.reading("everywhere, for some loss of the product")
def everywhere() -> Evidence:
    return _along_coefficients(atom=0)


@FD12.condition("only near a minimum")
def near_minimum() -> Evidence:
    """Rescaling ``(a e^s, D e^-s)`` leaves the product alone, so the objective is constant along a curve through every
    point; at a minimum the Hessian vanishes along the curve's tangent (a, -D).
    """
    import sympy

    a, d, first, second = sympy.symbols("a D l1 l2", real=True)
    # Hessian of l(a D) with l' = l1 and l'' = l2; at a minimum l1 = 0
    hessian = sympy.Matrix([[second * d**2, first + second * a * d], [first + second * a * d, second * a**2]])
    tangent = sympy.Matrix([a, -d])
    value = sympy.expand((tangent.T * hessian.subs(first, 0) * tangent)[0])
    return _curved(Line("(α, −D) where the loss of αD is smallest", {"any loss": value}))


@FD12.condition("everywhere, with weight decay added to the loss")
def weight_decay() -> Evidence:
    """At ``a = D = 0`` the Hessian in (a, D) is ``[[c, s], [s, c]]`` with decay c and ``s = l'(0) head x``.

    Along (1, -1) the second derivative is ``2 (c - s)``, negative for a head beyond ``c / (l'(0) x)``; taken twice.
    """
    import sympy

    decay, slope, x, y = sympy.symbols("c s x y", positive=True)
    a, d, head = sympy.symbols("a D head", real=True)
    loss = slope * head * a * d * x + y * (head * a * d * x) ** 2 / 2  # to second order in the output
    hessian = sympy.hessian(loss + decay * (a**2 + d**2 + head**2) / 2, (a, d)).subs({a: 0, d: 0})
    across = sympy.Matrix([1, -1])
    value = sympy.simplify((across.T * hessian * across)[0].subs(head, 2 * decay / (slope * x)))
    return _curved(Line("(1, −1) in (α, D) at zero, with a large head", {"any loss with a slope at zero": value}))


@FD12.condition("only near a minimum away from zero, with one weight decay on all, for several atoms")
def one_decay() -> Evidence:
    """Rotating coefficients and atoms alike leaves their product and their squares alone: the objective is constant
    along a circle through every point where they are not zero. At zero, with the head, the Hessian is the decay's.
    """
    import sympy

    a1, a2, d1, d2, head, x, turn = sympy.symbols("a1 a2 D1 D2 head x t", real=True)
    decay = sympy.Symbol("c", positive=True)
    turned = sympy.Matrix([[sympy.cos(turn), -sympy.sin(turn)], [sympy.sin(turn), sympy.cos(turn)]])
    a, d = turned * sympy.Matrix([a1, a2]), turned * sympy.Matrix([d1, d2])
    output, squares = (sympy.simplify(value) for value in (head * a.dot(d) * x, a.dot(a) + d.dot(d)))
    objective = sympy.Function("l")(output) + decay * (squares + head**2) / 2
    return _curved(Line("a rotation of two atoms and their coefficients", {"any loss": sympy.diff(objective, turn, 2)}))


@FD12.condition(
    "only near a minimum, with weight decay on coefficients, atoms and head, no two atoms decaying equally fast"
)
def near_minimum_with_decay() -> Evidence:
    return _near_minimum_with_decay()


@FD12.control("the atom fixed at one")
def fixed_atom() -> Evidence:
    return _along_coefficients(atom=1)


@FD12.mutant("the atom fixed at one, and inputs of zero")
def no_inputs() -> Evidence:
    return _along_coefficients(atom=1, size=0)


FD12C = Claim(
    id="FD-12c",
    place="corrected statement of FD-12",
    said_by="fedstat",
    words="With atoms held fixed, the squared loss is strongly convex in the coefficients, with the smallest "
    "eigenvalue of the responses' Gram matrix as modulus (for one atom and one input 1: the squared atom). In "
    "coefficients, atoms and head together it is so near a minimum, if weight decay acts on all of them and on no two "
    "atoms equally.",
    statement="F(v) >= F(w) + (v - w)^T F'(w) + 1/2 lambda_min (1/n Z^T Z) norm(v - w)^2, "
    "quad F(alpha) = 1/(2 n) norm(Z alpha - y)^2, quad Z_(i r) = D_r * x_i; quad "
    "nabla^2 G(r, r, r) succ.eq min(2 c, 3 r^4 - c) I, quad "
    "G(alpha, D, theta_h) = 1/2 (alpha D theta_h - r^3 - c/r)^2 + c/2 (alpha^2 + D^2 + theta_h^2)",
    severity="false",
    assumptions="fixed atoms have linearly independent responses (one atom: not zero); the minimum, of a filter of one "
    "entry with one or two atoms, is away from zero, and the decay c below 3r⁴",
    sensitivity="any difference of the polynomials for one fixed atom, an excess of 10⁻⁹ for several; any modulus "
    "above the curvature at the minimum",
)


@FD12C.reading("fixed atoms, squared loss")
def fixed_atoms() -> Evidence:
    """Strong convexity in the coefficients with the atoms held fixed.

    The output is linear in the coefficients, ``z_i = sum_r alpha_r (D_r * x_i)``, so the squared loss
    ``F = 1/(2n) sum_i (z_i - y_i)^2`` is quadratic with Hessian ``Z'Z / n``, where the rows of Z hold the atoms'
    responses. Exactly, ``F(v) - F(w) - (v - w)' F'(w) = (v - w)' Z'Z (v - w) / (2n)``, at least
    ``lambda_min(Z'Z / n) / 2 |v - w|^2``; the modulus is ``D^2 mean(x^2)`` for one atom, and D^2 for one input 1.
    """
    import sympy

    d, v, w = sympy.symbols("D v w")

    def identity(n: int) -> bool:
        x, y = sympy.symbols(f"x1:{n + 1}"), sympy.symbols(f"y1:{n + 1}")

        def loss(a: Any) -> Any:
            return sum((a * d * xi - yi) ** 2 for xi, yi in zip(x, y, strict=True)) / (2 * n)

        excess = loss(v) - loss(w) - (v - w) * sympy.diff(loss(w), w)
        modulus = d**2 * sum(xi**2 for xi in x) / n
        return bool(sympy.expand(excess - modulus / 2 * (v - w) ** 2) == 0)

    numbers = st.integers(-3, 3).map(float)

    def sides(case: tuple[list[list[float]], list[float], list[float], list[float]]) -> tuple[float, float]:
        z, v, w, y = (np.array(part) for part in case)

        def loss(a: np.ndarray) -> float:
            return float(((z @ a - y) ** 2).mean() / 2)

        modulus = float(np.linalg.eigvalsh(z.T @ z / len(z))[0])
        slope = z.T @ (z @ w - y) / len(z)
        return modulus / 2 * float((v - w) @ (v - w)), loss(v) - loss(w) - float((v - w) @ slope)

    def matrices(shape: tuple[int, int]) -> st.SearchStrategy[Any]:
        n, m = shape
        row = st.lists(numbers, min_size=m, max_size=m)
        return st.tuples(st.lists(row, min_size=n, max_size=n), row, row, st.lists(numbers, min_size=n, max_size=n))

    cases = st.tuples(st.integers(1, 5), st.integers(1, 3)).flatmap(matrices)
    several = search(cases, sides, tolerance=1e-9, examples=100, names=("by the modulus", "excess"), show=_shown)
    of = "numbers of inputs from 1 to 4 (no term involves more than one), as identities between polynomials"
    one = enumeration(range(1, 5), identity, of=of, show=lambda n: f"n = {n}")
    return all_of([one, several])


def _shown(case: tuple[list[list[float]], list[float], list[float], list[float]]) -> str:
    matrix, *vectors = case
    rows = "; ".join(", ".join(f"{x:g}" for x in row) for row in matrix)
    told = (f"{name} = ({', '.join(f'{x:g}' for x in v)})" for name, v in zip("vwy", vectors, strict=True))
    return f"responses Z = ({rows}), {', '.join(told)}".replace("-", "−")


@FD12C.reading("near a minimum, with weight decay on all, no two atoms decaying equally fast")
def with_decay() -> Evidence:
    return _near_minimum_with_decay()
