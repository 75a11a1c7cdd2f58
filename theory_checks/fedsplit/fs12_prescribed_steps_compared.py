"""FS-12: the two prescribed steps part as clients' samples grow.

FS-12c: how far the two prescribed steps lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import extreme_eigenvalues
from fedstat.theory.convergence import prescribed_step
from theory_checks.fedsplit.designs import Design, designs, over_designs
from theory_checks.fedsplit.growth import Deal, Inputs, exponent, more_clients, more_samples, on_a_sphere, orthonormal
from theory_checks.fedsplit.symbols import SYMBOLS

#: Exponents by which a doubling of N changes the ratio by less than a fifth.
_LEVEL = -math.log2(1.2), math.log2(1.2)


def _ratio(inputs: Inputs, deal: Deal, power: int = 0) -> Evidence:
    """Growth of rho' / rho_1 = gp / (1 + lp / ls), times a power of N that is zero as printed.

    With eta_l = (ls + lp) / (gs gp G N^2) and eta_l' = ls / (gs G N^2) the powers of N, gs and G cancel.
    """

    def quantity(low: float, low_p: float, condition: float, clients: int, n: int) -> float:
        return condition / (1 + low_p / low) * n**power

    return exponent(quantity, inputs, deal, _LEVEL, "ρ′/ρ₁ (the step of FedAvg over FedSplit's) grows")


FS12 = Claim(
    id="FS-12",
    place="section 3.3, paragraph after Theorem 1, fourth sentence",
    said_by="paper",
    words="FedAvg's ρ′ = η_g η_l′ G / C and FedSplit's ρ₁ = η_g η_l G / C, each with its prescribed step, are close "
    "when the sample is large.",
    statement='rho\' approx rho_1 quad "for large" N',
    severity="unstated condition",
    assumptions=SYMBOLS
    + "; as the steps hide unknown constants, 'close when N is large' is read as a ratio that settles: it "
    "changes by less than a fifth when N doubles, an exponent of N within 0.26 of zero",
    sensitivity="an exponent outside −0.26 to 0.26",
    flaw="Both steps fall like 1/N², so N cancels from their ratio. What is left is the personal kernel's condition "
    "number γᵖ over 1 + λᵖ/λˢ, and γᵖ grows with the samples at a client. Only where the sample grows by more clients "
    "of one size does the ratio stay nearly level, at a height that the inputs and the hidden constants decide.",
    corrected="FS-12c",
)


@FS12.reading("the sample grows at four clients, inputs on the unit sphere in eight dimensions")
def larger_clients() -> Evidence:
    return _ratio(on_a_sphere, more_samples)


@FS12.condition("the sample grows by more clients of one size, eight samples each")
def further_clients() -> Evidence:
    return _ratio(on_a_sphere, more_clients)


@FS12.mutant("one power of N less in FedAvg's step, orthonormal inputs")
def one_power() -> Evidence:
    return _ratio(orthonormal, more_samples, power=1)


@FS12.control("orthonormal inputs at four clients, where the ratio is the same for every N")
def control() -> Evidence:
    return _ratio(orthonormal, more_samples)


FS12C = Claim(
    id="FS-12c",
    place="corrected statement of FS-12",
    said_by="fedstat",
    words="Up to the hidden constants ρ₁/ρ′ = (1 + λᵖ/λˢ)/γᵖ, and for unit inputs in d dimensions, n at each client, "
    "γᵖ is at least n/(2d); so the two part as the clients' samples grow, unless λᵖ/λˢ keeps pace.",
    statement="rho_1 / rho' prop (1 + lambda^p / lambda^s) / gamma^p, quad gamma^p >= n / (2 d)",
    severity="false",
    assumptions=SYMBOLS + "; the hidden constants do not depend on the data",
    sensitivity="a ratio off by 1e-6; a bound on γᵖ three times as large",
)


def _identity(ratio: Callable[[float, float, float], float]) -> Evidence:
    def sides(case: Design) -> tuple[float, float]:
        shared, personal = case.kernels()
        (low, high), (low_p, high_p) = extreme_eigenvalues(shared), extreme_eigenvalues(personal)
        fedavg = low * low / high / (2 * len(shared) ** 2)
        return prescribed_step(shared, personal, local_steps=2) / fedavg, ratio(low, low_p, high_p / low_p)

    names = ("ratio of the steps", "claimed")
    return search(designs(), sides, relation="==", tolerance=1e-6, examples=100, names=names)


def _condition_number() -> Evidence:
    """For unit inputs ``gp >= n / (2 d)``.

    An entry of the kernel is ``r (pi - theta) / (2 pi) = r / 4 + r arcsin(r) / (2 pi)`` with r the inner product, and
    the second term is a series of powers of r with coefficients that are not negative. So a client's block is at
    least ``X X' / 4`` as a quadratic form, whose trace n / 4 is spread over at most d eigenvalues: the largest of the
    block is at least ``n / (4 d)``. The smallest is at most the diagonal, 1/2.
    """

    def sides(shared: np.ndarray, personal: np.ndarray, clients: int) -> tuple[float, float]:
        low, high = extreme_eigenvalues(personal)
        return len(shared) / clients / (2 * 3), high / low

    return over_designs(sides, designs(), ("n/(2d)", "condition number"))


@FS12C.reading("the ratio, any unit inputs")
def identity() -> Evidence:
    return _identity(lambda low, low_p, condition: (1 + low_p / low) / condition)


@FS12C.reading("the condition number, unit inputs in three dimensions")
def condition_number() -> Evidence:
    return _condition_number()


@FS12C.mutant("multiplied by the condition number")
def multiplied() -> Evidence:
    return _identity(lambda low, low_p, condition: (1 + low_p / low) * condition)
