"""DC-01: the rank of a dense layer's personal part is at most R_l min(I, O)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.feddecomp.matrices import matrix_product, matrix_rank
from theory_checks.feddecomp.networks import Layer

DC01 = Claim(
    id="DC-01",
    place="section 3.3, equation (3) and the sentence after it",
    said_by="paper",
    words="In a dense layer the personal part's rank is at most R_l min(I, O).",
    statement='op("rank")(B A) <= R_l min(I, O)',
    severity="misprint",
    assumptions="an inner dimension of R_l min(I, O) exists only where that number is whole; implementations round "
    "down and keep one column at least, which exceeds the bound where R_l min(I, O) < 1",
    sensitivity="one unit of rank, exact",
)


def _ranks(*, whole: bool) -> Evidence:
    """Compare the largest rank of B A, attained by factors whose rows and columns are powers of different numbers.

    With ``B_is = (i+1)^s`` and ``A_sj = (j+1)^s`` both factors have full rank (Vandermonde), and so has the product
    as far as its inner dimension allows. No other factors reach more, since rank(B A) is at most the inner
    dimension.
    """

    def cases() -> Iterator[Sides]:
        for i, o, tenths in product(range(1, 6), range(1, 6), range(1, 11)):
            ratio = Fraction(tenths, 10)
            if whole and (ratio * min(i, o)).denominator > 1:
                continue
            r = Layer(i, o, None).rank(ratio)
            b = [[(row + 1) ** s for s in range(r)] for row in range(i)]
            a = [[(column + 1) ** s for column in range(o)] for s in range(r)]
            rank = matrix_rank(matrix_product(b, a))
            yield Sides(f"I = {i}, O = {o}, R_l = {ratio}", rank, ratio * min(i, o), names=("rank", "claimed"))

    return compared(cases(), of="dense layers up to 5 by 5 with ratios in tenths")


@DC01.reading("R_l min(I, O) is whole")
def whole() -> Evidence:
    return _ranks(whole=True)


@DC01.reading("rounded down, and one at least", natural=False)
def rounded() -> Evidence:
    return _ranks(whole=False)
