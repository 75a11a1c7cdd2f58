"""FD-01: the product of averages sums real and virtual clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedstat.claims import Claim, Evidence, enumeration


def _vanishes(difference: Callable[[Any, Any, Any], Any]) -> Evidence:
    """Expand a difference for 1 to 6 clients.

    Both sides are sums over tuples of at most three clients, the same for every tuple, so that three clients stand for
    any number. A filter's entry is a sum over atoms of a coefficient times the atom's entry, and both sides are
    bilinear in them, so that scalars stand for filters.
    """
    import sympy

    def holds(m: int) -> bool:
        p, a, d = (sympy.symbols(f"{letter}1:{m + 1}") for letter in "pad")
        return bool(sympy.expand(difference(p, a, d)) == 0)

    of = "numbers of clients from 1 to 6 (no term involves more than three), as identities between polynomials"
    return enumeration(range(1, 7), holds, of=of, show=lambda m: f"m = {m}")


def _average(p: Any, values: Any) -> Any:
    return sum(pk * x for pk, x in zip(p, values, strict=True))


def _product_of_averages(p: Any, a: Any, d: Any) -> Any:
    return _average(p, a) * _average(p, d)


def _fedavg(p: Any, a: Any, d: Any) -> Any:
    return _average(p, [x * y for x, y in zip(a, d, strict=True)])


FD01 = Claim(
    id="FD-01",
    place="section 4.1, equation (10)",
    said_by="paper",
    words="The product of the averaged coefficients and the averaged atoms is a sum over real and virtual clients.",
    statement="(sum_k p_k alpha_k)(sum_k p_k D_k) = sum_k p_k^2 alpha_k D_k + sum_(k != l) p_k p_l alpha_k D_l",
    severity="false",
    sensitivity="any difference of the two polynomials",
)


@FD01.reading("the identity as printed")
def as_printed() -> Evidence:
    def difference(p: Any, a: Any, d: Any) -> Any:
        m = range(len(p))
        real = sum(p[k] ** 2 * a[k] * d[k] for k in m)
        virtual = sum(p[i] * p[j] * a[i] * d[j] for i in m for j in m if i != j)
        return _product_of_averages(p, a, d) - real - virtual

    return _vanishes(difference)


@FD01.reading(
    "its relation to FedAvg, for weights that sum to one: FedAvg's filter minus the weighted covariance of "
    "coefficients and atoms",
    natural=False,
)
def fedavg_minus_covariance() -> Evidence:
    def difference(p: Any, a: Any, d: Any) -> Any:
        one, mean_a, mean_d = sum(p), _average(p, a), _average(p, d)
        covariance = _fedavg(p, [x - mean_a for x in a], [y - mean_d for y in d])
        # for weights that sum to one the factor 2 − Σ p is one
        return _fedavg(p, a, d) - covariance - (2 - one) * _product_of_averages(p, a, d)

    return _vanishes(difference)


@FD01.mutant("the virtual clients left out")
def no_virtual_clients() -> Evidence:
    return _vanishes(lambda p, a, d: _product_of_averages(p, a, d) - _fedavg([x**2 for x in p], a, d))
