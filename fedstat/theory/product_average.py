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
from numpy.typing import ArrayLike

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
    return _result(
        "values",
        exact=x.dtype == object,
        plain_mean=a0 * d0 + mu(1, 1),
        plain_variance=s2 * (linear + 2 * cubic + mu(2, 2) - mu(1, 1) ** 2),
        decomposed_mean=a0 * d0 + s2 * mu(1, 1),
        decomposed_variance=variance,
        bias=(s2 - 1) * mu(1, 1),
    )


@np.errstate(over="ignore", invalid="ignore")
def sampled_product_average(a: Any, d: Any, m: int) -> ProductAverage:
    """Return the moments of both aggregates of m clients drawn from M without replacement, with equal weights.

    The plain aggregate is the drawn clients' mean of ``a d``, the decomposed one their mean of `a` times their
    mean of `d`; the mean squared error of the latter is taken about the plain average over all M clients. With
    deviations u, v from the means over all clients, ``T_ij = sum_k u_k^i v_k^j`` and the probability ``pi_r`` that r
    given clients are drawn, the means x, y of u, v over the drawn clients have::

        E x y     = T_11 (pi_1 - pi_2) / m^2                    (likewise x^2, y^2)
        E x y^2   = T_12 (pi_1 - 3 pi_2 + 2 pi_3) / m^3         (likewise x^2 y)
        E x^2 y^2 = (T_22 (pi_1 - 7 pi_2 + 12 pi_3 - 6 pi_4) + (T_20 T_02 + 2 T_11^2)(pi_2 - 2 pi_3 + pi_4)) / m^4

    since sums over distinct clients reduce to the T_ij, those with a lone deviation vanishing.

    Parameters
    ----------
    a, d : array_like, shape (M,)
        Coefficient and atom of each client.
    m : int
        Number of clients drawn, in 1..M.

    Returns
    -------
    ProductAverage
        Fractions if all inputs are integers and fractions, else floats.

    Raises
    ------
    ValueError
        If lengths differ, values are not finite numbers, m is out of range, or a moment exceeds double precision.

    References
    ----------
    Filter decomposition, appendix A.5, equations (31) and (33); the latter is replaced.

    Examples
    --------
    >>> from fedstat.theory import sampled_product_average
    >>> all_five = sampled_product_average([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], 5)
    >>> print(all_five.plain_mean, all_five.decomposed_mean, all_five.decomposed_variance)
    7 9 0
    >>> two = sampled_product_average([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], 2)
    >>> print(two.plain_mean, two.decomposed_mean, two.decomposed_variance)
    7 33/4 27/40

    The mean of products is 7. The product of means is 9, and less for fewer clients.
    """
    a, d = _numbers(a=a, d=d)
    if a.ndim != 1 or a.shape != d.shape or len(a) == 0:
        raise ValueError(f"a and d must be vectors with one entry per client, got shapes {a.shape} and {d.shape}.")
    size = len(a)
    if not isinstance(m, int | np.integer) or isinstance(m, bool) or not 1 <= m <= size:
        raise ValueError(f"m must be a whole number in 1..{size}, the number of clients, got {m!r}.")
    exact = a.dtype == object
    m = int(m)
    a0, d0 = a.sum() / size, d.sum() / size
    u, v = a - a0, d - d0

    def t(i: int, j: int) -> Any:
        return (u**i * v**j).sum()

    def drawn(*coefficients: int) -> Any:
        """Sum of coefficients times the probabilities that 1, 2, ... given clients are drawn."""
        total, pi = Fraction(0), Fraction(1)
        for r, coefficient in enumerate(coefficients):
            pi *= Fraction(m - r, size - r) if m > r else 0
            total += coefficient * pi
        return total if exact else float(total)

    two, three = drawn(1, -1) / m**2, drawn(1, -3, 2) / m**3
    squared = drawn(1, -7, 12, -6) * t(2, 2) + drawn(0, 1, -2, 1) * (t(2, 0) * t(0, 2) + 2 * t(1, 1) ** 2)
    linear = a0**2 * t(0, 2) + d0**2 * t(2, 0) + 2 * a0 * d0 * t(1, 1)
    cubic = a0 * t(1, 2) + d0 * t(2, 1)
    return _result(
        "a and d",
        exact=exact,
        plain_mean=a0 * d0 + t(1, 1) / size,
        plain_variance=two * (linear + 2 * cubic + t(2, 2) - t(1, 1) ** 2 / size),
        decomposed_mean=a0 * d0 + two * t(1, 1),
        decomposed_variance=two * linear + 2 * three * cubic + squared / m**4 - (two * t(1, 1)) ** 2,
        bias=two * t(1, 1) - t(1, 1) / size,
    )


@dataclass(frozen=True, eq=False)
class ProductAverageReport:
    """What averaging one layer's coefficients and atoms separately does to its filter.

    Attributes
    ----------
    bias : ndarray, shape (o, i, a, b)
        Weighted covariance of coefficients and atoms over clients: the plain average less the decomposed one.
    relative_bias : float
        Norm of the bias over the norm of the plain average. If the latter is zero, it is infinite, or NaN if the bias
        is zero too.
    plain_variance, decomposed_variance : float
        Variance of the aggregated filter, summed over its entries, for as many iid draws from these clients as there
        are weights.
    ratio : float
        Decomposed over plain variance; infinite if only the plain one is zero, NaN if both are.
    interval : tuple of float
        Jackknife limits for the ratio over clients. NaN if a variance is zero, with all clients or with one left out,
        since the logarithm of the ratio is not finite then.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.theory import product_average_report
    >>> rng = np.random.default_rng(0)
    >>> same_atoms = np.repeat(rng.normal(size=(1, 3, 3, 2)), 5, axis=0)
    >>> found = product_average_report(rng.normal(size=(5, 2, 4, 4)), same_atoms, np.full(5, 0.2))
    >>> round(found.relative_bias, 12), round(found.ratio, 12)  # nothing is lost where all clients have the same atoms
    (0.0, 1.0)
    """

    bias: np.ndarray
    relative_bias: float
    plain_variance: float
    decomposed_variance: float
    ratio: float
    interval: tuple[float, float]


def product_average_report(
    coefficients: ArrayLike, atoms: ArrayLike, weights: ArrayLike, *, level: float = 0.95
) -> ProductAverageReport:
    """Return bias and variances of one layer's aggregated filter.

    The filter is ``W[o, i, a, b] = sum_r alpha[r, o, i] D[a, b, r]``.

    The variances are exact for clients drawn independently from the given ones, by the formula of
    `product_average_moments` for sums over atoms: the aggregate is ``Q = Q0 + sum_k p_k L_k + sum_kl p_k p_l W_kl``
    with ``L_k = u_k x D0 + a0 x v_k`` and ``W_kl = u_k x v_l``, and for independent clients k and l::

        tr Var Q = S2 E|L_k|^2 + 2 S3 E<L_k, W_kk> + S4 E|W_kk|^2
                   + (S2^2 - S4)(E|W_kl|^2 + |E W_kk|^2 + E<W_kl, W_lk>) - S2^2 |E W_kk|^2

    All inner products come from those of coefficients and of atoms, so that no single client's filter is formed. The
    interval is a jackknife on the logarithm of the ratio, with t quantiles: each client in turn is left out of the law
    that clients are drawn from, while the weights stay.

    Parameters
    ----------
    coefficients : array_like, shape (K, r, o, i)
        The clients' coefficients of one layer; K at least 3.
    atoms : array_like, shape (K, a, b, r)
        Their atoms.
    weights : array_like, shape (K,)
        Aggregation weights.
    level : float
        Confidence level of the interval, in (0, 1).

    Raises
    ------
    ValueError
        If shapes do not fit, there are fewer than 3 clients, values are not finite numbers, weights are negative or
        do not sum to one, or a variance or the bias exceeds double precision.

    Notes
    -----
    Time grows like ``K^2 r^2`` times the size of coefficients and atoms, plus ``K^3 r^2`` for the jackknife.

    References
    ----------
    Filter decomposition, section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from fedstat.theory import product_average_report
    >>> rng = np.random.default_rng(0)
    >>> coefficients, atoms = rng.normal(size=(20, 3, 2, 2)), rng.normal(size=(20, 3, 3, 3))
    >>> found = product_average_report(coefficients, atoms, np.full(20, 1 / 20))
    >>> round(found.ratio, 2), tuple(round(limit, 2) for limit in found.interval)
    (0.16, (0.1, 0.26))

    Coefficients and atoms that have nothing in common average out apart: a sixth of the variance is left.
    """
    from scipy import stats

    named = (("coefficients", coefficients), ("atoms", atoms), ("weights", weights))
    alpha, d, p = (_floats(name, value) for name, value in named)
    if alpha.ndim != 4 or alpha.size == 0:
        raise ValueError(f"coefficients must have shape (K, r, o, i), got {alpha.shape}.")
    clients, rank, *outer = alpha.shape
    if d.ndim != 4 or d.size == 0 or d.shape[0] != clients or d.shape[3] != rank:
        raise ValueError(f"atoms must have shape ({clients}, a, b, {rank}) to fit coefficients, got {d.shape}.")
    if clients < 3:
        raise ValueError(f"coefficients must hold at least 3 clients for an interval over clients, got {clients}.")
    if p.shape != (clients,):
        raise ValueError(f"weights must have one entry per client, got shape {p.shape} for {clients} clients.")
    for name, array in (("coefficients", alpha), ("atoms", d), ("weights", p)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite; entry {np.argwhere(~np.isfinite(array))[0].tolist()} is not.")
    _check_simplex("weights", p)
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level}.")

    # matrices with one row per atom, so that a filter is the product of the transposed coefficients and the atoms
    alpha = alpha.reshape(clients, rank, -1)
    d, inner = np.moveaxis(d, 3, 1).reshape(clients, rank, -1), list(d.shape[1:3])
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that overflow are refused below
        plain = np.einsum("k,krx,kry->xy", p, alpha, d, optimize=True)
        bias = plain - np.tensordot(p, alpha, 1).T @ np.tensordot(p, d, 1)
        gram_u, gram_v = _gram(alpha), _gram(d)
        powers = tuple(float((p**r).sum()) for r in (2, 3, 4))
        plain_variance, variance = _variances(gram_u, gram_v, powers)
        left_out = [_variances(_without(gram_u, k), _without(gram_v, k), powers) for k in range(clients)]
        _check_size("coefficients and atoms", plain_variance, variance, np.linalg.norm(bias), *np.ravel(left_out))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.divide(variance, plain_variance))
        logs = np.log(np.divide(*np.transpose(left_out)[::-1]))
        error = np.sqrt((clients - 1) * np.mean((logs - logs.mean()) ** 2))
        half = stats.t.ppf((1 + level) / 2, clients - 1) * error
        interval = float(ratio * np.exp(-half)), float(ratio * np.exp(half))
        relative = float(np.divide(np.linalg.norm(bias), np.linalg.norm(plain)))
    return ProductAverageReport(bias.reshape(*outer, *inner), relative, plain_variance, variance, ratio, interval)


def _gram(x: np.ndarray) -> np.ndarray:
    """Return inner products of the clients' deviations and, in the last place, of their mean, (K + 1, K + 1, r, r)."""
    mean = x.mean(axis=0)
    rows = np.concatenate([x - mean, mean[None]])
    size, rank = rows.shape[:2]
    flat = rows.reshape(size * rank, -1)
    return (flat @ flat.T).reshape(size, rank, size, rank).transpose(0, 2, 1, 3)


def _without(gram: np.ndarray, client: int) -> np.ndarray:
    """Return `_gram` without one client: the mean moves by ``-u_client / (K - 1)``, the deviations by the opposite."""
    rest = np.delete(np.arange(len(gram)), client)
    share = np.full((len(rest), 1, 1), 1 / (len(rest) - 1))
    share[-1] *= -1
    kept = gram[np.ix_(rest, rest)]
    across = share[:, None] * gram[client, rest][None] + share[None] * gram[rest, client][:, None]
    return kept + across + share[:, None] * share[None] * gram[client, client]


def _variances(u: np.ndarray, v: np.ndarray, powers: tuple[float, ...]) -> tuple[float, float]:
    """Return the traces of plain and decomposed variance, from inner products of coefficients and of atoms."""
    s2, s3, s4 = powers
    clients = np.arange(len(u) - 1)
    uu, vv = u[clients, clients], v[clients, clients]
    ua, vd = u[:-1, -1], v[:-1, -1]
    ua_, vd_ = ua.swapaxes(1, 2), vd.swapaxes(1, 2)

    def mean(x: np.ndarray) -> float:
        return float(x.sum(axis=(1, 2)).mean())

    linear = mean(uu * v[-1, -1]) + mean(u[-1, -1] * vv) + 2 * mean(ua * vd_)
    cubic = mean(uu * vd_) + mean(ua_ * vv)
    quartic = mean(uu * vv)
    apart = float((uu.mean(axis=0) * vv.mean(axis=0)).sum())
    u, v = u[:-1, :-1], v[:-1, :-1]
    covariance = float((u * v).sum()) / len(u) ** 2
    crossed = float((u * v.swapaxes(0, 1)).sum()) / len(u) ** 2
    plain = s2 * (linear + 2 * cubic + quartic - covariance)
    decomposed = s2 * linear + 2 * s3 * cubic + s4 * quartic
    return plain, decomposed + (s2**2 - s4) * (apart + covariance + crossed) - s2**2 * covariance


def _numbers(**named: Any) -> list[np.ndarray]:
    """Return arrays of fractions if every entry of all inputs is an integer or a fraction, else of finite floats."""
    arrays = {name: np.array(value, dtype=object) for name, value in named.items()}
    if all(isinstance(x, Rational) for array in arrays.values() for x in array.flat):
        fraction = np.frompyfunc(lambda x: Fraction(int(x.numerator), int(x.denominator)), 1, 1)
        return [fraction(array) if array.size else array for array in arrays.values()]
    floats = []
    for name, value in named.items():
        floats.append(_floats(name, value))
        if not np.isfinite(floats[-1]).all():
            raise ValueError(f"{name} must be finite, got {value!r}.")
    return floats


def _floats(name: str, value: Any) -> np.ndarray:
    """Return an array in double precision; refuse strings, from which NumPy would read numbers."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "USc" or (array.dtype == object and any(isinstance(x, str | bytes) for x in array.flat)):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name} must be a rectangular array of numbers within double precision, got {value!r}."
        ) from None


def _check_size(names: str, *moments: Any) -> None:
    if not np.isfinite(moments).all():
        raise ValueError(
            f"{names} must be small enough for products of four of them to stay within double precision, which these "
            "exceed."
        )


def _check_simplex(name: str, p: np.ndarray) -> None:
    total = p.sum()
    if p.ndim != 1 or (p < 0).any() or abs(total - 1) > (0 if p.dtype == object else _ROUNDING):
        raise ValueError(f"{name} must be non-negative and sum to one, got {p.tolist()!r} with sum {total}.")


def _result(
    names: str,
    *,
    exact: bool,
    plain_mean: Any,
    plain_variance: Any,
    decomposed_mean: Any,
    decomposed_variance: Any,
    bias: Any,
) -> ProductAverage:
    kind = Fraction if exact else float
    if not exact:
        _check_size(names, plain_mean, plain_variance, decomposed_mean, decomposed_variance, bias**2)
    return ProductAverage(
        plain_mean=kind(plain_mean),
        plain_variance=kind(plain_variance),
        decomposed_mean=kind(decomposed_mean),
        decomposed_variance=kind(decomposed_variance),
        decomposed_mse=kind(decomposed_variance + bias**2),
    )
