"""FD-37: the averaged filter does not make a gradient step.

FD-37c: how the averaged filter moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from fedstat.claims import Claim, Evidence, Sides, both, compared
from theory_checks.filter_decomposition.exact_laws import text, total

Client = tuple[int, ...]


class Local(NamedTuple):
    """Clients (alpha_k, D_k, G_k) with one atom, G_k the derivative of the loss by the filter, and one local step.

    The gradient by alpha is G D, that by D is G alpha, as the objective depends on alpha D only.
    """

    clients: tuple[Client, ...]
    weights: tuple[Fraction, ...]
    eta: Fraction

    def __str__(self) -> str:
        clients = ", ".join(f"({text(*c)})" for c in self.clients)
        return f"(α, D, derivative by the filter) = {clients}, weights {text(*self.weights)}, η = {self.eta}"

    def mean(self, of: Callable[..., Any]) -> Fraction:
        """Return a weighted mean over clients."""
        return total(p * of(*client) for p, client in zip(self.weights, self.clients, strict=True))

    @property
    def before(self) -> tuple[Fraction, Fraction]:
        """Averages of coefficients and atoms before the step."""
        return self.mean(lambda a, d, g: a), self.mean(lambda a, d, g: d)

    @property
    def after(self) -> tuple[Fraction, Fraction]:
        """Averages of what the clients' own steps lead to."""
        return self.mean(lambda a, d, g: a - self.eta * g * d), self.mean(lambda a, d, g: d - self.eta * g * a)

    @property
    def moves(self) -> tuple[Fraction, Fraction]:
        """Steps along the average gradients by the coefficients and by the atoms."""
        return -self.eta * self.mean(lambda a, d, g: g * d), -self.eta * self.mean(lambda a, d, g: g * a)


def _local_steps() -> Iterator[Local]:
    single: list[Client] = sorted(product((1, 0, -1, 2), repeat=3), key=lambda c: sum(map(abs, c)))
    for client, eta in product(single, (Fraction(1, 4), Fraction(1, 10))):
        yield Local((client,), (Fraction(1),), eta)
    pairs = product(sorted(product((0, 1, -1), repeat=3), key=lambda c: sum(map(abs, c))), repeat=2)
    for pair, share in product(pairs, (Fraction(1, 2), Fraction(1, 3))):
        yield Local(pair, (share, 1 - share), Fraction(1, 4))


FD37 = Claim(
    id="FD-37",
    place="appendix A.4, sentence after the aggregation, and A.4.1, equation (12), first line",
    said_by="paper",
    words="The average of the clients' models makes one gradient step whenever the clients make theirs.",
    statement="w^(t+1) = sum_k p_k w_k^(t+1) = w^t - eta_t g_t, quad g_t = sum_k p_k nabla F_k (w_k^t)",
    severity="false",
    assumptions="all clients take part; one atom; the objective depends on coefficient and atom through their product; "
    "the second line of (12) is the square written out",
    sensitivity="any difference in the cases tried",
    flaw="Averages follow the clients' steps in coefficients and atoms, where no virtual clients exist. The filter is "
    "a product of averages: its step is scaled by the squares of coefficient and atom, and vanishes where "
    "both are zero. Section A.5.2, with its virtual clients, takes w for the filter and keeps (12).",
    corrected="FD-37c",
)


@FD37.reading("w holds coefficients, atoms and head, as section A.4 defines it")
def own_coordinates() -> Evidence:
    def side(coordinate: int) -> Evidence:
        sides = (
            Sides(
                str(case),
                case.after[coordinate],
                {"average before": case.before[coordinate], "average gradient": case.moves[coordinate]},
                ("average after the step", "one step of the average"),
            )
            for case in _local_steps()
        )
        return compared(sides, of=f"steps, in the {('coefficient', 'atom')[coordinate]}", relation="==")

    return both(side(0), side(1))


@FD37.reading("w holds the filter, as after equation (9) and for the virtual clients of A.5.2")
def filters() -> Evidence:
    def compare() -> Iterator[Sides]:
        names = ("filter after the step", "one step of the filter")
        for case in _local_steps():
            (a, d), (a_new, d_new) = case.before, case.after
            yield Sides(str(case), a_new * d_new, a * d - case.eta * case.mean(lambda a, d, g: g), names)

    return compared(compare(), of="steps", relation="==")


FD37C = Claim(
    id="FD-37c",
    place="corrected statement of FD-37",
    said_by="fedstat",
    words="The averaged filter moves by the averaged step of the coefficients times the averaged atom, the averaged "
    "step of the atoms times the averaged coefficient, and the product of the two steps.",
    statement="alpha^(t+1) D^(t+1) = alpha^t D^t - eta_t (sum_k p_k G_k D_k) D^t - eta_t alpha^t (sum_k p_k alpha_k "
    "G_k) + eta_t^2 (sum_k p_k G_k D_k) (sum_k p_k alpha_k G_k)",
    severity="false",
    assumptions="one atom; all clients take part; G_k is the derivative of the loss of client k by the filter; α and D "
    "without an index are averages",
    sensitivity="any difference in the cases tried",
)


@FD37C.reading("one local step of one or two clients")
def in_full() -> Evidence:
    """Write ``alpha' = alpha + x`` and ``D' = D + y`` for the averages, with x and y the averaged steps.

    Then ``alpha' D' = alpha D + x D + alpha y + x y``. From a common point with derivative G that is
    ``alpha D - eta G (alpha^2 + D^2) + eta^2 G^2 alpha D``: the step size is multiplied by ``alpha^2 + D^2``.
    """

    def compare() -> Iterator[Sides]:
        for case in _local_steps():
            (a, d), (x, y), (a_new, d_new) = case.before, case.moves, case.after
            moved = {
                "filter before": a * d,
                "step of the coefficients": x * d,
                "step of the atoms": a * y,
                "product of the steps": x * y,
            }
            yield Sides(str(case), a_new * d_new, moved, ("filter after the step", "by the formula"))

    return compared(compare(), of="steps", relation="==")
