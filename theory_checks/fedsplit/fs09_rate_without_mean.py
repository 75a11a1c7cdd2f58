"""FS-09: the rate holds for summed gradients."""

from __future__ import annotations

from fedstat.claims import Claim, Evidence, Studies
from theory_checks.fedsplit.rates import guaranteed, networks
from theory_checks.fedsplit.symbols import SYMBOLS

FS09 = Claim(
    id="FS-09",
    place="section 3.3, Theorem 1, displayed inequality, with the update as section 3.2 accumulates it",
    said_by="paper",
    words="With gradients summed over samples, without 1/n, the squared residual shrinks in every round by the factor "
    "1 − (ρ₁λˢ + ρ₂λᵖ)/2 or more, where ρ₁ = η_g η_l G / C and ρ₂ = η_l G.",
    statement="norm(h(t) - y)^2 <= (1 - (rho_1 lambda^s + rho_2 lambda^p) / 2)^t norm(h(0) - y)^2",
    severity="false",
    assumptions=SYMBOLS
    + "; η_g = 1, unit inputs, no two parallel, all clients take part; the hidden constant of the prescribed "
    "step is one, and smaller ones only help; steps near the limit of stability itself break the bound and are not "
    "meant",
    sensitivity="a guaranteed share twice as large",
)


@FS09.reading("wide limit, worst start, the prescribed step, G = 1")
def one_step() -> Evidence:
    return guaranteed(local_steps=1, step="prescribed")


@FS09.reading("wide limit, worst start, the prescribed step, G = 5")
def five_steps() -> Evidence:
    return guaranteed(local_steps=5, step="prescribed")


@FS09.reading("wide limit, worst start, half the limit of stability, G = 5", natural=False)
def five_large_steps() -> Evidence:
    return guaranteed(local_steps=5, step="stable")


@FS09.reading("networks, steps at half the limit of stability, G = 5", natural=False)
def trained(studies: Studies) -> Evidence:
    return networks(studies["wide"], "without 1/n")


@FS09.mutant("the guaranteed share two and a half times as large")
def too_much() -> Evidence:
    return guaranteed(local_steps=1, step="prescribed", times=2.5)
