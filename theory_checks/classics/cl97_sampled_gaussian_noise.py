"""CL-97: sampling lowers the cost of privacy quadratically."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from math import comb
from typing import Any

import sympy
from hypothesis import strategies as st
from mpmath import exp, inf, log, mpf, npdf, nstr, quad, workdps

from fedstat.claims import Claim, Evidence, Sides, both, compared, identity, search

CL97 = Claim(
    id="CL-97",
    place="Mironov, Talwar and Zhang, Rényi differential privacy of the sampled Gaussian mechanism (2019), abstract, "
    "second sentence; arXiv:1908.10530",
    said_by="paper",
    words="The privacy cost of a single evaluation of the sampled Gaussian mechanism diminishes quadratically, rather "
    "than linearly, with the sampling rate.",
    statement="epsilon_alpha (q) = 1 / (alpha - 1) log EE_(z ~ cal(N)(0, sigma^2)) (1 - q + q e^((2 z - 1) / "
    "(2 sigma^2)))^alpha = O(q^2), quad q -> 0",
    severity="unstated condition",
    assumptions="the cost is Rényi's divergence, of a whole order α from 2 to 12, of the answers with a record from "
    "those without; a query of sensitivity one, records that are there independently with chance q; the sum over "
    "powers of q is compared with the integral that defines it",
    sensitivity="any power of q below the second, as expressions in q and σ",
)


def moment(order: int, present: Any, absent: Any, growth: Any) -> Any:
    """Return the mean of the order's power of the likelihood ratio, ``E (1 - q + q r)^alpha``, by the binomial theorem.

    The record is present with chance q and absent with 1 - q. The ratio r of the Gaussians with and without it has the
    moments ``E r^k = growth^(k (k - 1))``, where growth is ``exp(1 / (2 sigma^2))``.
    """
    return sum(comb(order, k) * absent ** (order - k) * present**k * growth ** (k * (k - 1)) for k in range(order + 1))


def cost(order: int, rate: Any, sigma: Any) -> mpf:
    """Return Rényi's divergence of so high an order, the cost of one evaluation."""
    return log(moment(order, mpf(rate), 1 - mpf(rate), exp(1 / (2 * mpf(sigma) ** 2)))) / (order - 1)


def _integral(order: int, rate: mpf, sigma: mpf) -> mpf:
    """Return the same moment by its definition, an integral over the mechanism's answers without the record."""

    def density(z: mpf) -> mpf:
        return npdf(z, 0, sigma) * (1 - rate + rate * exp((2 * z - 1) / (2 * sigma**2))) ** order

    return quad(density, [-inf, *range(-2, order + 3), inf])


def _second_order(*, ever_absent: bool = True) -> Evidence:
    """Expand the moment in the rate.

    As the ratio's mean is one, ``E (1 + q (r - 1))^alpha = 1 + alpha (alpha - 1) / 2 q^2 E (r - 1)^2 + ...`` has no
    term in q, whatever the order; nor has its logarithm.
    """
    q, growth = sympy.symbols("q growth", positive=True)

    def cases() -> Iterator[Sides]:
        for order in range(2, 13):
            found = sympy.Poly(moment(order, q, 1 - q if ever_absent else 1, growth), q)
            low = sum(found.coeff_monomial(q**k) * q**k for k in range(3))
            parts = {"constant": 1, "squared rate": comb(order, 2) * (growth**2 - 1) * q**2}
            yield Sides(f"α = {order}", low, parts, names=("terms up to q²", "claimed"))

    return identity(cases(), of="orders")


def _formula(case: tuple[int, float, float]) -> tuple[float, float]:
    order, rate, sigma = case
    with workdps(30):
        found = exp((order - 1) * cost(order, rate, sigma))
        return 1.0, float(_integral(order, mpf(rate), mpf(sigma)) / found)


@CL97.reading("at a fixed order, as the rate goes to zero")
def small_rates() -> Evidence:
    settings = st.tuples(st.integers(2, 12), st.floats(0.001, 1), st.floats(0.5, 8))
    names = ("the sum", "the integral divided by the sum")
    return both(_second_order(), search(settings, _formula, relation="==", tolerance=1e-12, examples=10, names=names))


@CL97.reading("half the rate for a quarter of the cost, at orders and rates of private training", natural=False)
def half_the_rate() -> Evidence:
    """Beyond a rate of about exp(-alpha / (2 sigma^2)) the sum's last term prevails, and the rate hardly matters."""

    def cases() -> Iterator[Sides]:
        with workdps(60):
            for order, sigma, rate in product((8, 32), (1, 2, 4), ("0.1", "0.01")):
                half, whole = (Decimal(nstr(cost(order, mpf(rate) / k, sigma), 30)) for k in (2, 1))
                case = f"α = {order}, σ = {sigma}, q = {rate} and half of it"
                yield Sides(case, half, whole / 4, names=("cost at half the rate", "a quarter of the cost"))

    return compared(cases(), of="settings")


@CL97.mutant("no chance of the record's absence")
def always_present() -> Evidence:
    return _second_order(ever_absent=False)
