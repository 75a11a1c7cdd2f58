"""FD-32: the fast/slow bound is far looser, not slightly.

FD-32c: when the fast/slow protocol sends less.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from typing import NamedTuple

from fedstat.claims import Claim, Evidence, Sides, both, compared
from fedstat.theory.strongly_convex import strongly_convex_bound

FD32 = Claim(
    id="FD-32",
    place="appendix A.2, the two sentences after Theorem A.1 that begin 'The convergence analysis' and 'And because'",
    said_by="paper",
    words="The bound of Theorem A.1 is only slightly looser than that of Theorem 5.4, and the fast/slow protocol "
    "communicates less in all.",
    statement="8 (E/beta - 1)^2 G^2 approx 8 (E - 1)^2 G^2, quad beta T_beta < T_1",
    severity="false",
    assumptions="T_β is the iterations until the bound reaches the accuracy ε; a round costs the share β of a model "
    "with the protocol, which is its least; both bounds with the printed γ; 'slightly' is read as by a tenth; μ = G = "
    "|w¹ − w*| = 1; Γ is at most G²/(2μ), as bounded gradients at the optimum imply",
    sensitivity="exact",
    flaw="The divergence term grows by the square of (E/β − 1)/(E − 1), at least by 1/β²: 121-fold at E = 10 and "
    "β = 1/10. Where it dominates, the rounds needed grow by more than 1/β² and their price falls by β only, so that "
    "more is sent in all, not less.",
    corrected="FD-32c",
)


class Slower(NamedTuple):
    """Constants of the printed bounds with and without the fast/slow protocol."""

    local_steps: int
    rounds: int
    smoothness: int = 1
    heterogeneity: Fraction = Fraction(0)
    gradient_bound: int = 1
    accuracy: Fraction = Fraction(1, 1000)

    def bracket(self, beta: Fraction, *, others: bool = True) -> Fraction:
        """Return D of the bound, with mu = 1 and |w1 - w*| = 1; without `others` the divergence term alone."""
        value = strongly_convex_bound(
            1,
            smoothness=Fraction(self.smoothness),
            convexity=1,
            local_steps=self.local_steps,
            gradient_bound=self.gradient_bound,
            heterogeneity=self.heterogeneity if others else 0,
            initial_distance=1 if others else 0,
            form="printed",
            beta=beta,
        )
        return Fraction(value) * (self.offset + 1) / (2 * self.smoothness)

    @property
    def beta(self) -> Fraction:
        """Share of rounds with the coefficients."""
        return Fraction(1, self.rounds)

    @property
    def offset(self) -> int:
        """gamma."""
        return max(8 * self.smoothness, self.local_steps)

    @property
    def ratio(self) -> Fraction:
        """The bound with the protocol over that without; both have the printed gamma."""
        return self.bracket(self.beta) / self.bracket(Fraction(1))

    @property
    def divergence_ratio(self) -> Fraction:
        """Divergence term with the protocol over that without; E > 1."""
        return self.bracket(self.beta, others=False) / self.bracket(Fraction(1), others=False)

    def sent(self, beta: Fraction) -> Fraction:
        """Count the models sent until the bound reaches the accuracy, a share beta of one per round of E iterations."""
        steps = 2 * self.smoothness * self.bracket(beta) / self.accuracy - self.offset
        return beta * steps / self.local_steps

    def saved(self) -> dict[str, Fraction]:
        """Return the summands of the models that the protocol saves."""
        scale = 2 * self.smoothness * (1 - self.beta) / self.accuracy / self.local_steps
        divergence = 8 * self.gradient_bound**2 * (self.local_steps**2 * self.rounds - 1)
        return {
            "heterogeneity": scale * 6 * self.smoothness * self.heterogeneity,
            "start": scale / 4,
            "divergence": -scale * divergence,
            "offset": -scale * self.offset * self.accuracy / (2 * self.smoothness),
        }

    def __str__(self) -> str:
        return (
            f"E = {self.local_steps}, β = {self.beta}, L = {self.smoothness}, μ = 1, Γ = {self.heterogeneity}, "
            f"G = {self.gradient_bound}, |w¹ − w*| = 1, ε = {self.accuracy}"
        )


#: The paper's setting, E = 10 and beta = 1/10, first; no heterogeneity, or as much as bounded gradients allow.
PROBLEMS = tuple(
    Slower(e, rounds, smoothness, heterogeneity)
    for smoothness, heterogeneity, e, rounds in product(
        (1, 100), (Fraction(0), Fraction(1, 2)), (10, 2, 5, 1), (10, 5, 2)
    )
)
OF = "sets of constants"
#: Conditioning so bad that the start and the heterogeneity outweigh the divergence of the clients.
ILL_CONDITIONED = tuple(Slower(e, 2, 10_000, Fraction(1, 2)) for e in (1, 2))


def slightly(cases: Iterable[Slower]) -> Evidence:
    sides = (Sides(str(case), case.ratio, Fraction(11, 10), ("bounds' ratio", "claimed at most")) for case in cases)
    return compared(sides, of=OF)


def in_all(cases: Iterable[Slower]) -> Evidence:
    names = ("models sent with the protocol", "without")
    sides = (Sides(str(case), case.sent(case.beta), case.sent(Fraction(1)), names) for case in cases)
    return compared(sides, of=OF, relation="<")


@FD32.reading("slightly looser: the bound grows by a tenth at most")
def whole_bound() -> Evidence:
    return slightly(PROBLEMS)


@FD32.reading("slightly looser: its divergence term, which the paper compares, grows by a tenth at most")
def divergence() -> Evidence:
    names = ("terms' ratio", "claimed at most")
    cases = (case for case in PROBLEMS if case.local_steps > 1)
    sides = (Sides(str(case), case.divergence_ratio, Fraction(11, 10), names) for case in cases)
    return compared(sides, of=f"{OF} with E > 1")


@FD32.reading("less communication in all, by the bounds")
def total() -> Evidence:
    return in_all(PROBLEMS)


@FD32.control("slightly looser, where L/μ is 10 000, E = 1 or 2 and β = 1/2")
def ill_conditioned() -> Evidence:
    return slightly(ILL_CONDITIONED)


@FD32.control("less in all, where L/μ is 10 000, E = 1 or 2 and β = 1/2")
def ill_conditioned_total() -> Evidence:
    return in_all(ILL_CONDITIONED)


FD32C = Claim(
    id="FD-32c",
    place="corrected statement of FD-32",
    said_by="fedstat",
    words="The divergence term grows at least by 1/β²; by the bounds total communication falls exactly if the other "
    "terms outweigh 8G²(E²/β − 1) and a term that vanishes with ε.",
    statement="((E/beta - 1)/(E - 1))^2 >= 1/beta^2, quad beta T_beta < T_1 <==> 6 L Gamma + mu^2/4 norm(w^1 - w^*)^2 "
    "> 8 G^2 (E^2/beta - 1) + (gamma mu^2 epsilon)/(2 L)",
    severity="false",
    assumptions="T_β is the iterations until the bound reaches the accuracy ε, T_1 those without the protocol; a round "
    "costs the share β of a model; E > 1 for the first part; the algebra holds for any constants",
    sensitivity="exact",
)

#: Constants on both sides of the border, some of them beyond what bounded gradients allow.
BOTH_SIDES = tuple(
    Slower(e, rounds, smoothness, Fraction(heterogeneity), 1, accuracy)
    for e, rounds, smoothness, heterogeneity, accuracy in product(
        (1, 2, 10), (2, 5, 10), (1, 4, 100), (0, 1, 10, 100), (Fraction(1, 100), Fraction(1, 10_000))
    )
)


@FD32C.reading("growth and total")
def growth_and_total() -> Evidence:
    """Compare the least value of the divergence terms' ratio with it, and the saving with its summands.

    ``E/beta - 1 >= (E - 1)/beta`` iff ``1/beta >= 1``; squared, and divided by (E - 1)^2. For the total, with
    ``c = 6 L Gamma + mu^2/4 |w1 - w*|^2`` the bracket is ``D_beta = c + 8 (E/beta - 1)^2 G^2``, and
    ``beta (E/beta - 1)^2 - (E - 1)^2 = (1 - beta)(E^2/beta - 1)``. So with
    ``T_beta = 2 L D_beta/(mu^2 epsilon) - gamma`` the saving ``T_1 - beta T_beta`` is
    ``2 L (1 - beta)/(mu^2 epsilon)`` times
    ``c - 8 G^2 (E^2/beta - 1) - gamma mu^2 epsilon/(2L)``. This holds for any constants.
    """
    settings = [Slower(e, rounds) for e, rounds in product((10, 2, 5, 40), (10, 5, 2))]
    names = ("1/β²", "terms' ratio")
    growth = (Sides(str(c), Fraction(c.rounds) ** 2, c.divergence_ratio, names) for c in settings)
    savings = (
        Sides(str(c), c.sent(Fraction(1)) - c.sent(c.beta), c.saved(), ("models saved", "by the formula"))
        for c in BOTH_SIDES
    )
    return both(compared(growth, of="settings with E > 1"), compared(savings, of=OF, relation="=="))
