"""FD-27: the bound's sampling term is zero if all take part.

FD-27c: what error is left if all take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from fedstat.claims import Claim, Evidence, both, compared
from fedstat.theory.strongly_convex import strongly_convex_bound
from theory_checks.filter_decomposition.any_draw import mean_square, symbols, vanish
from theory_checks.filter_decomposition.drawn_clients import LARGEST, Drawn, Exact, Pair, Sizes, all_drawn, sizes_up_to
from theory_checks.filter_decomposition.exact_laws import sided

FD27 = Claim(
    id="FD-27",
    place="section 5, Remark 5.6",
    said_by="paper",
    words="At full participation the sampling term of Theorem 5.4's bound becomes zero, which makes the bound tighter.",
    statement="m = M => 4 (M^2 - m^2)/(m^2 M^2 (M^2 - 1)) (E - 1)^2 G^2 = 0",
    severity="false",
    assumptions="our copy of Remark 5.6 is damaged; what is left says that something becomes zero and that full "
    "participation tightens the bound, so the former is read as the bound's own term; M ≥ 2, G > 0 and, for the bound "
    "to tighten, E ≥ 2",
    sensitivity="any difference from zero; any bound that is not smaller",
    flaw="The sampling error itself, about the average of all clients' filters, is not zero at full participation: the "
    "randomness ends, but the product of averages still lacks the covariance of coefficients and atoms.",
    corrected="FD-27c",
)

POPULATIONS = "populations of up to 4 clients with α, D in {−1, 0, 1}"


@dataclass(frozen=True)
class Partial:
    """Sizes and local steps, with the sampling term of the printed bound for G = 1, and the bound for given constants.

    L = mu = G = ``|w1 - w*|`` = T = 1 and Gamma = 0.
    """

    sizes: Sizes
    local_steps: int

    def __str__(self) -> str:
        return f"{self.sizes}, E = {self.local_steps}"

    @property
    def term(self) -> Fraction:
        """The sampling term."""
        return 4 * self.sizes.printed * (self.local_steps - 1) ** 2

    def bound(self, participants: int) -> Fraction:
        """Return the bound with so many participants."""
        value = strongly_convex_bound(
            1,
            smoothness=Fraction(1),
            convexity=1,
            local_steps=self.local_steps,
            gradient_bound=1,
            heterogeneity=0,
            initial_distance=1,
            form="printed",
            clients=self.sizes.M,
            participants=participants,
        )
        return Fraction(value)


def term_of_the_bound(absent: int) -> Evidence:
    """Let so many clients be absent: the term against zero, and the bound of all clients against that of fewer.

    The term has the factor ``M^2 - m^2``, zero for m = M and positive for m < M; nothing else depends
    on m.
    """

    def cases(largest: int, wanted: Callable[[Sizes], bool]) -> Iterable[Partial]:
        return (Partial(s, e) for s in sizes_up_to(largest) if wanted(s) for e in (2, 5, 10))

    full = cases(LARGEST, lambda s: s.m == s.M - absent)
    fewer = cases(4, lambda s: s.m < s.M - absent)
    zero = sided(full, lambda p: (p.term, 0), ("the term", "claimed"))
    names = ("bound of all", "of fewer")
    bounds = sided(fewer, lambda p: (p.bound(p.sizes.M - absent), p.bound(p.sizes.m)), names)
    return both(
        compared(zero, of=f"numbers of clients up to {LARGEST}, with E of 2, 5 and 10", relation="=="),
        compared(bounds, of="sizes m < M ≤ 4 with E of 2, 5 and 10", relation="<"),
    )


def error_of_all(target: Callable[[Drawn], Fraction], claimed: Callable[[Drawn], Exact]) -> Evidence:
    """Compare the error of Q about a target with all clients drawn.

    There is one draw only, and in it ``Q = a0 d0``, while ``w^ = a0 d0 + t_11``; over several atoms both add up.
    """

    def sides(case: Drawn) -> Pair:
        return case.squared_error(target(case)), claimed(case)

    return compared(sided(all_drawn(4), sides, ("error", "claimed")), of=POPULATIONS, relation="==")


@FD27.reading("the sampling term of Theorem 5.4's bound, and the bound")
def term() -> Evidence:
    return term_of_the_bound(absent=0)


@FD27.reading("the sampling error itself, about the average of all clients' filters", natural=False)
def about_the_average() -> Evidence:
    return error_of_all(lambda case: case.everyone, lambda case: 0)


@FD27.mutant("one client absent")
def one_absent() -> Evidence:
    return term_of_the_bound(absent=1)


FD27C = Claim(
    id="FD-27c",
    place="corrected statement of FD-27, for the error itself",
    said_by="fedstat",
    words="At full participation the error of the product of averages is the squared covariance of coefficient and "
    "atom over clients.",
    statement='m = M => EE norm(Q - hat(w))^2 = norm(op("Cov")(alpha, D))^2',
    severity="false",
    assumptions="one atom; with several the covariances add up over atoms",
    sensitivity="any difference in the populations tried",
)


@FD27C.reading("about the average of all clients' filters, for any M")
def in_general() -> Evidence:
    s = symbols()
    difference = mean_square(s).subs(s.m, s.M) - s.t(1, 1) ** 2
    return vanish({"the error and the squared covariance": difference}, of="rational functions of M")


@FD27C.reading("about the average of all clients' filters, on populations")
def squared_covariance() -> Evidence:
    return error_of_all(lambda case: case.everyone, lambda case: case.central(1, 1) ** 2)


@FD27C.mutant("the covariance, not squared")
def covariance() -> Evidence:
    return error_of_all(lambda case: case.everyone, lambda case: case.central(1, 1))
