"""FS-23: the printed loadings are transposed.

FS-23c: the shape of the loadings, not transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fedstat.claims import Claim, Evidence, Sides, both, compared, search
from fedstat.factor import principal_components_loadings
from fedstat.inference import number
from theory_checks.fedsplit.factor_models import TABLES, correlations, farthest, row, rows


class Shape(NamedTuple):
    """Numbers of units and of factors."""

    units: int
    factors: int

    def __str__(self) -> str:
        return f"d = {self.units} units, G = {self.factors}"


_FEWER_FACTORS = [Shape(d, g) for d in range(2, 7) for g in range(1, d)]
_AS_MANY_FACTORS = [Shape(d, d) for d in range(1, 7)]
_SIZES = (
    "the shape of a product follows from the shapes of its factors alone, d and G in the same way whatever they are: "
    "sizes up to 6 stand for all"
)


def _product(a: np.ndarray) -> np.ndarray:
    """Multiply the matrix as printed, A', with its transpose."""
    return a.T @ a


def _fits(form: Callable[[np.ndarray], np.ndarray], of: Iterable[Shape]) -> Evidence:
    """Compare the shape of what is formed from the leading eigenpairs (units x factors) with the shape of R.

    The product of a d x G matrix with its transpose is d x d and that of a G x d matrix G x G, whatever d and G are.
    """

    def sides(case: Shape) -> Sides:
        product = form(principal_components_loadings(np.eye(case.units), case.factors))
        return Sides(str(case), len(product), case.units, ("rows and columns of the product", "of R"))

    return compared(map(sides, of), of="numbers of units and factors, up to 6 units", relation="==", every=True)


def _complete(form: Callable[[np.ndarray], np.ndarray]) -> Evidence:
    """Compare the product formed from all eigenpairs with R.

    With R = sum_m gamma_m u_m u_m' the columns sqrt(gamma_m) u_m give A A' = R. The transpose of that matrix has
    rows sqrt(gamma_m) u_m', and its product with its transpose is the diagonal matrix of the eigenvalues.
    """

    def sides(columns: list[list[int]]) -> tuple[float, float]:
        r = correlations(columns)
        return farthest(form(principal_components_loadings(r, len(r))).ravel(), r.ravel())

    def show(columns: list[list[int]]) -> str:
        values = np.linalg.eigvalsh(correlations(columns))[::-1]
        return f"columns {rows(columns)}, R with eigenvalues {row(number(abs(round(v, 6))) for v in values)}"

    names = ("entry of the product", "entry of R")
    return search(TABLES, sides, relation="==", tolerance=1e-10, examples=80, names=names, show=show)


FS23 = Claim(
    id="FS-23",
    place="section 4.1, equation (7)",
    said_by="paper",
    words="The printed estimate of the loadings has the shape that R = AA′ + Σ needs.",
    statement="hat(A) = (sqrt(gamma^*_1) u^*_1, dots, sqrt(gamma^*_G) u^*_G)^top => "
    "hat(A) hat(A)^top + Sigma in RR^(d times d)",
    severity="misprint",
    assumptions=_SIZES,
    sensitivity="any difference of shapes",
    flaw="The transposition in (7) puts factors in the rows, so that the product has one row for each factor "
    "instead of each unit. Even where their numbers agree it is the diagonal matrix of the eigenvalues, not R.",
    corrected="FS-23c",
)


@FS23.reading("fewer factors than units, as the model says")
def fewer_factors() -> Evidence:
    return _fits(_product, _FEWER_FACTORS)


@FS23.reading("as many factors as units, and the value of R asked for", natural=False)
def as_many_factors() -> Evidence:
    return _complete(_product)


@FS23.reading("the transposition a slip, as A has a row for each unit in section 4.1")
def untransposed() -> Evidence:
    return _fits(lambda a: a @ a.T, _FEWER_FACTORS)


@FS23.control("as many factors as units: the matrix is square, and its transpose has the same shape")
def square() -> Evidence:
    return _fits(_product, _AS_MANY_FACTORS)


FS23C = Claim(
    id="FS-23c",
    place="corrected statement of FS-23",
    said_by="fedstat",
    words="Without the transposition the estimate has one row for each unit, and AA′ the shape of R (with all "
    "eigenpairs of R also its value).",
    statement="hat(A) = (sqrt(gamma^*_1) u^*_1, dots, sqrt(gamma^*_G) u^*_G) => "
    "hat(A) hat(A)^top + Sigma in RR^(d times d)",
    severity="false",
    assumptions=_SIZES,
    sensitivity="any difference of shapes; values off by 1e-10",
)


@FS23C.reading("the shape for fewer factors than units, the value for as many")
def corrected() -> Evidence:
    return both(_fits(lambda a: a @ a.T, _FEWER_FACTORS), _complete(lambda a: a @ a.T))


@FS23C.mutant("the transposition put back")
def transposed() -> Evidence:
    return _fits(_product, _FEWER_FACTORS)
