"""FD-28: the factor is smaller, unless all clients are drawn.

FD-28c: how much smaller the factor is.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from fedstat.claims import Claim, Evidence, compared
from theory_checks.filter_decomposition.any_draw import vanish
from theory_checks.filter_decomposition.drawn_clients import LARGEST, Sizes, sizes_up_to
from theory_checks.filter_decomposition.exact_laws import sided

FD28 = Claim(
    id="FD-28",
    place="section 5, Remark 5.7, second sentence",
    said_by="paper",
    words="For m > 1 and M > 1 the factor with virtual clients, (M² − m²)/(m²M²(M² − 1)), is smaller than that "
    "without, (M − m)/(m(M − 1)).",
    statement='(M^2 - m^2)/(m^2 M^2 (M^2 - 1)) < (M - m)/(m (M - 1)) " for" m > 1, M > 1',
    severity="unstated condition",
    assumptions="m at most M",
    sensitivity="any size up to M = 40 at which the factor is not smaller",
    flaw="With all clients drawn both factors are zero. And the factors multiply sums of M² and of M terms: most of "
    "the difference between them, a factor of order M² m, is that of the sums.",
    corrected="FD-28c",
)

NAMES = ("with virtual clients", "without")
ALL = f"sizes 1 < m ≤ M ≤ {LARGEST}"
PARTIAL = f"sizes 1 < m < M ≤ {LARGEST}"


def smaller(wanted: Callable[[Sizes], bool], other: Callable[[Sizes], Fraction], of: str) -> Evidence:
    """Compare factors; by FD-28c the printed one, even times M^2, is smaller than f for all 1 < m < M."""
    cases = filter(wanted, sizes_up_to(LARGEST, fewest=2))
    return compared(sided(cases, lambda s: (s.printed, other(s)), NAMES), of=of, relation="<")


@FD28.reading("for all m from 2 to M, as printed")
def all_sizes() -> Evidence:
    return smaller(lambda s: True, lambda s: s.f, ALL)


@FD28.reading("the same with the factors of (31) and (33), as in appendix A.5.2")
def with_the_appendix() -> Evidence:
    return smaller(lambda s: True, lambda s: s.f / s.M, ALL)


@FD28.condition("fewer clients drawn than there are, the partial participation that appendix A.5 is about")
def partial_participation() -> Evidence:
    return smaller(lambda s: s.m < s.M, lambda s: s.f, PARTIAL)


@FD28.condition("fewer clients drawn than there are, with the factors of (31) and (33)")
def partial_with_the_appendix() -> Evidence:
    return smaller(lambda s: s.m < s.M, lambda s: s.f / s.M, PARTIAL)


FD28C = Claim(
    id="FD-28c",
    place="corrected statement of FD-28",
    said_by="fedstat",
    words="Per term of the sums the factor with virtual clients is smaller by (M + m)/(m(M + 1)), from 1/m to 2/m; for "
    "m = M both are zero.",
    statement="M^2 (M^2 - m^2)/(m^2 M^2 (M^2 - 1)) = (M + m)/(m (M + 1)) dot (M - m)/(m (M - 1))",
    severity="false",
    assumptions="M at least 2; (33) itself is wrong (FD-25), so this compares printed factors, not errors; the "
    "identities are proved for any m and M",
    sensitivity="any difference of the rational functions",
)


def term_by_term(ratio: Callable[[Any, Any], Any]) -> Evidence:
    """Compare the factors times the numbers of terms in their sums.

    M^2 times the factor of (33) is ``(M - m)(M + m) / (m^2 (M - 1)(M + 1)) = f (M + m) / (m (M + 1))``. The quotient
    beside f is less than one for m > 1, since ``m (M + 1) - (M + m) = M (m - 1)``, and more than 1/m, since
    ``M + m > M + 1``. At m = M, f and both factors are zero.
    """
    import sympy

    m, size = sympy.symbols("m M", positive=True)
    printed = (size**2 - m**2) / (m**2 * size**2 * (size**2 - 1)) * size**2
    return vanish(
        {
            "M² times the factor of (33) and that of Remark 5.7 times the ratio": printed
            - (size - m) / (m * (size - 1)) * ratio(m, size),
            "m(M + 1) times (1 minus the ratio) and M(m − 1)": m * (size + 1) * (1 - ratio(m, size)) - size * (m - 1),
        },
        of="identities of rational functions of m and M",
    )


@FD28C.reading("for any m and M")
def exact_ratio() -> Evidence:
    return term_by_term(lambda m, size: (size + m) / (m * (size + 1)))


@FD28C.mutant("the ratio 1/m")
def one_over_m() -> Evidence:
    return term_by_term(lambda m, size: 1 / m)
