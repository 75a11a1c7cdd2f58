"""FS-14: at its own prescribed step FedSplit is not always faster.

FS-14c: how the two guaranteed rates compare.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, search
from fedstat.ntk import extreme_eigenvalues
from fedstat.theory.convergence import prescribed_step
from theory_checks.fedsplit.designs import Design, designs
from theory_checks.fedsplit.growth import Deal, Inputs, exponent, more_clients, more_samples, on_a_sphere, orthonormal
from theory_checks.fedsplit.symbols import SYMBOLS


def _advantage(inputs: Inputs, deal: Deal, power: int = 0) -> Evidence:
    """Growth of the ratio of the guaranteed rates (FS-14c), over a power of N that is zero as printed."""

    def quantity(low: float, low_p: float, condition: float, clients: int, n: int) -> float:
        return (1 + low_p / low) * (1 + clients * low_p / low) / condition / n**power

    return exponent(quantity, inputs, deal, (0.0, np.inf), "FedSplit's guaranteed rate over FedAvg's grows")


FS14 = Claim(
    id="FS-14",
    place="section 3.3, paragraph after Theorem 1, third to sixth sentence",
    said_by="paper",
    words="FedSplit is guaranteed to converge faster than FedAvg, each at the step that its theorem prescribes.",
    statement="rho_1 lambda^s + rho_2 lambda^p > rho' lambda^s",
    severity="unstated condition",
    assumptions=SYMBOLS + "; as the constants hidden in the steps are unknown, it is asked whether the advantage lasts "
    "as the sample grows: a ratio of the two rates that does not fall with N",
    sensitivity="an exponent of N below zero by the half-width of its interval",
    flaw="FedSplit's prescribed step is divided by the personal kernel's condition number, FedAvg's is not. That "
    "number grows with the samples at a client, so the smaller step soon costs more than the second term gains. With "
    "more clients of one size its advantage lasts, and at equal steps its guarantee is the better one (FS-13).",
    corrected="FS-14c",
)


@FS14.reading("the sample grows at four clients, inputs on the unit sphere in eight dimensions")
def larger_clients() -> Evidence:
    return _advantage(on_a_sphere, more_samples)


@FS14.condition("the sample grows by more clients of one size, eight samples each")
def further_clients() -> Evidence:
    return _advantage(on_a_sphere, more_clients)


@FS14.mutant("one power of N more in FedSplit's step, orthonormal inputs")
def one_power() -> Evidence:
    return _advantage(orthonormal, more_samples, power=1)


@FS14.control("orthonormal inputs at four clients, whose condition number is one for every N")
def control() -> Evidence:
    return _advantage(orthonormal, more_samples)


FS14C = Claim(
    id="FS-14c",
    place="corrected statement of FS-14",
    said_by="fedstat",
    words="At the steps that the theorems prescribe, FedSplit's guaranteed rate over FedAvg's is (1 + λᵖ/λˢ)(1 + "
    "Cλᵖ/(η_g λˢ))/γᵖ up to hidden constants, and this can be above or below one.",
    statement="(rho_1 lambda^s + rho_2 lambda^p) / (rho' lambda^s) prop (1 + lambda^p / lambda^s) (1 + C lambda^p / "
    "(eta_g lambda^s)) / gamma^p",
    severity="false",
    assumptions=SYMBOLS + "; the hidden constants do not depend on the data",
    sensitivity="a relative difference of 1e-9",
)


#: A design and the server's step.
_DRAWN = st.tuples(designs(), st.sampled_from([0.5, 1.0, 2.0]))


def _identity(power: int) -> Evidence:
    """Compare the ratio of the two rates, from the steps as they are prescribed, with the formula.

    With eta_l = (ls + lp) / (gs gp G N^2) and eta_l' = ls / (gs G N^2) it is
    ``(ls + lp)(eta_g ls / C + lp) / (gp ls eta_g ls / C)``.
    """

    def sides(case: tuple[Design, float]) -> tuple[float, float]:
        design, eta_g = case
        shared, personal = design.kernels()
        (low, high), (low_p, high_p) = extreme_eigenvalues(shared), extreme_eigenvalues(personal)
        share = eta_g / design.clients
        ours = prescribed_step(shared, personal, local_steps=1) * (share * low + low_p)
        fedavg = low * low / high / len(shared) ** 2 * share * low
        ratio = (1 + low_p / low) * (1 + low_p / (share * low)) / (high_p / low_p) ** power
        return ours / fedavg / ratio, 1.0

    def show(case: tuple[Design, float]) -> str:
        return f"{case[0]}, η_g = {case[1]:g}"

    names = ("ratio of the rates over the formula", "claimed")
    return search(_DRAWN, sides, relation="==", tolerance=1e-9, examples=100, names=names, show=show)


@FS14C.reading("any unit inputs")
def identity() -> Evidence:
    return _identity(1)


@FS14C.mutant("the condition number squared")
def squared() -> Evidence:
    return _identity(2)
