"""CL-70: among adversaries Ditto's best λ is not the fairest.

CL-70c: a larger λ is fairer if adversaries spread more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.classics.cl11_ditto_optimal_lambda import CODE, PAPER, problems, pull

CL70 = Claim(
    id="CL-70",
    place=f"our wording of what two sources suggest together: {PAPER}, abstract, which speaks of fairness and "
    f"robustness at once on linear problems, and {CODE}, whose run measures fairness by the variance of the benign "
    "clients' losses; the theorem itself could not be read",
    said_by="fedstat",
    words="The λ that is best for the benign clients' error also makes their losses most uniform.",
    statement='lambda^* = "argmin"_lambda EE "var"_(k "benign") (hat(w)_k (lambda) - w_k)^2',
    severity="unstated condition",
    assumptions="as in CL-11, normal points and noise",
    sensitivity="any smaller variance, exact",
    flaw="Two clients' errors are correlated, as they share the global model, and how much depends on λ. Without "
    "adversaries their covariance is largest at the λ at which the error is smallest; adversaries whose points spread "
    "more or less than the benign ones' shift it.",
    corrected="CL-70c",
)


def _spreads(adversaries: Iterable[int], factors: tuple[Fraction, ...], *, wider: bool = False) -> Iterator[Sides]:
    for case in problems(adversaries):
        for factor in factors:
            lam = case.printed
            at, other = case.spread(pull(lam)), case.spread(pull(lam * factor))
            if not wider:
                yield Sides(f"{case}, λ = {lam} against {lam * factor}", at, other, names=("variance", "variance"))
            elif case.adverse > case.benign:
                yield Sides(f"{case}, λ = {lam * factor} against {lam}", other, at, names=("variance", "variance"))


_BESIDE = (Fraction(99, 100), Fraction(101, 100), Fraction(1, 2), Fraction(2))


@CL70.reading("with and without adversaries")
def uniform() -> Evidence:
    return compared(_spreads((0, 1, 2), _BESIDE), of="variances beside those at other λ")


@CL70.condition("no adversaries")
def unattacked() -> Evidence:
    return compared(_spreads((0,), _BESIDE), of="variances beside those at other λ")


CL70C = Claim(
    id="CL-70c",
    place="corrected statement of CL-70",
    said_by="fedstat",
    words="If adversaries spread more than the benign clients, λ beyond the one that is best for the error makes the "
    "benign clients' losses more uniform.",
    statement='tau_a > tau, quad K_a >= 1 ==> d / (d lambda) EE "var"_(k "benign") (hat(w)_k (lambda) - w_k)^2 < 0 '
    'quad "at" lambda^*',
    severity="false",
    assumptions="as in CL-70, at least two benign clients",
    sensitivity="any larger variance a thousandth beyond λ*, exact",
)


@CL70C.reading("a thousandth beyond λ*")
def beyond() -> Evidence:
    """At λ* the error's variance V does not change, and so ``V^2 - C^2`` falls where the covariance C grows.

    With ``v = tau^2 + s`` and ``d = K_a (tau_a^2 - tau^2)`` it is ``C = 2 a s / K - a^2 (K v - d) / K^2`` at the pull
    a. At a* its derivative has the sign of ``s K d``, and C is positive as ``a* (v - d / K) < s``.
    """
    return compared(
        _spreads((1, 2, 6), (Fraction(1001, 1000),), wider=True), of="variances beyond the printed λ", relation="<"
    )
