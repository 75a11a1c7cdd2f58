"""FD-24: the bound on the sampling error lacks a local step.

FD-24c: the bound on the sampling error with E steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

from fedstat.claims import Claim, Evidence, compared, search
from theory_checks.filter_decomposition.drawn_clients import Pair, Sizes, sampled_moments
from theory_checks.filter_decomposition.exact_laws import Exact, sided, text, total

#: Step sizes of the steps of one round.
Steps = tuple[Exact, ...]
DESCENTS = "draws from up to 4 clients with constant gradients 0 or ±1"


@dataclass(frozen=True)
class Descent:
    """Clients that start at zero and take steps against gradients in [-1, 1], so that G = 1; m of them are drawn.

    `gradients` has a row of E gradients for each client, `steps` the step sizes of iterations t0 to t.
    """

    gradients: tuple[tuple[Exact, ...], ...]
    steps: Steps
    m: int

    def __str__(self) -> str:
        gradients = ", ".join(f"({text(*g)})" for g in self.gradients)
        return (
            f"E = {len(self.steps)}, step sizes {text(*self.steps)}, the clients' gradients {gradients}, "
            f"{self.m} of {len(self.gradients)} drawn"
        )

    @property
    def ends(self) -> list[Fraction]:
        """Where the clients arrive."""
        return [-total(s * g for s, g in zip(self.steps, row, strict=True)) for row in self.gradients]

    @property
    def error(self) -> Fraction:
        """E |w - w^|^2 by (31)."""
        ends = self.ends
        return Fraction(sampled_moments(ends, [1] * len(ends), self.m).plain_variance)

    def bound(self, steps: Exact) -> Fraction:
        """Return ``4 f eta_t^2 G^2`` times the square of `steps`."""
        return 4 * Sizes(self.m, len(self.gradients)).f * Fraction(self.steps[-1]) ** 2 * steps**2


def descents(rounds: Iterable[Steps]) -> Iterator[Descent]:
    """Yield clients with constant gradients for each round's step sizes."""
    for steps, size in product(rounds, (2, 3, 4)):
        for gradients in sorted(product((0, 1, -1), repeat=size), key=lambda g: sum(map(abs, g))):
            for m in range(1, size + 1):
                yield Descent(tuple((g,) * len(steps) for g in gradients), steps, m)


def of_the_theorem(local_steps: Iterable[int]) -> Iterator[Steps]:
    """Yield ``1/(gamma + t)`` over a round, the first and a later one; constants cancel out of both sides."""
    for e in local_steps:
        first = max(8, e)
        for start in (first, first + 4 * e):
            yield tuple(Fraction(1, start + j) for j in range(e))


FD24 = Claim(
    id="FD-24",
    place="appendix A.5.2, equation (32), last line",
    said_by="paper",
    words="After a round of E local steps the sampling error of the plain average is at most "
    "4 (M − m)/(m(M − 1)) η_t² (E − 1)² G².",
    statement="EE norm(w - hat(w))^2 <= 4 (M - m)/(m (M - 1)) eta_t^2 (E - 1)^2 G^2",
    severity="unstated condition",
    assumptions="what the derivation uses: gradients of norm at most G, here 1, and step sizes that do not grow and at "
    "most halve in a round; the theorem's own are 1/(μ(γ + t)), twice that in the proof, with γ ≥ max(8, E)",
    sensitivity="any excess in the cases tried",
    flaw="The bound (22) that is inserted is that of E − 1 steps, but models are averaged after E: with one local step "
    "the bound is zero while the clients have already parted. That its step sizes hardly change in a round makes up "
    "for this from E = 3 on. The first inequality, besides, takes 1/M into the square, which divides by M once too "
    "often.",
    corrected="FD-24c",
)


def bounded(rounds: Iterable[Steps]) -> Evidence:
    """Compare the error with ``4 f eta_t^2 (E - 1)^2 G^2``.

    With the theorem's step sizes the bound holds for all E >= 3, and for no smaller E. Clients move by at most
    ``G sum_s eta_s``, and as far if their gradients are opposite. With ``a = gamma + t0 >= max(8, E)`` that is
    ``eta_t G`` times ``sum_(j < E) (a + E - 1)/(a + j)``, to be compared with ``2 (E - 1)``. At E = 2 the sum is
    ``2 + 1/a > 2``. As 1/(a + j) is convex in j, the sum is at most ``E/2 (2 + (E - 1)/a)``; for E >= 8 this is at most
    ``(3 E - 1)/2 <= 2 (E - 1)``, and for 3 <= E <= 8 at most ``E + E (E - 1)/16 <= 2 (E - 1)``.
    """

    def sides(case: Descent) -> Pair:
        return case.error, case.bound(len(case.steps) - 1)

    return compared(sided(descents(rounds), sides, ("error", "bound")), of=DESCENTS)


def first_inequality(power: int) -> Evidence:
    """Compare the error with f times the summed squares of the clients' moves, divided by this power of M."""

    def sides(case: Descent) -> Pair:
        size = len(case.gradients)
        return case.error, Sizes(case.m, size).f / size**power * total(w**2 for w in case.ends)

    cases = descents(((1,), (1, 1), (1, 1, 1)))
    return compared(sided(cases, sides, ("left side", "right side")), of=DESCENTS)


@FD24.reading("step sizes that at most halve in a round, as the derivation has them")
def halving() -> Evidence:
    return bounded(((1,), (1, 1), (2, 1), (1, 1, 1), (2, 2, 1)))


@FD24.reading("the theorem's own step sizes")
def own_steps() -> Evidence:
    return bounded(of_the_theorem((1, 2, 3, 4, 5)))


@FD24.reading("the first inequality of (32) alone", natural=False)
def inside_the_square() -> Evidence:
    return first_inequality(2)


@FD24.condition("the theorem's own step sizes, three local steps or more")
def three_steps_or_more() -> Evidence:
    return bounded(of_the_theorem((3, 4, 5, 10)))


@FD24.control("the first inequality of (32) alone, with 1/M outside the square")
def outside_the_square() -> Evidence:
    return first_inequality(1)


FD24C = Claim(
    id="FD-24c",
    place="corrected statement of FD-24",
    said_by="fedstat",
    words="The sampling error after E local steps has the printed bound with E in place of E − 1; the sharp factor is "
    "(2E − 1)² in place of 4E².",
    statement="EE norm(w - hat(w))^2 <= (M - m)/(m (M - 1)) eta_t^2 (2 E - 1)^2 G^2 "
    "<= 4 (M - m)/(m (M - 1)) eta_t^2 E^2 G^2",
    severity="false",
    assumptions="gradients of norm at most G, step sizes that do not grow, the first of a round at most twice the last",
    sensitivity="an excess in the searched cases (up to 4 clients and 3 steps), rounding to double precision",
)


@st.composite
def any_descent(draw: st.DrawFn) -> Descent:
    size, steps = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    quarter = st.integers(-4, 4).map(lambda i: Fraction(i, 4))
    gradients = draw(st.tuples(*[st.tuples(*[quarter] * steps)] * size))
    early = sorted(draw(st.tuples(*[st.integers(4, 8)] * (steps - 1))), reverse=True)
    return Descent(gradients, (*(Fraction(i, 4) for i in early), Fraction(1)), draw(st.integers(1, size)))


def corrected(less: int) -> Evidence:
    """Search for an error above ``f eta_t^2 (2 E - less)^2 G^2``.

    The drawn clients' models are averaged after the steps t0, ..., t, E in number, so that client k has moved by
    ``w_k - w_t0 = -sum_s eta_s g_k,s``. Steps before the last have ``eta_s <= eta_t0 <= 2 eta_t``; hence
    ``|w_k - w_t0| <= (2 (E - 1) + 1) eta_t G`` (in mean square, by Minkowski's inequality, if only E |g|^2 <= G^2). By
    (31) the error is ``f (1/M) sum_k |w_k - w^|^2 <= f (1/M) sum_k |w_k - w_t0|^2``, a mean being the point of least
    mean square. Both steps are equalities for two clients with opposite gradients of size G.
    """

    def sides(case: Descent) -> tuple[float, float]:
        return float(case.error), float(case.bound(Fraction(2 * len(case.steps) - less, 2)))

    return search(any_descent(), sides, examples=400, names=("error", "bound"))


@FD24C.reading("step sizes that do not grow and at most halve in a round")
def sharp() -> Evidence:
    return corrected(1)


@FD24C.mutant("(2E − 2)², as printed, in place of (2E − 1)²")
def as_printed() -> Evidence:
    return corrected(2)
