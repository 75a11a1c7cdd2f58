"""FD-12: strong convexity in coefficients, atoms and head."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, all_of, enumeration, search


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
    "line, for every loss. So Assumption 5.2 never holds for the model of the paper, and the theorems are empty "
    "for it.",
    corrected="FD-12c",
)


@FD12.reading("everywhere, for some loss of the product")
def everywhere() -> Evidence:
    return _along_coefficients(atom=0)


@FD12.reading("only near a minimum")
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


@FD12.reading("everywhere, with weight decay added to the loss")
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
    "eigenvalue of the responses' Gram matrix as modulus (for one atom and one input 1: the squared atom).",
    statement="F(v) >= F(w) + (v - w)^T F'(w) + 1/2 lambda_min (1/n Z^T Z) norm(v - w)^2, "
    "quad F(alpha) = 1/(2 n) norm(Z alpha - y)^2, quad Z_(i r) = D_r * x_i",
    severity="false",
    assumptions="atoms fixed, with linearly independent responses (one atom: not zero)",
    sensitivity="any difference of the polynomials for one atom; an excess of 10⁻⁹ for several",
)


def _fixed_atoms(factor: int) -> Evidence:
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
        modulus = factor * d**2 * sum(xi**2 for xi in x) / n
        return bool(sympy.expand(excess - modulus / 2 * (v - w) ** 2) == 0)

    numbers = st.integers(-3, 3).map(float)

    def sides(case: tuple[list[list[float]], list[float], list[float], list[float]]) -> tuple[float, float]:
        z, v, w, y = (np.array(part) for part in case)

        def loss(a: np.ndarray) -> float:
            return float(((z @ a - y) ** 2).mean() / 2)

        modulus = factor * float(np.linalg.eigvalsh(z.T @ z / len(z))[0])
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


@FD12C.reading("fixed atoms, squared loss")
def fixed_atoms() -> Evidence:
    return _fixed_atoms(1)


@FD12C.mutant("twice the modulus")
def twice() -> Evidence:
    return _fixed_atoms(2)
