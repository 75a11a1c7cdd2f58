"""FD-44: virtual clients give no smaller term for the draw.

FD-44c: the draw needs no term of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from typing import Any, NamedTuple

from fedstat.claims import Claim, Evidence, Sides, compared
from theory_checks.filter_decomposition.averaging_exactly import Scalars, in_brackets, mean_of
from theory_checks.filter_decomposition.drawn_paths import OF_THE_THEOREM, Terms, steps_bounded
from theory_checks.filter_decomposition.exact_laws import text


class Product(NamedTuple):
    """Clients ``1/2 (alpha D - c_k)^2``, of which two are drawn, that make one step of size eta from (alpha, D)."""

    alpha: Fraction
    atom: Fraction
    c: tuple[int, ...]
    eta: Fraction

    def __str__(self) -> str:
        return (
            f"clients (αD − c)²/2 with c = {in_brackets(self.c)}, 2 of {len(self.c)} drawn, start "
            f"(α, D) = ({text(self.alpha, self.atom)}), μ = L = E = 1, η = {self.eta}"
        )

    @property
    def optimum(self) -> Fraction:
        """w*, a filter."""
        return Fraction(sum(self.c), len(self.c))

    @property
    def after(self) -> Fraction:
        """E |w' - w*|^2 of the drawn clients' product of averages."""
        a, d = self.alpha, self.atom
        slopes = [a * d - c for c in self.c]
        moved = [(a - self.eta * g * d, d - self.eta * g * a) for g in slopes]
        drawn = [[mean_of(x) for x in zip(*pair, strict=True)] for pair in combinations(moved, 2)]
        return Fraction(mean_of((x * y - self.optimum) ** 2 for x, y in drawn))

    @property
    def bound(self) -> dict[str, Fraction]:
        """The right side of (34); with one local step only the heterogeneity is left of B + D."""
        apart = Scalars((1,) * len(self.c), self.c, Fraction(0), 1).heterogeneity
        distance = (1 - self.eta) * (self.alpha * self.atom - self.optimum) ** 2
        return {"distance": distance, "heterogeneity": 6 * self.eta**2 * apart}


FD44 = Claim(
    id="FD-44",
    place="appendix A.5.3, equation (34) and the sentence after it",
    said_by="paper",
    words="With m of M clients drawn, one step leaves at most 1 − μη_t times the squared distance of ŵ and η_t² times "
    "B + D, with the smaller D for virtual clients.",
    statement="EE norm(w^(t+1) - w^*)^2 <= (1 - mu eta_t) EE norm(hat(w)^t - w^*)^2 + eta_t^2 (B + D), quad D = 4 (M - "
    "m)/(m (M - 1)) (E - 1)^2 G^2, quad D' = 4 (M^2 - m^2)/(m^2 M^2 (M^2 - 1)) (E - 1)^2 G^2",
    severity="false",
    assumptions="equal weights, divided by m; exact gradients, with a mean square of at most G² along the path; step "
    "sizes of the theorem and of its proof",
    sensitivity="exact; the draw's own term is not needed (FD-44c), so that no case can show its loss; beside D "
    "none shows that of the drift either",
    flaw="If w′ is the filter, as virtual clients require, neither the step (12) nor the split (28) holds for it: a "
    "filter whose coefficient and atom are zero does not move at all. In the theorem's own coordinates there are no "
    "virtual clients, and the smaller D is enough only because B alone is: the draw needs no term of its own.",
    corrected="FD-44c",
)


def _with_draw(factor: Any) -> Evidence:
    """Judge (34) with D as a factor of ``(E - 1)^2 G^2``."""

    def bound(x: Terms) -> dict[str, Any]:
        whole = {"distance": x.distance, "drift": 8 * x.drift, "heterogeneity": 6 * x.heterogeneity}
        return whole | {"draw": factor(x) * x.drift}

    return steps_bounded(OF_THE_THEOREM, bound, of_drawn=True, from_drawn=False)


@FD44.reading("FedAvg, with D")
def plain() -> Evidence:
    """The inequality holds with D = 0 already.

    With several local steps a step follows a draw or leads to one, not both. The first are those of FD-43, the second
    those of FD-44c, where w^t is all clients' average. With one local step, in the letters of FD-43, the draw after the
    step adds at most ``2 f L eta^2 (F(w^t) - F* + Gamma)``. The terms in Gamma are ``2 f L (eta^2 + eta'^2) Gamma``,
    below ``6 L eta^2 Gamma``. The others need ``eta (1 - 2 L eta)(1 - 2 L eta') >= L eta'^2``: the left side is at
    least ``eta/4``, and the right side, with ``k = L/mu``, at most ``2 k (8 k + 2)/(8 k + 1)^2 < 1/4`` times eta.
    """
    return _with_draw(lambda x: 4 * x.share)


@FD44.reading("virtual clients, with D′, in the theorem's own coordinates (α, D, head)")
def own_coordinates() -> Evidence:
    return _with_draw(lambda x: 4 * x.sizes.printed if x.sizes.M > 1 else 0)


@FD44.reading("virtual clients, with D′, for the filter w′ of section A.5.2")
def filters() -> Evidence:
    def compare() -> Iterator[Sides]:
        starts = [(Fraction(1), Fraction(1)), (Fraction(1, 2), Fraction(1, 2)), (Fraction(0), Fraction(0))]
        for (a, d), c, eta in product(starts, ((1, 1, 1), (0, 0, 1)), (Fraction(2, 9), Fraction(1, 9))):
            case = Product(a, d, c, eta)
            yield Sides(str(case), case.after, case.bound, ("squared distance of w′ after the step", "bound"))

    return compared(compare(), of="first steps in coefficient and atom")


FD44C = Claim(
    id="FD-44c",
    place="corrected statement of FD-44",
    said_by="fedstat",
    words="In the theorem's own coordinates the distance of w obeys a recursion in which the draw of clients needs no "
    "term beside B: two thirds of B's drift term and a third of its heterogeneity are enough for any m.",
    statement="EE norm(w^(t+1) - w^*)^2 <= (1 - mu eta_t) EE norm(w^t - w^*)^2 + eta_t^2 (16/3 (E - 1)^2 G^2 + 2 (M - "
    "m)/(m (M - 1)) L Gamma)",
    severity="false",
    assumptions="as in FD-44, for w = (α, D, head)",
    sensitivity="a tenth of the right side, and every term",
)


@FD44C.reading("the step sizes of the theorem and of its proof")
def no_term_of_its_own() -> Evidence:
    """Let ``f = (M - m)/(m (M - 1))``, at most 1, S be the clients' spread and V the error of a draw.

    With one local step ``V = f eta^2 mean |grad F_k - grad F|^2 <= 2 f L eta^2 (F(w) - F* + Gamma)``, while the
    gradient step leaves ``(1 - mu eta) |w - w*|^2 - 2 eta (1 - L eta)(F(w) - F*)``; for ``eta L <= 1/2`` only ``2 f L
    eta^2 Gamma`` remains.

    With several the step before a draw starts from all clients' average, and by FD-40c and (31) what is added is at
    most ``S/3 + V``. With ``a = gamma + t0 >= 9`` at the round's first step, V is at most ``eta_t^2 G^2`` times the
    square of ``sum_(j < E) (a + E - 1)/(a + j)``, at most ``2 (E - 1)`` for E >= 3 (FD-24), and S at most ``4 eta_t^2
    (E - 1)^2 G^2``: 16/3 in all. For E = 2 the sum is ``2 + 1/a`` and S at most ``(1 + 1/a)^2 eta_t^2 G^2``, 4.9 in
    all. Without a draw S/3 is left.
    """
    return steps_bounded(
        OF_THE_THEOREM,
        lambda x: {"distance": x.distance, "drift": x.drift * 16 / 3, "draw": 2 * x.share * x.heterogeneity},
        of_drawn=True,
        from_drawn=True,
    )
