"""Compare averages of products and products of averages, the two ways to aggregate filters ``alpha x D``.

FedAvg averages the clients' products (plain); filter decomposition multiplies their averages (decomposed). Bias,
variance and sampling error of both have closed forms in the clients' joint moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np

Number = Fraction | float

#: How far weights and probabilities in floating point may sum from one: what single precision leaves.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class ProductAverage:
    """Moments of the two aggregates.

    Attributes
    ----------
    plain_mean, plain_variance : Fraction or float
        Moments of the average of products, ``sum_k p_k a_k D_k``.
    decomposed_mean, decomposed_variance : Fraction or float
        Moments of the product of averages, ``(sum_k p_k a_k)(sum_k p_k D_k)``.
    decomposed_mse : Fraction or float
        Mean squared distance of the product of averages from what the plain aggregate estimates without bias.

    Examples
    --------
    Two clients whose coefficient and atom are both 1 or both -1 with equal probability:

    >>> from fractions import Fraction
    >>> from fedstat.theory import product_average_moments
    >>> half = Fraction(1, 2)
    >>> found = product_average_moments([(1, 1), (-1, -1)], [half, half], [half, half])
    >>> print(found.plain_mean, found.decomposed_mean, found.decomposed_mse)
    1 1/2 1/2

    Every client's product is 1, yet the product of averages is 0 as often as 1.
    """

    plain_mean: Number
    plain_variance: Number
    decomposed_mean: Number
    decomposed_variance: Number
    decomposed_mse: Number


@np.errstate(over="ignore", invalid="ignore")  # numbers that overflow are refused at the end
def product_average_moments(values: Any, probabilities: Any, weights: Any) -> ProductAverage:
    """Return the moments of both aggregates of iid clients, for scalar coefficient and atom.

    With ``S_r = sum_k p_k^r``, means ``a0, d0``, deviations ``u, v`` and ``mu_ij = E u^i v^j``::

        E Q   = a0 d0 + S2 mu_11
        Var Q = S2 (a0^2 mu_02 + d0^2 mu_20 + 2 a0 d0 mu_11) + 2 S3 (a0 mu_12 + d0 mu_21) + S4 mu_22
                + (S2^2 - S4)(mu_20 mu_02 + 2 mu_11^2) - S2^2 mu_11^2

    while the plain aggregate P has ``E P = E a D`` and ``Var P = S2 Var(a D)``. The mean squared error of Q is
    taken about ``E P``.

    Parameters
    ----------
    values : array_like, shape (k, 2)
        The pairs (coefficient, atom) that a client can have.
    probabilities : array_like, shape (k,)
        Their probabilities.
    weights : array_like, shape (m,)
        Aggregation weights p of the m clients.

    Returns
    -------
    ProductAverage
        Fractions if all inputs are integers and fractions, else floats.

    Raises
    ------
    ValueError
        If shapes do not fit, values are not finite numbers, probabilities or weights are negative or do not sum to
        one, or a moment exceeds double precision.

    References
    ----------
    Filter decomposition, Proposition 4.1 and appendix A.3, whose variance this replaces.

    Examples
    --------
    Coefficient and atom are 0 or 1, independently. The mean stays 1/4, and the variance falls:

    >>> from fractions import Fraction
    >>> from fedstat.theory import product_average_moments
    >>> pairs, quarter, half = [(0, 0), (0, 1), (1, 0), (1, 1)], Fraction(1, 4), Fraction(1, 2)
    >>> found = product_average_moments(pairs, [quarter] * 4, [half, half])
    >>> print(found.plain_mean, found.decomposed_mean, found.plain_variance, found.decomposed_variance)
    1/4 1/4 3/32 5/64
    """
    x, q, p = _numbers(values=values, probabilities=probabilities, weights=weights)
    if x.ndim != 2 or x.shape[1] != 2 or len(x) == 0:
        raise ValueError(f"values must have shape (k, 2) with k >= 1, got {x.shape}.")
    if q.shape != (len(x),):
        raise ValueError(f"probabilities must have one entry per row of values, got shape {q.shape} for {len(x)} rows.")
    _check_simplex("probabilities", q)
    _check_simplex("weights", p)
    a0, d0 = q @ x
    u, v = x[:, 0] - a0, x[:, 1] - d0

    def mu(i: int, j: int) -> Any:
        return (q * u**i * v**j).sum()

    s2, s3, s4 = ((p**r).sum() for r in (2, 3, 4))
    linear = a0**2 * mu(0, 2) + d0**2 * mu(2, 0) + 2 * a0 * d0 * mu(1, 1)
    cubic = a0 * mu(1, 2) + d0 * mu(2, 1)
    variance = s2 * linear + 2 * s3 * cubic + s4 * mu(2, 2)
    variance += (s2**2 - s4) * (mu(2, 0) * mu(0, 2) + 2 * mu(1, 1) ** 2) - s2**2 * mu(1, 1) ** 2
    moments = ProductAverage(
        plain_mean=a0 * d0 + mu(1, 1),
        plain_variance=s2 * (linear + 2 * cubic + mu(2, 2) - mu(1, 1) ** 2),
        decomposed_mean=a0 * d0 + s2 * mu(1, 1),
        decomposed_variance=variance,
        decomposed_mse=variance + ((s2 - 1) * mu(1, 1)) ** 2,
    )
    if isinstance(variance, Fraction):
        return moments
    floats = [float(value) for value in vars(moments).values()]
    if not np.isfinite(floats).all():
        raise ValueError(
            "values must be small enough for products of four of them to stay within double precision, which these "
            "exceed."
        )
    return ProductAverage(*floats)


def _numbers(**named: Any) -> list[np.ndarray]:
    """Return arrays of fractions if every entry of all inputs is an integer or a fraction, else of finite floats."""
    arrays = {name: np.array(value, dtype=object) for name, value in named.items()}
    if all(isinstance(x, Rational) for array in arrays.values() for x in array.flat):
        fraction = np.frompyfunc(lambda x: Fraction(int(x.numerator), int(x.denominator)), 1, 1)
        return [fraction(array) if array.size else array for array in arrays.values()]
    return [_floats(name, value) for name, value in named.items()]


def _floats(name: str, value: Any) -> np.ndarray:
    """Return a finite array in double precision; refuse strings, from which NumPy would read numbers."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "USc" or (array.dtype == object and any(isinstance(x, str | bytes) for x in array.flat)):
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name} must be a rectangular array of numbers within double precision, got {value!r}."
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {value!r}.")
    return array


def _check_simplex(name: str, p: np.ndarray) -> None:
    total = p.sum()
    if p.ndim != 1 or (p < 0).any() or abs(total - 1) > (0 if p.dtype == object else _ROUNDING):
        raise ValueError(f"{name} must be non-negative and sum to one, got {p.tolist()!r} with sum {total}.")
