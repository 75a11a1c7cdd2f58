"""DC-02: the limited rank is not the rank of the convolution itself.

DC-02c: what rank the convolution itself can have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

from fedstat.claims import Claim, Evidence, Sides, all_of, both, compared
from theory_checks.feddecomp.matrices import Matrix, binary_matrices, matrix_product, matrix_rank


def _rows(matrix: Matrix) -> str:
    return "[" + "; ".join(" ".join(map(str, row)) for row in matrix) + "]"


_Unfold = Callable[[Matrix, int, int, int], Matrix]


def _unfolding(product_: Matrix, inputs: int, outputs: int, kernel: int) -> Matrix:
    """Return the O x (I K^2) matrix that the convolution applies to patches, tau[o, i, a, b] = tau*[iK + a, oK + b]."""
    k = range(kernel)
    return [
        [product_[i * kernel + p][o * kernel + q] for i in range(inputs) for p in k for q in k] for o in range(outputs)
    ]


def _row_major(product_: Matrix, inputs: int, outputs: int, kernel: int) -> Matrix:
    """Return the same matrix if tau* is reshaped to (I, O, K, K) row by row, as array libraries do."""
    entries, size = [value for row in product_ for value in row], kernel**2
    return [[entries[(i * outputs + o) * size + t] for i in range(inputs) for t in range(size)] for o in range(outputs)]


def _itself(product_: Matrix, inputs: int, outputs: int, kernel: int) -> Matrix:
    """Return equation (4)'s own matrix, tau*."""
    return product_


#: (I, O, K, rank of tau*), small enough that all factors of zeros and ones can be tried.
_CONVOLUTIONS = ((1, 2, 2, 1), (2, 1, 2, 1), (1, 2, 3, 1), (2, 2, 2, 1), (1, 2, 2, 2), (1, 3, 2, 1), (3, 2, 1, 1))


def _convolution_rank(unfold: _Unfold = _itself) -> Evidence:
    def cases() -> Iterator[Sides]:
        for i, o, k, r in _CONVOLUTIONS:
            ratio = Fraction(r, min(i, o) * k)
            full = min(i, o) * k if unfold is _itself else min(o, i * k * k)
            for b, a in product(binary_matrices(i * k, r), binary_matrices(r, o * k)):
                rank = matrix_rank(unfold(matrix_product(b, a), i, o, k))
                factors = f"I = {i}, O = {o}, K = {k}, B = {_rows(b)}, A = {_rows(a)}"
                yield Sides(factors, rank, ratio * full, names=("rank", "claimed"))

    return compared(cases(), of="pairs of factors of zeros and ones in small convolutions")


def _unfoldings(unfold: _Unfold) -> Iterator[tuple[Sides, bool]]:
    """Yield the rank of the unfolding beside ``min(O, K rank(tau*))``, and whether it must be attained."""

    def sides(i: int, o: int, k: int, b: Matrix, a: Matrix) -> Sides:
        tau = matrix_product(b, a)
        rank, unfolded = matrix_rank(tau), matrix_rank(unfold(tau, i, o, k))
        case = f"I = {i}, O = {o}, K = {k}, rank {rank} of (4)'s matrix"
        return Sides(case, unfolded, min(o, k * rank), names=("rank of the one that acts on patches", "claimed"))

    for i, o, k, r in _CONVOLUTIONS:
        for b, a in product(binary_matrices(i * k, r), binary_matrices(r, o * k)):
            yield sides(i, o, k, b, a), False
    for i, o, k in product((1, 2, 4), (1, 2, 3, 5), (1, 2, 3)):
        for r in range(1, min(i, o) * k + 1):
            b = [[int(row == s) for s in range(r)] for row in range(i * k)]
            a = [[int(channel == s * k + q) for channel in range(o) for q in range(k)] for s in range(r)]
            yield sides(i, o, k, b, a), True


def _unfolded_bound(unfold: _Unfold) -> Evidence:
    """Rank of the unfolding against ``min(O, K rank(tau*))``, with the block arrangement.

    Let ``tau* = B A`` with r = rank(tau*) columns in B. Then ``tau[o, i, a, b] = sum_s A[s, o K + b] B[i K + a, s]``.
    Arrange A as the O x (r K) matrix ``C[o, (s, b)] = A[s, o K + b]``. The unfolding is ``C (B' (x) I_K)``, columns
    in the order (i, a, b) and (x) the Kronecker product; the second factor has r K independent rows, so the
    unfolding has exactly the rank of C, at most min(O, r K). The bound is attained where C has ones on its
    diagonal and zeros elsewhere.
    """
    cases = list(_unfoldings(unfold))
    bounded = compared((s for s, _ in cases), of="low-rank parts of small convolutions")
    attained = compared((s for s, must in cases if must), of="parts that must attain the bound", relation="==")
    return all_of([bounded, attained])


def _full_rank_from(unfold: _Unfold, power: int) -> Evidence:
    """Factors whose unfolding has full rank O at ``R_c = 1 / K^power``, that is with ``r = O K / K^power``; I = O.

    Block arrangement: ones on the diagonal of C (`_unfolded_bound`) with r K = O. Row by row, for O = K^3 and r = 1:
    output o sees K^2 entries of the row vector A, from the (o mod K^2) K^2-th on, and B decides which of the K groups
    of K^2 outputs an input channel reaches; with ones on the diagonals of both every output has an entry of its own.
    """

    def cases() -> Iterator[Sides]:
        for k in (2, 3):
            i = o = k**3
            r = o * k // k**power
            if power == 2:
                b = [[int(row == s) for s in range(r)] for row in range(i * k)]
                a = [[int(channel == s * k + q) for channel in range(o) for q in range(k)] for s in range(r)]
            else:
                b = [[int(channel == p)] for channel in range(i) for p in range(k)]
                a = [[int(t == o_ % k**2) for o_ in range(k**2) for t in range(k**2)]]
            case = f"K = {k}, R_c = {Fraction(r, o * k)}"
            yield Sides(case, matrix_rank(unfold(matrix_product(b, a), i, o, k)), o, names=("rank", "full rank"))

    return compared(cases(), of="convolutions of K³ channels, 2 by 2 and 3 by 3", relation="==")


DC02 = Claim(
    id="DC-02",
    place="section 3.3, equation (4) and the sentence after it",
    said_by="paper",
    words="The personal part of a convolution has at most the share R_c of the full rank.",
    statement='op("rank")(tau) <= R_c dot "full rank of the unfolding"',
    severity="unstated condition",
    assumptions="R_c min(I, O) K is whole; the text leaves the reshaping open: the block arrangement is "
    "τ[o, i, a, b] = τ*[i K + a, o K + b], array libraries reshape row by row",
    sensitivity="one unit of rank, exact",
    flaw="The rank that is limited belongs to a matrix that mixes channels with filter positions, not to the matrix by "
    "which the convolution acts on a patch. With 3 by 3 filters and I = O the latter may have full rank from R_c = 1/9 "
    "on with the block arrangement, and from R_c = 1/81 on if reshaped row by row.",
    corrected="DC-02c",
)


@DC02.reading("the (I K) by (O K) matrix of equation (4)")
def own_matrix() -> Evidence:
    return _convolution_rank()


@DC02.reading("the O by (I K²) matrix by which a convolution acts, with the block arrangement")
def on_patches_in_blocks() -> Evidence:
    return _convolution_rank(_unfolding)


@DC02.reading("the O by (I K²) matrix by which a convolution acts, reshaped row by row to (I, O, K, K)")
def on_patches_row_by_row() -> Evidence:
    return _convolution_rank(_row_major)


DC02C = Claim(
    id="DC-02c",
    place="corrected statement of DC-02",
    said_by="fedstat",
    words="With the block arrangement the matrix by which the personal part acts on patches has at most K times the "
    "rank of (4)'s matrix, and attains it; with I = O it may have full rank from R_c = 1/K² on, reshaped row by row "
    "from 1/K⁴ on.",
    statement='op("rank")(tau_(O times I K^2)) <= min(O, K op("rank")(tau^*))',
    severity="unstated condition",
    assumptions="the arrangements of DC-02; row by row the rank may exceed K times that of (4)'s matrix",
    sensitivity="one unit of rank, exact; attainment is checked too",
)


@DC02C.reading("exact ranks, with the block arrangement, and full rank in either")
def exact_ranks() -> Evidence:
    return both(_unfolded_bound(_unfolding), _full_rank_from(_unfolding, 2), _full_rank_from(_row_major, 4))


@DC02C.reading("the same bound if reshaped row by row", natural=False)
def row_by_row() -> Evidence:
    return _unfolded_bound(_row_major)
