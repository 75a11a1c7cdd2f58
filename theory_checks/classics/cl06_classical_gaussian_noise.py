"""CL-06: noise that gives (ε, δ)-differential privacy."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product

from hypothesis import strategies as st
from mpmath import exp, inf, log, mpf, ncdf, npdf, nstr, quad, sqrt, workdps

from fedstat.claims import Claim, Evidence, Sides, both, compared, search

CL06 = Claim(
    id="CL-06",
    place="Dwork and Roth, The algorithmic foundations of differential privacy (2014), section 3.5.3, Theorem 3.22, "
    "proved in appendix A; doi:10.1561/0400000042",
    said_by="paper",
    words="Gaussian noise of standard deviation √(2 ln(1.25 / δ)) / ε times the sensitivity gives (ε, δ)-differential "
    "privacy, for every ε below one.",
    statement="sigma = (Delta sqrt(2 ln(1.25 \\/ delta))) / epsilon, quad 0 < epsilon < 1 ==> "
    '(epsilon, delta) "-differential privacy"',
    severity="unstated condition",
    assumptions="0 < ε < 1 and 0 < δ < 1; the theorem asks for any more noise than this, so that the border is its "
    "hardest case; the δ that noise really gives is the privacy profile of Balle and Wang (2018), Theorem 8, "
    "arXiv:1805.06530, which is compared with the integral that defines it",
    sensitivity="any excess of δ, to 30 digits",
)

_LEVELS = ("0.99", "0.9", "0.5", "0.1", "0.01", "1e-5", "1e-10")


def _profile(epsilon: mpf, sigma: mpf) -> mpf:
    """Return the smallest delta of noise of this size, for a query of sensitivity one."""
    shift, half = epsilon * sigma, 1 / (2 * sigma)
    return ncdf(half - shift) - exp(epsilon) * ncdf(-half - shift)


def _integral(epsilon: mpf, sigma: mpf) -> mpf:
    """Return the mass by which one Gaussian exceeds exp(epsilon) times the other, the definition of that delta.

    Densities with means 1 and 0 have the ratio exp(epsilon) at ``epsilon sigma^2 + 1 / 2``.
    """
    start = epsilon * sigma**2 + mpf(1) / 2
    return quad(
        lambda x: npdf(x, 1, sigma) - exp(epsilon) * npdf(x, 0, sigma), [start, start + sigma, start + 4 * sigma, inf]
    )


def _calibrated(budgets: tuple[str, ...], levels: tuple[str, ...] = _LEVELS, share: str = "1") -> Iterator[Sides]:
    """Compare the delta that a share of the classical noise gives with the one that was asked for."""
    with workdps(60):
        for epsilon, delta in product(map(mpf, budgets), map(mpf, levels)):
            sigma = mpf(share) * sqrt(2 * log(mpf(5) / 4 / delta)) / epsilon
            case = f"ε = {nstr(epsilon, 3)}, δ = {nstr(delta, 3)}, σ = {nstr(sigma, 4)}"
            found, asked = (Decimal(nstr(value, 30)) for value in (_profile(epsilon, sigma), delta))
            yield Sides(case, found, asked, names=("δ given", "δ asked for"))


def _both_profiles(case: tuple[float, float]) -> tuple[float, float]:
    with workdps(30):
        return float(_profile(mpf(case[0]), mpf(case[1]))), float(_integral(mpf(case[0]), mpf(case[1])))


@CL06.reading("ε below one, as the theorem assumes")
def below_one() -> Evidence:
    settings = st.tuples(st.floats(0.01, 8), st.floats(0.2, 20))
    formula = search(settings, _both_profiles, relation="==", tolerance=1e-12, examples=20, names=("formula", "mass"))
    cases = _calibrated(("0.001", "0.1", "0.5", "0.9", "0.99", "0.9999"))
    return both(compared(cases, of="pairs of ε and δ"), formula)


@CL06.reading("any ε, as the formula is often used", natural=False)
def any_budget() -> Evidence:
    return compared(_calibrated(("1", "2", "4", "6", "8", "10", "20"), _LEVELS[-3:]), of="pairs of ε and δ")


@CL06.mutant("a third of the noise")
def third_of_the_noise() -> Evidence:
    return compared(_calibrated(("0.5", "0.9", "0.9999"), share="0.33"), of="pairs of ε and δ")
