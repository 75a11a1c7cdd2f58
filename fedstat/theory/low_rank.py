"""Count what a personal low-rank part costs beside the full-rank part that it is added to (FedDecomp)."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Rational
from typing import NamedTuple

from fedstat._checks import number, whole

#: A float is read as the nearest fraction with a denominator up to this, so that 0.6 is six tenths.
_DENOMINATOR = 10**6


class LowRankOverhead(NamedTuple):
    """Cost of ``tau = B A`` in one layer.

    Attributes
    ----------
    rank : int
        Columns of B and rows of A.
    parameters : float or Fraction
        Parameters of A and B over those of sigma; exact if the ratio was given as a fraction.
    forming_flops : int
        Floating-point operations of the product ``B A``, a multiplication and an addition counted as two.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from fedstat.theory import low_rank_overhead
    >>> found = low_rank_overhead(100, 100, None, Fraction(1, 4))
    >>> print(found.rank, found.parameters, found.forming_flops)  # a square layer: twice the ratio of 1/4 in parameters
    25 1/2 500000
    """

    rank: int
    parameters: float | Fraction
    forming_flops: int


def low_rank_overhead(
    in_features: int, out_features: int, kernel: int | None, ratio: float | Fraction
) -> LowRankOverhead:
    """Return the rank, the relative parameter count and the forming cost of FedDecomp's low-rank part of one layer.

    A dense layer has ``tau = B A`` with B of shape (I, r) and A of shape (r, O), a convolution ``tau* = B A`` with B
    of shape (I K, r) and A of shape (r, O K). The rank is ``ratio * min(I, O)`` or ``ratio * min(I, O) * K``,
    rounded down, and one at least.

    Parameters
    ----------
    in_features, out_features : int
        I and O: features of a dense layer, channels of a convolution.
    kernel : int or None
        Width K of a square filter; None for a dense layer.
    ratio : float or Fraction
        R_l or R_c, in (0, 1]. A float is read as the nearest fraction with a denominator up to a million, so that
        rounding takes no unit off the rank; a fraction is taken as it is.

    Returns
    -------
    LowRankOverhead
        If ``ratio * min(I, O)`` (times K) is whole, `parameters` is ``ratio * (1 + min(I, O) / max(I, O))``.

    Raises
    ------
    ValueError
        If a size is not a whole number of at least one, or the ratio lies outside (0, 1].

    References
    ----------
    FedDecomp, equations (3) and (4).

    Examples
    --------
    >>> from fedstat.theory import low_rank_overhead
    >>> found = low_rank_overhead(64, 128, 3, 0.25)  # a convolution of 64 to 128 channels, 3 x 3
    >>> found.rank, float(found.parameters)
    (48, 0.375)

    The low-rank part adds 37.5% to the parameters: a quarter of ``1 + 64 / 128``.
    """
    number("ratio", ratio, "(0, 1]")
    width = 1 if kernel is None else whole("kernel", kernel, 1)
    rows, columns = whole("in_features", in_features, 1) * width, whole("out_features", out_features, 1) * width
    exact = Fraction(ratio) if isinstance(ratio, Rational) else Fraction(float(ratio)).limit_denominator(_DENOMINATOR)
    rank = max(1, math.floor(exact * min(rows, columns)))
    share = Fraction(rank * (rows + columns), rows * columns)
    return LowRankOverhead(rank, share if isinstance(ratio, Fraction) else float(share), 2 * rows * rank * columns)
