"""FS-10: the rate fails for gradients of the mean loss.

FS-10c: the rate for gradients of the mean loss.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, Studies, compared
from theory_checks.fedsplit.designs import designs
from theory_checks.fedsplit.fs09_rate_without_mean import FS09
from theory_checks.fedsplit.rates import guaranteed, networks

_SIZES = tuple(range(1, 9))


class _Orthonormal(NamedTuple):
    """C clients with n samples each, all inputs orthonormal; G local steps, a multiple of the prescribed ones."""

    n: int
    clients: int
    local_steps: int
    constant: Fraction

    @property
    def step(self) -> Fraction:
        return self.constant / (self.local_steps * (self.n * self.clients) ** 2)

    @property
    def weight(self) -> Fraction:
        """Eigenvalue of ``H_s / C + H_p``."""
        return (Fraction(1, self.clients) + 1) / 2

    def found(self) -> Fraction:
        """Return the share of the squared residual that a round takes away: the mean divides the step by n."""
        return 1 - (1 - self.weight * (1 - (1 - self.step / self.n) ** self.local_steps)) ** 2

    def claimed(self) -> Fraction:
        return self.step * self.local_steps * self.weight / 2

    def __str__(self) -> str:
        return f"C = {self.clients}, n = {self.n}, G = {self.local_steps}, orthonormal inputs, η_l = {self.step}"


def _orthonormal(*, divided: bool = False, sizes: tuple[int, ...] = _SIZES) -> Evidence:
    """One round with orthonormal inputs, exactly: both kernels are I / 2, and every start is an eigenvector.

    A local step multiplies a residual by 1 - s, with s = eta_l / n; so the round multiplies it by 1 - u, where
    ``u = w (1 - (1 - s)^G)`` and ``w = (1 / C + 1) / 2``. As ``u <= w G s`` the round takes away
    ``2 u - u^2 < 2 w G eta_l / n``, and the claim is ``w G eta_l / 2``: with n >= 4 it fails for every step up to n,
    whatever constant the O hides.
    """
    names = ("share lost in a round, as guaranteed,", "found")
    constants = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
    cases = [_Orthonormal(n, c, g, k) for n in sizes for c in (1, 2, 3) for g in (1, 2, 5) for k in constants]
    sides = (Sides(str(c), c.claimed() / (c.n if divided else 1), c.found(), names) for c in cases)
    return compared(sides, of="designs with orthonormal inputs, exactly")


FS10 = Claim(
    id="FS-10",
    place="section 3.3, Theorem 1, displayed inequality, with the local update as section 3.2 defines it by gradients",
    said_by="paper",
    words="With local steps along the gradient of the client's mean loss, with 1/n, the squared residual shrinks in "
    "every round by the factor 1 − (ρ₁λˢ + ρ₂λᵖ)/2 or more, where ρ₁ = η_g η_l G / C and ρ₂ = η_l G.",
    statement="norm(h(t) - y)^2 <= (1 - (rho_1 lambda^s + rho_2 lambda^p) / 2)^t norm(h(0) - y)^2 "
    'quad "for updates with" 1 / n',
    severity="false",
    assumptions=FS09.assumptions,
    sensitivity="any excess over the bound: arithmetic is exact in the first reading",
    flaw="The rate belongs to the update without 1/n (FS-08, FS-09). The mean over n samples divides the step by n. "
    "The bound is slack by a factor of four, which makes up for at most three samples at a client; from four on it "
    "fails, whatever the step.",
    corrected="FS-10c",
)


@FS10.reading("wide limit, orthonormal inputs")
def orthonormal() -> Evidence:
    return _orthonormal()


@FS10.reading("wide limit, worst start, the prescribed step, G = 1, five samples at each client")
def worst_start() -> Evidence:
    return guaranteed(local_steps=1, step="prescribed", per_client_mean=True, drawn=designs(n=5))


@FS10.reading("networks, steps at half the limit of stability, G = 5", natural=False)
def trained(studies: Studies) -> Evidence:
    return networks(studies["wide"], "with 1/n")


@FS10.control("up to three samples at a client")
def few_samples() -> Evidence:
    return _orthonormal(sizes=(1, 2, 3))


FS10C = Claim(
    id="FS-10c",
    place="corrected statement of FS-10",
    said_by="fedstat",
    words="With gradients of the client's mean loss, the share by which the residual shrinks must be divided by n.",
    statement="norm(h(t) - y)^2 <= (1 - (rho_1 lambda^s + rho_2 lambda^p) / (2 n))^t norm(h(0) - y)^2",
    severity="false",
    assumptions=FS09.assumptions + "; it is the bound for the accumulated update, with the step η_l / n",
    sensitivity="a guaranteed share twice as large",
)


@FS10C.reading("wide limit, worst start, the prescribed step, G = 5")
def corrected() -> Evidence:
    return guaranteed(local_steps=5, step="prescribed", per_client_mean=True, divided=True)


@FS10C.reading("wide limit, worst start, half the limit of stability, G = 1", natural=False)
def corrected_large_step() -> Evidence:
    return guaranteed(local_steps=1, step="stable", per_client_mean=True, divided=True)


@FS10C.reading("wide limit, orthonormal inputs")
def corrected_orthonormal() -> Evidence:
    return _orthonormal(divided=True)


@FS10C.mutant("the guaranteed share two and a half times as large")
def corrected_too_much() -> Evidence:
    return guaranteed(local_steps=5, step="prescribed", per_client_mean=True, divided=True, times=2.5)
