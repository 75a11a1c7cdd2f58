"""CL-30: the budget for a step is too large for δ' near one.

CL-30c: the budget for a step, with δ' up to a half.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product

from mpmath import binomial, exp, fsum, log, mpf, nstr, sqrt, workdps

from fedstat.claims import Claim, Evidence, Sides, compared

CL30 = Claim(
    id="CL-30",
    place="Dwork and Roth, The algorithmic foundations of differential privacy (2014), section 3.5.2, Corollary 3.21 "
    "of the theorem on advanced composition; doi:10.1561/0400000042",
    said_by="paper",
    words="To spend at most ε' below one and δ' in k steps, it suffices that each step is private with "
    "ε = ε' / (2 √(2 k ln(1 / δ'))).",
    statement="epsilon = epsilon' / (2 sqrt(2 k ln(1 \\/ delta'))), quad 0 < epsilon' < 1, quad delta' > 0 ==> "
    'k "steps are" (epsilon\', delta\') "-private"',
    severity="unstated condition",
    assumptions="steps with δ = 0, the same for all k; the total is that of k randomised responses, each of which "
    "keeps ε exactly",
    sensitivity="any excess of δ, to 30 digits",
    flaw="The proof takes the second term of the total, ε'² / (8 ln(1 / δ')), to be below ε' / 2 whenever ε' is below "
    "one. As δ' comes close to one, this term and the budget for a step grow without bound.",
    corrected="CL-30c",
)


def _excess(k: int, epsilon: mpf, target: mpf) -> mpf:
    """Return the smallest delta of k randomised responses at a total of `target`.

    A response is true with probability ``e^epsilon / (1 + e^epsilon)``. That j certain ones of k are true has chances
    in the ratio ``e^(epsilon (2 j - k))`` under two neighbours; delta sums what exceeds ``e^target`` times the other.
    """
    gains = (binomial(k, j) * (exp(epsilon * j) - exp(target + epsilon * (k - j))) for j in range(k + 1))
    return fsum(gain for gain in gains if gain > 0) / (1 + exp(epsilon)) ** k


def _steps(failures: tuple[str, ...], times: str = "1") -> Iterator[Sides]:
    with workdps(60):
        for k, total, failure in product((1, 2, 5, 20, 100), map(mpf, ("0.99", "0.5", "0.1")), map(mpf, failures)):
            epsilon = mpf(times) * total / (2 * sqrt(2 * k * log(1 / failure)))
            case = f"k = {k}, ε' = {nstr(total, 3)}, δ' = {nstr(failure, 6)}, so ε = {nstr(epsilon, 4)}"
            found, asked = (Decimal(nstr(value, 30)) for value in (_excess(k, epsilon, total), failure))
            yield Sides(case, found, asked, names=("δ spent", "δ' allowed"))


_SMALL = ("0.5", "0.1", "0.01", "1e-5", "1e-10")


@CL30.reading("every δ' between zero and one")
def every_failure() -> Evidence:
    return compared(_steps((*_SMALL, "0.9", "0.99", "0.999")), of="totals of randomised responses")


@CL30.condition("δ' at most a half")
def at_most_a_half() -> Evidence:
    return compared(_steps(_SMALL), of="totals of randomised responses")


@CL30.mutant("six times the budget for a step, δ' at most a half")
def six_times() -> Evidence:
    return compared(_steps(_SMALL, "6"), of="totals of randomised responses")


CL30C = Claim(
    id="CL-30c",
    place="corrected statement of CL-30",
    said_by="fedstat",
    words="If δ' is at most a half, it suffices that each of k steps is private with ε = ε' / (2 √(2 k ln(1 / δ'))), "
    "and what advanced composition gives for them is at most ε'.",
    statement="sqrt(2 k ln(1 \\/ delta')) epsilon + k epsilon (e^epsilon - 1) <= epsilon', quad delta' <= 1 / 2",
    severity="false",
    assumptions="0 < ε' < 1",
    sensitivity="any excess, to 30 digits",
)


def _by_the_theorem(failures: tuple[str, ...]) -> Iterator[Sides]:
    """Compare the theorem's total with ε'.

    The first term is half of ε'. With δ' at most a half ε is at most ``0.43 / sqrt(k)``, so that ``e^epsilon - 1`` is
    at most ``1.26 epsilon``, and the second at most ``1.26 epsilon'^2 / (8 ln 2)``, less than a quarter of ε'.
    """
    with workdps(60):
        for k, total, failure in product(
            (1, 2, 5, 20, 100, 10**4), map(mpf, ("0.9999", "0.5", "0.01")), map(mpf, failures)
        ):
            root = sqrt(2 * k * log(1 / failure))
            epsilon = total / (2 * root)
            parts = {"root": root * epsilon, "mean": k * epsilon * (exp(epsilon) - 1)}
            spent = {name: Decimal(nstr(part, 30)) for name, part in parts.items()}
            case = f"k = {k}, ε' = {nstr(total, 4)}, δ' = {nstr(failure, 3)}"
            yield Sides(case, spent, Decimal(nstr(total, 30)), names=("ε of the theorem", "ε'"))


@CL30C.reading("the total of the theorem on advanced composition")
def by_the_theorem() -> Evidence:
    return compared(_by_the_theorem(_SMALL), of="totals")


@CL30C.mutant("δ' of 0.9 and more")
def close_to_one() -> Evidence:
    return compared(_by_the_theorem(("0.9", "0.99")), of="totals")
